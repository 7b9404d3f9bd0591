package encode

import (
	"context"
	"math"
)

// sketchLevels finds out which levels may have floor rows, where the tables cannot hold all of them.
func (m *Maker) sketchLevels(ctx context.Context) error {
	if m.floor == 1 {
		return nil
	}
	for k := range m.c.Keys {
		m.sketches = append(m.sketches, newSketch(m.levels[k].Levels(1)))
	}
	var buffer []byte
	for pile := range m.pieces {
		for first := 0; first < m.rows.records(pile); first += sketchRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			records, err := m.rows.load(pile, first, sketchRows, &buffer)
			if err != nil {
				return err
			}
			parallel(m.c.Threads, len(m.c.Keys), func(k int) {
				var levels [sketchRows]uint64
				n := len(records) / m.layout.width
				for i := range levels[:n] {
					levels[i] = m.recordLevel(records[i*m.layout.width:], k)
				}
				m.sketches[k].add(levels[:n])
			})
		}
	}
	return nil
}

// sketchRows is how many rows are looked at before the next key's turn: they stay in the second-level cache.
const sketchRows = 2048

// recordLevel is the level that a record has of a key.
func (m *Maker) recordLevel(record []byte, key int) uint64 {
	level := Level()
	for _, p := range m.c.Keys[key].Parts {
		level = Join(level, m.layout.part(record, p))
	}
	return level
}

// span is the least and the greatest time of a piece.
type span struct{ least, greatest float64 }

func newSpan() span { return span{math.Inf(1), math.Inf(-1)} }

func (s *span) add(t float64) { s.least, s.greatest = min(s.least, t), max(s.greatest, t) }
