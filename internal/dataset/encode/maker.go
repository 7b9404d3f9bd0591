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

// Key defines the levels of one table.
type Key struct {
	Parts    []int   // indices of a row's parts, at least one
	Class    int     // 1 + the class whose share the rate is, where labels are numbers of classes; 0: the mean label
	BackOff  int     // index of an earlier key whose rate is the prior; -1: that of all of train
	Strength float64 // weight of the prior, in rows
	Count    bool    // add a feature with the count
	Rate     bool    // add a feature with the rate
	Recency  bool    // add a feature with the time since the level's last row
	// Bounds gives bin bounds by statistic; missing ones are computed. May be nil.
	Bounds map[dataset.Derivation][]float64
}

// Statistics are the key's features, in the order of a dataset's.
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

// target is what a key's rate is the mean of, for a row with that label.
func (k *Key) target(label float64) float64 {
	switch {
	case k.Class == 0:
		return label
	case label == float64(k.Class-1):
		return 1
	}
	return 0
}

// maxRatedClasses is the most classes that have a rate of each key, since each takes the space of a table.
const maxRatedClasses = 8

// RatedClasses returns which of several classes have rates, the most frequent of the labels first: all but the rarest,
// whose share follows from theirs, up to a limit at which that many columns of ids take half of the tables that a
// dataset may have.
func RatedClasses(labels []float32, classes, columns int) []int {
	rows, order := make([]int, classes), make([]int, classes)
	for i := range order {
		order[i] = i
	}
	for _, y := range labels {
		rows[int(y)]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows[b], rows[a]) })
	return order[:min(classes-1, maxRatedClasses, max(1, dataset.MaxTables/2/max(columns, 1)))]
}

// Config says what a Maker makes.
type Config struct {
	Keys     []Key
	Parts    int   // per row
	Few      []int // by part, the most values it can have; 0 if unknown. May be nil
	Weighted bool  // rows have weights
	Splits   int   // the first is train

	Rows    []int // by split, without copies
	Order   dataset.Ordering
	Cuts    []float64 // by time: ascending times at which train may be divided into pieces that fit memory
	Levels  int       // most levels over all tables
	MaxBins int       // most bins of a feature, including that of missing values; 0 is as many as a byte holds
	Dir     string    // for temporary files
	Memory  int64     // bytes of rows up to which no temporary file is needed
	Piece   int       // bytes of rows that are sorted and processed at a time; 0 is some megabytes
	Threads int

	// Sample is how many rows of train determine bin bounds and ranges; 0 if all bounds are given.
	Sample int
	// Bounds computes a feature's bin bounds from sampled values, which it may reorder, and Assign returns a function
	// that bins values, with NaN in bin missing.
	Bounds func(values []float64) []float64
	Assign func(bounds []float64) func(values []float64, bins []uint8, missing uint8)
}

// DerivedFeature is a statistic of a key as a binned column.
type DerivedFeature struct {
	Key     int
	What    dataset.Derivation
	Bounds  []float64
	Missing bool       // the last bin is for missing values
	Range   [3]float64 // for rates and counts, the sample's minimum, median and maximum
}

// Maker makes statistics: first Add is called for every row, then Run processes the rows of train in their order, and
// outputs the features' bins in the order of the rows.
type Maker struct {
	c        Config
	layout   recordLayout
	rows     *spool // of train by pieces of its order, then of each other split
	pieces   int
	span     []span           // by piece, if ordered by time
	latest   float64          // latest time of train so far
	sorted   bool             // rows of train have arrived in time order
	levels   []*DistinctCount // by key
	sample   sample
	floor    int
	sketches []*sketch // by key, if not all levels have a place
	tables   []*table
	lasts    [][]float64 // for keys with recency, by level number, when it was last seen; NaN before
	features []DerivedFeature
	assign   []func(values []float64, bins []uint8, missing uint8)
	segments []segment
	counts   [][2][]uint8 // for features that are counts, bins by level number: in train, and elsewhere
	rowsOf   [][]uint32   // by group, by key with a count, the rows of each level by its number
	bins     *spool       // by segment of train; nil if rows arrive in processing order

	targets []float64 // by key, the sum of train's weighted targets
	weights float64   // of train
	records []byte    // of the rows passed to one Add
}

// segment is some consecutive rows of train.
type segment struct{ first, rows int }

// pieceBytes is the default of Config.Piece.
const pieceBytes = 16 << 20

// NewMaker returns a Maker, which the caller must Close. It divides train into pieces that are loaded one by one: at
// c.Cuts if train is ordered by time, and into pieces of about c.Piece bytes in one random order. In several random
// orders, train is a single piece.
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

