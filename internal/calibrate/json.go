package calibrate

import (
	"encoding/json"
	"fmt"
	"math"

	"coppice/internal/problem"
	"coppice/internal/strictjson"
)

const (
	format = 1
	// segmented is the format of calibrators of earlier builds that shifted the log odds by segment.
	segmented = 2
	// maxKnots and maxJSON bound what Decode accepts.
	maxKnots = 1 << 16
	maxJSON  = maxKnots * 64
)

// encoded is a calibrator as JSON. Numbers have enough digits to read back as the same float64.
type encoded struct {
	Format int       `json:"format"`
	Method Method    `json:"method"`
	X      []float64 `json:"x,omitempty" max:"65536"` // isotonic: raw scores
	Y      []float64 `json:"y,omitempty" max:"65536"` // isotonic: probabilities
	A      *float64  `json:"a,omitempty"`             // platt: see the formula
	C      *float64  `json:"c,omitempty"`             // platt
}

// MarshalJSON writes the format of Decode.
func (c *Calibrator) MarshalJSON() ([]byte, error) {
	e := encoded{Format: format, Method: c.method}
	switch c.method {
	case Isotonic:
		e.X, e.Y = c.x, c.y
	case Platt:
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

// Decode reads a calibrator and checks that it is finite, non-decreasing and of bounded size.
func Decode(text []byte) (*Calibrator, error) {
	if len(text) > maxJSON {
		return nil, refused("%d bytes, more than the %d that a calibrator may have", len(text), maxJSON)
	}

	var head struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(text, &head) == nil && head.Format == segmented {
		return nil, refused("%s", problem.Gone("calibrate:"))
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

	// check has ensured that missing fields do not belong to the method.
	c := &Calibrator{method: e.Method, x: e.X, y: e.Y}
	if e.Method == Platt {
		c.a, c.c = *e.A, *e.C
	}
	return c, nil
}

func refused(format string, args ...any) error {
	return problem.New(problem.Input, "not a calibrator of Coppice: "+format, args...)
}

func (e encoded) check() error {
	switch e.Method {
	case Isotonic:
		if e.A != nil || e.C != nil {
			return fmt.Errorf("isotonic with a or c")
		}
		return e.checkKnots()
	case Platt, None:
		if e.X != nil || e.Y != nil {
			return fmt.Errorf("%s with knots", e.Method)
		}
	default:
		return fmt.Errorf("unknown method %.40q (known: %v)", string(e.Method), []Method{None, Platt, Isotonic})
	}

	platt := e.Method == Platt
	switch {
	case (e.A != nil) != platt:
		return fmt.Errorf("%s: a is missing or does not belong there", e.Method)
	case (e.C != nil) != platt:
		return fmt.Errorf("%s: c is missing or does not belong there", e.Method)
	case platt && !(*e.A >= 0):
		return fmt.Errorf("platt: a is %v, and a calibrator must not descend", *e.A)
	}
	return nil
}

func (e encoded) checkKnots() error {
	if len(e.X) == 0 || len(e.X) != len(e.Y) || len(e.X) > maxKnots {
		return fmt.Errorf("%d raw scores and %d probabilities; use as many of both, 1 to %d", len(e.X), len(e.Y),
			maxKnots)
	}

	for i, x := range e.X {
		switch {
		case !(math.Abs(x) <= maxRaw):
			return fmt.Errorf("knot %d: raw score %v", i, x)
		case i > 0 && !(x > e.X[i-1]):
			return fmt.Errorf("knot %d: raw score %v does not ascend", i, x)
		case !(e.Y[i] >= edge && e.Y[i] <= 1-edge):
			return fmt.Errorf("knot %d: probability %v", i, e.Y[i])
		case i > 0 && e.Y[i] < e.Y[i-1]:
			return fmt.Errorf("knot %d: probability %v descends", i, e.Y[i])
		}
	}
	return nil
}
