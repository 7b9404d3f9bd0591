package ingest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// roles say which columns of a table are read, and for what. An int is an index in read, -1 for a role that no column
// has.
type roles struct {
	read          []string       // names of all columns read, without duplicates
	places        map[string]int // by name, the index in read
	label         int            // what is predicted
	weight, group int
	values        []int     // numbers that a metric needs of every row (spec.Values)
	split         int       // what the rows are split by
	order         int       // the time that orders statistics
	mature        int       // the time that decides whether a label is final
	derivers      []deriver // compute the derived columns
	features      []feature // those of the table, then derived ones
	index         []string  // columns of pandas' row labels, which are left out
}

// feature is a column that becomes a feature.
type feature struct {
	place  int // index in roles.read, or beyond for a derived one
	column table.Column
	forced dataset.Kind     // empty if the table decides
	texts  bool             // the spec asks for categories, even if the table holds numbers or times
	from   *dataset.Derived // of a derived one
	source int              // for a derived one, the index of the time that it comes from
	auto   bool             // not requested by the spec
}

// assignRoles finds the spec's columns in the table, decides which columns become features, and how further ones are
// derived. Its errors point into the spec, except that of a feature whose column cannot be read, which is about the
// table. markers say which values are missing.
func assignRoles(spec *dataset.Spec, t *table.Table, markers *cell.Markers) (*roles, error) {
	r := &roles{places: map[string]int{}, weight: -1, group: -1, split: -1, order: -1}
	byName := map[string]table.Column{}
	var names []string
	for _, c := range t.Columns() {
		byName[c.Name] = c
		names = append(names, c.Name)
	}

	// need returns an error if the table lacks the column that the spec names at path.
	need := func(path, name string) error {
		if _, ok := byName[name]; ok {
			return nil
		}
		hint := table.Suggest(name, names)
		if len(names) == 1 {
			hint = fmt.Sprintf(" (the table's only column is %.40q; is csv.delimiter right?)", names[0])
		}
		return spec.Errorf(path, "column %q is not in %s%s", name, t.URI(), hint)
	}

	// use has a column read and returns its index, -1 for an empty name.
	use := func(path, name string) (int, error) {
		if name == "" {
			return -1, nil
		}
		if err := need(path, name); err != nil {
			return -1, err
		}
		if u := byName[name].Unreadable; u != "" {
			return -1, spec.Errorf(path, "column %q is %s and cannot be used", name, u)
		}
		return r.addColumn(name), nil
	}

	// The roles of single columns. split.key and split.column are never both set.
	for _, role := range []struct {
		path, name string
		place      *int
	}{
		{"label", spec.Label.Column, &r.label}, {"weight", spec.Weight, &r.weight}, {"group", spec.Group, &r.group},
		{splitPath(spec), spec.Split.Key + spec.Split.Column, &r.split},
		{"encodings.order.column", spec.TimeColumn(), &r.order},
	} {
		var err error
		if *role.place, err = use(role.path, role.name); err != nil {
			return nil, err
		}
	}
	if spec.Split.By == dataset.SplitByClasses {
		r.split = r.label
	}

	// The columns read so far have a role and are no features. Columns of values may be features, too.
	taken := slices.Clone(r.read)
	if err := r.addValues(spec, use); err != nil {
		return nil, err
	}
	// So may a time that only orders statistics.
	if spec.Encodings.Order.Column != "" && spec.Encodings.Order.Column != spec.Split.Column {
		taken = slices.DeleteFunc(taken, func(name string) bool { return name == spec.Encodings.Order.Column })
	}

	if err := r.addDerivers(spec, markers, use); err != nil {
		return nil, err
	}
	if err := r.addFeatures(spec, t, taken, need); err != nil {
		return nil, err
	}
	if err := r.addDerived(spec, t); err != nil {
		return nil, err
	}

	// The contract's time and that of late labels need not be features.
	_, contract := use("contract.time", spec.Contract.Time)
	mature, err := use("label.at", spec.Label.At)
	r.mature = mature
	return r, cmp.Or(contract, err)
}

// splitPath is where the spec names the column that divides the rows.
func splitPath(spec *dataset.Spec) string {
	if spec.Split.By == dataset.SplitByHash {
		return "split.key"
	}
	return "split.column"
}

// addValues sets r.values. use adds a column to those read and returns its index; its error names the path in the spec.
func (r *roles) addValues(spec *dataset.Spec, use func(path, name string) (int, error)) error {
	for i, name := range spec.Values {
		place, err := use(fmt.Sprintf("values[%d]", i), name)
		if err != nil {
			return err
		}
		r.values = append(r.values, place)
	}
	return nil
}

