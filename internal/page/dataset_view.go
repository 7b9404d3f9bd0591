package page

import (
	"time"

	"coppice/internal/nights"
)

// Dataset is what a page about a dataset shows: its nights, and the table of the newest one.
type Dataset struct {
	Name   string
	Pinned bool    // it is of a version that was asked for, and of the nights up to that
	Metric string  // of Night.Value: the newest sweep's
	Nights []Night // oldest first
	More   int     // nights that are not shown
	Table  *Table  // nil where it cannot be read
	Notes  []string
}

// Night is one version of a dataset and what became of it. Numbers that are not known are NaN.
type Night struct {
	Version   string
	At        time.Time
	State     string // good, accepted, blocked
	Accepted  string // by whom and why
	Rows      float64
	LabelRate float64
	Findings  []nights.Finding
	Drift     map[string]float64 // of each column, its distance to the night before; 0 is the same distribution

	// Of the newest sweep with a winner that trained on it, else of the newest one; empty where there is none.
	Sweep, Verdict, Reason, Model string
	Number                        int // of the model's version
	Value                         float64
	Ratio, RatioLow, RatioHigh    float64 // predictions / labels on tonight's test rows
	Seconds                       float64 // from plan to conclusion
	Cost                          float64 // USD
	// the cost is what the plan's machines cost in that time; otherwise the sweep's bill
	Estimated bool
}

// Table is the table of one version.
type Table struct {
	Version          string
	Rows             int64
	LeftOut, Thinned int64
	Bytes            int64
	Label, Kind      string
	Weight, Group    string
	SplitBy          string
	Order            string // in which the statistics of train were made
	Sources          []Pair
	Warnings         []string
	Splits           []TableSplit
	Features         []TableFeature
	Columns          []nights.Column // of the night's record; none where there is none
	Encodings        []TableEncoding
}

// TableSplit is a part of the rows.
type TableSplit struct {
	Name      string
	Rows      int
	LabelMean float64
}

// TableFeature is one number that trees see.
type TableFeature struct {
	Name, Kind, Why, From string
	Bins                  int
	Missing               float64 // share
	Min, Median, Max      float64 // NaN of categories
}

// TableEncoding is what was made of a column of categories, or of several together.
type TableEncoding struct {
	Name         string
	Levels, Kept int
	Lumped, Gain float64 // Gain is NaN where it was not measured
	Made         []string
	Why          string
}
