package sweep_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

func TestGateIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ gate, want string }{
		"margin and gain":   {"gate: {min_gain: 0.1, margin: 0.1}", "not both"},
		"negative margin":   {"gate: {margin: -1}", "margin is -1: use a number above 0"},
		"promote":           {"gate: {promote: hand}", `promote is "hand": use auto, by-hand, never`},
		"regret":            {"gate: {on_regret: undo}", `on_regret is "undo": use rollback, tell`},
		"confidence":        {"gate: {confidence: 95}", "confidence is 95: use 0.6 to 0.9999"},
		"share":             {"gate: {max_share: 1.5}", "max_share is 1.5: use a share"},
		"no share":          {"gate: {max_share: 0}", "max_share is 0: use a share"},
		"nights":            {"gate: {reference: 99}", "reference is 99: use the number of earlier nights, 0 (none) to 30"},
		"old nights":        {"gate: {reference: {nights: 3}}", problem.Gone("reference.nights:")},
		"one bound":         {"gate: {calibration: {ratio: [0.5]}}", "give [low, high]"},
		"bounds about face": {"gate: {calibration: {ratio: [1.5, 2]}}", "give [low, high] with 0 < low < 1 < high"},
		"ece":               {"gate: {calibration: {ece: 3}}", problem.Gone("calibration.ece:")},
		"key":               {"gate: {confidense: 0.9}", `did you mean "confidence"?`}, //nolint:misspell // on purpose
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, "gate: {metric: log_loss, against: champion, min_gain: 0.0}", tc.gate, tc.want)
		})
	}
}

// A plan holds the settings as written; Gated adds the defaults, also for a spec without a gate.
func TestGated(t *testing.T) {
	g := (&sweep.Spec{Metric: "auc"}).Gated()
	if g.Metric != "auc" || g.Against != sweep.AgainstChampion || g.Confidence != 0.995 || g.MaxShare != 0.9 ||
		*g.Reference != 7 || !slices.Equal(g.Calibration.Ratio, []float64{0.8, 1.25}) {
		t.Errorf("defaults: %+v %d %+v", g, *g.Reference, *g.Calibration)
	}

	spec := sweep.Spec{Metric: "auc", Gate: &sweep.Gate{Metric: "log_loss", Against: "none", Confidence: 0.8,
		Reference: new(int), Calibration: &sweep.GateCalibration{Ratio: []float64{0.5, 2}}}}
	g = spec.Gated()
	if g.Metric != "log_loss" || g.Against != "none" || g.Confidence != 0.8 || *g.Reference != 0 ||
		!slices.Equal(g.Calibration.Ratio, []float64{0.5, 2}) {
		t.Errorf("written: %+v %d %+v", g, *g.Reference, *g.Calibration)
	}
	if spec.Gate = (&sweep.Gate{}); spec.Gated().Reference == nil || spec.Gate.Reference != nil ||
		spec.Gate.Calibration != nil {
		t.Errorf("the spec itself was filled in: %+v", spec.Gate)
	}
}

func TestVerdicts(t *testing.T) {
	gate := func(d sweep.GateDecision) *sweep.Conclusion {
		return &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Reason: "won", Gate: &d}
	}
	for _, tc := range []struct {
		c    *sweep.Conclusion
		want sweep.Verdict
		why  string
	}{
		{&sweep.Conclusion{Outcome: sweep.OutcomeCancelled, Reason: "stopped"}, sweep.VerdictCancelled, "stopped"},
		{&sweep.Conclusion{Outcome: sweep.OutcomeNoWinner, Reason: "none"}, sweep.VerdictNoWinner, "none"},
		{&sweep.Conclusion{Outcome: sweep.OutcomeWinner, Reason: "won"}, sweep.VerdictNotPromoted, "won"},
		{gate(sweep.GateDecision{Promoted: true, Reason: "better"}), sweep.VerdictPromoted, "better"},
		{gate(sweep.GateDecision{Verdict: sweep.VerdictBlocked, Reason: "blocked: x"}), sweep.VerdictBlocked,
			"blocked: x"},
	} {
		if got := tc.c.Verdict(); got != tc.want || tc.c.Why() != tc.why {
			t.Errorf("%+v: %s because %q, want %s because %q", tc.c, got, tc.c.Why(), tc.want, tc.why)
		}
	}
}

