package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"coppice/internal/sweep"
)

// worthLevel is the coverage of the intervals.
const worthLevel = 0.95

// maxCondition is the condition number above which sets cannot tell the groups apart.
const maxCondition = 1e8

// Worths is what a sweep over sets of columns has found so far.
type Worths struct {
	Sweep    sweep.ID `json:"sweep"`
	Try      string   `json:"try"`
	Metric   string   `json:"metric"`
	Maximize bool     `json:"maximize"`
	Folds    int      `json:"folds"` // that every set has been scored on; 1 is valid

	All      *float64 `json:"all,omitempty"`      // score with all groups, the mean over the folds
	None     *float64 `json:"none,omitempty"`     // with none
	Selected []string `json:"selected,omitempty"` // by a forward selection, in order
	Groups   []Worth  `json:"groups"`             // most valuable first
	How      string   `json:"how"`                // what the intervals consider, or why there are none
	Missing  int      `json:"missing,omitempty"`  // sets without a score
}

// Worth is what a group of columns adds to the score. It is positive if the group helps, also where a lower score is
// better. It is nil while a score that it needs is missing; without folds, a difference of two scores has no interval.
type Worth struct {
	Group   string   `json:"group"`
	Columns []string `json:"columns"`

	Worth *float64 `json:"worth,omitempty"`
	Low   *float64 `json:"low,omitempty"` // of the 95 % interval
	High  *float64 `json:"high,omitempty"`

	// of all without it, of it alone, or of the selection with it; nil for subsets
	Score *float64 `json:"score,omitempty"`
	Step  int      `json:"step,omitempty"` // at which a forward selection took it, from 1
}

// columnSet is a set of groups that was trained, and its scores on the folds.
type columnSet struct {
	kept   []bool
	scores []float64
}

func (s *columnSet) mean() float64 { return stat.Mean(s.scores, nil) }

