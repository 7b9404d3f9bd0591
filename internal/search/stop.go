package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Rules for stopping trials early.
const (
	// asynchronous successive halving: at each rung, a trial that is not among the best of those that have reached it
	// waits
	StopASHA = "asha"
	// the same, decided once all trials have arrived, so that the decisions do not depend on their order
	StopHalving = "halving"
	// asha in brackets; later brackets compare later, which is safer if short training is misleading
	StopHyperband = "hyperband"
)

// StopRules returns the names of all rules.
func StopRules() []string { return []string{StopASHA, StopHalving, StopHyperband} }

// Stopping asks whether a trial continues. It contains everything that the decision depends on.
type Stopping struct {
	Rule     string
	Rungs    []int   // the steps at which trials are compared, ascending, without the final step: see Rungs
	Eta      int     // for asha and its variants: one in eta continues at a rung; at least 2
	Maximize bool    // of the metric
	Noise    float64 // standard error of the difference of two trials' values; only a larger gap stops a trial
	Trials   int     // of the sweep; halving waits for them
	Pauses   bool    // a trial that is behind waits, since it may be promoted later; so do the first ones at a rung
	Last     bool    // no other trial will come to the rung: at least one goes on
	Curves   []Curve // of all trials that have begun
}

// Curve is a trial's measurements so far, by ascending step.
type Curve struct {
	Trial  int
	Points []CurvePoint
	Status string // one of the Trial constants; failed trials are not compared
}

// CurvePoint is a value of the metric after a number of steps.
type CurvePoint struct {
	Step  int
	Value float64
}

// Actions for a trial.
const (
	GoOn = "go on"
	Stop = "stop"
	Wait = "wait" // for the other trials at the rung
)

// Verdict is a decision about a trial, with its reason.
type Verdict struct {
	Action string
	Rung   int // the step at which it was compared, or 0 if it was not
	Reason string
}

// Rungs returns the steps at which trials of at most highest steps are compared: highest / eta, highest / eta^2 and so
// on, down to lowest.
func Rungs(lowest, highest, eta int) []int {
	var rungs []int
	for step := highest / max(eta, 2); step >= max(lowest, 1); step /= max(eta, 2) {
		rungs = append(rungs, step)
	}
	slices.Reverse(rungs)
	return rungs
}

func (s *Stopping) check() error {
	switch {
	case !slices.Contains(StopRules(), s.Rule):
		return &SpecError{Part: "stop", Err: fmt.Errorf("%.60q is unknown; use one of %v", s.Rule, StopRules())}
	case !slices.IsSorted(s.Rungs) || len(s.Rungs) > 0 && s.Rungs[0] < 1:
		return &SpecError{Part: "stop", Err: fmt.Errorf("rungs %v: use ascending steps from 1", s.Rungs)}
	case s.Eta < 2:
		return &SpecError{Part: "stop", Err: fmt.Errorf("eta is %d: use 2 or more", s.Eta)}
	case !(s.Noise >= 0) || math.IsInf(s.Noise, 1):
		return &SpecError{Part: "stop", Err: fmt.Errorf("the noise is %v: use a standard error of 0 or more", s.Noise)}
	}
	return nil
}

// Judge decides whether a trial continues from the last rung that it has reached. Errors are *SpecError.
func Judge(s Stopping, trial int) (Verdict, error) {
	if err := s.check(); err != nil {
		return Verdict{}, err
	}
	i := slices.IndexFunc(s.Curves, func(c Curve) bool { return c.Trial == trial })
	if i < 0 || len(s.Curves[i].Points) == 0 {
		return Verdict{Action: GoOn, Reason: "it has measured nothing yet"}, nil
	}

	rungs := s.rungsOf(trial)
	reached := s.Curves[i].reached()
	rung := 0
	for _, r := range rungs {
		if r <= reached {
			rung = r
		}
	}
	if rung == 0 {
		return Verdict{Action: GoOn, Reason: "it has not come to a rung"}, nil
	}

	return s.byRank(s.Curves[i], rung), nil
}

// rungsOf returns the rungs of a trial: under hyperband, those of its bracket. Bracket b skips the first b rungs and
// gets fewer trials in proportion to their higher cost.
func (s *Stopping) rungsOf(trial int) []int {
	if s.Rule != StopHyperband {
		return s.Rungs
	}
	return s.Rungs[min(s.bracketOf(trial), len(s.Rungs)):]
}

