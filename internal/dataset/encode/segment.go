package encode

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// segmentRows is how many rows of train are written at a time. For a hundred features, their bins take 13 MB.
const segmentRows = 1 << 17

// rowNumberBytes begin a spooled record: the row's number in its segment. Its bins follow, feature by feature.
const rowNumberBytes = 4

// tileRecords is how many records are made or read for all features before the next ones are.
const tileRecords = 256

// divideIntoSegments divides the rows of all copies of train into segments, and makes the spool that collects their
// bins by segment. It does nothing if the rows arrived in the order of their times: then processRows writes bins at
// once.
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

// spoolBins adds a record with the bins of each row of the block asked, which is of train, to the spool, in the pile of
// the row's segment.
func (f *filler) spoolBins() error {
	m, rows := f.m, f.asked.row
	width := m.bins.width
	f.records = dataset.Resize(f.records, len(rows)*width)
	firstOfCopy := f.copy * m.c.Rows[0]

	// A record begins with the row's number in its segment. The features follow. A count of all rows of train is not
	// known yet: in its place come the number of the level and, with groups, how many rows of the row's group have the
	// level (binBytes).
	for from := 0; from < len(rows); from += tileRecords {
		end, offset := min(from+tileRecords, len(rows)), rowNumberBytes
		for i := from; i < end; i++ {
			binary.LittleEndian.PutUint32(f.records[i*width:], uint32((firstOfCopy+int(rows[i]))%segmentRows))
		}
		for j := range m.features {
			to := f.records[offset:]
			bytes, k := m.binBytes(j), m.features[j].Key
			for i := from; i < end; i++ {
				switch {
				case bytes == 1:
					to[i*width] = f.out[j][i]
				case bytes > 4:
					binary.LittleEndian.PutUint32(to[i*width+4:], f.groupRows[k][i])
					fallthrough
				default:
					binary.LittleEndian.PutUint32(to[i*width:], f.numbers[k][i])
				}
			}
			offset += bytes
		}
	}

	// The order of the statistics mixes the segments, so each record goes to the pile of its own.
	for i, row := range rows {
		if err := m.bins.addRecords((firstOfCopy+int(row))/segmentRows, f.records[i*width:(i+1)*width]); err != nil {
			return err
		}
	}
	return nil
}

// countLevels sets the range of each feature that is a count. If counts are of all rows of train, it also chooses their
// bounds and fills m.counts: for each level its bin in train and its bin elsewhere. In train the row itself is not
// counted, as a row that is predicted later is not among those counted either. With groups, it also fills m.rowsOf with
// the levels' numbers of rows, so that countBin can leave out the rows of a group. All rows of train must have been
// added to the tables.
func (m *Maker) countLevels() {
	m.counts, m.rowsOf = make([][2][]uint8, len(m.features)), make([][]uint32, len(m.c.Keys))
	dataset.Parallel(m.c.Threads, len(m.features), func(i int) {
		f := &m.features[i]
		if f.What != dataset.DeriveCount {
			return
		}

		// The range is of the levels' numbers of rows: 0, as for an unseen level, the median and the maximum.
		t := m.tables[f.Key]
		all := make([]uint32, 0, t.used)
		for j := range t.slots {
			if t.slots[j].key != 0 {
				all = append(all, t.slots[j].rows)
			}
		}
		slices.Sort(all)
		most := 0.0
		if len(all) > 0 {
			most = float64(all[len(all)-1])
			f.Range = [3]float64{0, float64(all[(len(all)-1)/2]), most}
		}
		if m.countsSoFar(f.Key) {
			return
		}

		// With a bound at the largest count, nothing would be in the bin above it.
		f.Bounds = m.boundsOf(f, func() []float64 { return growingBounds(0, most-1, countFactor) })
		assign := m.c.Assign(f.Bounds)
		m.assign[i] = assign
		if m.layout.group >= 0 {
			m.rowsOf[f.Key] = make([]uint32, t.used)
		}
		m.counts[i] = [2][]uint8{make([]uint8, t.used), make([]uint8, t.used)}
		for j := range t.slots {
			s := &t.slots[j]
			if s.key == 0 {
				continue
			}
			if rows := m.rowsOf[f.Key]; rows != nil {
				rows[s.number] = s.rows
			}
			value := []float64{float64(max(s.rows, 1)) - 1, float64(s.rows)} // in train, and elsewhere
			for kind := range value {
				// The bin for NaN is of no use, since no count is NaN.
				assign(value[kind:kind+1], m.counts[i][kind][s.number:s.number+1], 0)
			}
		}
	})
}

