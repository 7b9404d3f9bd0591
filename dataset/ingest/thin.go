package ingest

import "coppice/dataset"

// thin takes from the places of rows with a label (nil stands for all) those of negative rows that are left out, because the spec wants
// a share of them only. Which are kept depends on nothing but the rows' numbers.
func (l *labeler) thin(b *Batch, v *dataset.Values, places []int32) []int32 {
	share := l.spec.Sample.Negatives
	if share == 0 {
		return places
	}

	kept := make([]int32, 0, b.Rows)
	keep := func(i int) {
		if unit(mix(hashRow(b.row(i))^seedThin)) < share || !l.negative(v, i) {
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

// negative reports whether the label of row i, which is there, means 0. It is asked before the survey knows what kind of label it is; of a
// column that turns out to hold more than 0 and 1, staging ends with an error anyway.
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
