package sweep_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestGateIsRefused: a gate with unknown words, or with bounds that make no sense, is refused, and the error names what
// can be used.
func TestGateIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ gate, want string }{
		"margin and gain": {"gate: {min_gain: 0.1, margin: 0.1}", "not both"},
		"negative margin": {"gate: {margin: -1}", "margin is -1: use a number above 0"},
		"promote":         {"gate: {promote: hand}", `promote is "hand": use auto, by-hand, never`},
		"regret":          {"gate: {on_regret: undo}", `on_regret is "undo": use rollback, tell`},
		"confidence":      {"gate: {confidence: 95}", "confidence is 95: use 0.6 to 0.9999"},
		"share":           {"gate: {max_share: 1.5}", "max_share is 1.5: use a share"},
		"no share":        {"gate: {max_share: 0}", "max_share is 0: use a share"},
		"nights": {"gate: {reference: 99}",
			"reference is 99: use the number of earlier nights, 0 (none) to 30"},
		"old nights":        {"gate: {reference: {nights: 3}}", "expected a whole number"},
		"one bound":         {"gate: {calibration: {ratio: [0.5]}}", "give [low, high]"},
		"bounds about face": {"gate: {calibration: {ratio: [1.5, 2]}}", "give [low, high] with 0 < low < 1 < high"},
		"ece":               {"gate: {calibration: {ece: 3}}", `unknown key "ece"`},
		"key":               {"gate: {confidense: 0.9}", `did you mean "confidence"?`}, //nolint:misspell // on purpose
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, "gate: {metric: log_loss, against: champion, min_gain: 0.0}", tc.gate, tc.want)
		})
	}
}

// TestGated: Gated fills in the defaults of a gate, also for a spec without one, and keeps what the spec says. The spec
// itself stays as it was written.
func TestGated(t *testing.T) {
	g := (&sweep.Spec{Metric: "auc"}).Gated()
	if g.Metric != "auc" || g.Against != sweep.AgainstChampion || g.Confidence != 0.995 || g.MaxShare != 0.9 ||
		*g.Reference != 7 || !slices.Equal(g.Calibration.Ratio, []float64{0.8, 1.25}) {
		t.Errorf("the defaults are %+v %d %+v; want auc against the champion, a confidence of 0.995, a share of 0.9, "+
			"7 nights and a ratio of 0.8 to 1.25", g, *g.Reference, *g.Calibration)
	}

	spec := sweep.Spec{Metric: "auc", Gate: &sweep.Gate{Metric: "log_loss", Against: "none", Confidence: 0.8,
		Reference: new(int), Calibration: &sweep.GateCalibration{Ratio: []float64{0.5, 2}}}}
	g = spec.Gated()
	if g.Metric != "log_loss" || g.Against != "none" || g.Confidence != 0.8 || *g.Reference != 0 ||
		!slices.Equal(g.Calibration.Ratio, []float64{0.5, 2}) {
		t.Errorf("as written: %+v %d %+v; want log_loss against none, a confidence of 0.8, no nights and a ratio of "+
			"0.5 to 2", g, *g.Reference, *g.Calibration)
	}
	if spec.Gate = (&sweep.Gate{}); spec.Gated().Reference == nil || spec.Gate.Reference != nil ||
		spec.Gate.Calibration != nil {
		t.Errorf("the spec itself was filled in: %+v; want it as it was written", spec.Gate)
	}
}

// TestVerdicts: a conclusion's verdict and reason are those of the gate if it has decided, else those of the outcome.
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

// TestCaution: where the predictions of a promoted version add up to more or less than the labels, beyond chance but
// within the gate's limit, the reason begins with that. It does not where the interval includes 1, and for a version
// that was not promoted. The cases are ratios of predictions and labels with their intervals. The second check of the
// calibration is that on rows of earlier nights, which does not count. The check of tonight has no old value to compare
// with, so that the gate's own reason, "better", follows.
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
		must.Equal(t, c.Why(), tc.want, "promoted %t with a ratio of %v (%v to %v)", tc.promoted, tc.value, tc.low,
			tc.high)
		facts := strings.Join(c.Facts("", time.Time{}), " ")
		if want := strings.ToUpper(tc.want[:1]) + tc.want[1:] + "."; facts != want {
			t.Errorf("the facts are %q, want %q", facts, want)
		}
	}
}

