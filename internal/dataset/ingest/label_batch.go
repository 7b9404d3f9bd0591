package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// allPresent reports whether it is evident that every row has a numeric label.
func (l *labeler) allPresent(v *dataset.Values) bool {
	if v.Null != nil || len(l.markers.Numbers) > 0 || v.Type == dataset.Text || v.Type == dataset.Time {
		return false
	}
	for _, x := range v.Float {
		if x != x {
			return false
		}
	}
	return true
}

// presentIn returns the places of a batch's rows that have a label; nil stands for all.
func (l *labeler) presentIn(b *table.Batch, v *dataset.Values) []int32 {
	if l.allPresent(v) {
		return nil
	}
	places := make([]int32, 0, b.Rows)
	for i := range b.Rows {
		if !Missing(v, i, l.markers) {
			places = append(places, int32(i))
		}
	}
	return places
}

// decodeAll writes the labels of a batch's rows, none of which may be missing.
func (l *labeler) decodeAll(b *table.Batch, v *dataset.Values, out []float32) error {
	plain := l.info.Positive == nil && l.info.Above == nil && l.info.Kind != dataset.Classes && v.Type == dataset.Float
	for i := range out {
		if plain {
			if x := v.Float[i]; x == 0 || x == 1 { // the same for both kinds of labels
				out[i] = float32(x)
				continue
			}
		}

		var err error
		if out[i], err = l.decode(b, v, i); err != nil {
			return err
		}
	}
	return nil
}
