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

// Why says what a feature's kind was concluded from.
type Why string

// The grounds for a feature's kind.
const (
	WhyForced     Why = "forced"           // the spec names it under numeric or categorical
	WhyType       Why = "type"             // the Parquet type
	WhyNumbers    Why = "all numbers"      // every value is written as a number
	WhyTimes      Why = "all times"        // every value is an ISO 8601 date or time
	WhyText       Why = "text"             // some value is neither
	WhyDigits     Why = "ids"              // digits that are no quantity: leading zeros, 623049e6
	WhyBig        Why = "integers > 2^53"  // a float64 would lose digits
	WhyEmpty      Why = "no value present" // nothing to conclude from
	WhyDictionary Why = "dictionary"       // categories in the program that wrote the table
	WhyDerived    Why = "derived"          // Coppice has made it
)

// MaxBins bounds the bins of a feature, those of missing and other values among them, so that a bin is one byte and 255
// stays free.
const MaxBins = 255

// Feature is one binned column and all that is needed to bin a raw value again.
//
// Bins of a numeric or time feature are 0 to len(Bounds) by value, then MissingBin if any value of the table was missing.
// Bins of a categorical feature are its Categories, then OtherBin, then MissingBin if any value was missing.
type Feature struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Why  Why    `json:"why"`
	Bins int    `json:"bins"` // all of them, at most MaxBins

	// Bounds are the greatest values of bins 0, 1 ...; the last bin of values has none. Ascending and finite.
	Bounds []float64 `json:"bounds,omitempty"`
	// Categories are the texts of bins 0, 1 ..., the most frequent first, and Counts how often the binning sample has each.
	Categories []string `json:"categories,omitempty"`
	Counts     []int64  `json:"counts,omitempty"`

	MissingBin int `json:"missing_bin"` // -1 when no value of the table was missing
	OtherBin   int `json:"other_bin"`   // -1 unless categorical

	Missing int64  `json:"missing"`         // missing values, in all splits
	Range   *Range `json:"range,omitempty"` // of numeric and time features with any value

	From *Derived `json:"from,omitempty"` // of a feature that is no column of the table
}

// Range describes where the values of a feature lie. Min and Max are of all rows, Median of the binning sample.
type Range struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// BinOfNumber is the bin of a model value: of numeric features the number itself, of time features seconds since 1970, of
// categorical features the bin as a number. NaN is missing; where the table had no missing value there is no bin for
// it, and it takes the bin of 0.
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

func (f *Feature) binOfCode(x float64) uint8 {
	if code := int(x); float64(code) == x && code >= 0 && code < f.Bins {
		return uint8(code)
	}
	if math.IsNaN(x) && f.MissingBin >= 0 {
		return uint8(f.MissingBin)
	}
	return uint8(f.OtherBin)
}
