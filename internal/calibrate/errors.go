package calibrate

import (
	"errors"
	"fmt"
)

// Faults of the rows, for use with errors.Is.
var (
	ErrTooFew   = errors.New("there are too few rows")
	ErrLength   = errors.New("the columns have different lengths")
	ErrScore    = errors.New("the raw score cannot be used")
	ErrLabel    = errors.New("the label cannot be used")
	ErrWeight   = errors.New("the weight cannot be used")
	ErrOneClass = errors.New("all labels are alike")
	ErrFolds    = errors.New("the number of folds cannot be used")
)

// DataError says why rows cannot be calibrated. It unwraps to one of the errors above.
type DataError struct {
	Row    int    // the first row at fault, or -1 if it is not a single row
	Detail string // what was found, and what would be right
	Err    error
}

// Error returns "calibrate: row N: what: detail".
func (e *DataError) Error() string {
	text := "calibrate: "
	if e.Row >= 0 {
		text += fmt.Sprintf("row %d: ", e.Row)
	}
	return text + e.Err.Error() + ": " + e.Detail
}

// Unwrap returns the kind of fault.
func (e *DataError) Unwrap() error { return e.Err }

func fault(row int, err error, format string, args ...any) error {
	return &DataError{Row: row, Err: err, Detail: fmt.Sprintf(format, args...)}
}

// MethodError is a method that does not exist.
type MethodError struct{ Method Method }

// Error lists the existing methods.
func (e *MethodError) Error() string {
	return fmt.Sprintf("calibrate: unknown method %.40q (known: %v)", string(e.Method), Methods())
}

// DecodeError says why a text is not a calibrator's JSON.
type DecodeError struct{ Err error }

// Error says what is wrong.
func (e *DecodeError) Error() string { return fmt.Sprintf("not a calibrator of Coppice: %v", e.Err) }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// IsInput says that the input is at fault, permanently.
func (*DecodeError) IsInput() bool { return true }
