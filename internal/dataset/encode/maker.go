package encode

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"coppice/internal/dataset"
)

// Key says how rows are divided into levels, and which statistics of a level become features. Rows whose parts have the
// same hashes are of the same level.
type Key struct {
	Parts    []int   // indices of LabelledRows.Parts, at least one
	Class    int     // where labels are numbers of classes, 1 + the class whose share is the rate; 0: the mean label
	BackOff  int     // index of an earlier key whose rate is the prior of this one's; -1: the rate of all of train
	Strength float64 // weight of the prior, in rows
	Count    bool    // add a feature with the count
	Rate     bool    // add a feature with the rate
	Recency  bool    // add a feature with the time since the level's last row
	// Bounds gives the bin bounds of some statistics; those of the others are computed. May be nil.
	Bounds map[dataset.Derivation][]float64
}

// Statistics returns the key's statistics in the order in which a dataset has them as features.
func (k *Key) Statistics() []dataset.Derivation {
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

// target returns what a row with this label contributes to the key's rate: the label, or with a Class 1 for that class
// and 0 for the others. The rate is the mean of the targets.
func (k *Key) target(label float64) float64 {
	switch {
	case k.Class == 0:
		return label
	case label == float64(k.Class-1):
		return 1
	}
	return 0
}

// maxRatedClasses is the most classes that get a rate of each key, since each needs a table.
const maxRatedClasses = 8

// RatedClasses chooses the classes whose shares become rates, for labels that are numbers below classes. It returns at
// most maxRatedClasses of them, the most frequent first. The rarest class is always left out, since its share follows
// from the others. columns is the number of id columns, each of which needs a table for each class: these tables may
// take half of those that a dataset can have, but there is one class at least, if there are two.
func RatedClasses(labels []float32, classes, columns int) []int {
	rows, order := make([]int, classes), make([]int, classes)
	for i := range order {
		order[i] = i
	}
	for _, y := range labels {
		rows[int(y)]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows[b], rows[a]) })

	tablesPerColumn := max(1, dataset.MaxTables/2/max(columns, 1))
	return order[:min(classes-1, maxRatedClasses, tablesPerColumn)]
}

// Config says what a Maker makes.
type Config struct {
	Keys     []Key
	Parts    int   // number of parts of a row
	Few      []int // by part, the most different values that it can have; 0 if unknown. May be nil
	Weighted bool  // rows have weights
	Splits   int   // number of splits; the first is train

	Rows    []int // by split, its number of rows, without copies
	Order   dataset.Ordering
	Cuts    []float64 // by time: ascending times at which train is divided into pieces that fit memory (PieceRows)
	Levels  int       // most levels over all tables
	MaxBins int       // most bins of a feature, including that of missing values; 0 means as many as a byte holds
	Dir     string    // for temporary files
	Memory  int64     // rows of up to so many bytes are kept in memory, more in a temporary file
	Piece   int       // bytes of rows that are sorted and processed at a time; 0 means pieceBytes
	Threads int

	// Sample is about how many rows of train determine bin bounds and ranges; 0 if the keys give all bounds.
	Sample int

	// Bounds computes a feature's bin bounds from sampled values, which it may reorder. Assign returns a function that
	// bins values by bounds, and puts NaN in the bin missing.
	Bounds func(values []float64) []float64
	Assign func(bounds []float64) func(values []float64, bins []uint8, missing uint8)
}

// DerivedFeature is a statistic of a key as a binned column.
type DerivedFeature struct {
	Key     int
	What    dataset.Derivation
	Bounds  []float64
	Missing bool       // the last bin is for missing values
	Range   [3]float64 // of rates and counts: minimum, median and maximum, estimated from the sample
}

// Maker makes statistics. First Add is called for all rows, which it keeps in a spool. Then Run processes the rows of
// train in the order of the statistics, and passes the features' bins on in the order of the rows. Then Features and
// Tables return what the dataset says of them. A Maker is not safe for concurrent use.
type Maker struct {
	c      Config
	layout recordLayout

	// Set by Add.
	rows    *spool // a pile for each piece of train, then one for each other split
	pieces  int    // train's pieces: consecutive parts of the order of the statistics
	span    []span // by piece, its range of times, if ordered by time
	latest  float64
	sorted  bool             // the rows of train have arrived in the order of their times; latest is the last one's
	levels  []*DistinctCount // by key, an estimate of the number of its levels
	sample  sample           // rows for the bin bounds
	targets []float64        // by key, the sum of train's weighted targets
	weights float64          // sum over train
	records []byte           // memory for the rows of one Add

	// Set by Run.
	floor    int
	sketches []*sketch   // by key, which levels may have floor rows; nil if all levels have a place
	tables   []*table    // by key
	lasts    [][]float64 // for keys with recency, by level number, the time of the last row added; NaN if none
	features []DerivedFeature
	assign   []func(values []float64, bins []uint8, missing uint8) // by feature
	segments []segment                                             // of train; none if sorted
	bins     *spool                                                // the bins of train by segment; nil if sorted

	// Of counts over all rows of train, for countBin: by feature, the bins of levels in train and elsewhere, by level
	// number; and by key, if there are groups, the levels' numbers of rows.
	counts [][2][]uint8
	rowsOf [][]uint32
}

