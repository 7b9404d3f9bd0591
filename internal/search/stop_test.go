package search_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/search"
)

// rising is a curve that approaches its final value with every step.
func rising(trial, steps int, final float64, status string) search.Curve {
	c := search.Curve{Trial: trial, Status: status}
	for step := 1; step <= steps; step++ {
		c.Points = append(c.Points, search.CurvePoint{Step: step, Value: final - 1/float64(step)})
	}
	return c
}

func judge(t *testing.T, s search.Stopping, trial int) search.Verdict {
	t.Helper()
	v, err := search.Judge(s, trial)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRungs(t *testing.T) {
	for _, tc := range []struct {
		low, high, eta int
		want           []int
	}{{10, 1000, 3, []int{12, 37, 111, 333}}, {1, 8, 2, []int{1, 2, 4}}, {50, 100, 3, nil}, {0, 3, 3, []int{1}}} {
		if got := search.Rungs(tc.low, tc.high, tc.eta); !slices.Equal(got, tc.want) {
			t.Errorf("from %d to %d by %d: %v, expected %v", tc.low, tc.high, tc.eta, got, tc.want)
		}
	}
}

// TestStopping gives each rule nine trials at a rung, in any order, and judges each.
func TestStopping(t *testing.T) {
	s := search.Stopping{Rungs: []int{3, 9}, Eta: 3, Maximize: true, Trials: 9}
	for i := range 9 {
		s.Curves = append(s.Curves, rising(i, 3, float64(i)/10, search.TrialRunning))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(9, func(i, j int) { s.Curves[i], s.Curves[j] = s.Curves[j], s.Curves[i] })

	for rule, goOn := range map[string]int{search.StopASHA: 3, search.StopHalving: 3} {
		s.Rule, s.Noise = rule, 0
		count := 0
		for i := range 9 {
			v := judge(t, s, i)
			if v.Reason == "" || v.Rung != 3 {
				t.Errorf("%s, trial %d: %+v", rule, i, v)
			}
			if v.Action == search.GoOn {
				count++
			}
			if (v.Action == search.GoOn) != (i >= 6) {
				t.Errorf("%s, trial %d of nine rising by their numbers: %+v", rule, i, v)
			}
		}
		if count != goOn {
			t.Errorf("%s: %d go on, expected %d", rule, count, goOn)
		}
	}

	// A loss is better lower, and a difference below the noise stops no trial.
	s.Rule, s.Maximize = search.StopASHA, false
	if v := judge(t, s, 8); v.Action != search.Stop {
		t.Errorf("the highest loss: %+v", v)
	}
	s.Noise = 0.35
	if v := judge(t, s, 5); v.Action != search.GoOn || !strings.Contains(v.Reason, "not more than the noise of 0.35") {
		t.Errorf("behind by 0.3: %+v", v)
	}
	if v := judge(t, s, 6); v.Action != search.Stop ||
		!strings.Contains(v.Reason, "behind by 0.4, more than the noise of 0.35") {
		t.Errorf("behind by 0.4: %+v", v)
	}
}

// TestStoppingSaysNothingEarly lets trials continue while there is too little to compare.
func TestStoppingSaysNothingEarly(t *testing.T) {
	s := search.Stopping{Rule: search.StopASHA, Rungs: []int{3, 9}, Eta: 3, Trials: 9, Curves: []search.Curve{
		rising(0, 2, 5, search.TrialRunning), rising(1, 3, 7, search.TrialRunning),
		rising(2, 3, 8, search.TrialRunning), {Trial: 3, Status: search.TrialRunning},
		rising(4, 3, 1, search.TrialFailed),
	}}
	for trial, why := range map[int]string{0: "not come to a rung", 1: "2 have come to rung 3, fewer than 3",
		3: "nothing yet", 77: "nothing yet"} {
		if v := judge(t, s, trial); v.Action != search.GoOn || !strings.Contains(v.Reason, why) {
			t.Errorf("trial %d: %+v, expected it to go on: %s", trial, v, why)
		}
	}

	s.Rule = search.StopHalving
	if v := judge(t, s, 1); v.Action != search.Wait || !strings.Contains(v.Reason, "6 of 9 trials have not come") {
		t.Errorf("with six trials to come: %+v", v)
	}
}

// TestStoppingNotANumber ranks NaN last.
func TestStoppingNotANumber(t *testing.T) {
	s := search.Stopping{Rule: search.StopASHA, Rungs: []int{1}, Eta: 2, Maximize: true}
	for i, v := range []float64{math.NaN(), 0.5, math.Inf(1), 0.4} {
		s.Curves = append(s.Curves, search.Curve{Trial: i, Status: search.TrialStopped,
			Points: []search.CurvePoint{{Step: 1, Value: v}}})
	}
	for trial, want := range []string{search.Stop, search.GoOn, search.Stop, search.GoOn} {
		if v := judge(t, s, trial); v.Action != want {
			t.Errorf("trial %d: %+v, expected %s", trial, v, want)
		}
	}
}

// TestHyperband gives every bracket its share of the trials: the earlier a bracket stops, the more trials it has.
func TestHyperband(t *testing.T) {
	s := search.Stopping{Rule: search.StopHyperband, Rungs: []int{1, 3, 9}, Eta: 3, Maximize: true}
	const trials = 200
	for i := range trials {
		s.Curves = append(s.Curves, rising(i, 27, rand.New(rand.NewPCG(3, uint64(i))).Float64(), search.TrialRunning))
	}

	// The rung at which a trial of a bracket is first compared shows in its verdicts after one step, three and nine.
	first := map[int]int{}
	for i := range trials {
		for _, rung := range []int{1, 3, 9, 27} {
			cut := s
			cut.Curves = slices.Clone(s.Curves)
			cut.Curves[i].Points = s.Curves[i].Points[:rung]
			if v := judge(t, cut, i); v.Rung > 0 || rung == 27 {
				first[rung]++
				break
			}
		}
	}
	if !(first[1] > first[3] && first[3] > first[9] && first[9] >= first[27] && first[27] > 0) {
		t.Errorf("trials by the rung that they are first compared at: %v", first)
	}
}

func TestStoppingRefuses(t *testing.T) {
	good := search.Stopping{Rule: search.StopASHA, Rungs: []int{1, 3}, Eta: 3}
	for want, change := range map[string]func(*search.Stopping){
		`search: stop: "ash" is unknown; use one of [asha halving hyperband]`: func(s *search.Stopping) { s.Rule = "ash" },
		`search: stop: rungs [3 1]: use ascending steps from 1`:               func(s *search.Stopping) { s.Rungs = []int{3, 1} },
		`search: stop: eta is 1: use 2 or more`:                               func(s *search.Stopping) { s.Eta = 1 },
		`search: stop: the noise is -1: use a standard error of 0 or more`:    func(s *search.Stopping) { s.Noise = -1 },
	} {
		s := good
		change(&s)
		if _, err := search.Judge(s, 0); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
