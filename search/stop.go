package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Rules by which trials are stopped before their end.
const (
	StopASHA      = "asha"      // asynchronous successive halving: at each rung, who is not among the best of those that came so far
	StopHalving   = "halving"   // the same, decided once all trials have come: the same decisions in whatever order they come
	StopHyperband = "hyperband" // asha in brackets, the later of which stop later: safer where short training misleads
	StopMedian    = "median"    // who is worse than half of the others on their way so far
)

// StopRules are the names of all rules.
func StopRules() []string { return []string{StopASHA, StopHalving, StopHyperband, StopMedian} }

// Stopping asks whether a trial goes on. Everything that the decision rests on is in it.
type Stopping struct {
	Rule     string
	Rungs    []int   // the steps at which trials are compared, ascending, without the last step of all: see Rungs
	Eta      int     // one in so many goes on at a rung; 2 or more, asha and its kin
	Maximize bool    // of the metric
	Noise    float64 // standard error of the difference of two trials' values; a stop needs a larger one
	Trials   int     // of the sweep; halving waits for them
	Curves   []Curve // of all trials that have begun
}

// Curve is what a trial has measured so far, by ascending step.
type Curve struct {
	Trial  int
	Points []CurvePoint
	Status string // one of the Trial constants; who failed is compared with nobody, who was stopped may be promoted
}

// CurvePoint is a value of the metric after so many steps.
type CurvePoint struct {
	Step  int
	Value float64
}

// What becomes of a trial.
const (
	GoOn = "go on"
	Stop = "stop"
	Wait = "wait" // for the other trials of the rung
)

// Verdict is a decision about a trial, with its reason.
type Verdict struct {
	Action string
	Rung   int // the step at which it was compared, or 0 when it was not
	Reason string
}

// fewestToStop is how many trials must have come to a rung before one of them is stopped by the median rule.
const fewestToStop = 4

// Rungs are the steps at which trials of at most so many steps are compared: max / eta, max / eta^2 and so on, down to min.
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
	case s.Eta < 2 && s.Rule != StopMedian:
		return &SpecError{Part: "stop", Err: fmt.Errorf("eta is %d: use 2 or more", s.Eta)}
	case !(s.Noise >= 0) || math.IsInf(s.Noise, 1):
		return &SpecError{Part: "stop", Err: fmt.Errorf("the noise is %v: use a standard error of 0 or more", s.Noise)}
	}
	return nil
}

// Judge decides whether a trial goes on from the last rung that it has reached. Errors are *SpecError.
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

	if s.Rule == StopMedian {
		return s.byMedian(s.Curves[i], rung), nil
	}
	return s.byRank(s.Curves[i], rung), nil
}

// rungsOf are the rungs of a trial: under hyperband, those of its bracket. Bracket b leaves out the first b rungs and takes one
// in as many trials fewer as its trials are dearer.
func (s *Stopping) rungsOf(trial int) []int {
	if s.Rule != StopHyperband {
		return s.Rungs
	}
	return s.Rungs[min(s.bracketOf(trial), len(s.Rungs)):]
}

// bracketOf spreads trials over brackets by their numbers: of brackets 0, 1, 2 ... with weights eta^(B-b) / (B-b+1), as Li et al.
// (2018) size them.
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

	// A low-discrepancy sequence, so that any run of trials has its share of every bracket.
	const golden = 0.6180339887498949
	_, at := math.Modf(float64(float64(trial)*golden) + golden)
	return slices.IndexFunc(edges, func(edge float64) bool { return at*total < edge })
}

// entry is a trial at a rung, its score higher where better.
type entry struct {
	trial int
	score float64
}

// field are the trials that have come to a rung, best first; the lower number first where equal.
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
	slices.SortFunc(out, func(a, b entry) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.trial, b.trial)) })
	return out
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

// at is the last value that a curve has up to a step.
func (c *Curve) at(step int) (v float64, known bool) {
	for _, p := range c.Points {
		if p.Step <= step {
			v, known = p.Value, true
		}
	}
	return v, known
}