// writeFunc takes the bins of consecutive rows of a split, from row first on: [features][rows]. They are valid during
// the call.
type writeFunc = func(split, first int, columns [][]uint8) error

// segment is some consecutive rows of train.
type segment struct{ first, rows int }

// pieceBytes is the default of Config.Piece.
const pieceBytes = 16 << 20

// NewMaker returns a Maker, which the caller must Close. Train is divided into pieces that are loaded one by one. By
// time, it is divided at c.Cuts. In one random order, the pieces have about c.Piece bytes. Several random orders would
// each need pieces of their own, so then train is a single piece.
func NewMaker(c Config) *Maker {
	if c.Piece == 0 {
		c.Piece = pieceBytes
	}
	m := &Maker{c: c, layout: newRecordLayout(&c), sample: newSample(&c), targets: make([]float64, len(c.Keys))}
	m.sorted, m.latest = c.Order.By == dataset.OrderTime, math.Inf(-1)

	m.pieces = 1
	if c.Order.By == dataset.OrderTime {
		m.pieces = len(c.Cuts) + 1
	} else if c.Order.Copies == 1 {
		m.pieces = int(int64(c.Rows[0])*int64(m.layout.loaded)/int64(c.Piece)) + 1
	}

	m.rows = newSpool(m.layout.width, m.pieces+c.Splits-1, c.Dir, c.Memory)

	for range c.Keys {
		m.levels = append(m.levels, NewDistinct())
	}
	for range m.pieces {
		m.span = append(m.span, newSpan())
	}
	return m
}

// PieceRows returns how many rows of train there should be at most between two of the Cuts that the caller chooses:
// as many as take c.Piece bytes in a block, or pieceBytes if that is more.
func PieceRows(c *Config) int {
	layout := newRecordLayout(c)
	return max(1, max(c.Piece, pieceBytes)/layout.loaded)
}

// timed reports whether rows have a time.
func (c *Config) timed() bool {
	return c.Order.By == dataset.OrderTime || slices.ContainsFunc(c.Keys, func(k Key) bool { return k.Recency })
}

// Close removes the temporary files.
func (m *Maker) Close() error {
	err := m.rows.close()
	if m.bins != nil {
		err = errors.Join(err, m.bins.close())
	}
	return err
}

// LabelledRows is some consecutive rows of one split.
type LabelledRows struct {
	Split  int
	First  int // number of the first row in its split
	Label  []float32
	Weight []float32  // nil unless Config.Weighted
	Time   []float64  // seconds since 1970, or any number to order by; nil if no order or recency needs it
	Group  []uint64   // a hash that the rows of a group share; nil unless the order is by group
	Parts  [][]uint64 // [parts][rows] of hashes
}

