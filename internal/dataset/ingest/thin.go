package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// thin removes from the places of rows with a label (nil stands for all) the negative rows that sampling leaves out.
// The choice depends only on the rows' numbers.
func (l *labeler) thin(b *table.Batch, v *dataset.Values, places []int32) []int32 {
	share := l.spec.Sample.Negatives
	if share == 0 {
		return places
	}

	kept := make([]int32, 0, b.Rows)
	keep := func(i int) {
		if unit(mix(hashRow(b.Row(i))^seedThin)) < share || !l.negative(v, i) {
			kept = append(kept, int32(i))
		}
	}

	if places == nil {
		for i := range b.Rows {
			keep(i)
		}
	}
	for _, i := range places {
		keep(int(i))
	}
	return kept
}

// negative reports whether the label of row i, which must be present, means 0. It is used before the survey knows the
// kind of label; if the column turns out to hold more than 0 and 1, staging fails anyway.
func (l *labeler) negative(v *dataset.Values, i int) bool {
	if l.info.Positive != nil {
		return !sameValue(v, i, *l.info.Positive)
	}
	x, ok := number(v, i)
	if l.info.Above != nil {
		return ok && x <= *l.info.Above
	}
	return ok && x == 0
}
