package ingest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"coppice/dataset"
	"coppice/dataset/encode"
)

// design says which features a dataset gets: columns as they are, and statistics of the levels of columns.
type design struct {
	features []int                // of the survey's columns, those that are features of their own
	columns  []int                // of all features that are made row by row, their columns in a batch
	tables   []dataset.LevelTable // without their levels
	keys     []encode.Key         // of the same number
	readers  []*partReader        // of the parts that keys are made of
	places   []int                // of their columns in a batch
	few      []int                // how many values they have at most; 0 where that is not known
	copies   int                  // of the rows of train
	delay    float64              // in seconds, that nobody asked for; 0 without

	about     []dataset.EncodingInfo
	delayInfo *dataset.DelayInfo // nil without delay
	counted   []int              // of about: the table that has the levels; -1 where there is none
	warnings  []dataset.Warning
}

const (
	// smallLevels is up to how many levels a column of categories stays one, and no statistics are made of it: a tree divides so few
	// as well by itself.
	smallLevels = 32

	rateStrength    = 1  // rows that the mean label counts for in a rate
	backOffStrength = 10 // rows that the rate of the column above counts for

	// A small table has each row several times, with statistics in several orders; up to so many rows in all.
	copiedRows = 400_000
	mostCopies = 4
)

// sampledColumn is a column of the survey with what is known of it from the sampled rows.
type sampledColumn struct {
	*built
	number int
	from   *feature
	bins   []uint8  // of each sampled row
	hashes []uint64 // of its level; nil of numbers that are too many to be ids
	levels int      // of the whole table, about; 0 where they were not counted
	few    int      // how many they are exactly, missing values among them; 0 where that is not known
}

// designer finds the design.
type designer struct {
	s       *survey
	spec    *dataset.EncodingsSpec
	columns []sampledColumn
	train   *trainSample
	rows    int // of the sample that are used
	atoms   []atom
	parents map[int]int // of atoms: the atom whose rate their own falls back to
	d       *design
}

// design decides what is made of the columns. Without categories, or where the spec says so, they stay as they are.
func (s *survey) design(ctx context.Context, columns []sampledColumn, train *trainSample, o Options) (*design, error) {
	p := &designer{s: s, spec: &s.spec.Encodings, columns: columns, train: train, d: &design{copies: 1}, parents: map[int]int{}}
	p.rows = min(p.spec.Rows, len(train.labels))
	if o.Like != nil {
		return p.d, p.follow(o.Like)
	}
	if p.spec.Off || !p.hasCategories() {
		p.keepColumns()
		return p.d, nil
	}

	if delay := p.spec.Order.Delay; delay > 0 && s.orderKind() == dataset.Numeric {
		return nil, s.spec.Errorf("encodings.order.delay", "column %q holds numbers, whose unit is not known, so that a delay of %v "+
			"cannot be kept; make times of them", s.spec.TimeColumn(), time.Duration(delay))
	}
	p.dropUseless()
	p.findAtoms()
	if err := p.checkNames(); err != nil {
		return nil, err
	}
	if err := p.findParents(ctx, o.Threads); err != nil {
		return nil, err
	}
	asked, err := p.askedKeys()
	if err != nil {
		return nil, err
	}
	worth := p.worth(asked, o)
	if err := p.encodeColumns(worth[:len(p.atoms)]); err != nil {
		return nil, err
	}
	p.addAskedKeys(asked, worth[len(p.atoms):])
	if err := p.findKeys(ctx, o); err != nil {
		return nil, err
	}
	if err := p.findDelay(ctx, o); err != nil {
		return nil, err
	}
	if len(p.d.keys) > 0 {
		p.d.copies = p.copies()
	}
	return p.d, nil
}

// keepColumns makes all columns features as they are.
func (p *designer) keepColumns() {
	for i := range p.columns {
		c := &p.columns[i]
		if c.from.auto {
			continue
		}
		p.d.features = append(p.d.features, i)
		if c.Kind == dataset.Categorical {
			p.tell(-1, dataset.EncodingInfo{Name: c.Name, Levels: c.levelCount(), Kept: len(c.Categories), Lumped: c.lumped(),
				Made: []string{c.Name}, Why: "as it is"})
		}
	}
}

