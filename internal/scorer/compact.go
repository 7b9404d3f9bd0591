package scorer

import (
	"slices"
	"sort"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
)

// Compact returns an encoding and levels with which a model predicts the same, to the bit, without the levels that it
// cannot tell from unseen ones: those of tables that no split uses, and those whose statistics are between the same
// thresholds as an unseen level's. levels may be nil if there are none.
func Compact(m *gbt.Model, e *dataset.Encoding, levels *dataset.Levels) (*dataset.Encoding, *dataset.Levels) {
	if levels == nil || levels.Len() == 0 {
		return e, nil
	}

	thresholds := thresholdsOf(m)
	needed, exact := neededTables(e, thresholds)

	small := *e
	small.Tables = slices.Clone(e.Tables)
	kept := &dataset.Levels{}
	for i := range small.Tables {
		t := &small.Tables[i]
		from := t.First
		t.First = kept.Len()
		if needed[i] {
			for at := from; at < from+e.Tables[i].Levels; at++ {
				if exact[i] || levelMatters(e, i, levels, at, thresholds) {
					kept.Append(levels, at)
				}
			}
		}

		t.Levels = kept.Len() - t.First
	}

	if kept.Len() == 0 {
		kept = nil
	}
	return &small, kept
}

// thresholdsOf returns, by feature, the numbers at which trees split it, ascending.
func thresholdsOf(m *gbt.Model) [][]float64 {
	out := make([][]float64, m.Features())
	for _, t := range m.Trees {
		for i, f := range t.Feature {
			out[f] = append(out[f], t.Threshold[i])
		}
	}
	for f := range out {
		slices.Sort(out[f])
		out[f] = slices.Compact(out[f])
	}
	return out
}

// neededTables marks the tables that some split uses, directly or as the fallback of another table's rates, and those
// that must keep all levels, because the statistics of an unseen level vary by row.
func neededTables(e *dataset.Encoding, thresholds [][]float64) (needed, exact []bool) {
	needed = make([]bool, len(e.Tables))
	exact = make([]bool, len(e.Tables))

	for i := range e.Features {
		d := e.Features[i].From
		if d == nil || d.Table < 0 || len(thresholds[i]) == 0 {
			continue
		}
		needed[d.Table] = true
		exact[d.Table] = exact[d.Table] || d.What == dataset.DeriveRecency
	}

	for i := len(e.Tables) - 1; i >= 0; i-- { // tables fall back to earlier ones
		if up := e.Tables[i].BackOff; needed[i] && up >= 0 {
			needed[up], exact[up], exact[i] = true, true, true
		}
	}
	return needed, exact
}

// levelMatters reports whether some split on a table's features sends a level another way than an unseen one.
func levelMatters(e *dataset.Encoding, table int, levels *dataset.Levels, at int, thresholds [][]float64) bool {
	t := &e.Tables[table]
	for i := range e.Features {
		d := e.Features[i].From
		if d == nil || d.Table != table {
			continue
		}

		have := float64(levels.Rows[at])
		unseen := 0.0
		if d.What == dataset.DeriveRate {
			have = t.Rate(levels.Sum[at], levels.Seen(at), t.Prior)
			unseen = t.Rate(0, 0, t.Prior)
		}

		if sort.SearchFloat64s(thresholds[i], have) != sort.SearchFloat64s(thresholds[i], unseen) {
			return true
		}
	}
	return false
}
