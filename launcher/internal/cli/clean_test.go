package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/clean"
)

// TestClean: what a promoted version, an open sweep or a newest dataset needs is kept, with the reason; the rest may be
// removed, and --yes removes it and nothing else.
func TestClean(t *testing.T) {
	w := newWorld(t)
	w.now = time.Now().AddDate(0, 0, 60) // objects are of today: clean leaves those younger than 7 days
	g := w.grow(2, 3)                    // a dataset, and versions 1 and 2 of ctr, of the sweeps night-0 and night-1
	w.must("registry", "promote", "ctr@1", "--why", "the first")
	w.put("datasets", sweep.DatasetDir("clicks", "0123456789abcdef")+"manifest.json", "old")
	w.put("datasets", sweep.DatasetDir("clicks", "fedcba9876543210")+"manifest.json", "of the open sweep")
	w.put("datasets", sweep.DatasetInput("clicks", "abc"), "{}") // a pointer is no version, and stays
	w.sweepOf("night-0", true)
	w.sweepOf("night-1", true)
	w.put("sweeps", sweep.Names("night-1").Result(0), "{}") // kept: `bill` and `leaderboard` read it
	w.sweepOf("lost", true)
	w.sweepOf("open", false)
	for i := range 10 { // --keep 10 keeps these, the newest; their versions are 64 (hexadecimal for 100) and so on
		w.put("datasets", sweep.DatasetDir("clicks", fmt.Sprintf("%016x", 100+i))+"manifest.json", "newer")
		w.sweepOf(sweep.ID(fmt.Sprintf("newer-%d", i)), true)
	}
	w.put("sweeps", sweep.Names("half").Attempt(0, 0)+"model.txt", "its plan was removed, and then the process died")

	// What holds each item, and why the others may go.
	var items []clean.Item
	must.Do(t, json.Unmarshal([]byte(w.must("clean", "--keep", "10", "--json")), &items))
	held, why := map[string]string{}, map[string]string{}
	for _, i := range items {
		held[i.Kind+" "+i.Name], why[i.Kind+" "+i.Name] = strings.Join(i.HeldBy, "; "), i.Why
	}
	for name, want := range map[string]string{
		"dataset clicks@" + g.manifest.Version: "used to train ctr version 1, which was promoted; newest version",
		"dataset clicks@0123456789abcdef":      "",
		"dataset clicks@fedcba9876543210":      "needed by open sweep open",
		"dataset clicks@0000000000000064":      "one of the newest 10",
		"trial night-0, trial 0":               "the winner, ctr version 1",
		"records night-0":                      "its winner is registered",
		"records night-1":                      "its winner is registered",
		"sweep night-0":                        "",
		"sweep night-1":                        "",
		"sweep lost":                           "",
		"sweep half":                           "",
		"sweep newer-0":                        "one of the newest 10 of model ctr",
		"sweep open":                           "open",
	} {
		if got, ok := held[name]; !ok || got != want {
			t.Errorf("%s is held by %q (listed: %v), want %q", name, got, ok, want)
		}
	}
	// Later than the first of these came the open sweep's dataset and ten others; later than lost, open and ten; later
	// than night-1, lost as well.
	for name, want := range map[string]string{
		"dataset clicks@0123456789abcdef": "11 newer versions",
		"sweep half":                      "it has no plan",
		"sweep lost":                      "11 newer sweeps of model ctr",
		"sweep night-1": "12 newer sweeps of model ctr; " +
			"ctr version 2 is not among those last promoted",
	} {
		if why[name] != want {
			t.Errorf("%s may go because of %q, want %q", name, why[name], want)
		}
	}
	// 13 datasets (one grown, two put, ten newer), 15 sweeps (five named, ten newer), a trial and two records.
	if len(items) != 31 {
		t.Errorf("%d items, want 31: %v", len(items), held)
	}

	// These objects may be removed: of night-0 the model of trial 1 alone, since trial 0 is the winner of version 1,
	// which was promoted. The records of night-0 and night-1, that is their plans and results, stay.
	modelOf := func(id sweep.ID, trial int) string {
		return "gs://sweeps/" + sweep.Names(id).Attempt(trial, 0) + "model.txt"
	}
	may := []string{"gs://datasets/" + sweep.DatasetDir("clicks", "0123456789abcdef") + "manifest.json",
		"gs://sweeps/" + sweep.Names("lost").Plan(), modelOf("half", 0),
		"gs://sweeps/" + sweep.Names("lost").Conclusion(), modelOf("lost", 0), modelOf("lost", 1),
		modelOf("night-0", 1), modelOf("night-1", 0), modelOf("night-1", 1)}

	// Nothing young is removed, whether something needs it or not. Fewer than 10 nights cannot be kept.
	w.now = time.Now()
	w.says(w.must("clean", "--keep", "10"), "younger than 7 days", "0 B can be removed")
	w.refused(2, "--keep 9 --promoted 100: use 10 nights or more", "clean", "--keep", "9")

	// A sweep whose plan cannot be read may need any dataset, ended or not: all are kept.
	w.now = time.Now().AddDate(0, 0, 60)
	w.put("sweeps", sweep.Names("broken").Plan(), "{")
	w.lacks(w.must("clean", "--keep", "10"), "newer versions")
	w.put("sweeps", sweep.Names("broken").Conclusion(), "{")
	w.lacks(w.must("clean", "--keep", "10"), "newer versions")
	w.remove("sweeps", sweep.Names("broken").Plan())
	w.remove("sweeps", sweep.Names("broken").Conclusion())

	// Remove them. What was promoted is still whole.
	w.removes(may)
	w.says(w.must("registry", "reproduce", "ctr@1"), ": the same bytes")
}

