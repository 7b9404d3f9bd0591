package encode

import (
	"context"
	"errors"
	"math"
	"sort"

	"coppice/dataset"
)

// Key is what the levels of one table are made of.
type Key struct {
	Parts    []int   // numbers of the parts of a row, at least one
	BackOff  int     // the key whose rate is the prior; -1: the mean label of train. A key before this one
	Strength float64 // how many rows the prior counts for
	Count    bool    // make a feature of the count, too
	Rate     bool    // make a feature of the rate
	Recency  bool    // and one of the time since the level's last row
	// Bounds are the features' bounds of bins, by what they say, where they are given. May be nil.
	Bounds map[dataset.Derivation][]float64
}

// Config says what a Maker makes.
type Config struct {
	Keys     []Key
	Parts    int   // of a row
	Few      []int // of each part, how many values it has at most; 0 where that is not known. May be nil
	Weighted bool  // rows have weights
	Splits   int   // the first is train

	Rows    []int // of each split, without copies
	Order   dataset.Ordering
	Cuts    []float64 // by time: where train may be divided so that each part fits memory, ascending
	Levels  int       // of all tables together, at most
	MaxBins int       // of a feature, that of missing values among them; 0 is as many as a byte holds
	Dir     string    // for temporary files
	Memory  int64     // bytes of rows that need no temporary file
	Piece   int       // bytes of rows that are sorted and gone through at once; 0 is some megabytes
	Threads int

	// Sample is how many rows of train decide where bins end.
	Sample int
	// Bounds gives the bounds of bins of a feature with such values, which may be reordered, and Assign a function that finds
	// the bins of values, the NaNs among them in bin missing.
	Bounds func(values []float64) []float64
	Assign func(bounds []float64) func(values []float64, bins []uint8, missing uint8)
}

// Feature is a statistic of a key as a binned column.
type Feature struct {
	Key     int
	What    dataset.Derivation
	Bounds  []float64
	Missing bool       // the last bin is of missing values
	Range   [3]float64 // of rates and counts, least, median and greatest value of the sample
}

// Maker makes statistics: first it is told every row (Add), then Run goes through the rows of train in their order, and hands out the
// features' bins in the order of the rows.
type Maker struct {
	c        Config
	layout   recordLayout
	rows     *spool // of train by pieces of its order, then of each other split
	pieces   int
	span     []span      // of each piece by time
	latest   float64     // time of train so far
	sorted   bool        // rows of train have come by time
	levels   []*Distinct // of each key
	sample   sample
	floor    int
	sketches []*sketch // of each key, where not all levels have a place
	tables   []*table
	lasts    [][]float64 // of keys with recency, of each level by number: when it was seen last; NaN before
	features []Feature
	assign   []func(values []float64, bins []uint8, missing uint8)
	segments []segment
	counts   [][2][]uint8 // of each feature that is a count, the bins of its levels by number: in train, and elsewhere
	bins     *spool       // by segments of the rows of train; nil where they come in the order in which they are gone through

	labels, weights float64 // of train
	records         []byte  // of the rows told at once
}

// segment is some rows of train that follow each other.
type segment struct{ first, rows int }

// pieceBytes is the default of Config.Piece.
const pieceBytes = 16 << 20

