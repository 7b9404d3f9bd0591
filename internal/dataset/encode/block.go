package encode

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/exact"
)

// block is some rows of one pile in memory, a slice for each thing that is known of a row. Rows of train are in the
// order of the statistics, others in that of the records.
type block struct {
	place   place
	buffer  []byte // the memory of records, if they were read from a file
	records []byte
	sorted  []ranked // the rows in the order of the block
	order   []uint64 // sort keys, 0 outside train; a row sees the rows of train whose order is below its limit
	limit   []uint64
	row     []uint32 // numbers of rows in their split
	label   []float64
	weight  []float64
	time    []float64  // if rows have times
	parts   [][]uint64 // [parts][rows] of hashes
}

// place says where a block's rows are: count rows from number first on in a pile of Maker.rows.
type place struct{ pile, first, count int }

// ranked is a row of a block before it is decoded.
type ranked struct {
	order   uint64 // its sort key
	row, at uint32 // its number in its split, and its record in the block
}

// listBlocks lists the blocks of the piles from first up to end, exclusive, pile after pile. A piece of train is one
// block, since its rows are sorted together, unless all of them have the same time and so see the same rows. Such a
// piece, which may be larger than others, and the pile of another split are divided into blocks of about m.c.Piece
// bytes.
func (m *Maker) listBlocks(first, end int) []place {
	var out []place
	blockRows := max(1, m.c.Piece/m.layout.loaded)
	for pile := first; pile < end; pile++ {
		n := m.rows.records(pile)
		step := min(n, blockRows)
		if pile < m.pieces && (m.c.Order.By != dataset.OrderTime || m.span[pile].least != m.span[pile].greatest) {
			step = n
		}
		for from := 0; from < n; from += step {
			out = append(out, place{pile, from, min(step, n-from)})
		}
	}
	return out
}

// loadBlock reads the block p into b, whose memory it reuses. A block of train is sorted by the random order with this
// number, or by time.
func (m *Maker) loadBlock(p place, order int, b *block) error {
	records, err := m.rows.loadRecords(p.pile, p.first, p.count, &b.buffer)
	if err != nil {
		return err
	}

	b.records, b.place = records, p
	train := p.pile < m.pieces
	n := p.count

	// Give each record its sort key. Outside train all are 0.
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
		sortRanked(b.sorted)
	}

	m.unpack(b, train)
	return nil
}

// sortRanked sorts rows by their sort keys, and those with the same key by their number. It sorts by the four upper
// bytes of the keys, one byte after the other from the lowest. Few random keys are alike in these, and only such rows
// are compared.
func sortRanked(rows []ranked) {
	from, to := rows, make([]ranked, len(rows))
	for shift := 32; shift < 64; shift += 8 {
		var next [256]int // by the byte, where the next row that has it goes
		for i := range from {
			next[from[i].order>>shift&255]++
		}
		sum := 0
		for b, n := range next {
			next[b], sum = sum, sum+n
		}
		for _, r := range from {
			at := &next[r.order>>shift&255]
			to[*at] = r
			*at++
		}
		from, to = to, from // after four bytes, from is rows again
	}

	for first := 0; first < len(rows); {
		end := first + 1
		for end < len(rows) && rows[end].order>>32 == rows[first].order>>32 {
			end++
		}
		slices.SortFunc(rows[first:end], func(x, y ranked) int {
			return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(x.row, y.row))
		})
		first = end
	}
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

// unpackTargets decodes rows from up to to, exclusive, without their parts. It also sets their limits: a row sees the
// rows whose order is below its limit. In train these are the rows before it and, with a delay, of them only those that
// are at least so much older. A row of another split sees all rows of train.
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
		case delay > 0: // + 1 includes rows that are older by exactly the delay
			b.limit[i] = exact.Ordered(b.time[i]-delay) + 1
		default:
			b.limit[i] = r.order
		}
	}
}

// batchRows is how many rows are looked up before the results are used.
const batchRows = 512

// findLevels sets slots[i] to the slot of the level that row from+i of a block has in the table of key k, for rows from
// up to to, at most batchRows of them. It is absent if the table does not have the level. With add, levels are added to
// the table first, except those that the sketch shows to have fewer rows than the floor.
func (m *Maker) findLevels(b *block, k, from, to int, add bool, slots *[batchRows]int32) {
	var levels [batchRows]uint64
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

// hashLevels sets levels[i] to the hash of the level that row from+i of a block has for key k, for rows from up to to,
// and returns their number.
func (m *Maker) hashLevels(b *block, k, from, to int, levels *[batchRows]uint64) int {
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