// removes checks that `clean --yes` removes exactly the objects may, which ascend: not in the run that lists them
// first, but in one that is clean.Notice later, and once.
func (w *world) removes(may []string) {
	w.t.Helper()
	all := w.objects()
	out := w.must("clean", "--keep", "10", "--yes")
	if !strings.Contains(out, "2.0 KiB can be removed; nothing was removed: a run at least 12 hours from now") ||
		len(w.objects()) != len(all)+1 {
		w.t.Errorf("the first run says\n%s\nand leaves %d objects; want 2.0 KiB that can be removed, the %d objects "+
			"that were there, and its note", out, len(w.objects()), len(all))
	}
	w.now = w.now.Add(clean.Notice)
	before := w.objects()
	w.says(w.must("clean", "--keep", "10", "--yes"), "removed 2.0 KiB", "ctr version 2")
	after := w.objects()
	var gone []string
	for _, o := range before {
		if !slices.Contains(after, o) {
			gone = append(gone, o)
		}
	}
	if !slices.Equal(gone, may) {
		w.t.Errorf("--yes removed %q, want %q", gone, may)
	}
	var record struct{ Items []clean.Item }
	name := "cleaned/" + w.now.UTC().Format(time.RFC3339Nano) + ".json"
	if _, err := blob.ReadJSON(w.t.Context(), w.buckets["datasets"], name, &record); err != nil ||
		len(record.Items) != 5 || record.Items[0].Why == "" {
		w.t.Errorf("the record of what was removed: %+v, %v; want five items, with the reason", record, err)
	}
	if out := w.must("clean", "--keep", "10", "--yes"); !strings.HasSuffix(out, "removed 0 B\n") ||
		len(w.objects()) != len(after) {
		w.t.Errorf("a third run says %q, and leaves %d objects; want 0 B removed, and %d", out, len(w.objects()),
			len(after))
	}
}

// objects returns the URLs of all objects of all buckets, ascending.
func (w *world) objects() (all []string) {
	for name, s := range w.buckets {
		for a, err := range s.List(w.t.Context(), "") {
			must.Do(w.t, err)
			all = append(all, "gs://"+name+"/"+a.Name)
		}
	}
	slices.Sort(all)
	return all
}

// remove removes an object, which has to exist.
func (w *world) remove(bucket, object string) {
	w.t.Helper()
	a := must.Get(w.buckets[bucket].Stat(w.t.Context(), object))(w.t)
	must.Do(w.t, w.buckets[bucket].(blob.Remover).Remove(w.t.Context(), object, a.Generation))
}

