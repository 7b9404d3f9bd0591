package calibrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
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
	X      []float64 `json:"x,omitempty"` // isotonic: raw scores
	Y      []float64 `json:"y,omitempty"` // isotonic: probabilities
	A      *float64  `json:"a,omitempty"` // platt, beta: see the formula
	B      *float64  `json:"b,omitempty"` // beta
	C      *float64  `json:"c,omitempty"` // platt, beta

	By       []string  `json:"by,omitempty"`       // format 2: columns that make segments
	Segments []string  `json:"segments,omitempty"` // hashes of their values, 16 hexadecimal digits each, ascending
	Shifts   []float64 `json:"shifts,omitempty"`   // of the log odds, by segment
}

// MarshalJSON writes the format of Decode.
func (c *Calibrator) MarshalJSON() ([]byte, error) {
	e := encoded{Format: format, Method: c.method}
	switch c.method {
	case Isotonic:
		e.X, e.Y = c.x, c.y
	case Platt:
		e.A, e.C = &c.a, &c.c
	case Beta:
		e.A, e.B, e.C = &c.a, &c.b, &c.c
	case None:
	default:
		return nil, &MethodError{Method: c.method}
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

// Decode reads a calibrator and checks that Fit could have made it: finite, non-decreasing, of bounded size. Errors are
// *DecodeError.
func Decode(text []byte) (*Calibrator, error) {
	if len(text) > maxJSON {
		return nil, &DecodeError{fmt.Errorf("%d bytes, more than the %d that a calibrator may have", len(text),
			maxJSON)}
	}

	var e encoded
	r := json.NewDecoder(bytes.NewReader(text))
	r.DisallowUnknownFields()
	if err := r.Decode(&e); err != nil {
		return nil, &DecodeError{err}
	}
	if _, err := r.Token(); err != io.EOF {
		return nil, &DecodeError{fmt.Errorf("there is more data after byte %d", r.InputOffset())}
	}

	if e.Format != format && e.Format != segmented {
		return nil, &DecodeError{fmt.Errorf("format %d; this build reads %d and %d", e.Format, format, segmented)}
	}
	if err := e.check(); err != nil {
		return nil, &DecodeError{err}
	}

	// check has ensured that missing fields do not belong to the method.
	c := &Calibrator{method: e.Method, x: e.X, y: e.Y}
	for from, to := range map[*float64]*float64{e.A: &c.a, e.B: &c.b, e.C: &c.c} {
		if from != nil {
			*to = *from
		}
	}
	var err error
	if c.segments, err = e.segments(); err != nil {
		return nil, &DecodeError{err}
	}
	return c, nil
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
		if e.A != nil || e.B != nil || e.C != nil {
			return fmt.Errorf("isotonic with a, b or c")
		}
		return e.checkKnots()
	case Platt, Beta, None:
		if e.X != nil || e.Y != nil {
			return fmt.Errorf("%s with knots", e.Method)
		}
	default:
		return &MethodError{Method: e.Method}
	}

	for _, p := range []struct {
		name  string
		value *float64
		has   bool
	}{{"a", e.A, e.Method != None}, {"b", e.B, e.Method == Beta}, {"c", e.C, e.Method != None}} {
		switch {
		case (p.value != nil) != p.has:
			return fmt.Errorf("%s: %s is missing or does not belong there", e.Method, p.name)
		case p.value != nil && p.name != "c" && !(*p.value >= 0):
			return fmt.Errorf("%s: %s is %v, and a calibrator must not descend", e.Method, p.name, *p.value)
		}
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
