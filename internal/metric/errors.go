package metric

import (
	"errors"
	"fmt"
	"strings"

	"coppice/internal/strictyaml"
)

// Faults of an Input, for use with errors.Is.
var (
	ErrEmpty      = errors.New("there are no rows")
	ErrLength     = errors.New("the columns have different lengths")
	ErrLabel      = errors.New("the label cannot be used")
	ErrWeight     = errors.New("the weight cannot be used")
	ErrPrediction = errors.New("the prediction cannot be used")
	ErrNoWeight   = errors.New("all weights are 0")
	ErrOneClass   = errors.New("all labels are alike")
	ErrTooFew     = errors.New("there are fewer rows than the metric looks at")
	ErrNoGroups   = errors.New("the rows have no groups")
	ErrOverflow   = errors.New("the value is too large for a float64")
)

// InputError says that a metric is undefined for an Input. It unwraps to one of the errors above.
type InputError struct {
	Metric string
	Row    int    // the first row at fault, or -1 if it is not a single row
	Detail string // what was found, and what would be right; may be empty
	Err    error
}

// Error returns "metric: row N: what: detail".
func (e *InputError) Error() string {
	text := e.Metric + ": "
	if e.Row >= 0 {
		text += fmt.Sprintf("row %d: ", e.Row)
	}
	text += e.Err.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap returns the kind of fault.
func (e *InputError) Unwrap() error { return e.Err }

// IsInput says that the input is at fault, permanently.
func (*InputError) IsInput() bool { return true }

// UnknownError is a name that no metric has.
type UnknownError struct {
	Name string
	Hint string // the most similar name, or all names
}

// Error suggests the most similar metric.
func (e *UnknownError) Error() string { return fmt.Sprintf("unknown metric %.60q%s", e.Name, e.Hint) }

// IsInput says that the input is at fault, permanently.
func (*UnknownError) IsInput() bool { return true }

// unknown looks for a similar name among the canonical ones, then among those of other libraries.
func unknown(name string) error {
	hint := strictyaml.Suggest(name, Names())
	if !strings.Contains(hint, "did you mean") {
		var long []string
		for _, d := range definitions() {
			for alias := range strings.FieldsSeq(d.aliases) {
				if len(alias) > 3 {
					long = append(long, alias)
				}
			}
		}

		if other := strictyaml.Suggest(name, long); strings.Contains(other, "did you mean") {
			hint = other
		}
	}
	return &UnknownError{Name: name, Hint: hint}
}

// ArgumentError is a metric's name with an invalid part after the @, or without a required one.
type ArgumentError struct {
	Metric string // the name before the @
	Arg    string // the part after it
	Want   string // what would be right
}

// Error says what would be right.
func (e *ArgumentError) Error() string {
	if e.Arg == "" {
		return fmt.Sprintf("metric %s needs %s", e.Metric, e.Want)
	}
	return fmt.Sprintf("metric %s@%.40s: %s", e.Metric, e.Arg, e.Want)
}

// IsInput says that the input is at fault, permanently.
func (*ArgumentError) IsInput() bool { return true }
