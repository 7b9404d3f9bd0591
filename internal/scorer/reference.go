package scorer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"coppice/internal/dataset"
)

// Columns of a reference file in addition to those of the table.
const (
	columnLabel  = "__label"
	columnWeight = "__weight"
	columnGroup  = "__group"
	columnValue  = "__value_" // before a column's name
)

// Reference is what a version keeps of its test rows, so that later versions can be compared with it: a sample of raw
// rows, with labels, weights and groups.
type Reference struct {
	Sample  *dataset.Sample
	Targets dataset.Targets
}

// Encode returns the reference as an Arrow file. The targets are columns after the table's own: the label and, if there
// are any, weight, group and values. r is not changed.
func (r *Reference) Encode() ([]byte, error) {
	s := *r.Sample
	s.Names, s.Columns = slices.Clone(s.Names), slices.Clone(s.Columns)
	add := func(name string, v dataset.Values) {
		s.Names, s.Columns = append(s.Names, name), append(s.Columns, v)
	}

	add(columnLabel, dataset.Values{Type: dataset.Float, Float: widened(r.Targets.Label)})
	if r.Targets.Weight != nil {
		add(columnWeight, dataset.Values{Type: dataset.Float, Float: widened(r.Targets.Weight)})
	}
	if r.Targets.Group != nil {
		ids := make([]int64, len(r.Targets.Group))
		for i, g := range r.Targets.Group {
			ids[i] = int64(g) // the same 64 bits; DecodeReference turns them back
		}
		add(columnGroup, dataset.Values{Type: dataset.Int, Int: ids})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Targets.Values)) {
		add(columnValue+name, dataset.Values{Type: dataset.Float, Float: widened(r.Targets.Values[name])})
	}
	return s.Encode()
}

func widened(xs []float32) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = float64(x)
	}
	return out
}

// DecodeReference reads what Encode returned. Without a column of weights or groups, these stay nil; without values,
// their map is empty. Labels are required. A label, weight or value that is not finite is an error, and so is one of
// these columns that Encode would have written with another type.
func DecodeReference(data []byte) (*Reference, error) {
	s, err := dataset.ReadSample(data)
	if err != nil {
		return nil, err
	}
	r := &Reference{Sample: s}
	// floats returns the column of this name, nil if there is none.
	floats := func(name string) ([]float32, error) {
		v := s.Column(name)
		if v == nil {
			return nil, nil
		}
		if v.Type != dataset.Float {
			return nil, fmt.Errorf("%s: column %s is of type %s, not float", FileReference, name, v.Type)
		}
		out := make([]float32, len(v.Float))
		for i, x := range v.Float {
			out[i] = float32(x) // infinite if x is beyond what a float32 can hold
			if !dataset.Finite(float64(out[i])) {
				return nil, fmt.Errorf("%s: row %d of %s is %v", FileReference, i, name, x)
			}
		}
		return out, nil
	}

	if r.Targets.Label, err = floats(columnLabel); err != nil {
		return nil, err
	}
	if r.Targets.Weight, err = floats(columnWeight); err != nil {
		return nil, err
	}
	r.Targets.Values = map[string][]float32{}
	for _, column := range s.Names {
		if name, is := strings.CutPrefix(column, columnValue); is {
			if r.Targets.Values[name], err = floats(column); err != nil {
				return nil, err
			}
		}
	}
	if v := s.Column(columnGroup); v != nil {
		if v.Type != dataset.Int {
			return nil, fmt.Errorf("%s: column %s is of type %s, not int", FileReference, columnGroup, v.Type)
		}
		for _, g := range v.Int {
			r.Targets.Group = append(r.Targets.Group, uint64(g))
		}
	}
	if len(r.Targets.Label) != len(s.Row) {
		return nil, fmt.Errorf("%s: %d labels for %d rows", FileReference, len(r.Targets.Label), len(s.Row))
	}
	return r, nil
}
