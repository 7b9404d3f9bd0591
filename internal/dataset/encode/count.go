package encode

import (
	"context"
	"math"

	"coppice/internal/dataset"
)

// sketchLevels sets m.sketches, from which findLevels tells whether a level may have at least m.floor rows of train. It
// does nothing if the floor is 1, because all levels have a place then.
func (m *Maker) sketchLevels(ctx context.Context) error {
	if m.floor == 1 {
		return nil
	}
	for k := range m.c.Keys {
		m.sketches = append(m.sketches, newSketch(m.levels[k].Levels(1)))
	}

	var b block
	b.parts = make([][]uint64, m.c.Parts)

	for pile := range m.pieces {
		for first := 0; first < m.rows.records(pile); first += sketchRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			records, err := m.rows.loadRecords(pile, first, sketchRows, &b.buffer)
			if err != nil {
				return err
			}
			m.sketchRecords(records, &b)
		}
	}
	return nil
}

// sketchRows is how many rows are processed at a time: so few that their parts mostly stay in the second-level cache.
const sketchRows = 1 << 14

// sketchRecords counts the levels of some records of train in m.sketches. It uses the parts of b as memory.
func (m *Maker) sketchRecords(records []byte, b *block) {
	n := len(records) / m.layout.width
	dataset.Parallel(m.c.Threads, m.c.Parts, func(p int) {
		b.parts[p] = dataset.Resize(b.parts[p], n)
		m.layout.parts[p].unpack(records, m.layout.width, nil, b.parts[p])
	})
	dataset.Parallel(m.c.Threads, len(m.c.Keys), func(k int) {
		var levels [batchRows]uint64
		for from := 0; from < n; from += batchRows {
			count := m.hashLevels(b, k, from, min(from+batchRows, n), &levels)
			m.sketches[k].add(levels[:count])
		}
	})
}

// span is the range of times of a piece of train.
type span struct{ least, greatest float64 }

// newSpan returns the span of no time, to which add adds times.
func newSpan() span { return span{math.Inf(1), math.Inf(-1)} }

func (s *span) add(t float64) { s.least, s.greatest = min(s.least, t), max(s.greatest, t) }
