package encode

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// segmentRows is how many rows are assembled at a time: their bins of some hundred features take some tens of
// megabytes.
const segmentRows = 1 << 17

// rowNumberBytes begin a spooled record: the row's number in its segment. Its bins follow, feature by feature.
const rowNumberBytes = 4

// divideIntoSegments divides the rows of train into segments, one copy after the other, and makes the spool that
// collects their bins by segment. Neither is needed if the rows arrived in time order: processRows then outputs their
// bins at once.
func (m *Maker) divideIntoSegments() {
	if m.sorted {
		return
	}
	rows := m.c.Rows[0] * m.c.Order.Copies
	for first := 0; first < rows; first += segmentRows {
		m.segments = append(m.segments, segment{first, min(segmentRows, rows-first)})
	}
	width := rowNumberBytes
	for i := range m.features {
		width += m.binBytes(i)
	}
	m.bins = newSpool(width, len(m.segments), m.c.Dir, m.c.Memory)
}

// spoolBins adds a record for each row of the block asked, which is of train, to the spool of the row's segment.
func (f *filler) spoolBins() error {
	m, rows := f.m, f.asked.row
	width, offset := m.bins.width, rowNumberBytes
	f.records = dataset.Resize(f.records, len(rows)*width)
	firstOfCopy := f.copy * m.c.Rows[0]

	// The rows' numbers.
	for i, row := range rows {
		binary.LittleEndian.PutUint32(f.records[i*width:], uint32((firstOfCopy+int(row))%segmentRows))
	}

	// Their bins; of an id that becomes counts, the number of its level, whose count is not known yet, and by group how
	// many rows it has in the row's own.
	for j := range m.features {
		to := f.records[offset:]
		if k := m.features[j].Key; m.binBytes(j) > 1 {
			for i, number := range f.numbers[k][:len(rows)] {
				binary.LittleEndian.PutUint32(to[i*width:], number)
				if m.layout.group >= 0 {
					binary.LittleEndian.PutUint32(to[i*width+4:], f.own[k][i])
				}
			}
		} else {
			for i, bin := range f.out[j][:len(rows)] {
				to[i*width] = bin
			}
		}
		offset += m.binBytes(j)
	}

	// Each record to the segment of its row.
	for i, row := range rows {
		if err := m.bins.addRecords((firstOfCopy+int(row))/segmentRows, f.records[i*width:(i+1)*width]); err != nil {
			return err
		}
	}
	return nil
}

// countLevels bins the number of rows of each level, if counts are over all rows. A row of train does not count itself,
// since rows that are predicted are not among those of train.
func (m *Maker) countLevels() {
	m.counts, m.rowsOf = make([][2][]uint8, len(m.features)), make([][]uint32, len(m.c.Keys))
	dataset.Parallel(m.c.Threads, len(m.features), func(i int) {
		f := &m.features[i]
		if f.What != dataset.DeriveCount {
			return
		}
		t := m.tables[f.Key]
		most, all := uint32(0), make([]uint32, 0, t.used)
		for j := range t.slots {
			if t.slots[j].key != 0 {
				most = max(most, t.slots[j].rows)
				all = append(all, t.slots[j].rows)
			}
		}
		slices.Sort(all)
		if len(all) > 0 {
			f.Range = [3]float64{0, float64(all[(len(all)-1)/2]), float64(most)}
		}
		if m.countsSoFar(f.Key) {
			return
		}

		f.Bounds = m.given(f, func() []float64 { return steps(0, float64(most)-1, countFactor) })
		assign := m.c.Assign(f.Bounds)
		if m.assign[i] = assign; m.layout.group >= 0 {
			m.rowsOf[f.Key] = make([]uint32, t.used)
			for j := range t.slots {
				if s := &t.slots[j]; s.key != 0 {
					m.rowsOf[f.Key][s.number] = s.rows
				}
			}
		}
		m.counts[i] = [2][]uint8{make([]uint8, t.used), make([]uint8, t.used)}
		for j := range t.slots {
			s := &t.slots[j]
			if s.key == 0 {
				continue
			}
			value := []float64{float64(max(s.rows, 1)) - 1, float64(s.rows)}
			for train := range 2 {
				assign(value[train:train+1], m.counts[i][train][s.number:s.number+1], 0)
			}
		}
	})
}

