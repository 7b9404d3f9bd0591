package calibrate

import (
	"encoding/json"
	"fmt"

	"coppice/internal/problem"
	"coppice/internal/strictjson"
)

const (
	format = 1
	// maxJSON bounds what Decode accepts.
	maxJSON = 4 << 10
)

// encoded is a calibrator as JSON. Numbers have enough digits to read back as the same float64.
type encoded struct {
	Format int      `json:"format"`
	Method Method   `json:"method"`
	A      *float64 `json:"a,omitempty"` // platt: the a of sigmoid(a raw + c)
	C      *float64 `json:"c,omitempty"` // platt: the c
}

// MarshalJSON writes the format that Decode reads.
func (c *Calibrator) MarshalJSON() ([]byte, error) {
	e := encoded{Format: format, Method: c.method}
	if c.method == Platt {
		e.A, e.C = &c.a, &c.c
	}

	return json.Marshal(e)
}

// UnmarshalJSON is Decode.
func (c *Calibrator) UnmarshalJSON(text []byte) error {
	d, err := Decode(text)
	if err != nil {
		return err
	}
	*c = *d
	return nil
}

// Decode reads a calibrator from a text that need not be trusted. It refuses all but the parameters of a known method
// with a slope that is not negative; JSON has no numbers that are not finite. Errors are of kind Input.
func Decode(text []byte) (*Calibrator, error) {
	if len(text) > maxJSON {
		return nil, refused("%d bytes, more than the %d that a calibrator may have", len(text), maxJSON)
	}

	var e encoded
	if err := strictjson.Decode(text, &e); err != nil {
		return nil, refused("%v", err)
	}

	if e.Format != format {
		return nil, refused("format %d; this build reads %d", e.Format, format)
	}
	if err := e.check(); err != nil {
		return nil, refused("%v", err)
	}

	c := &Calibrator{method: e.Method}
	if e.Method == Platt {
		c.a, c.c = *e.A, *e.C
	}
	return c, nil
}

// refused returns the error for a text that is no calibrator.
func refused(format string, args ...any) error {
	return problem.New(problem.Input, "not a calibrator of Coppice: "+format, args...)
}

// check returns an error for an unknown method, for a parameter that is missing or belongs to another method, and for a
// negative slope, with which a higher score would mean a lower probability.
func (e encoded) check() error {
	platt := e.Method == Platt
	switch {
	case !platt && e.Method != None:
		return fmt.Errorf("unknown method %.40q (known: %v)", string(e.Method), []Method{None, Platt})
	case platt && (e.A == nil || e.C == nil):
		return fmt.Errorf("platt: a or c is missing")
	case !platt && (e.A != nil || e.C != nil):
		return fmt.Errorf("%s: only platt has a and c", e.Method)
	case platt && !(*e.A >= 0):
		return fmt.Errorf("platt: a is %v, and a calibrator must not descend", *e.A)
	}
	return nil
}
