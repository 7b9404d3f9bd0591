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

// atom is a part that keys can be made of.
type atom struct {
	part   dataset.Part
	column int // index in the designer
	place  int // index in a batch
	exact  bool
	hashes []uint64 // by sampled row
}

const (
	// Numbers can be ids, too: a column with many distinct numbers may be a part of a key with each number as a level.
	// All other columns of numbers may be so as ranges.
	rangeCount   = 32
	exactNumbers = 5000
	exactShare   = 0.1 // most distinct values, as a share of the sampled rows
	wideColumns  = 100 // from this many columns, numbers are ids only if the spec says so

	// Limits on the search for keys of several columns: its cost grows with the table, its benefit does not.
	budgetSmall   = 24
	budgetLarge   = 12
	budgetRows    = 2_000_000
	searchClasses = 3    // of several: each takes as long as a label of two
	searchRows    = 1000 // of train: with fewer, a key's worth on held-out rows is mostly chance
)

// mayBeIDs reports whether the numbers of a column may be ids.
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
		return slices.ContainsFunc(k, func(word string) bool {
			return word == column || word == column+"~" || strings.HasPrefix(word, column+".")
		})
	})
}

// findAtoms lists the parts that keys can be made of: categories and exact ids as they are, numbers and times as
// ranges.
func (p *designer) findAtoms() {
	for i := range p.columns {
		c := &p.columns[i]
		part, place := dataset.Part{Column: c.Name, Kind: c.Kind}, c.from.place
		// Of derived columns only hour and weekday become parts; they name the time that they are derived from.
		if d := c.from.from; d != nil {
			if d.What != dataset.DeriveHour && d.What != dataset.DeriveWeekday {
				continue
			}
			part, place = d.Of[0], c.from.source
			part.Take = d.What
		}

		// Numbers that may be ids become two parts: exact, and as ranges.
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
// A missing bin stays a level of its own.
func (p *designer) joinBins(column *sampledColumn) (bounds []float64, hashes []uint64) {
	counts := make([]int, dataset.MaxBins+1)
	for _, b := range column.bins[:p.rows] {
		counts[b]++
	}
	left := p.rows
	if column.MissingBin >= 0 {
		left -= counts[column.MissingBin]
	}

	level, inside := make([]uint64, dataset.MaxBins+1), 0
	for b, bound := range column.Bounds {
		level[b] = encode.Range(len(bounds))
		inside += counts[b]
		if fair := float64(left) / float64(rangeCount-len(bounds)); inside > 0 && float64(inside) >= fair &&
			len(bounds) < rangeCount-1 {
			bounds = append(bounds, bound)
			left -= inside
			inside = 0
		}
	}
	level[len(column.Bounds)] = encode.Range(len(bounds))
	if column.MissingBin >= 0 {
		level[column.MissingBin] = encode.Missing()
	}
	if len(bounds) == 0 {
		return nil, nil
	}
	hashes = make([]uint64, p.rows)
	for i, b := range column.bins[:p.rows] {
		hashes[i] = level[b]
	}
	return bounds, hashes
}

// exactAtom returns the atom of a column in which every value is a level; -1 if there is none.
func (p *designer) exactAtom(column int) int {
	if a, ok := p.exact[column]; ok {
		return a
	}
	return -1
}

// atomOf returns the atom that a word of the spec's key number i stands for.
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

// search prepares a search for keys on the sample's rows, with the order that the spec wants of statistics.
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
		s.Atoms = append(s.Atoms, encode.Atom{Column: a.column, Hash: a.hashes, Alone: a.exact &&
			p.columns[a.column].Kind != dataset.Categorical})
	}
	return s
}

// measureWorth measures each atom by itself, and then each of the given keys; nil if it cannot be measured.
func (p *designer) measureWorth(ctx context.Context, keys [][]int, options Options) ([]*float64, error) {
	var all [][]int
	for a := range p.atoms {
		all = append(all, []int{a})
	}
	all = append(all, keys...)

	out := make([]*float64, len(all))
	if p.sample.classes > 0 { // a rate's gain says nothing
		return out, nil
	}
	for i, gain := range p.search(options).Worth(ctx, all) {
		out[i] = &gain
	}
	return out, ctx.Err()
}

// askedKeys returns the atoms of the keys that the spec lists.
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

// addAskedKeys makes the keys that the spec lists.
func (p *designer) addAskedKeys(keys [][]int, worth []*float64) {
	for i, atoms := range keys {
		info := dataset.EncodingInfo{Gain: worth[i], Why: "asked for"}
		p.describe(p.addKeys(atoms, encode.Key{Rate: true, Count: true}, &info), atoms, &info)
	}
}

// describe fills in what stage reports of a key of several columns.
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

// findKeys looks for columns that are more informative together: of several classes, about each of the most frequent.
func (p *designer) findKeys(ctx context.Context, options Options) error {
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
	classes := encode.RatedClasses(p.sample.labels, p.sample.classes, len(p.exact))
	classes = classes[:min(len(classes), searchClasses, budget)]
	for i := range classes {
		classes[i]++ // as keys count them
	}
	for _, class := range classes {
		s := p.searchBeside(options)
		s.Label, s.Binary = make([]float32, p.rows), true
		for i, y := range p.sample.labels[:p.rows] {
			if int(y)+1 == class {
				s.Label[i] = 1
			}
		}
		if err := p.findKeysOf(ctx, s, classes, budget/len(classes), options.Progress); err != nil {
			return err
		}
	}
	return nil
}

// findKeysOf adds what a search finds, with a rate of each of the classes; of a label without, that is class 0.
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

