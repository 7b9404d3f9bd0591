package ingest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// design is the decision, taken between the two passes, which features the dataset gets: columns of the table as they
// are, and statistics of ids (see encode.Key: the mean label, the count and the age of a level's rows). It also lists
// what the second pass needs to compute those statistics.
type design struct {
	features []int // indices of the survey's columns that become features themselves
	columns  []int // for each feature that a row alone determines, the index of its column in a batch

	// The statistics. A key is one column, or several whose values are joined into one id; each key has one table.
	tables []dataset.LevelTable // without their levels, which are known after the second pass
	keys   []encode.Key         // parallel to tables

	// The parts are the distinct columns, or ranges of columns, that keys are made of. These three are parallel.
	readers   []*cell.PartReader // hashes a part's values
	places    []int              // index of the part's column in a batch
	maxLevels []int              // most values that the part can have; 0 if unknown

	copies int     // how often the dataset contains each row of train
	delay  float64 // that was found, in seconds; 0 if none was, or if the spec sets one

	// What the manifest reports.
	about     []dataset.EncodingInfo
	delayInfo *dataset.DelayInfo // nil if no delay was found
	counted   []int              // parallel to about: the table whose number of levels is reported; -1 for none
	warnings  []dataset.Warning
}

const (
	// smallLevels is the number of levels up to which a column stays categorical and gets no statistics: a tree can
	// separate so few levels by itself.
	smallLevels = 32

	// Weights of the prior in a level's rate, in rows (dataset.LevelTable has the formula). The mean label of train is
	// a vague prior, so it weighs little; the rate of a parent column is a good one, so it weighs more.
	rateStrength    = 1
	backOffStrength = 10

	// Statistics of a small table are noisy. So its rows are repeated, each copy with statistics from another random
	// order of the rows: at most maxCopies times, and to at most copiedRows rows in all.
	copiedRows = 400_000
	maxCopies  = 4
)

// sampledColumn is a column of the survey, with what the sampled rows of train say about it.
type sampledColumn struct {
	*built
	number int      // index in survey.columns
	from   *feature // where its values come from
	bins   []uint8  // bin of each sampled row
	hashes []uint64 // by sampled row, the hash of its level; nil if its values are not levels (see buildColumn)
	levels int      // estimated number of levels in the whole table; 0 if not counted
	exact  int      // exact number of levels, including that of missing values; 0 if only estimated
}

// designer builds a design. Its methods add to out, step by step, and narrow columns.
type designer struct {
	survey  *survey
	sample  *trainSample
	spec    *dataset.EncodingsSpec
	out     *design
	columns []sampledColumn // those that may still become features or parts of keys
	byName  map[string]int  // by name, the index in columns: of the table's column, if a derived one has the same name
	rows    int             // how many of the sampled rows, the first ones, keys are measured on
	atoms   []atom          // all that keys can be made of
	exact   map[int]int     // by index in columns, the column's atom in which every value is a level
	parents map[int]int     // by atom, the atom whose rate is its prior
	tables  map[string]int  // by the atoms and the class of a key, the index in out.tables
	parts   cell.Parts      // numbers the parts of out.readers
}

// design decides what becomes of the columns. If none holds categories, or if the spec switches encodings off, every
// column becomes a feature as it is. columns and train come from buildFeatures.
func (s *survey) design(ctx context.Context, columns []sampledColumn, train *trainSample,
	options Options) (*design, error) {
	p := &designer{survey: s, spec: &s.spec.Encodings, sample: train, out: &design{copies: 1},
		exact: map[int]int{}, parents: map[int]int{}, tables: map[string]int{}}
	p.use(columns)
	p.rows = min(p.spec.Rows, len(train.labels))

	// An empty column says nothing about the values that later tables will have, so it is left out unless the spec
	// names it.
	p.keep(func(c *sampledColumn) bool {
		return s.columns[c.number].present > 0 || c.from.auto || c.from.forced != "" || s.specNames(c.Name)
	})
	if p.spec.Off || !p.hasCategories() {
		p.keepColumns()
		return p.out, nil
	}
	return p.out, p.encode(ctx, options)
}