// countsSoFar reports whether the count of a key is extrapolated from earlier rows, instead of counting all other rows
// of train. By time it is: a level coming into use is rare at first, and appears so in the rows that are predicted,
// too.
func (m *Maker) countsSoFar(k int) bool {
	return m.c.Keys[k].Count && m.c.Order.By == dataset.OrderTime
}

// projected extrapolates a level's number of rows in all of train from those seen so far.
func (m *Maker) projected(rows uint32, seen int) float64 {
	return math.Round(float64(rows) * float64(m.c.Rows[0]) / float64(max(seen, 1)))
}

// ownRows counts, for each row, those of its group that have its level; the rows of a group follow each other.
func ownRows[N int32 | uint32](groups []uint64, level []N, out []uint32) []uint32 {
	out, seen := dataset.Resize(out, len(level)), map[N]uint32{}
	for from, to := 0, 0; from < len(level); from = to {
		for clear(seen); to < len(level) && groups[to] == groups[from]; to++ {
			seen[level[to]]++
		}
		for i := from; i < to; i++ {
			out[i] = seen[level[i]]
		}
	}
	return out
}

// countFactor is the growth of count bins: up to twelve rows each count has its own, and 2^32 rows take 230 bins.
const countFactor = 1.09

// handOut passes each segment's bins to write, with its split, first row and a column for each feature.
func (m *Maker) handOut(ctx context.Context, write func(split, first int, columns [][]uint8) error) error {
	columns := make([][]uint8, len(m.features))
	var buffer []byte
	for s, seg := range m.segments {
		if err := ctx.Err(); err != nil {
			return err
		}

		records, err := m.bins.loadRecords(s, 0, seg.rows, &buffer)
		if err != nil {
			return err
		}
		if len(records) != seg.rows*m.bins.width {
			return fmt.Errorf("statistics of %d rows where %d belong", len(records)/m.bins.width, seg.rows)
		}

		for i := range columns {
			columns[i] = dataset.Resize(columns[i], seg.rows)
		}
		m.unpackBins(records, columns)
		if err := write(0, seg.first, columns); err != nil {
			return err
		}
	}
	return nil
}

// unpackBins moves the bins of a segment's records, each of which starts with its row, to these rows. A count over all
// rows becomes a bin only here.
func (m *Maker) unpackBins(records []byte, columns [][]uint8) {
	dataset.Parallel(m.c.Threads, len(columns), func(i int) {
		offset := 4
		for j := range i {
			offset += m.binBytes(j)
		}

		column := columns[i]
		bytes, own := m.binBytes(i), uint32(1)

		for at := 0; at < len(records); at += m.bins.width {
			row := binary.LittleEndian.Uint32(records[at:])
			if bytes > 1 {
				if bytes > 4 {
					own = binary.LittleEndian.Uint32(records[at+offset+4:])
				}
				column[row] = m.countBin(i, 0, binary.LittleEndian.Uint32(records[at+offset:]), own)
			} else {
				column[row] = records[at+offset]
			}
		}
	})
}

// countBin is the bin of a level's count, if counts are over all rows. kind is 0 in train and 1 in other splits. A row
// of train counts none of its own, which are itself or, by group, those of its group.
func (m *Maker) countBin(feature, kind int, number, own uint32) uint8 {
	if number == 0 {
		return 0 // for a count of 0
	}
	if own > 1 {
		var bin [1]uint8
		m.assign[feature]([]float64{float64(m.rowsOf[m.features[feature].Key][number-1] - own)}, bin[:], 0)
		return bin[0]
	}
	return m.counts[feature][kind][number-1]
}

// binBytes is the size of a feature in a record of the bins' spool: a bin, or for counts a level's number and perhaps
// the rows of the row's own group.
func (m *Maker) binBytes(feature int) int {
	if f := &m.features[feature]; f.What == dataset.DeriveCount && !m.countsSoFar(f.Key) {
		if m.layout.group >= 0 {
			return 8
		}
		return 4
	}
	return 1
}
