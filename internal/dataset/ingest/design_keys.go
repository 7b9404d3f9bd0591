package ingest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// atom is what keys can be made of: a column, or the ranges of a column's numbers, with the levels of the sampled rows.
// A column of numbers may have two atoms.
type atom struct {
	part   dataset.Part
	column int      // index in designer.columns
	place  int      // index of the column in a batch
	exact  bool     // every value is a level of its own, rather than a range
	hashes []uint64 // by sampled row, the hash of its level
}

const (
	// Numbers can be ids, too: a column with many distinct numbers may be a part of a key with each number as a level.
	// All other columns of numbers may be so as ranges.
	rangeCount   = 32   // most ranges; a column with no more distinct numbers needs no exact levels besides
	exactNumbers = 5000 // most distinct numbers in the sample
	exactShare   = 0.1  // most distinct numbers, as a share of the sampled rows: ids repeat, measurements do not
	wideColumns  = 100  // in a table of more columns, numbers are ids only if the spec says so

	// Limits on the search for keys of several columns. Its cost grows with the table, its benefit does not: so at most
	// budgetSmall keys are found, and at most budgetLarge if train has more than budgetRows rows.
	budgetSmall   = 24
	budgetLarge   = 12
	budgetRows    = 2_000_000
	searchClasses = 3    // most classes that are searched one by one: each takes as long as a label of two classes
	searchRows    = 1000 // least rows of train: with fewer, a key's gain on held-out rows is mostly chance
)

// mayBeIDs reports whether the numbers of a column may be ids, so that each number is a level. They may if they are
// distinct enough to need it and repeat often enough to be worth it, or if the spec names the column.
func (s *survey) mayBeIDs(feature *built) bool {
	if s.specNames(feature.Name) {
		return true
	}
	return len(s.columns) <= wideColumns && feature.different > rangeCount && feature.different <= exactNumbers &&
		float64(feature.different) <= exactShare*float64(feature.present)
}

// specNames reports whether the spec asks for encodings of a column, or for keys with it.
func (s *survey) specNames(column string) bool {
	e := &s.spec.Encodings
	if _, ok := e.Columns[column]; ok {
		return true
	}
	return slices.ContainsFunc(e.Keys, func(k dataset.KeySpec) bool {
		// A word is a column, its ranges (age~), or a part of a time (at.hour).
		return slices.ContainsFunc(k, func(word string) bool {
			return word == column || word == column+"~" || strings.HasPrefix(word, column+".")
		})
	})
}

// findAtoms fills p.atoms and p.exact. Categories and numbers that may be ids become atoms with every value as a level;
// numbers and times also become atoms of ranges.
func (p *designer) findAtoms() {
	for i := range p.columns {
		c := &p.columns[i]
		part, place := dataset.Part{Column: c.Name, Kind: c.Kind}, c.from.place

		// Of derived columns only hour and weekday become atoms. Their part names the time that they are derived from.
		if d := c.from.from; d != nil {
			if d.What != dataset.DeriveHour && d.What != dataset.DeriveWeekday {
				continue
			}
			part, place = d.Of[0], c.from.source
			part.Take = d.What
		}

		// A column with hashes gets an atom of its exact values. All but categories get one of ranges, too.
		if c.hashes != nil {
			p.exact[i] = len(p.atoms)
			p.atoms = append(p.atoms, atom{part: part, column: i, place: place, exact: true, hashes: c.hashes[:p.rows]})
		}
		if c.Kind == dataset.Categorical {
			continue
		}
		if bounds, hashes := p.joinBins(c); bounds != nil {
			part.Bounds = bounds
			p.atoms = append(p.atoms, atom{part: part, column: i, place: place, hashes: hashes})
		}
	}
}