// TestCaution: a total that is off beyond chance and within the limit is said first; one that may be chance is not, nor
// what was not promoted.
func TestCaution(t *testing.T) {
	for _, tc := range []struct {
		promoted         bool
		value, low, high float64
		want             string
	}{
		{true, 1.24, 1.09, 1.42, "it predicts 24 % more than observed (9 to 42 %); better"},
		{true, 0.8, 0.7, 0.9, "it predicts 20 % less than observed (10 to 30 %); better"},
		{true, 0.9968, 0.9936, 0.9996, "it predicts 0.32 % less than observed (0.04 to 0.64 %); better"},
		{true, 1.04, 0.99, 1.1, "better"},
		{false, 1.24, 1.09, 1.42, "better"},
	} {
		c := &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Gate: &sweep.GateDecision{Promoted: tc.promoted,
			Reason: "better", Checks: []sweep.GateCheck{{Name: "tonight", Passed: true, Value: 3, Low: 2, High: 4},
				{Name: "calibration", Passed: true, Value: tc.value, Low: tc.low, High: tc.high},
				{Name: "calibration", Passed: true, Value: 2, Low: 1.9, High: 2.1}}}}
		if got := c.Why(); got != tc.want {
			t.Errorf("promoted %t with a ratio of %v (%v to %v): %q, want %q", tc.promoted, tc.value, tc.low, tc.high,
				got, tc.want)
		}
		facts := strings.Join(c.Facts("", time.Time{}), " ")
		if want := strings.ToUpper(tc.want[:1]) + tc.want[1:] + "."; facts != want {
			t.Errorf("the facts are %q, want %q", facts, want)
		}
	}
}

// TestBrieflyWorse: what is not live since it is worse beyond chance is told by the same share; what is not live for
// another reason by the gate's own.
func TestBrieflyWorse(t *testing.T) {
	for _, tc := range []struct {
		tonight sweep.GateCheck
		verdict sweep.Verdict
		want    string
	}{
		{sweep.GateCheck{Value: -0.0031, Low: -0.005, High: -0.0012, Old: 0.114}, "",
			"worse than version 9: log_loss 2.7 % worse (-4.4 to -1.1 %)"},
		{sweep.GateCheck{Value: -0.0031, Low: -0.005, High: -0.0012, Old: 0.114, Passed: true}, "", "long"},
		{sweep.GateCheck{Value: -0.001, Low: -0.005, High: 0.0012, Old: 0.114}, "", "long"},
		{sweep.GateCheck{Value: -0.0031, Low: -0.005, High: -0.0012, Old: 0.114}, sweep.VerdictNotComparable, "long"},
	} {
		tc.tonight.Name = "tonight"
		c := &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Gate: &sweep.GateDecision{Champion: 9, Verdict: tc.verdict,
			Metric: "log_loss", Reason: "long", Checks: []sweep.GateCheck{tc.tonight}}}
		if got := c.Why(); got != tc.want {
			t.Errorf("%+v, %q: got %q, want %q", tc.tonight, tc.verdict, got, tc.want)
		}
	}
}

// TestBriefly: what went live is told by its share of what the version before it had, and by how far it may be off.
func TestBriefly(t *testing.T) {
	for _, tc := range []struct {
		tonight, ratio sweep.GateCheck
		want           string
	}{
		{sweep.GateCheck{Value: 0.001, Low: 0.0004, High: 0.0016, Old: 0.114}, sweep.GateCheck{Value: 1.01, Low: 0.95,
			High: 1.07, Passed: true},
			"better than version 8: log_loss 0.88 % better (+0.35 to +1.4 %); calibrated within 7 %"},
		{sweep.GateCheck{Value: -0.0005, Low: -0.001, High: 0.002, Old: 0.1}, sweep.GateCheck{Value: 1.24, Low: 1.09,
			High: 1.42, Passed: true},
			"it predicts 24 % more than observed (9 to 42 %); not shown to be worse than version 8: log_loss 0.5 % " +
				"worse (-1 to +2 %)"},
		{sweep.GateCheck{Value: -0.003, Low: -0.005, High: -0.001, Old: 0.1}, sweep.GateCheck{},
			"worse than version 8, within the gate's limit: log_loss 3 % worse (-5 to -1 %)"},
		{sweep.GateCheck{Value: 0.003, Low: -0.0056, High: 0.012, Old: 0.1}, sweep.GateCheck{Value: 1.2, Low: 0.4,
			High: 2.51, Passed: true}, "as good as version 8: log_loss 3 % better (-5.6 to +12 %)"}, // of 26 positives
		{sweep.GateCheck{Value: 0.015, Low: 0.0102, High: 0.0199, Old: -0.01}, sweep.GateCheck{},
			"better than version 8: log_loss 150 % better (+100 to +200 %)"},
		{sweep.GateCheck{}, sweep.GateCheck{}, "long"},
	} {
		tc.tonight.Name, tc.ratio.Name = "tonight", "calibration"
		c := &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Gate: &sweep.GateDecision{Promoted: true, Champion: 8,
			Metric: "log_loss", Reason: "long", Checks: []sweep.GateCheck{tc.tonight, tc.ratio}}}
		if got := c.Why(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