// NewMaker begins. It must be closed.
func NewMaker(c Config) *Maker {
	if c.Piece == 0 {
		c.Piece = pieceBytes
	}
	m := &Maker{c: c, layout: newRecordLayout(&c), sample: newSample(&c)}
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

// PieceRows is how many rows of train may lie between two of the Cuts.
func PieceRows(c *Config) int {
	layout := newRecordLayout(c)
	return max(1, max(c.Piece, pieceBytes)/layout.loaded)
}

// timed says whether rows have a time.
func (c *Config) timed() bool {
	if c.Order.By == dataset.OrderTime {
		return true
	}
	for _, k := range c.Keys {
		if k.Recency {
			return true
		}
	}
	return false
}

// Close removes the temporary files.
func (m *Maker) Close() error {
	err := m.rows.close()
	if m.bins != nil {
		err = errors.Join(err, m.bins.close())
	}
	return err
}

// Rows are some rows of one split that follow each other. Weight and Time may be nil where the Config says that there are none.
type Rows struct {
	Split  int
	First  int
	Label  []float32
	Weight []float32
	Time   []float64  // seconds since 1970, or whatever the order is by
	Parts  [][]uint64 // of each part, the hashes of all rows
}

// Add tells rows. They are counted here as far as it takes to know how many levels there are.
func (m *Maker) Add(r Rows) error {
	if r.Split == 0 {
		m.observe(&r)
	}
	var err error
	if m.records, err = m.layout.pack(&r, m.records, m.c.Threads); err != nil {
		return err
	}

	// Rows that follow each other mostly go to the same pile.
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
		if err := m.rows.add(pile, m.records[from*width:to*width]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// observe adds up what must be known of train before its statistics can be made.
func (m *Maker) observe(r *Rows) {
	weight := func(i int) float64 {
		if m.c.Weighted {
			return float64(r.Weight[i])
		}
		return 1
	}

	for i, y := range r.Label {
		m.weights += weight(i)
		m.labels += float64(weight(i) * float64(y))
		m.sample.offer(m.c.Keys, r, i, weight(i))
	}

	parallel(m.c.Threads, len(m.c.Keys), func(k int) {
		b := block{parts: r.Parts}
		var levels [turnRows]uint64
		for from := 0; from < len(r.Label); from += turnRows {
			n := m.hashLevels(&b, k, from, min(from+turnRows, len(r.Label)), &levels)
			for i, level := range levels[:n] {
				if m.levels[k].Wants(level) {
					m.levels[k].Add(level, float64(r.Label[from+i]), weight(from+i))
				}
			}
		}
	})
}

// pileOf is the pile that row i belongs to: of train a piece of the order, each other split has one.
func (m *Maker) pileOf(r *Rows, i int) int {
	if r.Split > 0 {
		return m.pieces + r.Split - 1
	}

	if m.c.Order.By == dataset.OrderTime {
		lo, hi := 0, len(m.c.Cuts)
		for lo < hi {
			if mid := (lo + hi) / 2; r.Time[i] <= m.c.Cuts[mid] {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		return lo
	}
	return int(Order(uint32(r.First+i), 0) >> 32 * uint64(m.pieces) >> 32)
}

// Prior is the mean label of train.
func (m *Maker) Prior() float64 { return m.labels / m.weights }

// Floor is the least number of rows with which a level is in its table.
func (m *Maker) Floor() int { return m.floor }

// Run makes the statistics and hands out the features' bins, some rows of a split at a time, in the order of splits and rows: columns
// holds a slice for each feature, which lasts as long as the call. progress, which may be nil, is told of rows.
func (m *Maker) Run(ctx context.Context, progress func(done, total int64), write func(split, first int, columns [][]uint8) error) error {
	if !(m.weights > 0) {
		return errors.New("the weights of all rows of train are 0, so that there is no mean label to make statistics of")
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

	return m.fill(ctx, progress, write)
}

// chooseFloor finds the least floor with which all tables together have no more levels than they may.
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

// Features are the features made, in the order in which Run hands them out. After Run.
func (m *Maker) Features() []Feature { return m.features }

// Tables gives, for each key, the levels of its table and where they begin in all. After Run.
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
	parallel(m.c.Threads, len(m.tables), func(k int) { sorted[k] = m.tables[k].sorted(m.floor) })

	for k, t := range m.tables {
		slots := sorted[k]
		first, count = append(first, levels.Len()), append(count, len(slots))
		for _, slot := range slots {
			s := &t.slots[slot]
			levels.Hash, levels.Sum, levels.Rows = append(levels.Hash, s.key), append(levels.Sum, s.sum), append(levels.Rows, s.rows)
			if levels.Weight != nil {
				levels.Weight = append(levels.Weight, s.n)
			}
			if levels.Last != nil {
				last := 0.0 // of tables without recency
				if m.c.Keys[k].Recency {
					last = m.lastOf(k, s.number+1)
				}
				levels.Last = append(levels.Last, last)
			}
		}
	}

	return levels, first, count
}
