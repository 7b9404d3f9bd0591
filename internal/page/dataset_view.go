package page

import (
	"time"

	"coppice/internal/dataset"
	"coppice/internal/nights"
)

// DatasetPage is what a page about a dataset shows: its nights, and the table of the newest one.
type DatasetPage struct {
	Name   string
	Pinned bool              // it is of a version that was asked for, and of the nights up to that
	Metric string            // of Night.Value: the newest sweep's
	Nights []Night           // oldest first
	More   int               // nights that are not shown
	Table  *dataset.Manifest // nil where it cannot be read
	Stats  []nights.Column   // of the table's columns, from the night's record; none where there is none
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