// encode decides which columns get statistics and which columns are joined into keys, and fills out with them. It is
// called if some column holds categories and encodings are on.
func (p *designer) encode(ctx context.Context, options Options) error {
	s := p.survey
	if delay := p.spec.Order.Delay; delay > 0 && s.orderKind() == dataset.Numeric {
		return s.spec.Errorf("encodings.order.delay", "column %q holds numbers in an unknown unit, so a delay "+
			"of %v cannot be applied; convert them to times", s.spec.TimeColumn(), time.Duration(delay))
	}

	// Columns that tell nothing about later rows are dropped first. What remains is what keys are made of, and what the
	// spec may name.
	if err := p.dropUseless(ctx, options); err != nil {
		return err
	}
	p.findAtoms()
	if err := p.checkNames(); err != nil {
		return err
	}

	// With several classes no parents are sought: the rate of each class falls back to its share in all of train.
	if p.sample.classes > 0 {
		for _, child := range slices.Sorted(maps.Keys(p.spec.BackOff)) {
			p.warn(child, "encodings.back_off has no effect with several classes: the rate of a rare level falls "+
				"back to the class's share of all rows")
		}
	} else if err := p.findParents(ctx, options.Threads); err != nil {
		return err
	}

	// Keys that the spec asks for are measured together with single columns, on the same rows. So worth holds the
	// single atoms first, then the asked keys.
	asked, err := p.askedKeys()
	if err != nil {
		return err
	}
	worth, err := p.measureWorth(ctx, asked, options)
	if err != nil {
		return err
	}
	if err := p.encodeColumns(worth[:len(p.atoms)]); err != nil {
		return err
	}
	p.addAskedKeys(asked, worth[len(p.atoms):])

	// In a table of queries statistics are kept only if they order the rows of a query better. Otherwise the design
	// begins anew, without its warnings about ignored columns: these are features as they are.
	if s.spec.OrderBy() == dataset.OrderGroup {
		if pays, err := p.ordersBetter(ctx, options); err != nil || !pays {
			p.out = &design{copies: 1}
			p.keepColumns()
			return err
		}
	}

	// The search adds keys that improve a model with everything found above; if no column is left, there is no model.
	// Then the delay is tried on all of these statistics.
	if len(p.out.features)+len(p.out.keys) > 0 {
		if err := p.findKeys(ctx, options); err != nil {
			return err
		}
	}
	if err := p.findDelay(ctx, options); err != nil {
		return err
	}
	if len(p.out.keys) > 0 {
		p.out.copies = p.copies()
	}
	return nil
}

// keep removes the columns that are not wanted from p.columns.
func (p *designer) keep(wanted func(*sampledColumn) bool) {
	p.use(slices.DeleteFunc(slices.Clone(p.columns), func(c sampledColumn) bool { return !wanted(&c) }))
}

// warn adds a warning that a column is not used; format and args say why.
func (p *designer) warn(column, format string, args ...any) {
	p.out.warnings = append(p.out.warnings, dataset.Warning{Code: WarnDropped, Column: column,
		Text: fmt.Sprintf(format, args...)})
}

// use sets p.columns, and p.byName to match.
func (p *designer) use(columns []sampledColumn) {
	p.columns, p.byName = columns, make(map[string]int, len(columns))
	// Derived columns come last. Going backwards, a column of the table with the same name overwrites them.
	for i, c := range slices.Backward(columns) {
		p.byName[c.Name] = i
	}
}

// keepColumns makes every column a feature as it is, except those derived from others without being asked for.
func (p *designer) keepColumns() {
	for i := range p.columns {
		c := &p.columns[i]
		if c.from.auto {
			continue
		}
		p.out.features = append(p.out.features, c.number)
		p.tellAsItIs(c, "as it is")
	}
}

// tellAsItIs records in the report that a categorical column stays one. It does nothing for other columns.
func (p *designer) tellAsItIs(column *sampledColumn, why string) {
	if column.Kind == dataset.Categorical {
		p.tell(-1, dataset.EncodingInfo{Name: column.Name, Levels: column.levelCount(), Kept: len(column.Categories),
			Lumped: column.lumpedShare(), Made: []string{column.Name}, Why: why})
	}
}

// hasCategories reports whether some column holds categories, or is treated as if it did because the spec lists
// encodings for it.
func (p *designer) hasCategories() bool {
	return len(p.spec.Columns)+len(p.spec.Keys) > 0 ||
		slices.ContainsFunc(p.columns, func(c sampledColumn) bool { return c.Kind == dataset.Categorical })
}

// minDays is the least number of days that a table must span for weekdays to be meaningful: each weekday occurs twice.
const minDays = 14

// dropUseless removes columns that carry nothing over to later rows. Of the columns derived without being asked for,
// these are constant ones, such as the hours in a table of days, those with missing or no values, and weekdays in a
// table of fewer than minDays days. Of the others, see dropGrowing.
func (p *designer) dropUseless(ctx context.Context, options Options) error {
	p.keep(func(c *sampledColumn) bool {
		switch {
		case !c.from.auto:
			return true
		case c.Range == nil || c.Range.Min == c.Range.Max || c.MissingBin >= 0:
			return false
		}
		return c.from.from.What != dataset.DeriveWeekday || p.sample.days() >= minDays
	})
	return p.dropGrowing(ctx, options)
}