// NewWorths computes what the groups of a plan with Spec.Search.Features are worth: drop_one compares all groups with
// all but each, add_one each alone with none, forward the selection with and without the group at the step that last
// tried it. For subsets, worths are the coefficients of a linear regression of the score on which groups a set has.
// With folds, every difference or coefficient is computed in each fold, and its interval is that of the mean by
// Student's t, with the variance corrected for the rows that the folds' models share (Nadeau and Bengio, 2003). Subsets
// without folds have the regression's intervals.
func NewWorths(p *sweep.Plan, b sweep.Board) *Worths {
	f := p.Spec.Search.Features
	w := &Worths{Sweep: p.Sweep, Try: f.Try, Metric: p.Spec.Metric, Maximize: p.Maximize, Folds: 1}
	if p.Folds != nil {
		w.Folds = len(p.Folds.Rounds)
	}
	e := &evaluation{p: p, f: f}
	w.Missing = e.read(b)

	for _, name := range f.Names() {
		w.Groups = append(w.Groups, Worth{Group: name, Columns: f.Groups[name]})
	}
	none, all := make([]bool, len(w.Groups)), make([]bool, len(w.Groups))
	for i := range all {
		all[i] = true
	}
	for of, set := range map[**float64]*columnSet{&w.All: e.find(all), &w.None: e.find(none)} {
		if set != nil {
			mean := set.mean()
			*of = &mean
		}
	}

	switch f.Try {
	case sweep.TrySubsets:
		w.How = e.regress(w.Groups)
	case sweep.TryForward:
		w.Selected = e.steps(w.Groups)
		w.How = e.how()
	default:
		for i := range w.Groups {
			other := slices.Clone(all)
			if other[i] = false; f.Try == sweep.TryAddOne {
				other = slices.Clone(none)
				other[i] = true
				e.compare(&w.Groups[i], e.find(other), e.find(none), e.find(other))
				continue
			}
			e.compare(&w.Groups[i], e.find(all), e.find(other), e.find(other))
		}
		w.How = e.how()
	}

	slices.SortStableFunc(w.Groups, func(a, b Worth) int {
		if a.Worth == nil || b.Worth == nil {
			return cmp.Compare(boolean(a.Worth == nil), boolean(b.Worth == nil))
		}
		return cmp.Compare(*b.Worth, *a.Worth)
	})
	return w
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// evaluation holds the sets that have all of their scores.
type evaluation struct {
	p     *sweep.Plan
	f     *sweep.Features
	sets  []columnSet
	place map[string]int // in sets, by setKey

	waiting int // the first configuration that has not ended; the number of all if none
}

// setKey is equal exactly for equal sets.
func setKey(kept []bool) string {
	key := make([]byte, len(kept))
	for i, k := range kept {
		key[i] = byte(boolean(k))
	}
	return string(key)
}

// read takes the sets and their scores from the board, and returns how many sets have no complete score. Trials of
// steps that a selection does not reach have no set.
func (e *evaluation) read(b sweep.Board) (missing int) {
	e.place, e.waiting = map[string]int{}, e.p.Configurations()
	without := map[string]bool{}
	add := func(params sweep.Params, scores []float64) {
		kept, ok := e.f.Kept(params)
		if key := setKey(kept); !ok {
			missing++
		} else if _, found := e.place[key]; scores == nil {
			without[key] = true
		} else if !found {
			e.place[key] = len(e.sets)
			e.sets = append(e.sets, columnSet{kept, scores})
		}
	}

	for _, c := range b.Configurations {
		var scores []float64
		for _, s := range c.Scores {
			if s != nil {
				scores = append(scores, *s)
			}
		}
		if len(scores) < c.Of {
			scores = nil
		}
		if c.State == sweep.ConfigurationOpen {
			e.waiting = min(e.waiting, c.Configuration)
		}
		if c.State != sweep.ConfigurationDropped {
			add(c.Params, scores)
		}
	}

	for _, row := range b.Rows {
		if b.Configurations != nil {
			break // they have the scores of all folds
		}
		r := row.Result
		switch {
		case r == nil:
			e.waiting = min(e.waiting, row.Trial.Number)
			add(row.Trial.Params, nil)
		case r.Status == sweep.StatusDone && r.Params != nil:
			add(r.Params, []float64{r.Score})
		case r.Status == sweep.StatusDone:
			add(row.Trial.Params, []float64{r.Score})
		case r.Status != sweep.StatusStopped:
			add(row.Trial.Params, nil)
		}
	}

	for key := range without { // an extension trains sets again that the sweep before did not finish
		if _, found := e.place[key]; !found {
			missing++
		}
	}
	return missing
}

// find returns the set with exactly these groups, or nil.
func (e *evaluation) find(kept []bool) *columnSet {
	if i, found := e.place[setKey(kept)]; found {
		return &e.sets[i]
	}
	return nil
}

func (e *evaluation) sign() float64 {
	if e.p.Maximize {
		return 1
	}
	return -1
}

// compare sets a group's worth to the difference of two sets. shown is the set whose score is reported.
func (e *evaluation) compare(w *Worth, with, without, shown *columnSet) {
	if shown != nil {
		score := shown.mean()
		w.Score = &score
	}
	if with == nil || without == nil {
		return
	}
	gaps := make([]float64, len(with.scores))
	for i := range gaps {
		gaps[i] = e.sign() * (with.scores[i] - without.scores[i])
	}
	e.estimate(w, gaps)
}

// estimate sets a group's worth from its values in the folds.
func (e *evaluation) estimate(w *Worth, values []float64) {
	mean := stat.Mean(values, nil)
	w.Worth = &mean
	if len(values) > 1 {
		n := float64(len(values))
		w.within(math.Sqrt(stat.Variance(values, nil)*(1/n+sharedRows(e.p, len(values)))), n-1)
	}
}

// within sets the interval of a worth from its standard error.
func (w *Worth) within(se, freedom float64) {
	half := se * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1-(1-worthLevel)/2)
	low, high := *w.Worth-half, *w.Worth+half
	w.Low, w.High = &low, &high
}

