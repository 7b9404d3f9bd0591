package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// threeChampions registers three versions and makes each the champion, an hour apart, from 03:00 on.
func (w *world) threeChampions() *registry.Registry {
	w.t.Helper()
	r := registry.New(w.buckets["registry"])
	for i := range 3 {
		at := w.now.Add(time.Duration(i)*time.Hour + 250*time.Millisecond)
		files := map[string][]byte{"model.txt": []byte("tree " + strconv.Itoa(i))}
		must.Get(r.Register(w.t.Context(), "ctr", "sweep-"+strconv.Itoa(i), files,
			registry.Info{At: at, By: "aggregator"}))(w.t)
		must.Get(r.Promote(w.t.Context(), "ctr", i+1, registry.Expect{Version: i},
			registry.Act{By: "aggregator", Why: "gain", At: at}))(w.t)
	}
	return r
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	var verified registry.Verification
	out := w.must("registry", "show", "ctr", "--verify", "--json")
	if err := json.Unmarshal([]byte(out), &verified); err != nil || len(verified.Moves) != 3 ||
		verified.Heads[0].SHA256 != verified.Moves[2] {
		t.Fatalf("got %s (%v), want three moves, the last of which is the head", out, err)
	}
	if out := w.must("registry", "show", "ctr", "--verify"); !strings.Contains(out, verified.Moves[2]) ||
		!strings.Contains(out, "everything is unchanged") {
		t.Errorf("got\n%s", out)
	}
	w.refused(sweep.ExitNotFound, "ctx", "registry", "show", "ctx", "--verify")
	w.refused(sweep.ExitUsage, "verify", "registry", "show", "ctr", "--verify", "--history")
	if code, out, errOut := w.run("registry", "show", "ctr@1", "--verify"); code != sweep.ExitUsage || out != "" ||
		!strings.Contains(errOut, "--verify checks the whole model: launcher registry show ctr --verify") {
		t.Errorf("a version alone: %d, %s%s", code, out, errOut)
	}

	must.Get(w.buckets["registry"].Put(t.Context(), "registry/ctr/versions/2/model.txt", blob.Any,
		strings.NewReader("tree 9")))(t)
	w.refused(sweep.ExitInput, "registry/ctr/versions/2/model.txt is damaged", "registry", "show", "ctr", "--verify")
}

// TestVersionsSayHowTheyStand: whether one is live, since when or until when, and what the gate said; files last, on
// demand. Lists have score and age.
func TestVersionsSayHowTheyStand(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1")
	must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "ctr", "night-1",
		map[string][]byte{"model.txt": []byte("tree")}, registry.Info{At: w.now.Add(4 * time.Hour), By: "aggregator",
			Metrics: map[string]float64{"auc": 0.7, "log_loss": 0.125}, Labels: map[string]string{"sweep": "night-1"}},
	))(t)
	w.now = w.now.Add(53 * time.Hour)
	for _, c := range []struct{ args, want string }{
		{"show ctr@3", "ctr@3 (champion) | live | champion since 2026-11-21 (2 days ago)"},
		{"show ctr@1", "ctr@1 | not live | champion from 2026-11-21 to 2026-11-21, then @2"},
		{"show ctr@4", "ctr@4 | not live | never the champion, which is @3"},
		{"show ctr@3", "1, 6 B (--all lists them)"}, {"show ctr@3 --all", "model.txt │ 6 B, sha256"},
		{"list ctr", "4 │ │ log_loss 0.125 │ 2 days │"}, {"list", "ctr │ 4 │ 3 │ │ 2 days"},
	} {
		out := w.must(append([]string{"registry"}, strings.Fields(c.args)...)...)
		text := strings.Join(strings.Fields(out), " ")
		for _, part := range strings.Split(c.want, " | ") {
			if !strings.Contains(text, part) {
				t.Errorf("registry %s does not say %q:\n%s", c.args, part, out)
			}
		}
		if strings.Contains(out, "sha256") != strings.Contains(c.args, "--all") {
			t.Errorf("registry %s has sums only with --all:\n%s", c.args, out)
		}
	}
	if out := w.must("status", "night-1"); !strings.HasPrefix(out,
		"ctr v1 is live. On test auc 0.61. There was no champion.\n") {
		t.Errorf("status begins with\n%.200s\nexpected what is live, and how good by the metric of the sweep", out)
	}

	// The plan says what chose a version where its report has no interval of that.
	must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "ctr", "night-2",
		map[string][]byte{"model.txt": []byte("tree"), scorer.FilePlan: []byte(`{"spec":{"metric":"auc"}}`)},
		registry.Info{At: w.now, By: "aggregator", Metrics: map[string]float64{"auc": 0.7, "log_loss": 0.125}}))(t)
	if out := w.must("registry", "list", "ctr"); !strings.Contains(out, "auc 0.7") {
		t.Errorf("registry list ctr does not say the auc that chose version 5:\n%s", out)
	}
}