// hasCategories reports whether some column holds categories, or is to be taken as if it did.
func (p *designer) hasCategories() bool {
	if len(p.spec.Columns)+len(p.spec.Keys) > 0 {
		return true
	}
	return slices.ContainsFunc(p.columns, func(c sampledColumn) bool { return c.Kind == dataset.Categorical })
}

// minDays is over how many days a table must reach for its weekdays to mean anything.
const minDays = 14

// dropUseless takes away derived columns that were not asked for and that say nothing here: hours of days, weekdays of a few days. By
// time, columns of numbers that go on with it are taken away, too.
func (p *designer) dropUseless() {
	p.columns = slices.DeleteFunc(slices.Clone(p.columns), func(c sampledColumn) bool {
		if !c.from.auto {
			return p.goesOn(&c)
		}
		if c.Range == nil || c.Range.Min == c.Range.Max || c.MissingBin >= 0 {
			return true
		}
		return c.from.from.What == dataset.DeriveWeekday && p.train.days() < minDays
	})
}

// eras is into how many stretches of time persists divides the sampled rows.
const eras = 8

// persists reports whether the mean label of the latest rows foretold the next ones better than the mean of all rows before them did, in
// total and more often than not. order has the sampled rows by time.
func (t *trainSample) persists(order []int) bool {
	if len(order) < eras {
		return false
	}

	mean := func(rows []int) float64 {
		sum := 0.0
		for _, i := range rows {
			sum += float64(t.labels[i])
		}
		return sum / float64(len(rows))
	}
	square := func(x float64) float64 { return x * x }

	gain, better := 0.0, 0
	for e := 2; e < eras; e++ {
		last, at, next := (e-1)*len(order)/eras, e*len(order)/eras, (e+1)*len(order)/eras
		y := mean(order[at:next])
		g := square(y-mean(order[:at])) - square(y-mean(order[last:at]))
		gain += g
		if g > 0 {
			better++
		}
	}
	return gain > 0 && 2*better > eras-2
}

// goesOn reports whether most of the later rows of train have numbers beyond those of the earlier ones, as the months of one year do: what
// a model learns of the one says nothing of the other, and less of rows still to come. The years of a century do, too, but there the last
// ones say what the next are like: such a column stays.
func (p *designer) goesOn(c *sampledColumn) bool {
	asked := p.s.named(c.Name) || slices.Contains(p.s.spec.Numeric, c.Name)
	if asked || p.s.spec.OrderBy() != dataset.OrderTime || c.Kind == dataset.Categorical || c.from.from != nil {
		return false
	}

	order := make([]int, 0, len(c.bins))
	for i, b := range c.bins {
		if int(b) != c.MissingBin {
			order = append(order, i)
		}
	}
	if len(order) < idRows {
		return false
	}

	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.train.times[a], p.train.times[b]) })
	later := len(order) - len(order)/3
	least, most := c.bins[order[0]], c.bins[order[0]]
	for _, i := range order[:later] {
		least, most = min(least, c.bins[i]), max(most, c.bins[i])
	}

	beyond := 0
	for _, i := range order[later:] {
		if c.bins[i] < least || c.bins[i] > most {
			beyond++
		}
	}

	if 2*beyond <= len(order)-later || p.train.persists(order) {
		return false
	}

	p.d.warnings = append(p.d.warnings, dataset.Warning{Code: WarnDropped, Column: c.Name,
		Text: "it goes on with time, so that later rows have values that earlier ones do not have, and in train its latest values did not " +
			"tell what came next: no feature is made of the column; list it under numeric: to keep it"})
	return true
}

// checkNames refuses what the spec says of columns that are no features.
func (p *designer) checkNames() error {
	var names []string
	for _, c := range p.columns {
		names = append(names, c.Name)
	}
	for _, column := range slices.Sorted(maps.Keys(p.spec.Columns)) {
		if !slices.Contains(names, column) {
			return p.s.spec.Errorf("encodings.columns."+column, "column %q is no feature of the table%s", column, suggest(column, names))
		}
	}
	return nil
}