// joinBins joins the bins of a numeric column into at most rangeCount ranges with about equal numbers of sampled rows.
// It returns the upper bound of each range but the last, and the hash of each sampled row's range. A missing value
// stays a level of its own. Both results are nil if there is only one range.
func (p *designer) joinBins(column *sampledColumn) (bounds []float64, hashes []uint64) {
	// Count the sampled rows of each bin; left is those that are not yet in a range, without missing values.
	counts := make([]int, dataset.MaxBins+1)
	for _, b := range column.bins[:p.rows] {
		counts[b]++
	}
	left := p.rows
	if column.MissingBin >= 0 {
		left -= counts[column.MissingBin]
	}

	// Go through the bins in ascending order. A range is full once it has its fair part of the rows that are left.
	level, inside := make([]uint64, dataset.MaxBins+1), 0
	for b, bound := range column.Bounds {
		level[b] = encode.Range(len(bounds))
		inside += counts[b]
		fair := float64(left) / float64(rangeCount-len(bounds))
		full := inside > 0 && float64(inside) >= fair
		if full && len(bounds) < rangeCount-1 {
			bounds = append(bounds, bound)
			left -= inside
			inside = 0
		}
	}

	// The last bin has no upper bound; it ends the last range.
	level[len(column.Bounds)] = encode.Range(len(bounds))
	if column.MissingBin >= 0 {
		level[column.MissingBin] = encode.Missing()
	}
	if len(bounds) == 0 {
		return nil, nil
	}

	// Give each sampled row the level of its bin.
	hashes = make([]uint64, p.rows)
	for i, b := range column.bins[:p.rows] {
		hashes[i] = level[b]
	}
	return bounds, hashes
}

// exactAtom returns the atom of p.columns[column] in which every value is a level, -1 if there is none.
func (p *designer) exactAtom(column int) int {
	if a, ok := p.exact[column]; ok {
		return a
	}
	return -1
}

// atomOf returns the atom that a word of the spec's key number i stands for. An error says that no atom has this name,
// or that two have.
func (p *designer) atomOf(i int, word string) (int, error) {
	path := fmt.Sprintf("encodings.keys[%d]", i)
	found := -1
	var known []string
	for a := range p.atoms {
		part := &p.atoms[a].part
		switch {
		case part.String() != word:
			known = append(known, part.String())
		case found >= 0:
			return -1, p.survey.spec.Errorf(path, "%q is both %s and %s; rename the column %q in the table", word,
				describePart(&p.atoms[found].part), describePart(part), word)
		default:
			found = a
		}
	}

	if found < 0 {
		return -1, p.survey.spec.Errorf(path, "%q is not a column that can be part of a key%s", word,
			table.Suggest(word, known))
	}
	return found, nil
}

// search returns a search for keys on the sampled rows, with the atoms and the order of the statistics. Its model has
// no features yet: see searchBeside.
func (p *designer) search(options Options) *encode.Search {
	s := &encode.Search{Label: p.sample.labels[:p.rows], Binary: p.sample.binary, Threads: options.Threads,
		Learner: options.Learner}
	if p.survey.spec.OrderBy() == dataset.OrderTime {
		s.Time, s.Delay = p.sample.times[:p.rows], p.survey.delayAsked()
	}
	if p.sample.groups != nil {
		s.Group = p.sample.groups[:p.rows]
	}
	s.Queries = p.survey.spec.OrderBy() == dataset.OrderGroup
	for _, a := range p.atoms {
		// Numbers whose values are levels may also be a key by themselves. Categories have that without a search.
		alone := a.exact && p.columns[a.column].Kind != dataset.Categorical
		s.Atoms = append(s.Atoms, encode.Atom{Column: a.column, Hash: a.hashes, Alone: alone})
	}
	return s
}

// measureWorth measures how much the statistics of each atom, and then of each of the given keys, reduce a model's loss
// by themselves. Every entry of the result is nil where that cannot be measured: for a label of several classes, with
// too few rows, and in the other cases in which Worth returns nil.
func (p *designer) measureWorth(ctx context.Context, keys [][]int, options Options) ([]*float64, error) {
	var all [][]int
	for a := range p.atoms {
		all = append(all, []int{a})
	}
	all = append(all, keys...)

	out := make([]*float64, len(all))
	if p.sample.classes > 0 {
		return out, nil
	}
	for i, gain := range p.search(options).Worth(ctx, all) {
		out[i] = &gain
	}
	return out, ctx.Err()
}

// askedKeys returns the keys that the spec lists, each as the indices of its atoms.
func (p *designer) askedKeys() ([][]int, error) {
	var keys [][]int
	for i, words := range p.spec.Keys {
		var atoms []int
		for _, word := range words {
			at, err := p.atomOf(i, word)
			if err != nil {
				return nil, err
			}
			atoms = append(atoms, at)
		}
		keys = append(keys, atoms)
	}
	return keys, nil
}

// addAskedKeys adds the keys that the spec lists to the design. worth holds the measured gain of each.
func (p *designer) addAskedKeys(keys [][]int, worth []*float64) {
	for i, atoms := range keys {
		info := dataset.EncodingInfo{Gain: worth[i], Why: "asked for"}
		p.describe(p.addKeys(atoms, encode.Key{Rate: true, Count: true}, &info), atoms, &info)
	}
}

