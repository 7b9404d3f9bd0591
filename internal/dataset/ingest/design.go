package ingest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// design says which features a dataset gets: columns as they are, and statistics of the levels of columns.
type design struct {
	features  []int                // indices of the survey's columns that become features themselves
	columns   []int                // batch columns of all features that are computed row by row
	tables    []dataset.LevelTable // without their levels yet
	keys      []encode.Key         // parallel to tables
	readers   []*cell.PartReader   // of the parts that keys are made of
	places    []int                // the parts' columns in a batch
	maxLevels []int                // of each part; 0 if unknown
	copies    int                  // of each train row
	delay     float64              // in seconds, if not set by the spec; 0 for none

	about     []dataset.EncodingInfo
	delayInfo *dataset.DelayInfo // nil without a delay
	counted   []int              // for each entry of about, the table with the levels; -1 for none
	warnings  []dataset.Warning
}

const (
	// smallLevels is the number of levels up to which a column stays categorical and gets no statistics: a tree can
	// separate so few levels by itself.
	smallLevels = 32

	rateStrength    = 1  // weight, in rows, of the mean label in a rate
	backOffStrength = 10 // weight, in rows, of the parent column's rate

	// The rows of a small table are repeated, with statistics in several orders, up to this many rows in all.
	copiedRows = 400_000
	maxCopies  = 4
)

// sampledColumn is a column of the survey, with what the sampled rows say about it.
type sampledColumn struct {
	*built
	number int
	from   *feature
	bins   []uint8  // of each sampled row
	hashes []uint64 // hashes of the levels; nil for numbers with too many distinct values to be ids
	levels int      // estimate for the whole table; 0 if not counted
	exact  int      // number of levels, including missing values; 0 if only estimated
}

// designer finds the design.
type designer struct {
	survey  *survey
	sample  *trainSample
	spec    *dataset.EncodingsSpec
	out     *design
	columns []sampledColumn
	byName  map[string]int // by name, the index in columns: of the table's column, if a derived one has the same name
	rows    int            // of the sample in use
	atoms   []atom
	exact   map[int]int    // by column, its atom in which every value is a level
	parents map[int]int    // for an atom, the atom whose rate is its prior
	tables  map[string]int // by atoms, the index in out.tables
	parts   cell.Parts     // of out.readers
}

// design decides what is made of the columns. Without categorical columns, or if the spec says so, they stay as they
// are.
func (s *survey) design(ctx context.Context, columns []sampledColumn, train *trainSample,
	options Options) (*design, error) {
	p := &designer{survey: s, spec: &s.spec.Encodings, sample: train, out: &design{copies: 1},
		exact: map[int]int{}, parents: map[int]int{}, tables: map[string]int{}}
	p.use(columns)
	p.rows = min(p.spec.Rows, len(train.labels))

	p.keep(func(c *sampledColumn) bool { // what the values of an empty column will be is not known
		return s.columns[c.number].present > 0 || c.from.auto || c.from.forced != "" || s.specNames(c.Name)
	})
	if p.spec.Off || !p.hasCategories() {
		p.keepColumns()
		return p.out, nil
	}
	return p.out, p.encode(ctx, options)
}