// PieceRows is how many rows of train may be between two of the Cuts.
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

// LabelledRows is some consecutive rows of one split. Weight and Time may be nil if the Config says that there are
// none.
type LabelledRows struct {
	Split  int
	First  int
	Label  []float32
	Weight []float32
	Time   []float64  // seconds since 1970, or any number to order by
	Group  []uint64   // by group, its hash
	Parts  [][]uint64 // by part, the hashes of all rows
}

// Add passes rows to the Maker. It counts as far as needed to estimate the number of levels.
func (m *Maker) Add(r LabelledRows) error {
	if r.Split == 0 {
		m.observe(&r)
	}
	var err error
	if m.records, err = m.layout.packRows(&r, m.records, m.c.Threads); err != nil {
		return err
	}

	// Consecutive rows mostly go to the same pile.
	n, width := len(r.Label), m.layout.width
	for from := 0; from < n; {
		pile, to := m.pileOf(&r, from), from
		for ; to < n && (to == from || m.pileOf(&r, to) == pile); to++ {
			if pile < m.pieces && r.Time != nil {
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

// observe accumulates what must be known of train before its statistics can be made.
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

		b := block{parts: r.Parts}
		var levels [turnRows]uint64
		for from := 0; from < len(r.Label); from += turnRows {
			n := m.hashLevels(&b, k, from, min(from+turnRows, len(r.Label)), &levels)
			for i, level := range levels[:n] {
				if m.levels[k].Wants(level) {
					m.levels[k].Add(level, key.target(float64(r.Label[from+i])), weight(from+i))
				}
			}
		}
	})
}

// pileOf returns the pile of row i: for train a piece of its order, for another split the split's only pile. In a
// random order, the piece is the upper 32 bits of the row's place, scaled to 0...pieces-1. There are several pieces
// only if there is one order, which is number 0.
func (m *Maker) pileOf(r *LabelledRows, i int) int {
	if r.Split > 0 {
		return m.pieces + r.Split - 1
	}

	if m.c.Order.By == dataset.OrderTime {
		return sort.SearchFloat64s(m.c.Cuts, r.Time[i])
	}
	place := Order(uint32(r.First+i), 0)
	if m.layout.group >= 0 {
		place = orderOfGroup(r.Group[i], 0)
	}
	return int(((place >> 32) * uint64(m.pieces)) >> 32)
}

// Prior is the rate of all of train for a key that falls back to no other.
func (m *Maker) Prior(key int) float64 { return m.targets[key] / m.weights }

// Floor is the least number of rows for a level to be in its table.
func (m *Maker) Floor() int { return m.floor }

// Run makes the statistics and outputs the features' bins, some rows of a split at a time, in the order of splits and
// rows: columns holds one slice per feature, valid during the call. progress, which may be nil, counts rows.
func (m *Maker) Run(ctx context.Context, progress func(done, total int64),
	write func(split, first int, columns [][]uint8) error) error {
	if !(m.weights > 0) {
		return errors.New("the weights of all rows of train are 0, so there is no mean label to make statistics of")
	}

	m.chooseFloor()
	if err := m.sketchLevels(ctx); err != nil {
		return err
	}

	for k := range m.c.Keys {
		m.tables = append(m.tables, newTable(m.levels[k].Levels(m.floor)))
	}
	if err := m.layFeatures(); err != nil {
		return err
	}

	return m.processRows(ctx, progress, write)
}

// chooseFloor finds the lowest floor for which all tables together stay within the allowed number of levels.
func (m *Maker) chooseFloor() {
	all := func(floor int) int {
		n := 0
		for _, d := range m.levels {
			n += d.Levels(floor)
		}
		return n
	}

	// No level has more rows than train.
	most := m.c.Rows[0] + 1
	m.floor = 1 + sort.Search(most, func(below int) bool { return all(1+below) <= m.c.Levels })
}

// Features returns the features in the order of Run's columns, after Run.
func (m *Maker) Features() []DerivedFeature { return m.features }

// Tables returns the levels of all tables, with the position of each key's first and their number, after Run.
func (m *Maker) Tables() (levels *dataset.Levels, first, count []int) {
	all := 0
	for _, t := range m.tables {
		all += t.used // at least as many as have floor rows
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
			if levels.Last != nil {
				last := 0.0 // for tables without recency
				if m.c.Keys[k].Recency {
					last = m.lastOf(k, s.number+1)
				}
				levels.Last = append(levels.Last, last)
			}
		}
	}

	return levels, first, count
}