// TestWhyItIsHeldBack: the reason for a version that was held back since it is worse beyond chance compares it with the
// champion, version 9, in percent of the old value: -0.0031 of 0.114 is 2.7 % worse. If only its check on earlier
// nights' rows has failed, it compares with that one's version. If it was held back for anything else, as its check has
// passed or the interval includes 0, or if it could not be compared, the gate's own reason, "long", stands.
func TestWhyItIsHeldBack(t *testing.T) {
	for _, tc := range []struct {
		tonight sweep.GateCheck
		verdict sweep.Verdict
		want    string
	}{
		{sweep.GateCheck{Value: -0.0031, Low: -0.005, High: -0.0012, Old: 0.114}, "",
			"worse than version 9: log_loss 2.7 % worse (1.1 to 4.4 %)"},
		{sweep.GateCheck{Value: -0.0031, Low: -0.005, High: -0.0012, Old: 0.114, Passed: true}, "", "long"},
		{sweep.GateCheck{Value: -0.001, Low: -0.005, High: 0.0012, Old: 0.114}, "", "long"},
		{sweep.GateCheck{Value: -0.0031, Low: -0.005, High: -0.0012, Old: 0.114}, sweep.VerdictNotComparable, "long"},
		{sweep.GateCheck{Name: "reference", Version: 7, Value: -0.0098, Low: -0.013, High: -0.0067, Old: 0.1133}, "",
			"worse than version 7 on rows of earlier nights: log_loss 8.6 % worse (5.9 to 11 %)"},
	} {
		tc.tonight.Name = cmp.Or(tc.tonight.Name, "tonight")
		c := &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Gate: &sweep.GateDecision{Champion: 9, Verdict: tc.verdict,
			Metric: "log_loss", Reason: "long", Checks: []sweep.GateCheck{tc.tonight}}}
		must.Equal(t, c.Why(), tc.want, "%+v with verdict %q", tc.tonight, tc.verdict)
	}
}

// TestWhyItIsLive: the reason for a version that went live compares it with version 8, in percent of the old value and
// with the interval: 0.001 of 0.114 is 0.88 %. It adds how far its predictions may be off in total, by the interval of
// their ratio to the labels, unless that is more than a half. Without a comparison the gate's own reason, "long",
// stands.
func TestWhyItIsLive(t *testing.T) {
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
				"worse (1 % worse to 2 % better)"},
		{sweep.GateCheck{Value: -0.003, Low: -0.005, High: -0.001, Old: 0.1}, sweep.GateCheck{},
			"worse than version 8, within the gate's limit: log_loss 3 % worse (1 to 5 %)"},
		{sweep.GateCheck{Value: 0.003, Low: -0.0056, High: 0.012, Old: 0.1}, sweep.GateCheck{Value: 1.2, Low: 0.4,
			High: 2.51, Passed: true}, "as good as version 8: log_loss 3 % better (-5.6 to +12 %)"}, // of few positives
		{sweep.GateCheck{Value: 0.015, Low: 0.0102, High: 0.0199, Old: -0.01}, sweep.GateCheck{},
			"better than version 8: log_loss 150 % better (+100 to +200 %)"},
		{sweep.GateCheck{}, sweep.GateCheck{}, "long"},
	} {
		tc.tonight.Name, tc.ratio.Name = "tonight", "calibration"
		c := &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Gate: &sweep.GateDecision{Promoted: true, Champion: 8,
			Metric: "log_loss", Reason: "long", Checks: []sweep.GateCheck{tc.tonight, tc.ratio}}}
		must.Equal(t, c.Why(), tc.want, "%+v and %+v", tc.tonight, tc.ratio)
	}
}

