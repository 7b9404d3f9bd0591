package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// allPresent reports whether it is evident, without reading each value, that every row has a numeric label. Only NaNs
// have to be looked for. false means that it is not evident.
func (l *labeler) allPresent(values *dataset.Values) bool {
	if values.Null != nil || len(l.markers.Numbers) > 0 || values.Type == dataset.Text || values.Type == dataset.Time {
		return false
	}
	for _, x := range values.Float {
		if x != x {
			return false
		}
	}
	return true
}

// presentIn returns the places of a batch's rows that have a label, ascending; nil stands for all. Unlike observe it
// counts nothing.
func (l *labeler) presentIn(batch *table.Batch, values *dataset.Values) []int32 {
	if l.allPresent(values) {
		return nil
	}
	places := make([]int32, 0, batch.Rows)
	for i := range batch.Rows {
		if !Missing(values, i, l.markers) {
			places = append(places, int32(i))
		}
	}
	return places
}

// decodeAll writes the labels of a batch's rows, as numbers, to out, which has an element for each row. None of them
// may be missing. It is called after resolve.
func (l *labeler) decodeAll(batch *table.Batch, values *dataset.Values, out []float32) error {
	// A float that is 0 or 1 is its own label, be it binary or of a regression. Most are, so they skip decode.
	plain := l.info.Positive == nil && l.info.Above == nil && l.info.Kind != dataset.Classes &&
		values.Type == dataset.Float
	for i := range out {
		if plain {
			if x := values.Float[i]; x == 0 || x == 1 {
				out[i] = float32(x)
				continue
			}
		}

		var err error
		if out[i], err = l.decode(batch, values, i); err != nil {
			return err
		}
	}
	return nil
}