// sweepOf writes a sweep of two trials: its plan, a model of each trial and, if it ended, a conclusion without a
// winner.
func (w *world) sweepOf(id sweep.ID, ended bool) {
	w.t.Helper()
	p := sweep.Plan{Format: 1, Sweep: id, Dataset: sweep.DatasetRef{Name: "clicks", Version: "fedcba9876543210"},
		Heartbeat: sweep.Duration(time.Minute),
		Takeover:  sweep.Duration(time.Hour), Trials: []sweep.Trial{{}, {Number: 1}}}
	p.Spec.Model = "ctr"
	p.Holdout = sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
		Test: sweep.Rows{Split: "test"}}
	s := sweepstore.New(w.buckets["sweeps"], id)
	must.Get(s.CreatePlan(w.t.Context(), p))(w.t)
	for _, trial := range []int{0, 1} {
		w.put("sweeps", sweep.Names(id).Attempt(trial, 0)+"model.txt", strings.Repeat("x", 100))
	}
	if !ended {
		return
	}
	must.Get(s.CreateConclusion(w.t.Context(), sweep.Conclusion{Format: 1, Sweep: id,
		Outcome: sweep.OutcomeNoWinner, Reason: "x", At: w.now}))(w.t)
}

// TestRemovedMeanwhile: when a dataset's manifest is removed or damaged while its sweep is planned, the launcher
// notices before it writes the plan, so the sweep's id is not spent. A manifest that is there is renewed before the
// plan is written, so that `launcher clean` leaves it.
func TestRemovedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		name            string // what becomes of the manifest
		code, submitted int    // the exit code, and how often the job is submitted
	}{{"gone", sweep.ExitNotFound, 0}, {"there", 0, 1}, {"damaged", sweep.ExitInput, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStagedWorld(t)
				spec := w.spec()
				before := w.manifest()
				// The launcher asks for the job's status before it writes the plan.
				w.jobs.asked = func() { w.hide(c.name) }
				w.buckets["sweeps"] = blobtest.Before(w.buckets["sweeps"], blobtest.Put,
					func(_ context.Context, name string) error {
						if strings.HasPrefix(name, sweep.PlansPrefix) && w.manifest() <= before {
							t.Error("the manifest was not renewed when the plan was written, want a newer generation")
						}
						return nil
					})
				if c.code == 0 {
					w.must("sweep", spec, "--id", "night", "--no-wait")
				} else {
					w.refused(c.code, "", "sweep", spec, "--id", "night", "--no-wait")
				}
				if w.jobs.submitted["night"] != c.submitted {
					t.Errorf("submitted %v, want night %d times", w.jobs.submitted, c.submitted)
				}
				_, _, err := sweepstore.New(w.buckets["sweeps"], "night").Plan(t.Context())
				if (err == nil) != (c.submitted == 1) {
					t.Errorf("reading the plan: %v, want a plan only of a sweep that was submitted", err)
				}
			})
		})
	}
}

// manifest returns the generation of the only dataset's manifest, 0 if there is none.
func (w *world) manifest() blob.Generation {
	for a, err := range w.buckets["datasets"].List(w.t.Context(), "") {
		must.Do(w.t, err)
		if strings.HasSuffix(a.Name, "/manifest.json") {
			return a.Generation
		}
	}
	return 0
}

// hide removes (gone) or damages (damaged) all manifests; any other word leaves them.
func (w *world) hide(how string) {
	for _, o := range w.objects() {
		name, ok := strings.CutPrefix(o, "gs://datasets/")
		if !ok || !strings.HasSuffix(name, "/manifest.json") {
			continue
		}
		switch how {
		case "gone":
			w.remove("datasets", name)
		case "damaged":
			w.put("datasets", name, "{")
		}
	}
}

// TestDeletedVersionsFiles: clean lists the files of a deleted version with their URLs, and removes none of them.
func TestDeletedVersionsFiles(t *testing.T) {
	w := newWorld(t)
	w.now = time.Now().AddDate(0, 0, 60)
	w.grow(2, 3)
	w.must("registry", "delete", "ctr@1", "--why", "it has to go", "--yes")
	var items []clean.Item
	must.Do(t, json.Unmarshal([]byte(w.must("clean", "--json")), &items))
	var urls []string
	for _, i := range items {
		urls = append(urls, i.URLs...)
	}
	before := w.objects()
	if len(urls) < 5 || slices.ContainsFunc(urls, func(u string) bool { return !slices.Contains(before, u) }) {
		t.Errorf("listed are %q, want 5 files of the version or more, all of them among %q", urls, before)
	}
	w.must("clean", "--yes")
	if now := w.objects(); len(now) != len(before) {
		t.Errorf("clean --yes left %d objects, want all %d", len(now), len(before))
	}
}