// steps repeats a forward selection and sets each group's worth at the step that last tried it. Nothing is selected at
// a step before all of its trials have ended. The last group makes all of them, a set that is not trained again.
func (e *evaluation) steps(groups []Worth) (selected []string) {
	kept := make([]bool, len(groups))
	for step := range groups {
		before := e.find(kept)
		var best *columnSet
		at := -1
		for _, i := range notKept(kept) {
			with := slices.Clone(kept)
			with[i] = true
			set := e.find(with)
			if set == nil {
				continue
			}
			e.compare(&groups[i], set, before, set)
			if best == nil || e.sign()*set.mean() > e.sign()*best.mean() {
				best, at = set, i
			}
		}
		if best == nil || e.waiting < min(e.f.StepBegins(step+1), e.p.Configurations()) || before != nil &&
			e.sign()*best.mean() <= e.sign()*before.mean() {
			return selected
		}
		kept[at] = true
		selected = append(selected, groups[at].Group)
		groups[at].Step = len(selected)
	}
	return selected
}

// regress sets worths to the coefficients of a linear regression, and says what their intervals consider.
func (e *evaluation) regress(groups []Worth) string {
	n, k := len(e.sets), len(groups)+1
	if n < k {
		return fmt.Sprintf("%d sets have scores; %d groups need at least %d", n, k-1, k)
	}
	x := mat.NewDense(n, k, nil)
	for r, s := range e.sets {
		x.Set(r, 0, 1)
		for i, has := range s.kept {
			x.Set(r, i+1, float64(boolean(has)))
		}
	}
	var qr mat.QR
	qr.Factorize(x)
	if qr.Cond() > maxCondition {
		return fmt.Sprintf("the %d sets with scores do not tell all of the %d groups apart; more sets will", n, k-1)
	}

	folds := len(e.sets[0].scores)
	y, worth := mat.NewDense(n, folds, nil), mat.NewDense(k, folds, nil)
	for r, s := range e.sets {
		for c, v := range s.scores {
			y.Set(r, c, e.sign()*v)
		}
	}
	if err := qr.SolveTo(worth, false, y); err != nil {
		return fmt.Sprintf("the %d sets with scores do not tell all of the %d groups apart: %v", n, k-1, err)
	}
	for i := range groups {
		e.estimate(&groups[i], worth.RawRowView(i+1))
	}
	switch {
	case folds > 1:
		return e.how()
	case n == k:
		return "no intervals: there are only as many sets as worths to estimate; more sets give some"
	}

	var fitted, gram, inverse mat.Dense
	fitted.Mul(x, worth)
	squares := 0.0
	for r := range n {
		d := y.At(r, 0) - fitted.At(r, 0)
		squares += d * d
	}
	gram.Mul(x.T(), x)
	if err := inverse.Inverse(&gram); err != nil {
		return fmt.Sprintf("no intervals: the sets hardly tell the groups apart: %v", err)
	}
	freedom := float64(n - k)
	for i := range groups {
		groups[i].within(math.Sqrt(squares/freedom*inverse.At(i+1, i+1)), freedom)
	}
	return fmt.Sprintf("intervals of 95 %%, from the regression over %d sets; they leave out the chance in valid's "+
		"rows, which validate: {kfold: 5} includes", n)
}

// how says what the intervals of differences consider.
func (e *evaluation) how() string {
	if e.p.Folds == nil {
		return "no intervals: every difference is one of two trials on the same valid rows; validate: {kfold: 5} " +
			"gives intervals"
	}
	return fmt.Sprintf("intervals of 95 %%, from the differences in %d folds, corrected for the rows that their "+
		"models share", len(e.p.Folds.Rounds))
}
