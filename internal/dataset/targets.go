package dataset

import (
	"maps"
	"strings"
)

// Targets holds the labels of a split's rows, and what else a training or a metric needs to know of each row. Fields
// that the dataset does not have are nil.
type Targets struct {
	Label  []float32 // 0 and 1 for a binary label
	Weight []float32
	Group  []uint64 // hash of the group's text
	Fold   []uint8  // 0 to Folds-1; the same for all rows of a group or, without groups, of a key

	Values map[string][]float32 // columns of numbers that a metric may need, by name
}

// Pick returns a copy of the targets of some rows, given by their indices.
func (t *Targets) Pick(rows []uint32) Targets {
	out := Targets{Label: Pick(t.Label, rows), Weight: Pick(t.Weight, rows), Group: Pick(t.Group, rows),
		Fold: Pick(t.Fold, rows), Values: maps.Clone(t.Values)}
	for name, v := range out.Values {
		out.Values[name] = Pick(v, rows)
	}
	return out
}

// optional says which targets a dataset has in addition to label and fold.
type optional struct {
	weight, group bool
	values        []string
}

// valuePrefix is before the name of a column of values, which may be label.
const valuePrefix = "value:"

// optional returns which optional targets the dataset has.
func (m *Manifest) optional() optional {
	return optional{weight: m.HasWeights(), group: m.Group != "", values: m.Values}
}

// listFields lists the columns of the targets file, in the order in which openTargets reads them.
func (o optional) listFields() []arrowField {
	fields := []arrowField{{name: "label", typ: arrowFloat32}}
	if o.weight {
		fields = append(fields, arrowField{name: "weight", typ: arrowFloat32})
	}
	if o.group {
		fields = append(fields, arrowField{name: "group", typ: arrowUint64})
	}
	for _, name := range o.values {
		fields = append(fields, arrowField{name: valuePrefix + name, typ: arrowFloat32})
	}
	return append(fields, arrowField{name: "fold", typ: arrowUint8})
}

// sameFields reports whether the file has exactly these columns, without nulls.
func (f *arrowFile) sameFields(want []arrowField) bool {
	if len(f.fields) != len(want) {
		return false
	}
	for i, w := range want {
		if f.fields[i].name != w.name || f.fields[i].typ != w.typ || f.nulls[i] != 0 {
			return false
		}
	}
	return true
}

// parseTargets parses a targets file of a dataset whose manifest is not at hand, and finds out from its columns which
// of the optional targets it has.
func parseTargets(name string, data []byte) (*arrowFile, optional, error) {
	f, err := parseArrow(name, data)
	if err != nil {
		return nil, optional{}, err
	}
	var values []string
	for _, field := range f.fields {
		if column, is := strings.CutPrefix(field.name, valuePrefix); is {
			values = append(values, column)
		}
	}
	for i := range 4 { // with and without weight and group
		has := optional{weight: i&1 > 0, group: i&2 > 0, values: values}
		if f.sameFields(has.listFields()) {
			return f, has, nil
		}
	}
	return nil, optional{}, badFile(name, -1, "its columns are not label, weight, group, values and fold")
}

// ReadTargets decodes and checks the contents of a targets.arrow, without the manifest. It copies the data. If a fold
// number is out of range, the targets are returned with the error, and must not be used.
func ReadTargets(data []byte) (Targets, error) {
	f, has, err := parseTargets(targetsFile, data)
	if err != nil {
		return Targets{}, err
	}

	// In the order of listFields.
	var t Targets
	next := 0
	column := func() []byte {
		s := f.columns[next].data
		next++
		return data[s.off : s.off+s.n]
	}

	t.Label = decodeAll[float32](column())
	if has.weight {
		t.Weight = decodeAll[float32](column())
	}
	if has.group {
		t.Group = decodeAll[uint64](column())
	}
	if has.values != nil {
		t.Values = map[string][]float32{}
	}
	for _, name := range has.values {
		t.Values[name] = decodeAll[float32](column())
	}
	t.Fold = append([]uint8(nil), column()...)
	return t, checkFolds(targetsFile, t.Fold)
}

// checkFolds checks that fold numbers are in range. name is the file's, for the error, which counts bytes in the column
// of folds, not in the file.
func checkFolds(name string, folds []uint8) error {
	for i, f := range folds {
		if f >= Folds {
			return &CorruptError{name, int64(i), int64(i) + 1, "a fold number above 9"}
		}
	}
	return nil
}
