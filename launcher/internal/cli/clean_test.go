package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/clean"
)

// TestClean: what a registered version, an open sweep or a newest dataset needs is kept, with the reason; the rest may
// be removed, and the URLs match its objects alone.
func TestClean(t *testing.T) {
	w := newWorld(t)
	w.now = time.Now().AddDate(0, 0, 60)
	g := w.grow(2, 3)
	w.put("datasets", sweep.DatasetDir("clicks", "0123456789abcdef")+"manifest.json", "old")
	w.put("datasets", sweep.DatasetDir("clicks", "fedcba9876543210")+"manifest.json", "of the open sweep")
	w.put("datasets", sweep.DatasetInput("clicks", "abc"), "{}")

	for id, ended := range map[sweep.ID]bool{"night-0": true, "lost": true, "open": false} {
		p := sweep.Plan{Format: 1, Sweep: id, Dataset: sweep.DatasetRef{Name: "clicks", Version: "fedcba9876543210"},
			Heartbeat: sweep.Duration(time.Minute),
			Takeover:  sweep.Duration(time.Hour), Trials: []sweep.Trial{{}, {Number: 1}}}
		p.Spec.Model = "ctr"
		p.Holdout = sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "test"}}
		s := sweepstore.New(w.buckets["sweeps"], id)
		if _, err := s.CreatePlan(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for _, trial := range []int{0, 1} {
			w.put("sweeps", sweep.Names(id).Attempt(trial, 0)+"model.txt", strings.Repeat("x", 100))
		}
		if ended {
			if _, err := s.CreateConclusion(t.Context(),
				sweep.Conclusion{Format: 1, Sweep: id, Outcome: sweep.OutcomeNoWinner, Reason: "x",
					At: w.now}); err != nil {
				t.Fatal(err)
			}
		}
	}

	var items []clean.Item
	if err := json.Unmarshal([]byte(w.must("clean", "--json")), &items); err != nil {
		t.Fatal(err)
	}
	held := map[string]string{}
	for _, i := range items {
		held[i.Kind+" "+i.Name] = strings.Join(i.HeldBy, "; ")
	}
	for name, want := range map[string]string{
		"dataset clicks@" + g.manifest.Version: "used to train ctr@1; used to train ctr@2; newest version",
		"dataset clicks@0123456789abcdef":      "",
		"dataset clicks@fedcba9876543210":      "needed by open sweep open",
		"trial night-0, trial 0":               "the winner, ctr@1",
		"records night-0":                      "its winner is registered",
		"sweep night-0":                        "",
		"sweep lost":                           "",
		"sweep open":                           "open",
	} {
		if got, ok := held[name]; !ok || got != want {
			t.Errorf("%s is held by %q (listed: %v), want %q", name, got, ok, want)
		}
	}
	if len(items) != 8 {
		t.Errorf("%d items, want 8: %v", len(items), held)
	}

	urls := strings.Fields(w.must("clean", "--urls"))
	want := []string{"gs://datasets/" + sweep.DatasetDir("clicks", "0123456789abcdef") + "manifest.json",
		"gs://sweeps/" + sweep.Names("night-0").Attempt(1, 0) + "model.txt"}
	for _, u := range want {
		if !slices.Contains(urls, u) {
			t.Errorf("%s is not among what may go: %q", u, urls)
		}
	}
	if len(urls) != 6 { // the dataset, a trial of night-0, two trials, plan and conclusion of lost
		t.Errorf("%d objects may go, want 6: %q", len(urls), urls)
	}

	w.now = time.Now()
	if out := w.must("clean"); !strings.Contains(out, "younger than 30 days") ||
		!strings.Contains(out, "0 B can be removed") {
		t.Errorf("on the day itself:\n%s", out)
	}

	// A sweep whose plan cannot be read may need any dataset.
	w.now = time.Now().AddDate(0, 0, 60)
	w.put("sweeps", sweep.Names("broken").Plan(), "{")
	if urls := w.must("clean", "--urls"); strings.Contains(urls, "gs://datasets/") {
		t.Errorf("with an unreadable plan, datasets may go:\n%s", urls)
	}
}
