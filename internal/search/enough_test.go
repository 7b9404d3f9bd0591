package search

import (
	"strings"
	"testing"

	"coppice/internal/sweep"
)

func done(trial int, score float64) sweep.Seen {
	return sweep.Seen{Trial: trial, Status: sweep.StatusDone, Score: &score}
}

func stopped(trial int, score float64) sweep.Seen {
	return sweep.Seen{Trial: trial, Status: sweep.StatusStopped, Score: &score}
}

// TestEnough: a target in the metric's direction, and patience.
func TestEnough(t *testing.T) {
	for name, tc := range map[string]struct {
		maximize bool
		limits   sweep.Limits
		seen     []sweep.Seen
		rule     string
		says     string
	}{
		"nothing has ended": {true, sweep.Limits{Target: new(0.8), Patience: &sweep.Patience{Trials: 1}}, nil, "", ""},
		"a lower target": {false, sweep.Limits{Target: new(0.13)},
			[]sweep.Seen{done(3, 0.14), done(1, 0.13)}, sweep.RuleTarget,
			"trial 1 has loss 0.13 on valid, and limits.target is 0.13"},
		"a higher target": {true, sweep.Limits{Target: new(0.8)},
			[]sweep.Seen{done(0, 0.79), done(1, 0.81)}, sweep.RuleTarget, "trial 1 has loss 0.81"},
		"below it": {true, sweep.Limits{Target: new(0.8)}, []sweep.Seen{done(0, 0.79)}, "",
			""},
		"a stopped trial reaches it": {true, sweep.Limits{Target: new(0.8)}, []sweep.Seen{stopped(0, 0.9)},
			"", ""},
		"no improvement": {true, sweep.Limits{Patience: &sweep.Patience{Trials: 2}},
			[]sweep.Seen{done(4, 0.7), done(0, 0.7), stopped(1, 0.5)}, sweep.RulePatience,
			"the last 2 trials that ended have not improved on the loss 0.7 of trial 4"},
		"not for long enough": {true, sweep.Limits{Patience: &sweep.Patience{Trials: 2}},
			[]sweep.Seen{done(4, 0.7), done(0, 0.7), done(1, 0.71), done(2, 0.7)}, "", ""},
		"lower is better": {false, sweep.Limits{Patience: &sweep.Patience{Trials: 1}},
			[]sweep.Seen{done(0, 0.7), done(1, 0.6)}, "", ""},
		"none has come to its end": {true, sweep.Limits{Patience: &sweep.Patience{Trials: 1}},
			[]sweep.Seen{stopped(0, 0.7), stopped(1, 0.7)}, "", ""},
	} {
		p := &sweep.Plan{Sweep: "night-1", Maximize: tc.maximize, Spec: sweep.Spec{Metric: "loss", Limits: tc.limits}}
		rule, reason := Enough(p, tc.seen)
		if rule != tc.rule || !strings.Contains(reason, tc.says) {
			t.Errorf("%s: ended by %q (%s); want %q, saying %q", name, rule, reason, tc.rule, tc.says)
		}
		e := &sweep.Enough{Rule: rule, Reason: reason, Seen: tc.seen}
		if err := ReplayEnough(p, e); err != nil {
			t.Errorf("%s: made again: %v", name, err)
		}
		if e.Reason += "!"; ReplayEnough(p, e) == nil {
			t.Errorf("%s: another reason than what comes out was not noticed", name)
		}
	}
}