// Add passes rows to the Maker, which copies what it needs of them. The rows of a split must come in ascending order.
// If a part has more values than Config.Few says, the error is a *TooManyValuesError.
func (m *Maker) Add(r LabelledRows) error {
	if r.Split == 0 {
		m.observe(&r)
	}
	var err error
	if m.records, err = m.layout.packRows(&r, m.records, m.c.Threads); err != nil {
		return err
	}

	// Store the rows, those that follow each other in one pile together. The pile of row from is known already.
	n, width := len(r.Label), m.layout.width
	for from := 0; from < n; {
		pile, to := m.pileOf(&r, from), from
		for ; to < n && (to == from || m.pileOf(&r, to) == pile); to++ {
			if pile < m.pieces && r.Time != nil { // a row of train
				m.span[pile].add(r.Time[to])
				m.sorted = m.sorted && r.Time[to] >= m.latest
				m.latest = r.Time[to]
			}
		}
		if err := m.rows.addRecords(pile, m.records[from*width:to*width]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// observe takes from rows of train what must be known before statistics can be made: the sums for the priors, the
// sample for the bin bounds, and the number of levels of each key.
func (m *Maker) observe(r *LabelledRows) {
	weight := func(i int) float64 {
		if m.c.Weighted {
			return float64(r.Weight[i])
		}
		return 1
	}

	for i := range r.Label {
		m.weights += weight(i)
		m.sample.offerRow(m.c.Keys, r, i, weight(i))
	}

	dataset.Parallel(m.c.Threads, len(m.c.Keys), func(k int) {
		key := &m.c.Keys[k]
		for i, y := range r.Label {
			m.targets[k] += float64(weight(i) * key.target(float64(y)))
		}

		// Count the levels, of which only a sample is kept.
		b := block{parts: r.Parts}
		var levels [batchRows]uint64
		for from := 0; from < len(r.Label); from += batchRows {
			n := m.hashLevels(&b, k, from, min(from+batchRows, len(r.Label)), &levels)
			for i, level := range levels[:n] {
				if m.levels[k].Wants(level) {
					m.levels[k].Add(level, key.target(float64(r.Label[from+i])), weight(from+i))
				}
			}
		}
	})
}

// pileOf returns the pile of row i: for train a piece of its order, for another split the split's only pile, after
// those of train.
func (m *Maker) pileOf(r *LabelledRows, i int) int {
	if r.Split > 0 {
		return m.pieces + r.Split - 1
	}

	if m.c.Order.By == dataset.OrderTime {
		return sort.SearchFloat64s(m.c.Cuts, r.Time[i])
	}

	// In a random order, rows are divided by their sort key: its upper 32 bits are scaled to 0...pieces-1. There are
	// several pieces only if there is a single order, which is number 0.
	position := Order(uint32(r.First+i), 0)
	if m.layout.group >= 0 {
		position = orderOfGroup(r.Group[i], 0)
	}
	return int(((position >> 32) * uint64(m.pieces)) >> 32)
}

// Prior returns the rate of all of train, the prior of a key that falls back to no other.
func (m *Maker) Prior(key int) float64 { return m.targets[key] / m.weights }

// Floor returns the least number of rows of train that a level of a table has, after Run.
func (m *Maker) Floor() int { return m.floor }

// Run makes the statistics after all rows have been added. It calls write with the features' bins for some rows at a
// time, in the order of splits and rows, and with the copies of train one after the other. progress, which may be nil,
// is told how many rows are done.
func (m *Maker) Run(ctx context.Context, progress func(done, total int64), write writeFunc) error {
	if !(m.weights > 0) {
		return errors.New("the weights of all rows of train are 0, so there is no mean label to make statistics of")
	}

	// Choose the levels that get a place in the tables.
	m.chooseFloor()
	if err := m.sketchLevels(ctx); err != nil {
		return err
	}

	for k := range m.c.Keys {
		m.tables = append(m.tables, newTable(m.levels[k].Levels(m.floor)))
	}
	if err := m.planFeatures(); err != nil {
		return err
	}

	return m.processRows(ctx, progress, write)
}

// chooseFloor sets m.floor to the least number of rows, at least 1, for which the levels with so many rows fit in
// m.c.Levels, over all tables. Their numbers are estimates.
func (m *Maker) chooseFloor() {
	levelsWith := func(floor int) int {
		n := 0
		for _, d := range m.levels {
			n += d.Levels(floor)
		}
		return n
	}

	// A higher floor has fewer levels, so a binary search finds the least one. No level has more rows than train, so
	// the search ends at one row more.
	most := m.c.Rows[0] + 1
	m.floor = 1 + sort.Search(most, func(below int) bool { return levelsWith(1+below) <= m.c.Levels })
}

// Features returns the features in the order of Run's columns, after Run.
func (m *Maker) Features() []DerivedFeature { return m.features }

// Tables returns the levels of all keys' tables, one table after the other and each by ascending hash, after Run. Key
// k's table is the levels from first[k] on, count[k] in number. Levels with fewer than Floor rows are left out. It
// can be called once, and gives the tables' memory back.
func (m *Maker) Tables() (levels *dataset.Levels, first, count []int) {
	// Reserve memory for all levels, of which some may have fewer than floor rows.
	all := 0
	for _, t := range m.tables {
		all += t.used
	}
	levels = &dataset.Levels{Hash: make([]uint64, 0, all), Sum: make([]float64, 0, all), Rows: make([]uint32, 0, all)}
	if m.c.Weighted {
		levels.Weight = make([]float64, 0, all)
	}
	for k := range m.c.Keys {
		if m.c.Keys[k].Recency {
			levels.Last = make([]float64, 0, all)
		}
	}

	sorted := make([][]int32, len(m.tables))
	dataset.Parallel(m.c.Threads, len(m.tables), func(k int) { sorted[k] = m.tables[k].sorted(m.floor) })

	for k, t := range m.tables {
		slots := sorted[k]
		first, count = append(first, levels.Len()), append(count, len(slots))
		for _, slot := range slots {
			s := &t.slots[slot]
			levels.Hash, levels.Sum, levels.Rows = append(levels.Hash, s.key), append(levels.Sum, s.sum),
				append(levels.Rows, s.rows)
			if levels.Weight != nil {
				levels.Weight = append(levels.Weight, s.n)
			}
			if levels.Last != nil { // some table has recency; levels of the others get 0
				last := 0.0
				if m.c.Keys[k].Recency {
					last = m.lastSeen(k, s.number+1)
				}
				levels.Last = append(levels.Last, last)
			}
		}
	}

	// Nothing is asked of the rows any more, and the final training's Maker takes as much memory again.
	m.tables, m.counts, m.rowsOf, m.rows.piles = nil, nil, nil, nil
	if m.bins != nil {
		m.bins.piles = nil
	}
	return levels, first, count
}
