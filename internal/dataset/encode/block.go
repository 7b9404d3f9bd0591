package encode

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/exact"
)

// block is some rows of one pile in memory. Rows of train are in their order.
type block struct {
	place   place
	buffer  []byte // the memory of records, if they were read from a file
	records []byte
	sorted  []ranked
	order   []uint64 // by row; a row sees those whose order is below its limit
	limit   []uint64
	row     []uint32
	label   []float64
	weight  []float64
	time    []float64 // if rows have times
	parts   [][]uint64
}

// place locates a block's rows.
type place struct{ pile, first, count int }

// ranked is a record and its sort key.
type ranked struct {
	order uint64
	row   uint32
	at    uint32
}

// trainBlocks lists the blocks of train in order. A piece is one block, unless all its rows have the same time and so
// see the same rows: then it is divided into as many blocks as memory requires.
func (m *Maker) trainBlocks() []place {
	var out []place
	most := max(1, m.c.Piece/m.layout.loaded)
	for pile := range m.pieces {
		n := m.rows.records(pile)
		step := n
		if m.c.Order.By == dataset.OrderTime && m.span[pile].least == m.span[pile].greatest { // such as a day
			step = min(n, most)
		}

		for first := 0; first < n; first += step {
			out = append(out, place{pile, first, min(step, n-first)})
		}
	}

	return out
}

// heldOutBlocks lists the blocks of the other splits.
func (m *Maker) heldOutBlocks() []place {
	var out []place
	most := max(1, m.c.Piece/m.layout.loaded)
	for pile := m.pieces; pile < len(m.rows.piles); pile++ {
		n := m.rows.records(pile)
		for first := 0; first < n; first += most {
			out = append(out, place{pile, first, min(most, n-first)})
		}
	}
	return out
}

// loadBlock reads a block and, if it is of train, sorts it by the order with the given number.
func (m *Maker) loadBlock(p place, order int, b *block) error {
	records, err := m.rows.loadRecords(p.pile, p.first, p.count, &b.buffer)
	if err != nil {
		return err
	}

	b.records, b.place = records, p
	train := p.pile < m.pieces
	n := p.count
	b.sorted = dataset.Resize(b.sorted, n)
	for i := range b.sorted {
		record := b.records[i*m.layout.width:]
		r := ranked{row: m.layout.row(record), at: uint32(i)}
		switch {
		case train && m.c.Order.By == dataset.OrderTime:
			r.order = exact.Ordered(m.layout.timeOf(record))
		case train && m.layout.group >= 0:
			r.order = orderOfGroup(binary.LittleEndian.Uint64(record[m.layout.group:]), order)
		case train:
			r.order = Order(r.row, order)
		}
		b.sorted[i] = r
	}

	// Rows of the same time or group are sorted by their number, so that the order is unique.
	if train {
		slices.SortFunc(b.sorted, func(x, y ranked) int {
			return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(x.row, y.row))
		})
	}

	m.unpack(b, train)
	return nil
}

// unpackRows is how many rows are unpacked at a time: their records stay in the cache.
const unpackRows = 1024

// unpack decodes the block's sorted records into a slice for each thing that is known of a row.
func (m *Maker) unpack(b *block, train bool) {
	n := len(b.sorted)
	b.order, b.limit, b.row = dataset.Resize(b.order, n), dataset.Resize(b.limit, n), dataset.Resize(b.row, n)
	b.label, b.weight, b.time = dataset.Resize(b.label, n), dataset.Resize(b.weight, n), dataset.Resize(b.time, n)
	if b.parts == nil {
		b.parts = make([][]uint64, m.c.Parts)
	}
	for p := range b.parts {
		b.parts[p] = dataset.Resize(b.parts[p], n)
	}

	dataset.Parallel(m.c.Threads, (n+unpackRows-1)/unpackRows, func(i int) {
		from, to := i*unpackRows, min((i+1)*unpackRows, n)
		m.unpackTargets(b, from, to, train)
		for p := range m.layout.parts {
			m.layout.parts[p].unpack(b.records, m.layout.width, b.sorted[from:to], b.parts[p][from:to])
		}
	})
}

// unpackTargets decodes rows from..to, without their parts. A row's limit is the order below which it sees rows: those
// before it, less the delay, in train, and all elsewhere.
func (m *Maker) unpackTargets(b *block, from, to int, train bool) {
	delay := m.c.Order.DelaySeconds
	for i := from; i < to; i++ {
		r := &b.sorted[i]
		record := b.records[int(r.at)*m.layout.width:]
		b.order[i], b.row[i] = r.order, r.row
		b.label[i], b.weight[i] = m.layout.label(record), m.layout.weightOf(record)
		if m.layout.time >= 0 {
			b.time[i] = m.layout.timeOf(record)
		}

		switch {
		case !train:
			b.limit[i] = math.MaxUint64
		case delay > 0: // rows at least that much older
			b.limit[i] = exact.Ordered(b.time[i]-delay) + 1
		default:
			b.limit[i] = r.order
		}
	}
}

// turnRows is how many rows are looked up before the results are used.
const turnRows = 512

// findLevels finds the slots of the levels that rows from..to of a block have for key k. With add, it adds missing
// levels if they may have a place.
func (m *Maker) findLevels(b *block, k, from, to int, add bool, slots *[turnRows]int32) {
	var levels [turnRows]uint64
	t := m.tables[k]
	if add {
		t.reserve(to - from)
	}
	n := m.hashLevels(b, k, from, to, &levels)
	t.touch(levels[:n])

	for i, level := range levels[:n] {
		at, free := t.findSlot(level)
		if at == absent && add && (m.sketches == nil || m.sketches[k].atLeast(level, m.floor)) {
			t.add(level, free)
			at = free
		}
		slots[i] = at
	}
}

// hashLevels computes the levels that rows from..to of a block have for key k.
func (m *Maker) hashLevels(b *block, k, from, to int, levels *[turnRows]uint64) int {
	n := to - from
	for i := range levels[:n] {
		levels[i] = Level()
	}
	for _, p := range m.c.Keys[k].Parts {
		for i, part := range b.parts[p][from:to] {
			levels[i] = Join(levels[i], part)
		}
	}
	return n
}