// describe completes the report about a key of several columns, info, and records it. The number of levels is that of
// the sampled rows.
func (p *designer) describe(table int, atoms []int, info *dataset.EncodingInfo) {
	info.Name = p.out.tables[table].Name()
	seen := map[uint64]struct{}{}
	for i := range p.rows {
		level := encode.Level()
		for _, a := range atoms {
			level = encode.Join(level, p.atoms[a].hashes[i])
		}
		seen[level] = struct{}{}
	}
	info.Levels = len(seen)
	p.tell(table, *info)
}

// findKeys searches for columns that are more informative together, and adds those to the design. It does nothing
// without a learner, with few rows, and for queries. If the label has several classes, it searches for each of the most
// frequent ones against all others, and shares the budget among them.
func (p *designer) findKeys(ctx context.Context, options Options) error {
	// The most keys to find: the spec's number, or one that fits the table.
	budget := budgetSmall
	if p.survey.counts[0] > budgetRows {
		budget = budgetLarge
	}
	if p.spec.Budget != nil {
		budget = *p.spec.Budget
	}
	if options.Learner == nil || budget == 0 || p.survey.counts[0] < searchRows ||
		p.survey.spec.OrderBy() == dataset.OrderGroup {
		return nil
	}
	if p.sample.classes == 0 {
		return p.findKeysOf(ctx, p.searchBeside(options), []int{0}, budget, options.Progress)
	}

	// With several classes, each search has a binary label: this class or another one.
	classes := encode.RatedClasses(p.sample.labels, p.sample.classes, len(p.exact))
	classes = classes[:min(len(classes), searchClasses, budget)]
	for i := range classes {
		classes[i]++ // keys count classes from 1
	}
	for _, class := range classes {
		s := p.searchBeside(options)
		s.Label, s.Binary = p.isClass(class), true
		if err := p.findKeysOf(ctx, s, classes, budget/len(classes), options.Progress); err != nil {
			return err
		}
	}
	return nil
}

// isClass returns a binary label of the first p.rows sampled rows: whether their class is this one, numbered from 1.
func (p *designer) isClass(class int) []float32 {
	label := make([]float32, p.rows)
	for i, y := range p.sample.labels[:p.rows] {
		if int(y)+1 == class {
			label[i] = 1
		}
	}
	return label
}

// findKeysOf runs a search and adds each key that it finds, with a rate for each of the classes (numbered from 1; class
// 0 is a label without classes). The first of them also gets the count. progress, which may be nil, is told the number
// of keys found.
func (p *designer) findKeysOf(ctx context.Context, search *encode.Search, classes []int, budget int,
	progress func(Progress)) error {
	search.Budget = budget
	if progress != nil {
		search.Progress = func(found int) { progress(Progress{PhaseSearch, int64(found), int64(budget)}) }
	}
	found, err := search.Run(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		info := dataset.EncodingInfo{Gain: &f.Gain, Why: "found"}
		first := p.addKey(f.Atoms, encode.Key{Rate: true, Count: true, Class: classes[0]}, &info)
		for _, class := range classes[1:] {
			p.addKey(f.Atoms, encode.Key{Rate: true, Class: class}, &info)
		}
		p.describe(first, f.Atoms, &info)
	}
	return nil
}

// searchBeside returns a search whose model already has all features of the design so far. So a key is worth only what
// it adds to them.
func (p *designer) searchBeside(options Options) *encode.Search {
	s := p.search(options)
	features := map[int]bool{}
	for _, number := range p.out.features {
		features[number] = true
	}
	for i := range p.columns {
		if c := &p.columns[i]; features[c.number] {
			s.Base = append(s.Base, p.baseColumn(c))
		}
	}
	for i := range p.out.tables {
		atoms := p.atomsOf(&p.out.tables[i])
		// Tables for other classes have the same atoms, and the search needs each key once.
		if !slices.ContainsFunc(s.Keys, func(k []int) bool { return slices.Equal(k, atoms) }) {
			s.Keys = append(s.Keys, atoms)
		}
	}
	return s
}

// maxGrade is the highest label that a ranking model accepts, as gbt.MaxGrade, which this package does not import.
const maxGrade = 30

