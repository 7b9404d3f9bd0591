package show

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// TestJobOfAnEndedSweep: the status of a sweep that has ended does not mention that its job is gone, since engines
// forget jobs. That of a sweep that has not ended does.
func TestJobOfAnEndedSweep(t *testing.T) {
	gone := provision.SweepJob{JobStatus: engine.JobStatus{State: engine.Gone}, Name: "sweep-1", Finished: true}
	for _, c := range []*sweep.Conclusion{{Outcome: sweep.OutcomeNoWinner}, nil} {
		var out strings.Builder
		Printer{Screen: tables.Screen{Output: program.To(&out)}}.Status(&sweep.Plan{Sweep: "night-1"},
			sweepview.State{Conclusion: c}, sweepview.Snapshot{Job: gone, Night: &sweepview.Night{}},
			registry.Event{}, time.Now())
		if got, want := strings.Contains(out.String(), "gone (sweep-1)"), c == nil; got != want {
			t.Errorf("concluded: %v: it says that the job is gone: %t, expected %t:\n%s", c, got, want, out.String())
		}
	}
}

// TestHowSureTheWinnerIs: the first lines say once how sure the winner is, whether there was a champion to compare with
// or not.
func TestHowSureTheWinnerIs(t *testing.T) {
	const sure = "Trial 7 was chosen on valid; on test trial 5 is as good: the winner's auc is 1 % better (-1 to +3 %)."
	gain := sweep.GateCheck{Name: "tonight", Passed: true, Old: 0.5, Value: 0.01, Low: 0.001, High: 0.02}
	for champion, checks := range map[int][]sweep.GateCheck{0: nil, 6: {gain}} {
		c := &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Model: "ads", Version: 7, Trial: 7,
			Lead: &sweep.Lead{Trial: 5, Metric: "auc", Gain: 0.01, Low: -0.01, High: 0.03},
			Gate: &sweep.GateDecision{Promoted: true, Champion: champion, Metric: "auc", Reason: "why", Checks: checks}}
		var out strings.Builder
		w := Printer{Screen: tables.Screen{Output: program.To(&out)}}
		if w.Head(&sweep.Plan{}, c, registry.Event{}); strings.Count(out.String(), sure) != 1 {
			t.Errorf("beside version %d:\n%s\nexpected once: %s", champion, out.String(), sure)
		}
	}
}

// TestCountsLeaveOutZeros: states in which there is no configuration are not mentioned.
func TestCountsLeaveOutZeros(t *testing.T) {
	f := &sweepview.FoldCounts{Done: 1, Dropped: 1, Open: 2}
	if got, want := f.String(), "1 done, 1 dropped, 2 open"; got != want {
		t.Errorf("configurations in short: got %q, expected %q", got, want)
	}
}

// TestLabelOfANight: a label of numbers has its mean, one of classes the shares of the eight most frequent classes and
// how many more there are. Of the nine classes a to i the shares are 0/36 to 8/36.
func TestLabelOfANight(t *testing.T) {
	many := map[string]float64{}
	for i := range 9 {
		many[string(rune('a'+i))] = float64(i) / 36
	}
	for want, l := range map[string]*nights.Label{"mean 0.25": {Kind: dataset.Binary, Mean: 0.25},
		"view 75 %, buy 25 %": {Kind: dataset.Classes, Mean: 0.75,
			Classes: map[string]float64{"buy": 0.25, "view": 0.75}},
		"i 22 %, h 19 %, g 17 %, f 14 %, e 11 %, d 8.3 %, c 5.6 %, b 2.8 % and 1 more class": {
			Kind: dataset.Classes, Classes: many}} {
		if got := labelOf(l); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLeft: the time left is said with the time of the end, with a range if there is one, and with the day if the end
// is more than twelve hours away.
func TestLeft(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 10, 0, 0, time.UTC)
	for _, tc := range []struct {
		left, low, high float64
		want            string
	}{
		{2040, 1788, 2292, "about 34 min, ends about 03:44 UTC (03:39 to 03:48)"},
		{30, 0, 0, "about 30 s, ends about 03:10 UTC"},
		{86400, 0, 0, "about 24 h, ends about 2026-11-23 03:10 UTC"},
	} {
		must.Equal(t, Left(sweepview.Snapshot{Left: tc.left, LeftLow: tc.low, LeftHigh: tc.high}, now), tc.want,
			"%v s left", tc.left)
	}
}

// TestStatusOfMachines: a status says why machines are missing, how old that reason is if it is of more than ten
// minutes ago, and that the final training runs.
func TestStatusOfMachines(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	snap := sweepview.Snapshot{Night: &sweepview.Night{}, Tally: sweep.Tally{Done: 4}, Final: true,
		Job: provision.SweepJob{JobStatus: engine.JobStatus{State: engine.Waiting}, Machines: &provision.Machines{
			Planned: 2, Why: "no room", Next: "It waits"}}}
	for minutes, age := range map[int]string{180: ". The reason is of 3 hours ago", 10: ""} {
		snap.Job.Machines.Said = now.Add(-time.Duration(minutes) * time.Minute)
		var out strings.Builder
		Printer{Screen: tables.On(program.World{Out: program.To(&out), Width: 200})}.Status(
			&sweep.Plan{Trials: make([]sweep.Trial, 5)}, sweepview.State{}, snap, registry.Event{}, now)
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{"0 of 2, asked for", "no room. It waits" + age + " ", "final │ training",
			"4 done"} {
			if !strings.Contains(text, want) {
				t.Errorf("the reason is %d minutes old, and the status\n%s\nwant %q in it", minutes, text, want)
			}
		}
	}
}
