package dataset

import (
	"math"
	"sort"
)

// Kind is what a feature's values mean to a model.
type Kind string

// The kinds of features.
const (
	Numeric     Kind = "numeric"
	Temporal    Kind = "time"
	Categorical Kind = "categorical"
)

// Why is the reason for a feature's kind.
type Why string

// Reasons for a feature's kind.
const (
	WhyForced     Why = "forced"           // the spec names it under numeric or categorical
	WhyType       Why = "type"             // the Parquet type
	WhyNumbers    Why = "all numbers"      // every value is written as a number
	WhyTimes      Why = "all times"        // every value is an ISO 8601 date or time
	WhyText       Why = "text"             // some value is neither
	WhyDigits     Why = "ids"              // digits that are not a quantity: leading zeros, 623049e6
	WhyBig        Why = "integers > 2^53"  // a float64 would lose digits
	WhyEmpty      Why = "no value present" // nothing to go by
	WhyDictionary Why = "dictionary"       // categories in the program that wrote the table
	WhyDerived    Why = "derived"          // made by Coppice
)

// MaxBins bounds the bins of a feature, including those of missing and other values, so that a bin fits a byte and 255
// stays free.
const MaxBins = 255

// Feature describes one binned column, completely enough to bin further raw values.
//
// Bins of a numeric or time feature are 0 to len(Bounds) by value, then MissingBin if any value of the table was
// missing. Bins of a categorical feature are its Categories, then OtherBin, then MissingBin if any value was missing.
type Feature struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Why  Why    `json:"why"`
	Bins int    `json:"bins"` // total, at most MaxBins

	// Bounds are the upper bounds of bins 0, 1 ..., ascending and finite; the last value bin has none.
	Bounds []float64 `json:"bounds,omitempty" max:"255"`
	// Categories are the texts of bins 0, 1 ..., the most frequent first, and Counts their occurrences in the binning
	// sample.
	Categories []string `json:"categories,omitempty" max:"255"`
	Counts     []int64  `json:"counts,omitempty" max:"255"`

	MissingBin int `json:"missing_bin"` // -1 if no value of the table was missing
	OtherBin   int `json:"other_bin"`   // -1 unless categorical

	Missing int64  `json:"missing"`         // number of missing values, over all splits
	Range   *Range `json:"range,omitempty"` // of numeric and time features with at least one value

	From *Derived `json:"from,omitempty"` // for a feature that is not a column of the table
}

// Range describes the values of a feature. Min and Max are over all rows, Median over the binning sample.
type Range struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// BinOfNumber returns the bin of a value as models take it: the number itself, for time features seconds since 1970,
// and for categorical features the number of the bin. NaN is a missing value. If the table had none, there is no bin
// for it: a numeric or time feature puts it in the bin of 0, and a categorical one in that of other categories.
func (f *Feature) BinOfNumber(x float64) uint8 {
	if f.Kind == Categorical {
		return f.binOfCode(x)
	}
	if math.IsNaN(x) {
		if f.MissingBin >= 0 {
			return uint8(f.MissingBin)
		}
		x = 0
	}
	return uint8(sort.SearchFloat64s(f.Bounds, x))
}

// binOfCode returns bin x of a categorical feature if x is a whole number from 0 to Bins-1. NaN is in the bin of
// missing values, if there is one. Anything else is in the bin of other categories.
func (f *Feature) binOfCode(x float64) uint8 {
	// What int makes of NaN or of a huge number is arbitrary, but does not equal x.
	if code := int(x); float64(code) == x && code >= 0 && code < f.Bins {
		return uint8(code)
	}
	if math.IsNaN(x) && f.MissingBin >= 0 {
		return uint8(f.MissingBin)
	}
	return uint8(f.OtherBin)
}
