package scorer

import (
	"slices"
	"sort"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
)

// Compact returns an encoding and levels with which a model predicts the same, to the bit, in less memory. It drops the
// levels that the model cannot tell from unseen ones: those of tables that no split uses, and those whose statistics
// are between the same thresholds as the statistics of an unseen level. levels may be nil if there are none, and so may
// the result. The arguments are not changed.
func Compact(m *gbt.Model, e *dataset.Encoding, levels *dataset.Levels) (*dataset.Encoding, *dataset.Levels) {
	if levels == nil || levels.Len() == 0 {
		return e, nil
	}

	thresholds := thresholdsOf(m)
	needed, exact := neededTables(e, thresholds)

	// Copy the levels that matter, table by table; a table's levels are Levels elements from First on.
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

// thresholdsOf returns, by feature, the thresholds of all nodes that split by it, ascending, each once.
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

// neededTables returns two marks for each table. needed says that some split uses its statistics, directly or as the
// fallback for another table's rates. exact says that it must keep all levels: the statistics of an unseen level are
// then not the same for all rows.
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

	// A table falls back to an earlier one (BackOff, -1 if to none), so go from the last to the first. An unseen level
	// then gets the rate of the other table's level, which is not the same for all rows: both keep all levels.
	for i := len(e.Tables) - 1; i >= 0; i-- {
		if up := e.Tables[i].BackOff; needed[i] && up >= 0 {
			needed[up], exact[up], exact[i] = true, true, true
		}
	}
	return needed, exact
}

// levelMatters reports whether a level of a table, with index at in levels, is on another side of some threshold than
// an unseen level, for any of the table's features.
func levelMatters(e *dataset.Encoding, table int, levels *dataset.Levels, at int, thresholds [][]float64) bool {
	t := &e.Tables[table]
	for i := range e.Features {
		d := e.Features[i].From
		if d == nil || d.Table != table {
			continue
		}

		// The feature is the level's number of rows, unless it is a rate. (A table of recencies is exact, and its
		// levels are not asked about.)
		have := float64(levels.Rows[at])
		unseen := 0.0
		if d.What == dataset.DeriveRate {
			have = t.Rate(levels.Sum[at], levels.Seen(at), t.Prior)
			unseen = t.Rate(0, 0, t.Prior)
		}

		// Equally many thresholds below both means that every split sends them the same way.
		if sort.SearchFloat64s(thresholds[i], have) != sort.SearchFloat64s(thresholds[i], unseen) {
			return true
		}
	}
	return false
}
