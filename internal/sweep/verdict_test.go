package sweep_test

import (
	"math"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestTodo: there is one answer to what a person has to do, by the state of the night. There is a case for each answer,
// and for each pair of states of which the more important one decides. Each changes a night whose version 7 was held
// back while version 6 stayed live. Exactly the answers that begin with "To do" are due.
func TestTodo(t *testing.T) {
	const promote = "To do: decide whether version 7 goes live: `launcher registry promote ads@7 --why REASON`; " +
		"until then "
	for name, tc := range map[string]struct {
		change func(*sweep.Todo)
		want   string
	}{
		"runs": {func(t *sweep.Todo) { t.Verdict = "" }, "Nothing to do: it ends by itself."},
		"its job is gone": {func(t *sweep.Todo) { t.Verdict, t.Stopped, t.OverBudget = "", true, true },
			"To do: run the command that started n-7 once more, which continues it: its job is gone, and trials are " +
				"left."},
		"runs into its budget": {func(t *sweep.Todo) { t.Verdict, t.OverBudget = "", true },
			"To do: decide whether its budget may end it, with the trials that have ended by then; " +
				"`launcher cancel n-7` ends it now."},
		"promoted": {func(t *sweep.Todo) { t.Verdict, t.Live = sweep.VerdictPromoted, 7 },
			"Nothing to do: version 7 is live."},
		"promoted, and replaced since": {func(t *sweep.Todo) { t.Verdict, t.Live = sweep.VerdictPromoted, 8 },
			"Nothing to do: version 8 is live."},
		"held back, and promoted by hand": {func(t *sweep.Todo) { t.Live = 7 }, "Nothing to do: version 7 is live."},
		"held back": {func(*sweep.Todo) {},
			"Nothing to do: version 6 stays live, and the next night tries again."},
		"second in a row": {func(t *sweep.Todo) { t.Nights = 2 },
			"Nothing to do: version 6 stays live, and the next night tries again."},
		"third in a row": {func(t *sweep.Todo) { t.Nights = 3 },
			"To do: look at `launcher nights ads` for why no night makes a champion; version 6 stays live."},
		"third in a row, and blocked": {func(t *sweep.Todo) { t.Verdict, t.Version, t.Nights = "blocked", 0, 3 },
			"To do: look at `launcher datasets show d@1`, then mend its source and `launcher stage DATASET.yaml`, or " +
				"`launcher datasets accept d@1 --why REASON`; until then nothing is trained on it, and version 6 " +
				"stays live."},
		"trained, and blocked for its labels": {func(t *sweep.Todo) { t.Verdict = sweep.VerdictBlocked },
			"To do: look at the labels in `launcher datasets show d@1`; only if they are right, `launcher registry " +
				"promote ads@7 --why REASON`; until then version 6 stays live."},
		"no file for the night": {func(t *sweep.Todo) { t.Verdict, t.Dataset, t.Live = sweep.VerdictBlocked, "d", 0 },
			"To do: mend the source of d, then start the night again; what is live stays live."},
		"passed, and a person promotes": {func(t *sweep.Todo) { t.Passed, t.Nights = true, 3 },
			promote + "version 6 stays live."},
		"passed, and nobody promotes": {func(t *sweep.Todo) { t.Passed, t.Never, t.Nights = true, true, 3 },
			"Nothing to do: its sweep promotes nothing; version 6 stays live."},
		"not comparable": {func(t *sweep.Todo) { t.Verdict = sweep.VerdictNotComparable },
			promote + "version 6 stays live."},
		"a first model that is asked about": {func(t *sweep.Todo) { t.Live = 0 },
			promote + "what is live stays live."},
		"no winner": {func(t *sweep.Todo) { t.Verdict, t.Version, t.Nights = sweep.VerdictNoWinner, 0, 3 },
			"To do: look at `launcher leaderboard n-7 --all` for why no trial won; version 6 stays live."},
		"no winner, and nothing is live": {func(t *sweep.Todo) { t.Verdict, t.Version, t.Live = "no_winner", 0, 0 },
			"To do: look at `launcher leaderboard n-7 --all` for why no trial won; what is live stays live."},
		"cancelled": {func(t *sweep.Todo) { t.Verdict, t.Version = sweep.VerdictCancelled, 0 },
			"Nothing to do: it was cancelled by hand; version 6 stays live."},
		"a table that is unlike earlier ones": {func(t *sweep.Todo) { t.Warned = "40 rows, earlier 60 to 80" },
			"To do: look at `launcher datasets show d@1` (40 rows, earlier 60 to 80); version 6 stays live, and the " +
				"next night tries again."},
		"promoted, from such a table": {func(t *sweep.Todo) {
			t.Verdict, t.Live, t.Warned = sweep.VerdictPromoted, 7, "40 rows, earlier 60 to 80"
		}, "To do: look at `launcher datasets show d@1` (40 rows, earlier 60 to 80); version 7 is live."},
		"more to do than to look at the table": {func(t *sweep.Todo) { t.Nights, t.Warned = 3, "40 rows" },
			"To do: look at `launcher nights ads` for why no night makes a champion; version 6 stays live."},
		"what is live is worse": {func(t *sweep.Todo) { t.Worse, t.Nights = true, 3 },
			"To do: decide whether version 6 is taken back: `launcher registry rollback ads --why REASON`."},
	} {
		todo := sweep.Todo{Verdict: sweep.VerdictNotPromoted, Sweep: "n-7", Dataset: "d@1", Model: "ads", Version: 7,
			Live: 6, Nights: 1}
		tc.change(&todo)
		if got := todo.String(); got != tc.want || todo.Due() != (tc.want[:2] == "To") {
			t.Errorf("%s: got %q, due: %t; expected %q", name, got, todo.Due(), tc.want)
		}
	}
}

// TestWon: Won says whether trial 39 won, or another trial is as good or better on test, with the lead and its
// interval. Where only a trial that is as good is known, it says that. The keys are the texts.
func TestWon(t *testing.T) {
	third := 3
	for want, c := range map[string]*sweep.Conclusion{
		"": {},
		"trial 39 won: on test its auc is 2.1 % better (+0.4 to +3.8 %) than trial 5's": {
			AsGood: &third, Lead: &sweep.Lead{Trial: 5, Metric: "auc", Gain: 0.021, Low: 0.004, High: 0.038}},
		"trial 39 was chosen on valid; on test trial 5 is as good: the winner's auc is 1.3 % better (-0.9 to +3.5 %)": {
			Lead: &sweep.Lead{Trial: 5, Metric: "auc", Gain: 0.013, Low: -0.009, High: 0.035}},
		"trial 39 was chosen on valid; on test trial 5 is as good: the winner's auc is 0.3 % worse (1.4 % worse " +
			"to 0.8 % better)": {Lead: &sweep.Lead{Trial: 5, Metric: "auc", Gain: -0.003, Low: -0.014, High: 0.008}},
		"trial 39 was chosen on valid; on test trial 5 is better: the winner's auc is 2 % worse (0.5 to 3 %)": {
			Lead: &sweep.Lead{Trial: 5, Metric: "auc", Gain: -0.02, Low: -0.03, High: -0.005}},
		"trial 39 was chosen on valid; on test trial 3 is as good": {AsGood: &third},
	} {
		if c.Trial = 39; c.Won() != want {
			t.Errorf("got %q, expected %q", c.Won(), want)
		}
	}
}

// TestTodoOfAConclusion: what a conclusion asks of a person follows from the gate's decision on its version 7, from the
// model's standing, and from the version that is live now, 0 being unknown.
func TestTodoOfAConclusion(t *testing.T) {
	regret := &sweep.Regret{Version: 6, Reason: "worse than version 5"}
	for name, tc := range map[string]struct {
		gate     sweep.GateDecision
		standing *sweep.Standing
		live     int
		want     string
	}{
		"promoted": {sweep.GateDecision{Passed: true, Promoted: true, Champion: 6}, nil, 0,
			"Nothing to do: version 7 is live."},
		"taken back": {sweep.GateDecision{Champion: 6}, nil, 5,
			"Nothing to do: version 5 stays live, and the next night tries again."},
		"regretted": {sweep.GateDecision{Champion: 6, Regret: regret}, nil, 0,
			"To do: decide whether version 6 is taken back: `launcher registry rollback ads --why REASON`."},
		"regretted, and taken back by hand": {sweep.GateDecision{Champion: 6, Regret: regret}, nil, 5,
			"Nothing to do: version 5 stays live, and the next night tries again."},
		"the fourth night": {sweep.GateDecision{Champion: 6}, &sweep.Standing{Model: "ads", Champion: 6, Nights: 4}, 0,
			"To do: look at `launcher nights ads` for why no night makes a champion; version 6 stays live."},
		"by hand": {sweep.GateDecision{Passed: true, Champion: 6, Promotes: sweep.PromoteByHand}, nil, 0,
			"To do: decide whether version 7 goes live: `launcher registry promote ads@7 --why REASON`; until then " +
				"version 6 stays live."},
		"never": {sweep.GateDecision{Passed: true, Champion: 6, Promotes: sweep.PromoteNever}, nil, 0,
			"Nothing to do: its sweep promotes nothing; version 6 stays live."},
	} {
		c := &sweep.Conclusion{Sweep: "n-7", Outcome: sweep.OutcomeWinner, Model: "ads", Version: 7, Gate: &tc.gate,
			Standing: tc.standing}
		must.Equal(t, c.Todo("d@1", tc.live).String(), tc.want, "%s", name)
	}
}

// TestScore: a score has as many digits as its standard error makes sense of, two of the error, or four significant
// ones without it, but all before the point. A share in percent has two, and more where it would seem to be 100 %, or
// the same as a limit that it is compared with. The standard error on test follows from a 95 % interval.
func TestScore(t *testing.T) {
	for _, tc := range []struct {
		v, se float64
		want  string
	}{{0.076712, 0.00121, "0.0767 ± 0.0012"}, {0.096618, 0, "0.09662"}, {0.150239, 0, "0.1502"},
		{0.5, 0.00996, "0.500 ± 0.010"}, {-0.003, 0.12, "0.00 ± 0.12"},
		{0.1, 0.001, "0.1000 ± 0.0010"}, {31245.7, 213, "31250 ± 210"}, {31245.7, 0, "31246"},
		{812.34, 9.96, "812 ± 10"},
		{812.34, 12.34, "812 ± 12"}, {2, 0, "2"}, {-0.00000001, 0, "-1e-08"},
		{0.3, math.NaN(), "0.3"}, {9999.7, 0, "10000"},
		{math.NaN(), 0.1, "NaN"}, {0.25, math.Inf(1), "0.25"}} {
		must.Equal(t, sweep.Score(tc.v, tc.se), tc.want, "%v with an error of %v", tc.v, tc.se)
	}
	for v, want := range map[float64]string{0.2417: "24 %", 0.0124: "1.2 %", 0.0996: "10 %", 1.034: "103 %", 0: "0 %",
		0.0000001: "<0.001 %", -0.0000001: ">-0.001 %", 0.00012345: "0.012 %", -0.5062: "-51 %", 1: "100 %",
		0.996: "99.6 %", 0.9996: "99.96 %", 0.99999: "99.999 %", 0.9999999: "99.99999 %", -0.996: "-99.6 %",
		-0.9999999: "-99.99999 %", 1.004: "100 %"} {
		must.Equal(t, sweep.Percent(v), want, "a share of %v", v)
	}
	for _, tc := range []struct {
		share, limit float64
		want         string
	}{{0.904, 0.9, "90.4 % of 90 %"},
		{0.95, 0.9, "95 % of 90 %"}, {0.9, 0.9, "90 % of 90 %"}, {0.90004, 0.9, "90.004 % of 90 %"},
		{0.2504, 0.25, "25.04 % of 25 %"}, {0.9999999999, 1, "99.99999999 % of 100 %"}} {
		share, limit := sweep.PercentBeside(tc.share, tc.limit)
		must.Equal(t, share+" of "+limit, tc.want, "%v beside %v", tc.share, tc.limit)
	}

	w := &sweep.Within{Metric: "auc", Low: 0.5 - 0.0196, High: 0.5 + 0.0196}
	if got := w.ErrorOf("auc"); math.Abs(got-0.01) > 1e-6 || w.ErrorOf("rmse") != 0 ||
		(*sweep.Within)(nil).ErrorOf("auc") != 0 {
		t.Errorf("the standard error of %+v is %v, want 0.01, and of another metric or none 0", w, got)
	}
}