// bracketOf assigns trials to brackets by number: brackets 0, 1, 2 ... have weights eta^(B-b) / (B-b+1), as sized by Li
// et al. (2018).
func (s *Stopping) bracketOf(trial int) int {
	if s.Rule != StopHyperband {
		return 0
	}
	brackets := len(s.Rungs) + 1
	var edges []float64
	total := 0.0
	for b := range brackets {
		left := brackets - 1 - b
		total += math.Pow(float64(s.Eta), float64(left)) * float64(brackets) / float64(left+1)
		edges = append(edges, total)
	}

	// A low-discrepancy sequence, so that any run of trials is divided between the brackets in proportion.
	const golden = 0.6180339887498949
	_, at := math.Modf(float64(float64(trial)*golden) + golden)
	return slices.IndexFunc(edges, func(edge float64) bool { return at*total < edge })
}

// entry is a trial at a rung; higher scores are better.
type entry struct {
	trial int
	score float64
}

// field returns the trials that have reached a rung, best first; on a tie, the lower number first.
func (s *Stopping) field(rung, bracket int) []entry {
	var out []entry
	for _, c := range s.Curves {
		if c.Status == TrialFailed || s.bracketOf(c.Trial) != bracket || c.reached() < rung {
			continue
		}
		if v, known := c.at(rung); known {
			out = append(out, entry{c.Trial, s.score(v)})
		}
	}
	slices.SortFunc(out, compareEntries)
	return out
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.trial, b.trial))
}

func (s *Stopping) score(v float64) float64 {
	switch {
	case !finite(v):
		return math.Inf(-1)
	case s.Maximize:
		return v
	}
	return -v
}

// reached is the last step of a curve.
func (c *Curve) reached() int {
	if len(c.Points) == 0 {
		return 0
	}
	return c.Points[len(c.Points)-1].Step
}

// at is the last value of a curve up to a step.
func (c *Curve) at(step int) (v float64, known bool) {
	for _, p := range c.Points {
		if p.Step <= step {
			v, known = p.Value, true
		}
	}
	return v, known
}

// byRank is successive halving: of those that have reached the rung, the best one in eta continue, as do those that are
// behind the last of these by no more than noise.
func (s *Stopping) byRank(c Curve, rung int) Verdict {
	field := s.field(rung, s.bracketOf(c.Trial))
	if missing := s.missing(rung); s.Rule == StopHalving && missing > 0 {
		return Verdict{Action: Wait, Rung: rung, Reason: fmt.Sprintf("%d of %d trials have not come to rung %d",
			missing, s.Trials, rung)}
	}

	return s.ranked(field, slices.IndexFunc(field, func(e entry) bool { return e.trial == c.Trial })+1, rung)
}

// ranked is byRank for the trial of a rank, from 1, in the order of those at the rung; 0 if it is not among them.
func (s *Stopping) ranked(field []entry, rank, rung int) Verdict {
	keep := len(field) / s.Eta
	if s.Last {
		keep = max(keep, 1)
	}
	switch {
	case rank == 0: // its first measurement came after the rung
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("it has no value at rung %d", rung)}
	case keep == 0 && s.Pauses:
		return Verdict{Action: Wait, Rung: rung, Reason: fmt.Sprintf("%d have come to rung %d, fewer than %d",
			len(field), rung, s.Eta)}
	case keep == 0:
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("%d have come to rung %d, fewer than %d",
			len(field), rung, s.Eta)}
	case rank <= keep:
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("rank %d of %d at rung %d; %d go on", rank,
			len(field), rung, keep)}
	}
	return s.beyondNoise(field[rank-1].score, field[keep-1].score, rung,
		fmt.Sprintf("rank %d of %d at rung %d; %d go on", rank, len(field), rung, keep))
}

// beyondNoise stops a trial that is behind by more than noise, or lets it wait.
func (s *Stopping) beyondNoise(score, needed float64, rung int, why string) Verdict {
	behind := needed - score
	switch {
	case !(behind > s.Noise):
		return Verdict{Action: GoOn, Rung: rung,
			Reason: fmt.Sprintf("%s, and it is behind by %.3g, not more than the noise of %.3g", why, behind, s.Noise)}
	case s.Noise > 0:
		why = fmt.Sprintf("%s, and it is behind by %.3g, more than the noise of %.3g", why, behind, s.Noise)
	default:
		why = fmt.Sprintf("%s, and it is behind by %.3g", why, behind)
	}
	if s.Pauses && !s.Last {
		return Verdict{Action: Wait, Rung: rung, Reason: why}
	}
	return Verdict{Action: Stop, Rung: rung, Reason: why}
}

// missing is how many trials have yet to reach a rung: running ones, and those that have not begun. Trials that were
// stopped at an earlier rung or have failed will not.
func (s *Stopping) missing(rung int) int {
	missing := s.Trials - len(s.Curves)
	for _, c := range s.Curves {
		if c.Status == TrialRunning && c.reached() < rung {
			missing++
		}
	}
	return max(missing, 0)
}
