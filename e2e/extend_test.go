//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// TestE2EExtend: a sweep of one poor configuration has a winner, the sweep that extends it a better one, which was
// decided in the knowledge of the first and grows again with the same bytes.
func TestE2EExtend(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "8000", "--out",
		filepath.Join(l.dir, "clicks.parquet")).ok(t)
	l.must("launcher", "stage",
		l.file("dataset.yaml", "name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\n"+
			"split: {by: hash, key: user_id, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}\n"))
	// whether its winner is promoted is another matter
	first := conclusion(t, l.run("launcher", "sweep", l.file("first.yaml",
		"name: first\ntrials: 1\n"+strings.Replace(learningSweep, "METHOD",
			"method: gp\n  fixed: [{num_iterations: 1, num_leaves: 2}]", 1)), "--json").out)
	second := conclusion(t, l.run("launcher", "extend", string(first.Sweep), "--trials", "3", "--json").out)
	if second.Outcome != sweep.OutcomeWinner || second.Trial == 0 || second.Version != 2 || second.Done != 3 {
		t.Fatalf("one tree of two leaves, extended by three trials: %s, trial %d, version %d, %d done (%s); want a "+
			"new trial to win as version 2",
			second.Outcome, second.Trial, second.Version, second.Done, second.Reason)
	}
	if out := l.must("launcher", "registry", "reproduce", "ctr@2"); !strings.Contains(out, "the same bytes") {
		t.Errorf("the winner of the extension grown again: got\n%s\nwant the same bytes", out)
	}

	text := func(name string) []byte { return []byte(l.objects()["coppice-sweeps/"+name]) }
	plan, err := sweep.DecodePlan(text(sweep.Names(second.Sweep).Plan()))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(plan.Trials)-1; n++ { // the last is the final training
		d, err := sweep.DecodeDecision(text(sweep.Names(second.Sweep).Decision(n)))
		if err != nil {
			t.Fatal(err)
		}
		if err := search.Replay(plan, d); err != nil || d.Seen[0].Trial != 0 || d.Seen[0].Score == nil {
			t.Errorf("trial %d was decided knowing %+v, made again: %v; want it to know the score of the first "+
				"sweep's trial", n, d.Seen, err)
		}
	}
	if out := l.must("launcher", "why", string(second.Sweep), "1"); !strings.Contains(out, "1 of them of "+
		string(first.Sweep)) || !strings.Contains(out, "repeating the decision gives the same result") {
		t.Errorf("why the first new trial was tried: got\n%s\nwant what it knew of the first sweep", out)
	}
}
