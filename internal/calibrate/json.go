package calibrate

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"coppice/internal/problem"
	"coppice/internal/strictjson"
)

const (
	format = 1
	// segmented is the format of a calibrator with segments; builds without segments must not accept it.
	segmented = 2
	// maxKnots and maxJSON bound what Decode accepts; Fit stays below both.
	maxKnots = 2 * maxBlocks
	maxJSON  = maxKnots*64 + maxSegments*64
)

// encoded is a calibrator as JSON. Numbers have enough digits to read back as the same float64.
type encoded struct {
	Format int       `json:"format"`
	Method Method    `json:"method"`
	X      []float64 `json:"x,omitempty" max:"65536"` // isotonic: raw scores
	Y      []float64 `json:"y,omitempty" max:"65536"` // isotonic: probabilities
	A      *float64  `json:"a,omitempty"`             // platt: see the formula
	C      *float64  `json:"c,omitempty"`             // platt

	By []string `json:"by,omitempty" max:"4"` // format 2: columns that make segments
	// hashes of their values, 16 hexadecimal digits each, ascending
	Segments []string  `json:"segments,omitempty" max:"131072"`
	Shifts   []float64 `json:"shifts,omitempty" max:"131072"` // of the log odds, by segment
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

	if s := c.segments; s != nil {
		e.Format, e.By, e.Shifts = segmented, s.By, s.Shifts
		for _, k := range s.Keys {
			e.Segments = append(e.Segments, fmt.Sprintf("%016x", k))
		}
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

// Decode reads a calibrator and checks that Choose could have made it: finite, non-decreasing, of bounded size.
func Decode(text []byte) (*Calibrator, error) {
	if len(text) > maxJSON {
		return nil, refused("%d bytes, more than the %d that a calibrator may have", len(text), maxJSON)
	}

	var e encoded
	if err := strictjson.Decode(text, &e); err != nil {
		return nil, refused("%v", err)
	}

	if e.Format != format && e.Format != segmented {
		return nil, refused("format %d; this build reads %d and %d", e.Format, format, segmented)
	}
	if err := e.check(); err != nil {
		return nil, refused("%v", err)
	}

	// check has ensured that missing fields do not belong to the method.
	c := &Calibrator{method: e.Method, x: e.X, y: e.Y}
	if e.Method == Platt {
		c.a, c.c = *e.A, *e.C
	}
	var err error
	if c.segments, err = e.segments(); err != nil {
		return nil, refused("%v", err)
	}
	return c, nil
}

func refused(format string, args ...any) error {
	return problem.New(problem.Input, "not a calibrator of Coppice: "+format, args...)
}

var keyPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// segments decodes the additions of format 2.
func (e encoded) segments() (*Segments, error) {
	if e.Format == format {
		if e.By != nil || e.Segments != nil || e.Shifts != nil {
			return nil, fmt.Errorf("format %d with segments", format)
		}
		return nil, nil
	}
	if len(e.By) == 0 || len(e.By) > maxBy || len(e.Segments) != len(e.Shifts) || len(e.Segments) > maxSegments {
		return nil, fmt.Errorf("segments by %d columns, %d of them with %d shifts", len(e.By), len(e.Segments),
			len(e.Shifts))
	}

	for i, name := range e.By {
		if name == "" || slices.Contains(e.By[:i], name) {
			return nil, fmt.Errorf("by: %.60q is empty or repeated", name)
		}
	}

	s := &Segments{By: e.By, Shifts: e.Shifts}
	for i, text := range e.Segments {
		if !keyPattern.MatchString(text) || i > 0 && text <= e.Segments[i-1] {
			return nil, fmt.Errorf("segment %d: %.20q; use 16 hexadecimal digits, ascending", i, text)
		}
		key, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", i, err)
		}
		if !(math.Abs(e.Shifts[i]) <= maxShift) {
			return nil, fmt.Errorf("segment %d: a shift of %v", i, e.Shifts[i])
		}
		s.Keys = append(s.Keys, key)
	}
	return s, nil
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
		return fmt.Errorf("unknown method %.40q (known: %v)", string(e.Method), methods)
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