// encodeColumns decides what is made of each column by itself. worth is what the statistics of each atom tell, as far as it is known.
func (p *designer) encodeColumns(worth []*float64) error {
	for i := range p.columns {
		c := &p.columns[i]
		want, asked := p.spec.Columns[c.Name]
		if c.Kind != dataset.Categorical && !asked {
			p.d.features = append(p.d.features, c.number)
			continue
		}

		info := dataset.EncodingInfo{Name: c.Name, Levels: c.levelCount(), Lumped: c.lumped(), Why: "asked for"}
		if !asked {
			want, info.Why = p.choose(c)
		}
		if want.Has(dataset.EncodeCategories) || want.Has(dataset.EncodeLevels) {
			p.d.features = append(p.d.features, c.number)
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

// tell keeps what stage shows of a column or key, whose levels are those of a table, or of none: -1.
func (p *designer) tell(table int, info dataset.EncodingInfo) {
	p.d.about = append(p.d.about, info)
	p.d.counted = append(p.d.counted, table)
}

// encodeLevels makes the statistics of column i that are wanted, and gives their table; -1 where none is.
func (p *designer) encodeLevels(i int, want dataset.ColumnEncodings, worth []*float64, info *dataset.EncodingInfo) (table int, err error) {
	path := "encodings.columns." + p.columns[i].Name
	atom := p.exactAtom(i)
	if atom >= 0 {
		info.Gain = worth[atom]
	}

	key := encode.Key{Rate: want.Has(string(dataset.DeriveRate)), Count: want.Has(string(dataset.DeriveCount)),
		Recency: want.Has(string(dataset.DeriveRecency))}

	switch {
	case !key.Rate && !key.Count && !key.Recency:
		return -1, nil
	case atom < 0:
		return -1, p.s.spec.Errorf(path, "column %q has no levels to make statistics of", p.columns[i].Name)
	case key.Recency && p.s.spec.OrderBy() != dataset.OrderTime:
		return -1, p.s.spec.Errorf(path, "recency needs an order by time: give a split by time, or encodings.order.column")
	}

	return p.addKey([]int{atom}, key, info), nil
}

// choose is what is made of a column of categories that the spec says nothing of, and why.
func (p *designer) choose(c *sampledColumn) (want dataset.ColumnEncodings, why string) {
	switch {
	case c.different <= smallLevels:
		return dataset.ColumnEncodings{dataset.EncodeCategories}, "few levels"
	case c.present >= idRows && float64(c.levels) >= idShare*float64(p.s.rows):
		p.d.warnings = append(p.d.warnings, dataset.Warning{Code: WarnDropped, Column: c.Name,
			Text: "nearly every row has a value of its own, of which nothing can be learnt for other rows: no feature is made of the column"})
		return dataset.ColumnEncodings{dataset.EncodeNone}, "nearly every row has its own"
	}
	return dataset.ColumnEncodings{string(dataset.DeriveRate), string(dataset.DeriveCount)}, "many levels"
}

// levelCount is about how many levels the column has that are values.
func (c *sampledColumn) levelCount() int {
	levels := c.levels
	if c.Missing > 0 { // a missing value is a level like others, where levels are counted
		levels--
	}
	return max(c.different, levels)
}

// lumped is the share of the sampled rows whose category is one of those that share a bin.
func (c *sampledColumn) lumped() float64 {
	if c.present == 0 || c.Kind != dataset.Categorical {
		return 0
	}
	kept := int64(0)
	for _, n := range c.Counts {
		kept += n
	}
	return max(0, 1-float64(kept)/float64(c.present))
}

// addKey makes a table of some atoms, or adds features to the one that is there, and says so in info, which may be nil. What the rates
// of an atom fall back to gets a table before it.
func (p *designer) addKey(atoms []int, key encode.Key, info *dataset.EncodingInfo) int {
	key.BackOff, key.Strength = -1, rateStrength
	if parent, ok := p.parents[atoms[0]]; ok && len(atoms) == 1 {
		key.BackOff, key.Strength = p.addKey([]int{parent}, encode.Key{}, nil), backOffStrength
	}
	table := dataset.LevelTable{Floor: 1, Strength: key.Strength, BackOff: key.BackOff}
	for _, a := range atoms {
		table.Of = append(table.Of, p.atoms[a].part)
		key.Parts = append(key.Parts, p.partOf(a))
	}

	number := slices.IndexFunc(p.d.tables, func(t dataset.LevelTable) bool { return t.SameLevels(&table) })
	if number < 0 {
		number = len(p.d.tables)
		p.d.keys, p.d.tables = append(p.d.keys, key), append(p.d.tables, table)
	}
	k := &p.d.keys[number]
	k.Rate, k.Count, k.Recency = k.Rate || key.Rate, k.Count || key.Count, k.Recency || key.Recency
	p.d.tables[number].Recency = k.Recency
	if info != nil {
		for _, what := range statisticsOf(&key) {
			info.Made = append(info.Made, featureName(&table, what))
		}
	}
	return number
}

// statisticsOf are the statistics that a key is to have as features.
func statisticsOf(k *encode.Key) []dataset.Derivation {
	var out []dataset.Derivation
	for _, made := range []struct {
		on   bool
		what dataset.Derivation
	}{{k.Rate, dataset.DeriveRate}, {k.Count, dataset.DeriveCount}, {k.Recency, dataset.DeriveRecency}} {
		if made.on {
			out = append(out, made.what)
		}
	}
	return out
}

// featureName is the name of a statistic's feature.
func featureName(t *dataset.LevelTable, what dataset.Derivation) string {
	return t.Name() + ":" + string(what)
}

// partOf is the number of an atom among the design's parts.
func (p *designer) partOf(a int) int {
	atom := &p.atoms[a]
	return p.reader(atom.part, atom.place, p.few(&atom.part))
}

// reader is the number of a part among the design's, which is read at a place of a batch and has so many values at most.
func (p *designer) reader(part dataset.Part, place, few int) int {
	number := slices.IndexFunc(p.d.readers, func(r *partReader) bool { return r.part.Same(part) })
	if number < 0 {
		number = len(p.d.readers)
		p.d.readers = append(p.d.readers, newPartReader(part, p.s.markers))
		p.d.places, p.d.few = append(p.d.places, place), append(p.d.few, few)
	}
	return number
}

// copies is how often train holds each of its rows.
func (p *designer) copies() int {
	if p.s.spec.OrderBy() == dataset.OrderTime {
		return 1
	}
	if c := p.spec.Order.Copies; c > 0 {
		return c
	}
	return max(1, min(mostCopies, copiedRows/max(int(p.s.counts[0]), 1)))
}

// ordering is how the manifest says in which order statistics were made; nil without any.
func (s *survey) ordering(d *design) *dataset.Ordering {
	if len(d.keys) == 0 {
		return nil
	}
	o := &dataset.Ordering{By: s.spec.OrderBy(), Copies: d.copies}
	if o.By == dataset.OrderTime {
		o.Column, o.DelaySeconds = s.spec.TimeColumn(), max(d.delay, s.delayAsked())
	}
	return o
}

// into puts the design's features into the manifest: columns, second columns of categories, and statistics, whose bins are not known
// yet. Two features of one name are refused.
func (d *design) into(m *dataset.Manifest, columns []sampledColumn, s *survey) error {
	for _, i := range d.features {
		m.Features = append(m.Features, columns[i].Feature)
		d.columns = append(d.columns, s.roles.features[i].place)
		if second := columns[i].second; second != nil {
			m.Features = append(m.Features, *second)
			d.columns = append(d.columns, s.roles.features[i].place)
		}
	}

	for number := range d.keys {
		for _, what := range statisticsOf(&d.keys[number]) {
			f := dataset.Feature{Name: featureName(&d.tables[number], what), Kind: dataset.Numeric, Why: dataset.WhyDerived, Bins: 1,
				MissingBin: -1, OtherBin: -1,
				From: &dataset.Derived{What: what, Table: number}}
			if what == dataset.DeriveRecency {
				f.From.Of = []dataset.Part{{Column: s.spec.TimeColumn(), Kind: s.orderKind()}}
			}
			m.Features = append(m.Features, f)
		}
	}

	m.Tables, m.Order = d.tables, s.ordering(d)
	m.Splits[0].Rows *= d.copies
	m.About.Encodings, m.About.Delay = d.about, d.delayInfo
	m.About.Warnings = append(m.About.Warnings, d.warnings...)
	return checkFeatureNames(s.spec, m)
}

// orderKind is how the column is read by which statistics are ordered.
func (s *survey) orderKind() dataset.Kind {
	switch {
	case s.order != nil:
		return s.order.kind()
	case s.splitter.asTime == nil && s.orderType != dataset.Time:
		return dataset.Numeric
	}
	return dataset.Temporal
}