// encode decides which columns get statistics, and of which several.
func (p *designer) encode(ctx context.Context, options Options) error {
	s := p.survey
	if delay := p.spec.Order.Delay; delay > 0 && s.orderKind() == dataset.Numeric {
		return s.spec.Errorf("encodings.order.delay", "column %q holds numbers in an unknown unit, so a delay "+
			"of %v cannot be applied; convert them to times", s.spec.TimeColumn(), time.Duration(delay))
	}

	// Columns that carry nothing over to later rows go first: what is left is what keys are made of, and what the spec
	// may name.
	p.dropUseless()
	p.findAtoms()
	if err := p.checkNames(); err != nil {
		return err
	}
	if p.sample.classes == 0 {
		if err := p.findParents(ctx, options.Threads); err != nil {
			return err
		}
	}

	// Keys that the spec asks for are measured together with single columns, on the same rows.
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
	if s.spec.OrderBy() == dataset.OrderGroup {
		if pays, err := p.ordersBetter(ctx, options); err != nil || !pays {
			p.out = &design{copies: 1}
			p.keepColumns()
			return err
		}
	}

	// What is found has to add something to all of that, and the delay to what was found.
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

// keep leaves out the other columns.
func (p *designer) keep(wanted func(*sampledColumn) bool) {
	p.use(slices.DeleteFunc(slices.Clone(p.columns), func(c sampledColumn) bool { return !wanted(&c) }))
}

// warn says that a column is not used.
func (p *designer) warn(column, format string, args ...any) {
	p.out.warnings = append(p.out.warnings, dataset.Warning{Code: WarnDropped, Column: column,
		Text: fmt.Sprintf(format, args...)})
}

// use sets the columns.
func (p *designer) use(columns []sampledColumn) {
	p.columns, p.byName = columns, make(map[string]int, len(columns))
	for i, c := range slices.Backward(columns) { // derived ones are last
		p.byName[c.Name] = i
	}
}

// keepColumns makes every column a feature as it is.
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

// tellAsItIs records that a column of categories stays one.
func (p *designer) tellAsItIs(column *sampledColumn, why string) {
	if column.Kind == dataset.Categorical {
		p.tell(-1, dataset.EncodingInfo{Name: column.Name, Levels: column.levelCount(), Kept: len(column.Categories),
			Lumped: column.lumpedShare(), Made: []string{column.Name}, Why: why})
	}
}

// hasCategories reports whether some column holds categories, or is to be treated as if it did.
func (p *designer) hasCategories() bool {
	return len(p.spec.Columns)+len(p.spec.Keys) > 0 ||
		slices.ContainsFunc(p.columns, func(c sampledColumn) bool { return c.Kind == dataset.Categorical })
}

// minDays is the least number of days that a table must span for weekdays to be meaningful.
const minDays = 14

// dropUseless removes derived columns that the spec did not ask for and that are useless here: hours in a table of
// days, weekdays in a table of a few days. With a split by time it also removes columns of numbers that keep growing
// with time.
func (p *designer) dropUseless() {
	p.keep(func(c *sampledColumn) bool {
		switch {
		case !c.from.auto:
			return !p.growsWithTime(c)
		case c.Range == nil || c.Range.Min == c.Range.Max || c.MissingBin >= 0:
			return false
		}
		return c.from.from.What != dataset.DeriveWeekday || p.sample.days() >= minDays
	})
}

// eras is the number of periods into which persists divides the sampled rows.
const eras = 8

// persists reports whether the mean label of the latest rows predicts the next ones better than the mean of all earlier
// rows does, in total and in most periods. order lists the sampled rows by time.
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

// growsWithTime reports whether most of the later rows of train have numbers beyond those of the earlier ones, as with
// the months of a single year: what a model learns from the earlier ones does not carry over to later ones, and still
// less to future rows. The years of a century also grow, but there the last ones tell what the next are like, so such a
// column stays.
func (p *designer) growsWithTime(column *sampledColumn) bool {
	asked := column.from.forced == dataset.Numeric || p.survey.specNames(column.Name)
	if asked || p.survey.spec.OrderBy() != dataset.OrderTime || column.Kind == dataset.Categorical ||
		column.from.from != nil {
		return false
	}

	order := make([]int, 0, len(column.bins))
	for i, b := range column.bins {
		if int(b) != column.MissingBin {
			order = append(order, i)
		}
	}
	if len(order) < idRows {
		return false
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.sample.times[a], p.sample.times[b]) })
	later := len(order) - len(order)/3
	least, most := column.bins[order[0]], column.bins[order[0]]
	for _, i := range order[:later] {
		least, most = min(least, column.bins[i]), max(most, column.bins[i])
	}

	beyond := 0
	for _, i := range order[later:] {
		if column.bins[i] < least || column.bins[i] > most {
			beyond++
		}
	}
	if 2*beyond <= len(order)-later || p.sample.persists(order) {
		return false
	}

	p.warn(column.Name, "monotonic in time and not predictive of later rows; ignored (add to numeric: to keep)")
	return true
}

// checkNames rejects settings of the spec for columns that are not features.
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

