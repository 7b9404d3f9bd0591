package sweep_test

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// extended is plan with its first two trials taken from another sweep.
func extended() *sweep.Plan {
	p := plan()
	o := sweep.Object{Name: sweep.Names("nightly-0").Attempt(0, 0) + "model.txt"}
	p.Extends = &sweep.Extension{Sweep: "nightly-0", Winner: &sweep.Inherited{Sweep: "nightly-0", Trial: 0,
		Model: "ctr", Version: 3}, Results: []sweep.Result{
		{Format: 1, Sweep: "nightly-0", Trial: 0, Status: sweep.StatusDone, Score: 0.7, Model: &o,
			Scores: &sweep.Scored{Calib: o, Test: o}},
		{Format: 1, Sweep: "nightly-0", Trial: 1, Status: sweep.StatusFailed, Reason: "no luck"},
	}}
	return p
}

// TestExtendedPlans: the board shows the earlier sweep's results from the plan, and an inconsistent plan is rejected.
func TestExtendedPlans(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sweep.Plan)
		says   string
	}{
		"whole": {func(*sweep.Plan) {}, ""},
		"no new trial": {func(p *sweep.Plan) { p.Trials = p.Trials[:2] },
			"extends 2 trials of sweep nightly-0 by 0"},
		"out of order": {func(p *sweep.Plan) { p.Extends.Results[1].Trial = 0 },
			"the result of trial 1 is of trial 0"},
		"of the sweep itself": {func(p *sweep.Plan) { p.Extends.Results[1].Sweep = "nightly-1" },
			"of sweep \"nightly-1\""},
		"files of others": {func(p *sweep.Plan) { p.Extends.Results[0].Model.Name = "sweeps/x/y" },
			"lies outside its attempt"},
		"a failed winner": {func(p *sweep.Plan) { p.Extends.Winner.Trial = 1 }, "is said to have won"},
	} {
		p := extended()
		tc.change(p)
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		switch back, err := sweep.DecodePlan(data); {
		case tc.says != "":
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: decoded with error %v; want %q", name, err, tc.says)
			}
		case err != nil:
			t.Errorf("%s: decoded with error %v; want none", name, err)
		default:
			b := sweep.Fold(back, []sweep.Result{*back.Inherited(0), *back.Inherited(1),
				{Sweep: "nightly-1", Trial: 2, Status: sweep.StatusDone, Score: 0.5},
				{Sweep: "nightly-0", Trial: 3, Status: sweep.StatusDone, Score: 0.9}})
			if own, want := b.Tally(back), (sweep.Tally{Done: 1, Waiting: 3}); own != want || b.Done != 2 ||
				b.Best().Trial != 0 {
				t.Errorf("the board has %d done, the best is trial %d, its own are %+v; want 2, trial 0, %+v", b.Done,
					b.Best().Trial, own, want)
			}
		}
	}
}
