package metric

import (
	"fmt"
	"math"
)

// Range returns the lowest and the highest value that the metric can have; an end without bound is infinite.
func (m Metric) Range() (low, high float64) {
	switch m.base {
	case "log_loss", "normalized_entropy", "calibration_ratio", "lift", "rmse", "l2", "mae":
		return 0, math.Inf(1)
	case "relative_information_gain", "r2":
		return math.Inf(-1), 1
	}
	return 0, 1
}

// RangeError is a value that a metric cannot have.
type RangeError struct {
	Metric    string
	Value     float64
	Low, High float64 // of the metric's range
}

// Error states the range.
func (e *RangeError) Error() string {
	where := fmt.Sprintf("between %v and %v", e.Low, e.High)
	switch {
	case math.IsInf(e.High, 1):
		where = fmt.Sprintf("at least %v", e.Low)
	case math.IsInf(e.Low, -1):
		where = fmt.Sprintf("at most %v", e.High)
	}
	return fmt.Sprintf("%v is no value of %s, which is %s", e.Value, e.Metric, where)
}

// IsInput says that the input is at fault, permanently.
func (*RangeError) IsInput() bool { return true }

// CheckValue reports a value that the metric cannot have, as a *RangeError.
func (m Metric) CheckValue(value float64) error {
	if low, high := m.Range(); !(value >= low && value <= high) {
		return &RangeError{Metric: m.Name, Value: value, Low: low, High: high}
	}
	return nil
}