// encodeColumns decides how each column is encoded. worth is the measured value of each atom's statistics, if known.
func (p *designer) encodeColumns(worth []*float64) error {
	for i := range p.columns {
		c := &p.columns[i]
		want, asked := p.spec.Columns[c.Name]
		if c.Kind != dataset.Categorical && !asked {
			p.out.features = append(p.out.features, c.number)
			continue
		}

		info := dataset.EncodingInfo{Name: c.Name, Levels: c.levelCount(), Lumped: c.lumpedShare(), Why: "asked for"}
		if !asked {
			want, info.Why = p.choose(c)
		}
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

// tell records what stage reports of a column or key; table has its levels, -1 for none.
func (p *designer) tell(table int, info dataset.EncodingInfo) {
	p.out.about = append(p.out.about, info)
	p.out.counted = append(p.out.counted, table)
}

// encodeLevels makes the wanted statistics of column i and returns their table; -1 if none are wanted.
func (p *designer) encodeLevels(i int, want dataset.ColumnEncodings, worth []*float64,
	info *dataset.EncodingInfo) (table int, err error) {
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
		return -1, p.survey.spec.Errorf(path, "column %q has no levels to make statistics of", p.columns[i].Name)
	case key.Recency && p.survey.spec.OrderBy() != dataset.OrderTime:
		return -1, p.survey.spec.Errorf(path, "recency needs an order by time, and this one is %s: give a split "+
			"by time, or encodings.order.column, and no other encodings.order.by", p.survey.spec.OrderBy())
	}
	return p.addKeys([]int{atom}, key, info), nil
}

// choose decides the encoding of a categorical column that the spec does not mention, and says why.
func (p *designer) choose(column *sampledColumn) (want dataset.ColumnEncodings, why string) {
	switch {
	case column.different <= smallLevels:
		return dataset.ColumnEncodings{dataset.EncodeCategories}, "few levels"
	case column.present >= idRows && float64(column.levels) >= idShare*float64(p.survey.rows):
		p.warn(column.Name, "almost all values are unique; column ignored")
		return dataset.ColumnEncodings{dataset.EncodeNone}, "nearly every row has its own"
	}
	return dataset.ColumnEncodings{string(dataset.DeriveRate), string(dataset.DeriveCount)}, whyLevels
}

// whyLevels is why a column has statistics.
const whyLevels = "many levels"

// levelCount estimates the number of levels that are values.
func (c *sampledColumn) levelCount() int {
	levels := c.levels
	if c.Missing > 0 { // a missing value is counted as a level
		levels--
	}
	return max(c.different, levels)
}

// lumpedShare is the share of the sampled rows whose category shares a bin with others.
func (c *sampledColumn) lumpedShare() float64 {
	if c.present == 0 || c.Kind != dataset.Categorical {
		return 0
	}
	kept := int64(0)
	for _, n := range c.Counts {
		kept += n
	}
	return max(0, 1-float64(kept)/float64(c.present))
}

// addKeys is addKey, of a rate for each of the most frequent classes where the label has several. It returns the first
// table.
func (p *designer) addKeys(atoms []int, key encode.Key, info *dataset.EncodingInfo) int {
	if p.sample.classes == 0 || !key.Rate {
		return p.addKey(atoms, key, info)
	}
	first := -1
	for _, class := range encode.RatedClasses(p.sample.labels, p.sample.classes, len(p.exact)) {
		key.Class = class + 1
		if table := p.addKey(atoms, key, info); first < 0 {
			first, key.Count, key.Recency = table, false, false
		}
	}
	return first
}

// addKey makes a table of some atoms, or adds features to an existing one, and describes it in info, which may be nil.
// If an atom's rates fall back to another's, that one's table is made first.
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

	id := fmt.Sprint(atoms, key.Class)
	number, known := p.tables[id]
	if !known {
		number = len(p.out.tables)
		p.tables[id] = number
		p.out.keys, p.out.tables = append(p.out.keys, key), append(p.out.tables, table)
	}
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

// partOf returns the index of an atom among the design's parts.
func (p *designer) partOf(a int) int {
	atom := &p.atoms[a]
	return p.addPart(atom.part, atom.place, p.maxLevels(&atom.part))
}

// maxLevels is the most values that a part can have; 0 if unknown.
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

// addPart returns the part's index among the design's, adding it if it is new. place is its column in a batch, and
// maxLevels the most values that it can have, 0 if unknown.
func (p *designer) addPart(part dataset.Part, place, maxLevels int) int {
	number, added := p.parts.Add(part)
	if added {
		p.out.readers = append(p.out.readers, cell.NewPartReader(part, p.survey.markers))
		p.out.places, p.out.maxLevels = append(p.out.places, place), append(p.out.maxLevels, maxLevels)
	}
	return number
}

// copies returns how often train contains each of its rows.
func (p *designer) copies() int {
	if p.survey.spec.OrderBy() == dataset.OrderTime {
		return 1
	}
	if c := p.spec.Order.Copies; c > 0 {
		return c
	}
	return max(1, min(maxCopies, copiedRows/max(int(p.survey.counts[0]), 1)))
}

// describeOrder describes, for the manifest, the order in which statistics were made; nil without any.
func (s *survey) describeOrder(design *design) *dataset.Ordering {
	if len(design.keys) == 0 {
		return nil
	}
	o := &dataset.Ordering{By: s.spec.OrderBy(), Copies: design.copies}
	if o.By == dataset.OrderTime {
		o.Column, o.DelaySeconds = s.spec.TimeColumn(), max(design.delay, s.delayAsked())
	}
	return o
}

// addFeatures adds the design to the manifest: features (columns, second columns of categories, and statistics, whose
// bins are not known yet), tables of ids, the order of statistics, what is said about encodings, and warnings. It
// multiplies train's number of rows by the design's copies, and sets d.columns. More tables than a dataset may have, or
// two features with the same name, are errors.
func (d *design) addFeatures(manifest *dataset.Manifest, columns []sampledColumn, survey *survey) error {
	for _, i := range d.features {
		manifest.Features = append(manifest.Features, columns[i].Feature)
		d.columns = append(d.columns, survey.roles.features[i].place)
		if second := columns[i].second; second != nil {
			manifest.Features = append(manifest.Features, *second)
			d.columns = append(d.columns, survey.roles.features[i].place)
		}
	}

	for number := range d.keys {
		for _, what := range d.keys[number].Statistics() {
			f := dataset.Feature{Name: d.tables[number].Feature(what, manifest.Label.Classes), Kind: dataset.Numeric,
				Why: dataset.WhyDerived, Bins: 1,
				MissingBin: -1, OtherBin: -1,
				From: &dataset.Derived{What: what, Table: number}}
			if what == dataset.DeriveRecency {
				f.From.Of = []dataset.Part{{Column: survey.spec.TimeColumn(), Kind: survey.orderKind()}}
			}
			manifest.Features = append(manifest.Features, f)
		}
	}

	if len(d.tables) > dataset.MaxTables {
		return survey.spec.Errorf("encodings",
			"%d columns of ids and combinations of them have statistics; %d at most. Drop some, give some "+
				"categories or none under encodings.columns, or make none at all: `encodings: none`",
			len(d.tables), dataset.MaxTables)
	}
	manifest.Tables, manifest.Order = d.tables, survey.describeOrder(d)
	manifest.Splits[0].Rows *= d.copies // train
	manifest.About.Encodings, manifest.About.Delay = d.about, d.delayInfo
	manifest.About.Warnings = append(manifest.About.Warnings, d.warnings...)
	return checkFeatureNames(survey.spec, manifest)
}

// orderKind tells how the column that orders the statistics is read.
func (s *survey) orderKind() dataset.Kind {
	switch {
	case s.order != nil:
		return s.order.kind()
	case s.splitter.asTime == nil && s.orderType != dataset.Time:
		return dataset.Numeric
	}
	return dataset.Temporal
}

// checkFeatureNames rejects a design in which two features have the same name, for instance if a table has a column
// called site:rate beside site. A model tells its features apart by name only.
func checkFeatureNames(spec *dataset.Spec, manifest *dataset.Manifest) error {
	first := map[string]*dataset.Feature{}
	for i := range manifest.Features {
		f := &manifest.Features[i]
		other := first[f.Name]
		if other == nil {
			first[f.Name] = f
			continue
		}

		made, column := f, other
		if !made.IsDerived() {
			made, column = column, made
		}
		return spec.Errorf("encodings",
			"%s and %s are both features called %q; rename a column in the table, or remove one of the two with "+
				"drop: or encodings.columns",
			describeFeature(manifest, column), describeFeature(manifest, made), f.Name)
	}
	return nil
}

// describeFeature says what a feature is made of, without its name: for an error about two of one name.
func describeFeature(manifest *dataset.Manifest, feature *dataset.Feature) string {
	if feature.From == nil {
		return fmt.Sprintf("column %q", feature.Name)
	}

	what, parts := string(feature.From.What), feature.From.Of
	if feature.From.Table >= 0 {
		parts = manifest.Tables[feature.From.Table].Of
	}
	if feature.From.What == dataset.DeriveLevels {
		what = "further categories"
	}

	of := make([]string, len(parts))
	for i := range parts {
		of[i] = describePart(&parts[i])
	}
	return fmt.Sprintf("the %s of %s", what, strings.Join(of, " with "))
}

// describePart describes a part.
func describePart(part *dataset.Part) string {
	column := fmt.Sprintf("column %q", part.Column)
	if part.Take != "" {
		column = fmt.Sprintf("the %s of %s", part.Take, column)
	}
	if len(part.Bounds) > 0 {
		column = "ranges of " + column
	}
	return column
}