// countsSoFar reports whether key k has a count that is extrapolated, in train, from earlier rows. Otherwise a count is
// of all other rows of train. It is extrapolated if train is ordered by time: a level that has just come into use is
// rare at first, both in train and among the rows that are predicted.
func (m *Maker) countsSoFar(k int) bool {
	return m.c.Keys[k].Count && m.c.Order.By == dataset.OrderTime
}

// projected extrapolates a level's number of rows in all of train. rows is how many of the first seen rows of train are
// of the level.
func (m *Maker) projected(rows uint32, seen int) float64 {
	return math.Round(float64(rows) * float64(m.c.Rows[0]) / float64(max(seen, 1)))
}

// countInGroup counts for each row the rows of its group that have its level, itself included. groups and level are by
// row, and the rows of a group must follow each other. The result uses the memory of out if there is enough.
func countInGroup[N int32 | uint32](groups []uint64, level []N, out []uint32) []uint32 {
	out, seen := dataset.Resize(out, len(level)), map[N]uint32{}
	for from, to := 0, 0; from < len(level); from = to {
		clear(seen)
		for to < len(level) && groups[to] == groups[from] {
			seen[level[to]]++
			to++
		}
		for i := from; i < to; i++ {
			out[i] = seen[level[i]]
		}
	}
	return out
}

// countFactor is the growth of the bounds of counts. Up to twelve rows each count has its own bin, and counts up to
// 2^32 rows take 230 bins, so that all fit in a byte.
const countFactor = 1.09

// writeSegments passes the spooled bins of train to write, a segment at a time.
func (m *Maker) writeSegments(ctx context.Context, write writeFunc) error {
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

// unpackBins reads the records of a segment, which are in any order, into columns: [features][rows of the segment]. A
// count over all rows of train becomes a bin only here. It goes through tileRecords at a time, which stay in the cache
// for all features.
func (m *Maker) unpackBins(records []byte, columns [][]uint8) {
	size := tileRecords * m.bins.width
	dataset.Parallel(m.c.Threads, (len(records)+size-1)/size, func(tile int) {
		part := records[tile*size : min((tile+1)*size, len(records))]
		offset := rowNumberBytes
		for i, column := range columns {
			bytes, groupRows := m.binBytes(i), uint32(1)
			for at := 0; at < len(part); at += m.bins.width {
				row := binary.LittleEndian.Uint32(part[at:])
				if bytes > 1 {
					if bytes > 4 {
						groupRows = binary.LittleEndian.Uint32(part[at+offset+4:])
					}
					column[row] = m.countBin(i, 0, binary.LittleEndian.Uint32(part[at+offset:]), groupRows)
				} else {
					column[row] = part[at+offset]
				}
			}
			offset += bytes
		}
	})
}

// countBin returns the bin of a row's count, for a feature that counts all rows of train. kind is 0 for a row of train
// and 1 for one of another split. number is 1 + the number of the row's level, or 0 if the level is unseen. groupRows
// is, for a row of train, how many rows of its group have the level; these are not counted. It is 1 without groups.
func (m *Maker) countBin(feature, kind int, number, groupRows uint32) uint8 {
	if number == 0 {
		return 0 // the bin of a count of 0
	}
	if groupRows > 1 {
		var bin [1]uint8
		m.assign[feature]([]float64{float64(m.rowsOf[m.features[feature].Key][number-1] - groupRows)}, bin[:], 0)
		return bin[0]
	}
	return m.counts[feature][kind][number-1] // in train, already without the row itself
}

// binBytes returns the size of a feature in a spooled record. It is 1 for a bin. A count of all rows of train takes 4
// bytes for the number of the level and, with groups, 4 more for how many rows of the row's group have the level.
func (m *Maker) binBytes(feature int) int {
	if f := &m.features[feature]; f.What == dataset.DeriveCount && !m.countsSoFar(f.Key) {
		if m.layout.group >= 0 {
			return 8
		}
		return 4
	}
	return 1
}