// TestSeveralObjectives: a list of several metrics becomes goals, with a rule that picks the winner, and a mistake in
// either is an error. A list of one metric is the same as the metric.
func TestSeveralObjectives(t *testing.T) {
	v := words()
	v.Goal = func(name string) (sweep.Goal, error) {
		if slices.Contains(sweep.GoalFacts(), name) {
			return sweep.Goal{Name: name}, nil
		}
		if err := v.Metric(name); err != nil {
			return sweep.Goal{}, errors.New("no such objective")
		}
		return sweep.Goal{Name: name, Maximize: name != "log_loss"}, nil
	}
	read := func(metric string) (*sweep.Spec, error) {
		return sweep.ParseSpec("sweep.yaml",
			[]byte(strings.Replace(good, "metric: average_precision\n", metric+"\n", 1)), v)
	}

	both := []sweep.Goal{{Name: "average_precision", Maximize: true}, {Name: "model_bytes"}}
	for metric, want := range map[string]struct {
		goals []sweep.Goal
		pick  *sweep.Pick
	}{
		"metric: average_precision":                {nil, nil},
		"metric: [average_precision]":              {nil, nil},
		"metric: [average_precision, model_bytes]": {both, &sweep.Pick{Best: "average_precision", Within: "1se"}},
		"metric: [average_precision, model_bytes]\npick: {within: 0.1%}": {both,
			&sweep.Pick{Best: "average_precision", Within: "0.1%"}},
		"metric: [average_precision, model_bytes]\npick: {best: model_bytes, within: 10000}": {both,
			&sweep.Pick{Best: "model_bytes", Within: "10000"}},
	} {
		s, err := read(metric)
		if err != nil || s.Metric != "average_precision" || !reflect.DeepEqual(s.Goals, want.goals) ||
			!reflect.DeepEqual(s.Pick, want.pick) {
			t.Errorf("%s: %+v, error %v; expected average_precision, %+v and %+v", metric, s, err, want.goals,
				want.pick)
		}
	}

	for metric, want := range map[string]string{
		"metric: []": "metric is missing",
		"metric: [average_precision, model_byte]":             "sweep.yaml:4:29: no such objective",
		"metric: [model_bytes, average_precision]":            "sweep.yaml:4:9: no such metric",
		"metric: [auc, trees, trees]":                         "sweep.yaml:4:22: trees is there twice",
		"metric: [auc, trees, leaves, model_bytes, log_loss]": "5 objectives: use at most 4",
		"metric: auc\npick: {within: 1%}": "pick is for a sweep with several objectives: " +
			"make metric a list, such as [auc, model_bytes]",
		"metric: [auc, trees]\npick: {best: tree}": "pick.within is missing",
		"metric: [auc, trees]\npick: {best: tree, within: 1%}": `sweep.yaml:5:14: "tree" is none of metric: auc, ` +
			`trees (did you mean "trees"?)`,
		"metric: [auc, trees]\npick: {best: trees, within: 1se}": "only the first metric, auc, has a standard error",
		"metric: [auc, trees]\npick: {within: much}":             `within is "much": use a share such as 0.1%`,
		"metric: [auc, trees]\nvalidate: {kfold: 3}":             "validate cannot be combined with several objectives",
	} {
		_, err := read(metric)
		must.Say(t, metric, err, want)
	}

	// In a plan the metric is a text, with one objective as with several.
	s, err := read("metric: average_precision")
	text, _ := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"metric":"average_precision","trials"`) ||
		strings.Contains(string(text), "goals") {
		t.Errorf("the spec of one metric is %s, error %v; expected it as it was", text, err)
	}
}

// TestPlansOfSeveralObjectives: a plan with several goals is read if it has a valid rule that picks the winner, and
// refused otherwise.
func TestPlansOfSeveralObjectives(t *testing.T) {
	several := func() *sweep.Plan {
		p := plan()
		p.Spec.Goals = []sweep.Goal{{Name: "auc", Maximize: true}, {Name: "trees"}}
		p.Spec.Pick = &sweep.Pick{Best: "auc", Within: "1%"}
		return p
	}
	refusedPlans(t, several, map[string]func(*sweep.Plan){
		"nothing says which of them counts": func(p *sweep.Plan) { p.Spec.Pick = nil },
		"within is":                         func(p *sweep.Plan) { p.Spec.Pick.Within = "-1%" },
	})
}

// TestValues: a trial has a value in each goal, whether metric or fact, and none at all if one is unknown, as the bytes
// of a missing model are. Of two trials the one with the lower log loss dominates the other, and none dominates itself.
func TestValues(t *testing.T) {
	s := &sweep.Spec{Goals: []sweep.Goal{{Name: "auc", Maximize: true}, {Name: "log_loss"}, {Name: "model_bytes"},
		{Name: "leaves"}}}
	r := &sweep.Result{Status: sweep.StatusDone, Score: 0.7, Metrics: map[string]float64{"auc": 0.7, "log_loss": 0.3},
		Leaves: 40, Model: &sweep.Object{Bytes: 1234}}
	if got, want := s.Values(r), []float64{0.7, 0.3, 1234, 40}; !slices.Equal(got, want) {
		t.Errorf("a trial's values are %v, want %v", got, want)
	}
	r.Model = nil
	if got := s.Values(r); got != nil {
		t.Errorf("values of a trial without a model: got %v, want none", got)
	}
	if a, b := []float64{0.7, 0.3, 10, 4}, []float64{0.7, 0.2, 10, 4}; !s.Dominates(b, a) || s.Dominates(a, b) ||
		s.Dominates(a, a) {
		t.Errorf("%v dominates %v: %t, the reverse: %t, the latter itself: %t; want only the first", b, a,
			s.Dominates(b, a), s.Dominates(a, b), s.Dominates(a, a))
	}
}

// TestLabels: labels are read as written and do not change a plan's fingerprint. Labels that Google Cloud would refuse,
// or that the programs set, are refused.
func TestLabels(t *testing.T) {
	const head = "name: a\ndataset: b\nmetric: auc\ntrials: 1\n"
	v := words()
	plain := must.Get(sweep.ParseSpec("s.yaml", []byte(head), v))(t)
	labelled, err := sweep.ParseSpec("s.yaml", []byte(head+"labels: {team: ads, cost-center: 0042}\n"), v)
	if err != nil || fmt.Sprint(labelled.Labels) != "map[cost-center:0042 team:ads]" {
		t.Fatalf("two labels: %v, %v, expected both as written", labelled, err)
	}
	if (&sweep.Plan{Spec: *plain}).Fingerprint() != (&sweep.Plan{Spec: *labelled}).Fingerprint() {
		t.Error("with labels the plan has another fingerprint, want the same")
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf("l%d: x", i))
	}
	for labels, want := range map[string]string{
		"{Team: ads}":                             `s.yaml:5:10: label "Team": use up to 63 of a-z`,
		"{team: Ads}":                             `s.yaml:5:16: value "Ads": use 1 to 63 of a-z`,
		"{coppice-sweep: x}":                      "those that begin with coppice or goog are set by the programs",
		"{google: x}":                             "those that begin with coppice or goog",
		"{" + strings.Join(many, ", ") + "}":      "33 labels: use at most 32",
		"{team: " + strings.Repeat("x", 64) + "}": "use 1 to 63",
	} {
		_, err := sweep.ParseSpec("s.yaml", []byte(head+"labels: "+labels+"\n"), v)
		must.Say(t, "labels: "+labels, err, want)
	}
}

// TestAliasesAreResolved: a spec with aliases of parameters is parsed to the same as one with their canonical names.
// Only a range remembers the alias, since its draws depend on it.
func TestAliasesAreResolved(t *testing.T) {
	rename := strings.NewReplacer(
		"learning_rate: 0.05", "eta: 0.05", "learning_rate: 0.03", "shrinkage_rate: 0.03", "{num_leaves: 31}",
		"{max_leaves: 31}", "grid: {num_leaves:", "grid: {max_leaves:", `"num_leaves <= 2`, `"max_leaves <= 2`)
	canonical := must.Get(sweep.ParseSpec("sweep.yaml", []byte(good), words()))(t)
	aliased := must.Get(sweep.ParseSpec("sweep.yaml", []byte(rename.Replace(good)), words()))(t)
	want, _ := json.Marshal(canonical)
	if got, _ := json.Marshal(aliased); string(got) != string(want) {
		t.Errorf("with aliases the spec is %s\nwant, as with canonical names, %s", got, want)
	}

	drawn := must.Get(sweep.ParseSpec("sweep.yaml",
		[]byte(strings.Replace(good, "lambda_l2: {choice", "reg_lambda: {choice", 1)), words()))(t)
	if d, ok := drawn.Search.Random["lambda_l2"]; !ok || d.DrawnAs != "reg_lambda" ||
		len(drawn.Search.Random) != len(canonical.Search.Random) {
		t.Errorf("random is %+v; want lambda_l2, drawn as reg_lambda", drawn.Search.Random)
	}
}

// TestNoAliasGetsRound: a parameter that a key of the spec sets is refused under its aliases, too, and so is one
// parameter under two names in the same section. Each error has its place in the edited spec.
func TestNoAliasGetsRound(t *testing.T) {
	const say = "; say it there, and take it out here"
	for name, tc := range map[string]struct{ old, new, want string }{
		"objective": {"num_iterations: 2000", "loss: regression",
			"8:16: loss is another name of objective, which is set by the spec's key objective" + say},
		"stopping": {"num_iterations: 2000", "n_iter_no_change: 3",
			"8:28: n_iter_no_change is another name of early_stopping_round, which is set by the spec's key " +
				"early_stopping_rounds" + say},
		"stopping, fixed": {"{num_leaves: 31}", "{n_iter_no_change: 3}",
			"10:30: n_iter_no_change is another name of early_stopping_round, which"},
		"objective, grid": {"min_data_in_leaf: [20, 200]", "app: [regression]",
			"11:42: app is another name of objective, which"},
		"stopping, random": {"lambda_l2: {choice: [0, 1, 10]}", "n_iter_no_change: {int: [1, 9]}",
			"16:24: n_iter_no_change is another name of early_stopping_round, which"},
		"threads": {"num_iterations: 2000", "n_jobs: 64",
			"8:18: n_jobs is another name of num_threads, which is set by the spec's key machine.threads_per_task" +
				say},
		"metric": {"num_iterations: 2000", "metrics: auc",
			"8:19: metrics is another name of metric, which is set by the spec's key metric" + say},
		"twice": {"num_iterations: 2000", "eta: 0.1",
			"8:35: learning_rate is given twice: here as learning_rate, and as eta in line 8; keep one of them"},
		"twice, lines": {"params: {num_iterations: 2000, learning_rate: 0.05}",
			"params:\n  learning_rate: 0.05\n  eta: 0.1",
			"10:8: learning_rate is given twice: here as eta, and as learning_rate in line 9; keep one of them"},
		"two aliases": {"num_iterations: 2000, learning_rate: 0.05", "shrinkage_rate: 0.1, eta: 0.2",
			"8:36: learning_rate is given twice: here as eta, and as shrinkage_rate in line 8"},
		"twice, fixed": {"{num_leaves: 63,", "{num_leaves: 63, max_leaves: 31,",
			"10:58: num_leaves is given twice: here as max_leaves"},
		"twice, grid": {"min_data_in_leaf: [20, 200]", "max_leaves: [20, 200]",
			"11:49: num_leaves is given twice: here as max_leaves"},
		"twice, random": {"lambda_l2: {choice", "eta: {choice",
			"16:11: learning_rate is given twice: here as eta, and as learning_rate in line 13"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, tc.old, tc.new, "sweep.yaml:"+tc.want)
		})
	}
}

// TestCutReason: whatever text CutReason makes a reason of, a result with that reason can be decoded. Valid texts of at
// most 4,096 bytes stay as they are, and longer ones keep nearly that many.
func TestCutReason(t *testing.T) {
	for name, text := range map[string]string{
		"short": "no luck", "empty": "", "as long as may be": strings.Repeat("x", 4096),
		"long":                    strings.Repeat("x", 5000),
		"long, of two bytes each": strings.Repeat("\u00e4", 3000), "long, of four, off by one": "x" +
			strings.Repeat("\U0001f333", 3000),
		"not UTF-8": strings.Repeat("\xff", 4000), "broken off": "tree \xe2\x82",
	} {
		reason := sweep.CutReason(text)
		if len(text) <= 4096 && utf8.ValidString(text) && reason != text {
			t.Errorf("%s: %q became %q, want no change", name, text, reason)
		}

		data, err := json.Marshal(sweep.Result{Format: 1, Sweep: "s", Status: sweep.StatusFailed, Reason: reason})
		must.Do(t, err)
		r, err := sweep.DecodeResult(data)
		if err != nil || r.Reason != reason || !utf8.ValidString(reason) || len(text) > 4096 && len(reason) < 4090 {
			t.Errorf("%s: a reason of %d bytes became one of %d, and the result is read with %v; want it valid, "+
				"whole and as long as may be", name, len(text), len(reason), err)
		}
	}
}

// TestStopBoundsTheTrials: a sweep with search.stop may have 1,000 trials, and one without 10,000. At every rung every
// trial records all that it has seen of the others, so with 10,000 trials the records would be gigabytes.
func TestStopBoundsTheTrials(t *testing.T) {
	parse := func(trials, search string) error {
		t.Helper()
		text := strings.NewReplacer("trials: 50", "trials: "+trials, "search:\n", "search:\n"+search).Replace(good)
		_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		return err
	}

	// A trial more than that is one too many, by every rule.
	for _, rule := range sweep.StopRules() {
		stop := "  stop: {rule: " + rule + "}\n"
		if err := parse("1000", stop); err != nil {
			t.Errorf("1000 trials with rule %s: got error %v, want none", rule, err)
		}
		want := "sweep.yaml:5:9: trials is 1001: with search.stop a sweep has at most 1000"
		must.Say(t, fmt.Sprintf("1001 trials with rule %s", rule), parse("1001", stop), want)
	}

	if err := parse("10000", ""); err != nil {
		t.Errorf("10000 trials without stop: got error %v, want none", err)
	}
}

// TestRungsOfWinnersAreNoOtherSweep: with warm_start other rungs, earlier sweeps and trials leave a plan's fingerprint
// as it is, since they follow from earlier winners, which change from day to day. Without it they change the
// fingerprint, as another eta does. Taking the fingerprint leaves the plan's rungs as they are.
func TestRungsOfWinnersAreNoOtherSweep(t *testing.T) {
	with := func(warm string, rungs ...int) *sweep.Plan {
		p := plan()
		p.Spec.Search.WarmStart, p.Spec.Search.Stop = warm, &sweep.Stop{Rule: sweep.StopASHA, Eta: 3, MinTrees: 10,
			Rungs: rungs}
		return p
	}

	p, later := with(sweep.WarmAuto, 11, 33), with(sweep.WarmAuto, 12, 37, 111)
	later.Earlier, later.Trials = make([]sweep.Earlier, 1), later.Trials[:2]
	if p.Fingerprint() != later.Fingerprint() {
		t.Error("with warm_start other rungs, earlier sweeps and trials make another fingerprint; want the same")
	}
	if got := p.Spec.Search.Stop.Rungs; len(got) != 2 {
		t.Errorf("after its fingerprint was taken the plan has the rungs %v, want [11 33]", got)
	}
	if later.Spec.Search.Stop.Eta = 4; p.Fingerprint() == later.Fingerprint() {
		t.Error("another eta makes the same fingerprint; want another")
	}
	if with("", 11, 33).Fingerprint() == with("", 12, 37).Fingerprint() {
		t.Error("without warm_start other rungs make the same fingerprint; want another")
	}
}