// ordersBetter reports whether statistics of ids should be kept in a table of queries. It compares two small models on
// queries that neither has seen: one with the statistics, one with the columns as they are. It answers true without
// comparing if the spec asks for encodings, or if no ranking model can be trained, and false if there are no keys or
// too few rows or queries to compare. It adds the measured difference to the report.
func (p *designer) ordersBetter(ctx context.Context, options Options) (bool, error) {
	s := p.searchBeside(options)

	// A ranking model can be trained if all labels are grades: whole numbers from 0.
	grades := !slices.ContainsFunc(s.Label, func(y float32) bool {
		return y < 0 || y > maxGrade || y != float32(int(y))
	})
	switch {
	case len(p.out.keys) == 0:
		return false, nil
	case len(p.spec.Columns)+len(p.spec.Keys) > 0 || options.Learner == nil || options.Orders == nil ||
		p.sample.classes > 0 || !grades:
		return true, nil
	case p.survey.counts[0] < searchRows || differing(s.Label, s.Group) < leastQueries:
		return false, nil
	}

	// The scores of a model with the statistics.
	fresh, err := s.OutOfFold(ctx)
	if err != nil || fresh == nil {
		return false, err
	}

	// The scores of a model with the columns as they are.
	s.Base, s.Keys = nil, nil
	for i := range p.columns {
		if c := &p.columns[i]; !c.from.auto {
			s.Base = append(s.Base, p.baseColumn(c))
		}
	}
	old, err := s.OutOfFold(ctx)
	if err != nil {
		return false, err
	}

	// Which of them orders the rows of queries better.
	gain, sure, err := options.Orders(s.Label, s.Group, fresh, old)
	for i := range p.out.about {
		if e := &p.out.about[i]; e.Why == whyLevels {
			e.Why = fmt.Sprintf("%s; NDCG@10 %+.2g in queries of train", whyLevels, gain)
		}
	}
	return sure, err
}

// leastQueries is the least number of queries with different labels that a comparison of two orders needs.
const leastQueries = 100

// differing returns the number of groups whose rows do not all have the same label. label and group are by row.
func differing(label []float32, group []uint64) int {
	last, differ := map[uint64]float32{}, map[uint64]bool{} // by group: the label of its last row so far
	for i, g := range group {
		if y, known := last[g]; known && y != label[i] {
			differ[g] = true
		}
		last[g] = label[i]
	}
	return len(differ)
}

// baseColumn returns the first p.rows sampled rows of a column, in the form that the search's model takes.
func (p *designer) baseColumn(c *sampledColumn) encode.Column {
	return encode.Column{Bins: c.Bins, Categorical: c.Kind == dataset.Categorical, Data: c.bins[:p.rows]}
}

// findDelay determines by how many seconds the statistics that train rows see should be delayed, and stores that in the
// design. Without a delay, a train row sees the labels of rows just before it, while held-out rows come after train and
// only see older ones.
//
// It does nothing without a learner to measure by, for several classes, which a search sees one at a time, with too few
// rows to tell, where statistics are not ordered by time, where the spec gives a delay, and where the times are plain
// numbers, whose unit is unknown.
func (p *designer) findDelay(ctx context.Context, options Options) error {
	s := p.survey
	if options.Learner == nil || p.sample.classes > 0 || s.counts[0] < searchRows ||
		s.spec.OrderBy() != dataset.OrderTime || s.spec.DelayAsked() || s.orderKind() != dataset.Temporal {
		return nil
	}
	// Where the last time is not known (NaN), no delay is found.
	delay, gain, err := p.searchBeside(options).Staleness(ctx, s.lastTime()-slices.Max(p.sample.times))
	if err != nil {
		return err
	}
	delay = math.Round(delay)
	if delay > 0 {
		p.out.delay, p.out.delayInfo = delay, &dataset.DelayInfo{Gain: gain}
	}
	return nil
}

// delayAsked is the delay in seconds that the spec sets, 0 if it sets none.
func (s *survey) delayAsked() float64 { return time.Duration(s.spec.Encodings.Order.Delay).Seconds() }

// lastTime returns the latest time in the table, in seconds since 1970. In a table of so many times that they share
// buckets (see axis), it is the least time of the last bucket. It is NaN if the column that orders statistics holds
// numbers. It is also NaN if that column splits the rows by time and has the type of times, as in Parquet: the splitter
// counts such times as numbers.
func (s *survey) lastTime() float64 {
	a := s.splitter.asTime
	if s.order != nil {
		a = s.order.asTime
	}
	if a == nil {
		return math.NaN()
	}
	return a.least(slices.Max(slices.Collect(maps.Keys(a.counts))))
}