// byRank is successive halving: the best of every eta that have come to the rung go on, and who is not worse than the last of them
// by more than noise.
func (s *Stopping) byRank(c Curve, rung int) Verdict {
	field := s.field(rung, s.bracketOf(c.Trial))
	if missing := s.missing(rung); s.Rule == StopHalving && missing > 0 {
		return Verdict{Action: Wait, Rung: rung, Reason: fmt.Sprintf("%d of %d trials have not come to rung %d", missing, s.Trials, rung)}
	}

	keep := len(field) / s.Eta
	rank := slices.IndexFunc(field, func(e entry) bool { return e.trial == c.Trial }) + 1
	switch {
	case rank == 0: // its first measurement came after the rung
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("it has no value at rung %d", rung)}
	case keep == 0:
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("%d have come to rung %d, fewer than %d", len(field), rung, s.Eta)}
	case rank <= keep:
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("rank %d of %d at rung %d; %d go on", rank, len(field), rung, keep)}
	}
	return s.beyondNoise(field[rank-1].score, field[keep-1].score, rung,
		fmt.Sprintf("rank %d of %d at rung %d; %d go on", rank, len(field), rung, keep))
}

// beyondNoise stops a trial that is behind by more than noise explains.
func (s *Stopping) beyondNoise(score, needed float64, rung int, why string) Verdict {
	behind := needed - score
	switch {
	case !(behind > s.Noise):
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("%s, and it is behind by %.3g, not more than the noise of %.3g", why, behind, s.Noise)}
	case s.Noise > 0:
		why = fmt.Sprintf("%s, and it is behind by %.3g, more than the noise of %.3g", why, behind, s.Noise)
	default:
		why = fmt.Sprintf("%s, and it is behind by %.3g", why, behind)
	}
	return Verdict{Action: Stop, Rung: rung, Reason: why}
}

// missing is how many trials have yet to come to a rung: those that are on their way, and those that have not begun. Who was stopped
// at an earlier rung, or failed, does not come.
func (s *Stopping) missing(rung int) int {
	missing := s.Trials - len(s.Curves)
	for _, c := range s.Curves {
		if c.Status == TrialRunning && c.reached() < rung {
			missing++
		}
	}
	return max(missing, 0)
}

// byMedian compares a trial's best so far with the median of the others' means up to the same step (Golovin et al. 2017).
func (s *Stopping) byMedian(c Curve, rung int) Verdict {
	var means []float64
	for _, other := range s.Curves {
		if other.Trial == c.Trial || other.Status == TrialFailed || other.reached() < rung {
			continue
		}
		sum, n := 0.0, 0
		for _, p := range other.Points {
			if p.Step <= rung && finite(p.Value) {
				sum, n = sum+s.score(p.Value), n+1
			}
		}
		if n > 0 {
			means = append(means, sum/float64(n))
		}
	}
	if len(means) < fewestToStop {
		return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("%d others have come to rung %d, fewer than %d", len(means), rung, fewestToStop)}
	}

	best := math.Inf(-1)
	for _, p := range c.Points {
		if p.Step <= rung {
			best = max(best, s.score(p.Value))
		}
	}
	if half := median(means); best < half {
		return s.beyondNoise(best, half, rung, fmt.Sprintf("its best up to rung %d is below the median of %d others", rung, len(means)))
	}
	return Verdict{Action: GoOn, Rung: rung, Reason: fmt.Sprintf("its best up to rung %d is not below the median of %d others", rung, len(means))}
}

// Promote finds a trial that was stopped at a rung and is now among those that go on there, because others came and were worse.
// The highest rung comes first, and its best trial. Errors are *SpecError.
func Promote(s Stopping) (trial int, v Verdict, found bool, err error) {
	if err := s.check(); err != nil || s.Rule == StopMedian || s.Rule == StopHalving {
		return 0, Verdict{}, false, err
	}

	for _, rung := range slices.Backward(s.Rungs) {
		for bracket := range len(s.Rungs) {
			field := s.field(rung, bracket)
			for rank, e := range field[:len(field)/s.Eta] {
				if finite(e.score) && s.waits(e.trial, rung) {
					why := fmt.Sprintf("rank %d of %d at rung %d now; %d go on", rank+1, len(field), rung, len(field)/s.Eta)
					return e.trial, Verdict{Action: GoOn, Rung: rung, Reason: why}, true, nil
				}
			}
		}
	}
	return 0, Verdict{}, false, nil
}

// waits says whether a trial was stopped at a rung, and not at a later one.
func (s *Stopping) waits(trial, rung int) bool {
	c := s.Curves[slices.IndexFunc(s.Curves, func(c Curve) bool { return c.Trial == trial })]
	rungs := s.rungsOf(trial)
	i := slices.Index(rungs, rung)
	last := i == len(rungs)-1
	return c.Status == TrialStopped && i >= 0 && (last || c.reached() < rungs[i+1])
}