// checkNames returns an error if the spec sets the encoding of a column that is not a feature.
func (p *designer) checkNames() error {
	for _, column := range slices.Sorted(maps.Keys(p.spec.Columns)) {
		if _, ok := p.byName[column]; !ok {
			var names []string
			for _, c := range p.columns {
				names = append(names, c.Name)
			}
			return p.survey.spec.Errorf("encodings.columns."+column, "column %q is not a feature of the table%s",
				column, table.Suggest(column, names))
		}
	}
	return nil
}

// encodeColumns decides how each column is encoded, by itself, and adds that to the design. A column of numbers or
// times stays as it is unless the spec asks for another encoding. worth holds, for each atom, the measured gain of its
// statistics; nil if it was not measured.
func (p *designer) encodeColumns(worth []*float64) error {
	for i := range p.columns {
		c := &p.columns[i]
		want, asked := p.spec.Columns[c.Name]
		if c.Kind != dataset.Categorical && !asked {
			p.out.features = append(p.out.features, c.number)
			continue
		}

		// What the spec asks for, or else what is best for so many levels.
		info := dataset.EncodingInfo{Name: c.Name, Levels: c.levelCount(), Lumped: c.lumpedShare(), Why: "asked for"}
		if !asked {
			want, info.Why = p.choose(c)
		}

		// As categories, as statistics, or both.
		if want.Has(dataset.EncodeCategories) || want.Has(dataset.EncodeLevels) {
			p.out.features = append(p.out.features, c.number)
			info.Kept = len(c.Categories)
			info.Made = append(info.Made, c.Name)
		}
		table, err := p.encodeLevels(i, want, worth, &info)
		if err != nil {
			return err
		}
		p.tell(table, info)
	}
	return nil
}

// tell adds to the report what was decided about a column or key. table is the index of the table with its levels, -1
// for none.
func (p *designer) tell(table int, info dataset.EncodingInfo) {
	p.out.about = append(p.out.about, info)
	p.out.counted = append(p.out.counted, table)
}

// encodeLevels adds the wanted statistics of p.columns[i] to the design and returns the index of their table, -1 if
// none are wanted. It sets info's gain and the names of the features made. An error says that the column cannot have
// the statistics that the spec asks for.
func (p *designer) encodeLevels(i int, want dataset.ColumnEncodings, worth []*float64,
	info *dataset.EncodingInfo) (table int, err error) {
	path := "encodings.columns." + p.columns[i].Name
	atom := p.exactAtom(i)
	if atom >= 0 {
		info.Gain = worth[atom]
	}

	// Which statistics are wanted, and whether they are possible.
	key := encode.Key{Rate: want.Has(string(dataset.DeriveRate)), Count: want.Has(string(dataset.DeriveCount)),
		Recency: want.Has(string(dataset.DeriveRecency))}
	switch {
	case !key.Rate && !key.Count && !key.Recency:
		return -1, nil
	case atom < 0:
		return -1, p.survey.spec.Errorf(path, "column %q has no levels to make statistics of", p.columns[i].Name)
	case key.Recency && p.survey.spec.OrderBy() != dataset.OrderTime:
		return -1, p.survey.spec.Errorf(path, "recency needs an order by time, and this one is %s: give a split "+
			"by time, or encodings.order.column, and no other encodings.order.by", p.survey.spec.OrderBy())
	}
	return p.addKeys([]int{atom}, key, info), nil
}

// choose decides the encoding of a categorical column that the spec does not mention, and says why. A column in which
// nearly every row has a value of its own gets none, and a warning.
func (p *designer) choose(column *sampledColumn) (want dataset.ColumnEncodings, why string) {
	// different is counted in the sample, levels in all rows.
	switch {
	case column.different <= smallLevels:
		return dataset.ColumnEncodings{dataset.EncodeCategories}, "few levels"
	case column.present >= idRows && float64(column.levels) >= idShare*float64(p.survey.rows):
		p.warn(column.Name, "almost all values are unique; column ignored")
		return dataset.ColumnEncodings{dataset.EncodeNone}, "nearly every row has its own"
	}
	return dataset.ColumnEncodings{string(dataset.DeriveRate), string(dataset.DeriveCount)}, whyLevels
}

// whyLevels is the reason given for a column that has statistics. ordersBetter finds such columns by it.
const whyLevels = "many levels"

// levelCount estimates the number of the column's levels in the whole table, without that of missing values. The
// estimate may be too low for a few levels, so the number seen in the sample is its least value.
func (c *sampledColumn) levelCount() int {
	levels := c.levels
	if c.Missing > 0 { // a missing value is counted as a level
		levels--
	}
	return max(c.different, levels)
}