// atomsOf returns the indices of the atoms that a table is made of.
func (p *designer) atomsOf(t *dataset.LevelTable) []int {
	var atoms []int
	for _, part := range t.Of {
		atoms = append(atoms, slices.IndexFunc(p.atoms, func(a atom) bool { return a.part.Same(part) }))
	}
	return atoms
}

// A column is nested in another, as cities are in countries, if each of its levels occurs with one level of the other.
// To test it, each row is compared with the first row of its level. The share of rows that agree must be nestedShare,
// which leaves room for a few errors in the data; with fewer than nestedRows comparisons the share says little.
const (
	nestedShare = 0.995
	nestedRows  = 500
)

// findParents fills p.parents: for a column of ids, the column whose rate is its prior. Those are the pairs under
// encodings.back_off if the spec has it, even if it is empty; otherwise the columns that ids are nested in.
func (p *designer) findParents(ctx context.Context, threads int) error {
	backOff := p.spec.BackOff
	for _, child := range slices.Sorted(maps.Keys(backOff)) {
		var pair [2]int
		for i, name := range []string{child, backOff[child]} {
			pair[i] = -1
			if column, ok := p.byName[name]; ok {
				pair[i] = p.exactAtom(column)
			}
			if pair[i] < 0 {
				return p.survey.spec.Errorf("encodings.back_off."+child,
					"column %q is not a feature of the table that holds ids", name)
			}
		}
		p.parents[pair[0]] = pair[1]
	}
	if backOff != nil {
		return nil
	}
	return p.findNested(ctx, threads)
}

// maxParents is the most columns that are tried as parents. In a wide table, comparing all pairs of columns would take
// longer than everything else.
const maxParents = 256

// findNested sets as the parent of each column of ids the column that it is nested in. If there are several, it takes
// the one with the most levels, which is the most specific. The only error is ctx's.
func (p *designer) findNested(ctx context.Context, threads int) error {
	atoms := make([]numbered, len(p.atoms))
	dataset.Parallel(threads, len(atoms), func(a int) {
		if ctx.Err() == nil && p.columns[p.atoms[a].column].Kind == dataset.Categorical {
			atoms[a] = numberLevels(p.atoms[a].hashes)
		}
	})

	// Candidates are the columns of at least three levels, those with the most levels first. So the first one that a
	// column is nested in is the one to take.
	var ranked []int
	for i := range atoms {
		if atoms[i].levels >= 3 && len(ranked) < maxParents {
			ranked = append(ranked, i)
		}
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(atoms[b].levels, atoms[a].levels) })

	// A parent has at most half as many levels as the column: otherwise its rate is no steadier than the column's own.
	best := make([]int, len(atoms))
	dataset.Parallel(threads, len(atoms), func(a int) {
		best[a] = slices.IndexFunc(ranked, func(b int) bool {
			if 2*atoms[b].levels > atoms[a].levels || ctx.Err() != nil {
				return false
			}
			is, _ := atoms[a].nestedIn(&atoms[b])
			return is
		})
	})

	for a, at := range best {
		if at >= 0 {
			p.parents[a] = ranked[at]
		}
	}
	return ctx.Err()
}

// numbered holds the levels of an atom's sampled rows as small numbers. The zero value has no levels.
type numbered struct {
	level  []int32 // by sampled row, from 0 to levels-1
	levels int
}

// numberLevels numbers the levels, given as hashes by row, in the order of their first occurrence.
func numberLevels(hashes []uint64) numbered {
	n := numbered{level: make([]int32, len(hashes))}
	numbers := map[uint64]int32{}
	for i, h := range hashes {
		number, known := numbers[h]
		if !known {
			number = int32(len(numbers))
			numbers[h] = number
		}
		n.level[i] = number
	}
	n.levels = len(numbers)
	return n
}

// nestedIn reports whether the levels are nested in those of another column, above (see nestedShare), and how many rows
// it read. It stops reading once the levels can no longer be nested; a small part of the sample usually suffices for
// that.
func (n *numbered) nestedIn(above *numbered) (is bool, looked int) {
	first := make([]int32, n.levels) // for each level: 1 + the level above in its first row
	rows, same := 0, 0
	mayDiffer := (1 - nestedShare) * float64(len(n.level))
	for i, l := range n.level {
		up := above.level[i] + 1
		if first[l] == 0 {
			first[l] = up
			continue
		}

		rows++
		if first[l] == up {
			same++
		} else if float64(rows-same) > mayDiffer {
			return false, i + 1
		}
	}
	return rows >= nestedRows && float64(same) >= nestedShare*float64(rows), len(n.level)
}
