package sweep

import (
	"cmp"
	"slices"
)

// Board is the state of a sweep according to its results. It depends only on the plan and the set of results, not on
// their order or repetitions.
type Board struct {
	// done trials best first, then the others by number; with folds the refit, then by configuration
	Rows    []Row `json:"rows"`
	Done    int   `json:"done"`
	Failed  int   `json:"failed"` // failed, over time or cancelled
	Waiting int   `json:"waiting"`
	Stopped int   `json:"stopped,omitempty"` // because others were better, or the sweep had enough

	Configurations []Rated `json:"configurations,omitempty"` // of a plan with folds, best first
}

// Row is one trial on the board.
type Row struct {
	Trial  Trial   `json:"trial"`
	Result *Result `json:"result,omitempty"` // nil until the trial has ended
	Front  bool    `json:"front,omitempty"`  // with several objectives: no other trial is better in all
}

// Fold makes the board. Results of another sweep or of trials that the plan does not have are left out. If one trial
// has several results, which create-only objects exclude, the one with the lowest claim counts.
func Fold(p *Plan, results []Result) Board {
	by := make(map[int]*Result, len(results))
	for i := range results {
		r := &results[i]
		if !p.counts(r) {
			continue
		}
		if old := by[r.Trial]; old == nil || r.Claim < old.Claim {
			by[r.Trial] = r
		}
	}

	var b Board
	for _, t := range p.Trials {
		r := by[t.Number]
		switch {
		case r == nil:
			b.Waiting++
		case r.Status == StatusDone:
			b.Done++
		case r.Status == StatusStopped:
			b.Stopped++
		default:
			b.Failed++
		}
		b.Rows = append(b.Rows, Row{Trial: t, Result: r})
	}

	if b.Configurations = rated(p, by); b.Configurations != nil {
		b.byConfiguration()
		return b
	}
	slices.SortStableFunc(b.Rows, func(x, y Row) int { return compareRows(x, y, p.Maximize) })
	if len(p.Spec.Goals) > 0 {
		b.markFront(&p.Spec)
	}
	return b
}

// byConfiguration puts the refit first, then the folds of the best configuration, and so on: scores of different folds
// are not comparable.
func (b *Board) byConfiguration() {
	places := make([]int, len(b.Configurations))
	for i, c := range b.Configurations {
		places[c.Configuration] = i + 1
	}
	of := func(t Trial) int {
		if t.Refit {
			return 0
		}
		return places[t.Configuration]
	}
	slices.SortStableFunc(b.Rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(of(x.Trial), of(y.Trial)), cmp.Compare(x.Trial.Fold, y.Trial.Fold))
	})
}

// compareRows puts the better score first; on a tie the smaller model, then the lower number.
func compareRows(x, y Row, maximize bool) int {
	if x.done() != y.done() {
		if x.done() {
			return -1
		}
		return 1
	}

	if x.done() {
		c := cmp.Compare(x.Result.Score, y.Result.Score)
		if maximize {
			c = -c
		}
		if c = cmp.Or(c, cmp.Compare(x.Result.Trees, y.Result.Trees)); c != 0 {
			return c
		}
	}

	return cmp.Compare(x.Trial.Number, y.Trial.Number)
}

func (r Row) done() bool { return r.Result != nil && r.Result.Status == StatusDone }

// Best returns the trial at the top, or nil if none is done. In a sweep with folds it is the refit, the only one that
// may win.
func (b Board) Best() *Result {
	if b.Done == 0 || !b.Rows[0].done() {
		return nil
	}
	return b.Rows[0].Result
}

// Tally counts trials by outcome.
type Tally struct {
	Done, Failed, Waiting int
	Stopped               int // because others were better
	Untrained             int // because the sweep had enough
	Cancelled             int // by a person, individually
}

// Ended returns how many have ended.
func (t Tally) Ended() int { return t.Done + t.Failed + t.Stopped + t.Untrained + t.Cancelled }

// Tally counts the sweep's own trials: those of a sweep that it extends ended there.
func (b Board) Tally(p *Plan) (t Tally) {
	for _, row := range b.Rows {
		switch r := row.Result; {
		case row.Trial.Number < p.Inherits():
		case r == nil:
			t.Waiting++
		case r.Status == StatusDone:
			t.Done++
		case r.Untrained():
			t.Untrained++
		case r.Status == StatusStopped:
			t.Stopped++
		case r.ByHand:
			t.Cancelled++
		default:
			t.Failed++
		}
	}
	return t
}
