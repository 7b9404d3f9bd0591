package dataset

import (
	"fmt"
	"maps"
	"slices"
)

// Format says how the texts of a column are read, where that does not follow from each of them.
type Format string

// The formats.
const (
	AsText       Format = "text"          // neither as numbers nor as times; of columns that are not looked at
	AsNumber     Format = "number"        // 1,234.50, $4.99, 12 %, 25M
	DecimalComma Format = "decimal_comma" // 1.234,50
	DayFirst     Format = "dmy"           // 30.09.1990
	MonthFirst   Format = "mdy"           // 9/30/1990
)

// FormatWords say what texts of a format are, for each format that a spec or a manifest may give. AsText is none of
// them: only staging uses it.
var FormatWords = map[Format]string{AsNumber: "numbers", DecimalComma: "numbers with a decimal comma",
	DayFirst: "dates with the day first", MonthFirst: "dates with the month first"}

// Formats are columns' formats by name.
type Formats map[string]Format

// Check returns an error for the first column, by name, whose format is not one of FormatWords.
func (f Formats) Check() error {
	for _, column := range slices.Sorted(maps.Keys(f)) {
		if FormatWords[f[column]] == "" {
			return fmt.Errorf("column %.40q: format %.40q: use number, decimal_comma, dmy or mdy", column, f[column])
		}
	}
	return nil
}