// addDerived adds the features derived from times. One that the spec did not ask for is left out if the table has a
// column of that name. There must be a feature now, other than those that are not asked for.
func (r *roles) addDerived(spec *dataset.Spec, t *table.Table) error {
	for _, f := range r.derivedFeatures() {
		if f.auto && slices.ContainsFunc(r.features, func(o feature) bool { return o.column.Name == f.column.Name }) {
			continue // known from the table itself
		}
		if asksForCategories(spec, f.column.Name) {
			return spec.Errorf("encodings.columns."+f.column.Name,
				"%q is a number derived from a time and cannot be categorical; leave it out here, and list [%s] "+
					"under encodings.keys for statistics of it",
				f.column.Name, f.column.Name)
		}
		r.features = append(r.features, f)
	}
	if !slices.ContainsFunc(r.features, func(f feature) bool { return !f.auto }) {
		hint := ""
		if column := spec.TimeColumn(); column != "" {
			hint = fmt.Sprintf("; `derive: {%q: [hour, weekday]}` makes some of the row's time", column)
		}
		return spec.Errorf("drop", "no column of %s is left to be a feature%s", t.URI(), hint)
	}
	return nil
}

// asksForCategories reports whether the spec declares a column categorical.
func asksForCategories(spec *dataset.Spec, column string) bool {
	asked := spec.Encodings.Columns[column]
	return asked.Has(dataset.EncodeCategories) || asked.Has(dataset.EncodeLevels)
}

// addFeatures adds as features the columns of the table that are neither taken by another role nor dropped.
//
// Two kinds of columns are left out by default: the index of a pandas.DataFrame, which it notes in r.index, and the day
// that the source states in its folders' names. Either is a feature if the spec lists it under categorical, numeric or
// encodings.columns; a format alone does not make it one.
//
// need returns an error if the table lacks a column that the spec names at a path. addFeatures asks it for the columns
// under drop, format, categorical and numeric; those under encodings.columns are checked later (designer.checkNames).
// No feature at all, too many, and a feature whose column cannot be read are errors.
func (r *roles) addFeatures(spec *dataset.Spec, t *table.Table, taken []string,
	need func(path, name string) error) error {
	// A column to be dropped or given a format has to be in the table.
	for i, name := range spec.Drop {
		if err := need(fmt.Sprintf("drop[%d]", i), name); err != nil {
			return err
		}
	}

	for _, name := range slices.Sorted(maps.Keys(spec.Format)) {
		if err := need("format."+name, name); err != nil {
			return err
		}
	}

	// Columns left out, and kinds that the spec forces: these columns must be in the table, too, and be features.
	leftOut := map[string]bool{}
	for _, name := range slices.Concat(taken, spec.Drop) {
		leftOut[name] = true
	}
	forced := map[string]dataset.Kind{}
	for _, list := range []struct {
		key   string
		names []string
		kind  dataset.Kind
	}{{"categorical", spec.Categorical, dataset.Categorical}, {"numeric", spec.Numeric, dataset.Numeric}} {
		for i, name := range list.names {
			path := fmt.Sprintf("%s[%d]", list.key, i)
			if err := need(path, name); err != nil {
				return err
			}
			if leftOut[name] {
				return spec.Errorf(path,
					"column %q is dropped, or splits the rows, so it is not a feature; leave it out here", name)
			}
			forced[name] = list.kind
		}
	}

	// Every other column is a feature, with the two exceptions above.
	for _, c := range t.Columns() {
		if leftOut[c.Name] {
			continue
		}
		// A table that pandas wrote with its index, and read back without it, has it as a column "Unnamed: 0".
		index := c.Index || c.Name == "Unnamed: 0"
		// A day by which the spec orders statistics is not left out: the spec names it by that.
		day := spec.Source.NamesDay(c.Name) && c.Name != spec.TimeColumn()
		_, named := spec.Encodings.Columns[c.Name]
		named = named || forced[c.Name] != ""
		if (index || day) && !named {
			if index {
				r.index = append(r.index, c.Name)
			}
			continue
		}
		// Find is called for its error alone: it refuses a column that cannot be read, such as one of lists.
		if _, err := t.Find(c.Name); err != nil {
			return err
		}

		texts := asksForCategories(spec, c.Name)
		if texts && forced[c.Name] == dataset.Numeric {
			return spec.Errorf("encodings.columns."+c.Name,
				"column %q is listed under numeric and cannot be categories, too; choose one", c.Name)
		}
		r.features = append(r.features, feature{place: r.addColumn(c.Name), column: c, forced: forced[c.Name],
			texts: texts})
	}

	if len(r.features) > dataset.MaxFeatures {
		return spec.Errorf("drop", "%d columns are left to be features; a dataset has at most %d", len(r.features),
			dataset.MaxFeatures)
	}
	return nil
}

// placesOf returns the indices in r.read of columns, which must be there.
func (r *roles) placesOf(names []string) []int {
	places := make([]int, len(names))
	for i, name := range names {
		places[i] = r.places[name]
	}
	return places
}

// addColumn returns the index of a column in r.read, and adds the column if it is not there.
func (r *roles) addColumn(name string) int {
	i, ok := r.places[name]
	if !ok {
		i = len(r.read)
		r.places[name] = i
		r.read = append(r.read, name)
	}
	return i
}