// searchBeside prepares a search whose model has all features so far besides those that are tried.
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
		if !slices.ContainsFunc(s.Keys, func(k []int) bool { return slices.Equal(k, atoms) }) { // of another class
			s.Keys = append(s.Keys, atoms)
		}
	}
	return s
}

// maxGrade is the highest label that orders a query's rows (gbt.MaxGrade).
const maxGrade = 30

// ordersBetter reports whether a small model puts the rows of queries that it has not seen in a better order with
// statistics of ids than with the columns as they are. What the spec asks for is made in any case.
func (p *designer) ordersBetter(ctx context.Context, options Options) (bool, error) {
	s := p.searchBeside(options)
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
	fresh, err := s.OutOfFold(ctx)
	if err != nil || fresh == nil {
		return false, err
	}
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
	gain, sure, err := options.Orders(s.Label, s.Group, fresh, old)
	for i := range p.out.about {
		if e := &p.out.about[i]; e.Why == whyLevels {
			e.Why = fmt.Sprintf("%s; NDCG@10 %+.2g in queries of train", whyLevels, gain)
		}
	}
	return sure, err
}

// leastQueries is how many queries whose rows differ it takes to judge statistics by their order.
const leastQueries = 100

// differing is the number of groups with different labels.
func differing(label []float32, group []uint64) int {
	first, differ := map[uint64]float32{}, map[uint64]bool{}
	for i, g := range group {
		if y, known := first[g]; known && y != label[i] {
			differ[g] = true
		}
		first[g] = label[i]
	}
	return len(differ)
}

// baseColumn is a column as the search's model has it.
func (p *designer) baseColumn(c *sampledColumn) encode.Column {
	return encode.Column{Bins: c.Bins, Categorical: c.Kind == dataset.Categorical, Data: c.bins[:p.rows]}
}

// findDelay determines by how many seconds the statistics that train rows see should be delayed. Held-out rows come
// after train, so the statistics they see are older than those of train rows without a delay.
//
// There is none to find without a learner to measure by, for several classes, which a search sees one at a time, with
// too few rows to tell, where statistics are not ordered by time, where the spec gives a delay, and where the times are
// plain numbers, whose unit is unknown.
func (p *designer) findDelay(ctx context.Context, options Options) error {
	s := p.survey
	if options.Learner == nil || p.sample.classes > 0 || s.counts[0] < searchRows ||
		s.spec.OrderBy() != dataset.OrderTime || s.spec.DelayAsked() || s.orderKind() != dataset.Temporal {
		return nil
	}
	delay, gain, err := p.searchBeside(options).Staleness(ctx, s.lastTime()-slices.Max(p.sample.times))
	if err != nil {
		return err
	}
	if delay = math.Round(delay); delay > 0 {
		p.out.delay, p.out.delayInfo = delay, &dataset.DelayInfo{Gain: gain}
	}
	return nil
}

// delayAsked is the delay, in seconds, set by the spec.
func (s *survey) delayAsked() float64 { return time.Duration(s.spec.Encodings.Order.Delay).Seconds() }

// lastTime is the latest time in the table, on the clock that orders statistics; NaN if the order is not by time.
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

// atomsOf returns the atoms that a table is made of.
func (p *designer) atomsOf(t *dataset.LevelTable) []int {
	var atoms []int
	for _, part := range t.Of {
		atoms = append(atoms, slices.IndexFunc(p.atoms, func(a atom) bool { return a.part.Same(part) }))
	}
	return atoms
}

// A column is nested in another if this share of its rows agree with the first row of their level on the other column's
// level, and if that many rows were compared. The first row of each level does not count.
const (
	nestedShare = 0.995
	nestedRows  = 500
)

// findParents finds, for each column of ids, the one whose rate is its prior: as the spec says, or because its levels
// are nested in it.
func (p *designer) findParents(ctx context.Context, threads int) error {
	of := p.spec.BackOff
	for _, child := range slices.Sorted(maps.Keys(of)) {
		var pair [2]int
		for i, name := range []string{child, of[child]} {
			column, ok := p.byName[name]
			if pair[i] = -1; ok {
				pair[i] = p.exactAtom(column)
			}
			if pair[i] < 0 {
				return p.survey.spec.Errorf("encodings.back_off."+child,
					"column %q is not a feature of the table that holds ids", name)
			}
		}
		p.parents[pair[0]] = pair[1]
	}
	if of != nil {
		return nil
	}
	return p.findNested(ctx, threads)
}

// maxParents is how many columns another one may be nested in: in a wide table, the first ones. All pairs of columns
// would take longer than everything else.
const maxParents = 256

// findNested finds, for each column of ids, the one that it is nested in; of several, the one with the most levels.
func (p *designer) findNested(ctx context.Context, threads int) error {
	atoms := make([]numbered, len(p.atoms))
	dataset.Parallel(threads, len(atoms), func(a int) {
		if ctx.Err() == nil && p.columns[p.atoms[a].column].Kind == dataset.Categorical {
			atoms[a] = numberLevels(p.atoms[a].hashes)
		}
	})

	// The first that an atom is nested in is the one to fall back to.
	var ranked []int
	for i := range atoms {
		if atoms[i].levels >= 3 && len(ranked) < maxParents {
			ranked = append(ranked, i)
		}
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(atoms[b].levels, atoms[a].levels) })

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

// numbered holds the levels of the sampled rows as numbers.
type numbered struct {
	level  []int32
	levels int
}

// numberLevels numbers levels in the order of their first occurrence.
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

// nestedIn reports whether the levels are nested in those of another column, and how many rows it compared: if they are
// not, a small part of the sample usually suffices.
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