// lumpedShare returns the share of the sampled rows with a value whose category is too rare for a bin of its own. Such
// categories share one bin. It is 0 for a column that is not categorical.
func (c *sampledColumn) lumpedShare() float64 {
	if c.present == 0 || c.Kind != dataset.Categorical {
		return 0
	}
	kept := int64(0)
	for _, n := range c.Counts {
		kept += n
	}
	return 1 - float64(kept)/float64(c.present)
}

// addKeys adds a key to the design, as addKey does. If the label has several classes and key.Rate is set, it adds one
// key for each of the most frequent classes, and the count and the recency only once. It returns the index of the first
// table.
func (p *designer) addKeys(atoms []int, key encode.Key, info *dataset.EncodingInfo) int {
	if p.sample.classes == 0 || !key.Rate {
		return p.addKey(atoms, key, info)
	}
	first := -1
	for _, class := range encode.RatedClasses(p.sample.labels, p.sample.classes, len(p.exact)) {
		key.Class = class + 1
		table := p.addKey(atoms, key, info)
		if first < 0 {
			first, key.Count, key.Recency = table, false, false
		}
	}
	return first
}

// addKey adds the key made of some atoms to the design and returns the index of its table. Of key, the caller sets the
// statistics and the class. If the design has a key of the same atoms and class, the statistics are added to that one.
// addKey appends the names of the features to info.Made; info may be nil.
//
// A single atom with a parent uses the parent's rate as its prior, so the parent's table is added first.
func (p *designer) addKey(atoms []int, key encode.Key, info *dataset.EncodingInfo) int {
	key.BackOff, key.Strength = -1, rateStrength
	if parent, ok := p.parents[atoms[0]]; ok && len(atoms) == 1 {
		key.BackOff, key.Strength = p.addKey([]int{parent}, encode.Key{}, nil), backOffStrength
	}
	table := dataset.LevelTable{Floor: 1, Strength: key.Strength, BackOff: key.BackOff, Class: key.Class}
	for _, a := range atoms {
		table.Of = append(table.Of, p.atoms[a].part)
		key.Parts = append(key.Parts, p.partOf(a))
	}

	// The table of the same atoms and class, or a new one.
	id := fmt.Sprint(atoms, key.Class)
	number, known := p.tables[id]
	if !known {
		number = len(p.out.tables)
		p.tables[id] = number
		p.out.keys, p.out.tables = append(p.out.keys, key), append(p.out.tables, table)
	}

	// The statistics asked for now, besides those of earlier calls.
	k := &p.out.keys[number]
	k.Rate, k.Count, k.Recency = k.Rate || key.Rate, k.Count || key.Count, k.Recency || key.Recency
	p.out.tables[number].Recency = k.Recency
	if info != nil {
		for _, what := range key.Statistics() {
			info.Made = append(info.Made, table.Feature(what, p.survey.labels.info.Classes))
		}
	}
	return number
}

// partOf returns the index of atom a's part among the design's parts, and adds the part if it is new.
func (p *designer) partOf(atomNumber int) int {
	atom := &p.atoms[atomNumber]
	return p.addPart(atom.part, atom.place, p.maxLevels(&atom.part))
}

// maxLevels returns the most values that a part can have, 0 if unknown.
func (p *designer) maxLevels(part *dataset.Part) int {
	if len(part.Bounds) > 0 {
		return len(part.Bounds) + 2 // ranges, and missing values
	}
	at, ok := p.byName[part.Column]
	if !ok || part.Kind != dataset.Categorical || p.columns[at].from.from != nil {
		return 0
	}
	return p.columns[at].exact
}

// addPart returns the index of a part among the design's parts, and adds it if it is new. place is the index of its
// column in a batch. maxLevels is the most values that it can have, 0 if unknown.
func (p *designer) addPart(part dataset.Part, place, maxLevels int) int {
	number, added := p.parts.Add(part)
	if added {
		p.out.readers = append(p.out.readers, cell.NewPartReader(part, p.survey.markers))
		p.out.places, p.out.maxLevels = append(p.out.places, place), append(p.out.maxLevels, maxLevels)
	}
	return number
}

// copies returns how often train contains each of its rows. Where rows are ordered by time there is one order only,
// hence one copy.
func (p *designer) copies() int {
	if p.survey.spec.OrderBy() == dataset.OrderTime {
		return 1
	}
	if c := p.spec.Order.Copies; c > 0 {
		return c
	}
	return max(1, min(maxCopies, copiedRows/max(int(p.survey.counts[0]), 1)))
}
