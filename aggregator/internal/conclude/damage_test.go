package conclude

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dmitryikh/leaves"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// flip changes one bit in the middle of an object. In JSON it looks for a fraction from there on and changes its first
// digit: a change of a last digit might give the same number.
func flip(t *testing.T, s blob.Store, name string) {
	t.Helper()
	data, _ := must.Get2(blob.ReadAll(t.Context(), s, name, 1<<26))(t)
	at := len(data) / 2
	if fraction := bytes.Index(data[at:], []byte(",0.")); path.Ext(name) == ".json" && fraction >= 0 {
		at += fraction + len(",0.")
	}
	data[at] ^= 1
	overwrite(t, s, name, string(data))
}

// TestAFlippedByte: checksums notice a changed byte. With a damaged file of the dataset, the sweep has no winner and
// registers nothing. A damaged file of the best trial, or a model of more bytes than its result says, makes another one
// win. A damaged champion stays, as no version can be compared with it.
func TestAFlippedByte(t *testing.T) {
	trained := newWorld(t, options{})
	sweeps := without(t, trained.sweeps)
	best := trained.mustConclude(t).Trial
	prefix := sweep.DatasetDir(trained.plan.Dataset.Name, trained.plan.Dataset.Version)
	for _, file := range []string{dataset.ManifestFile, dataset.SampleFile, dataset.TargetsFile("calib"),
		dataset.TargetsFile("test")} {
		w := *trained
		w.datasets, w.sweeps, w.models = without(t, trained.datasets), without(t, sweeps), blob.Memory()
		flip(t, w.datasets, prefix+file)
		c, registered := w.mustConclude(t), len(state(t, w.models, ""))
		named := strings.Contains(c.Reason, "dataset") || strings.Contains(c.Reason, file)
		if c.Outcome != sweep.OutcomeNoWinner || !named || registered != 0 {
			t.Errorf("a flipped byte in %s: concluded as %+v, with %d objects in the registry; want no winner, a "+
				"reason that names the dataset or the file, and none", file, c, registered)
		}
	}
	for _, file := range []string{"model.txt", "model.txt, a byte longer", "calib.scores", "test.scores"} {
		w := *trained
		w.sweeps, w.models = without(t, sweeps), blob.Memory()
		kind, longer, _ := strings.Cut(file, ", ")
		if name := sweep.Names(w.plan.Sweep).Attempt(best, 0) + kind; longer != "" {
			overwrite(t, w.sweeps, name, state(t, w.sweeps, name)[name]+"\n")
		} else {
			flip(t, w.sweeps, name)
		}
		c := w.mustConclude(t)
		if c.Outcome != sweep.OutcomeWinner || c.Trial == best || len(c.Rejected) == 0 ||
			file == "model.txt" && !strings.Contains(c.Rejected[0].Reason, "SHA-256") {
			t.Errorf("the best trial's %s is damaged: concluded as %+v; want that trial rejected, a model for its "+
				"SHA-256, and another one as winner", file, c)
		}
	}

	flip(t, trained.models, "registry/ctr/versions/1/"+scorer.FileModel)
	second := newWorld(t, options{into: trained, sweep: "night-2", leaves: []int{31}, trees: 60})
	if g := second.mustConclude(t).Gate; g.Promoted || !strings.Contains(g.Reason, "cannot") {
		t.Errorf("the champion is damaged: gate %+v; want no promotion, since it cannot be compared", g)
	}
}

// TestADamagedChampionRecordEndsTheSweep: the champion's alias or record cannot be read. The next sweep's version is
// registered but not promoted, and its conclusion says why; retrying would never end. Earlier promotions stand.
func TestADamagedChampionRecordEndsTheSweep(t *testing.T) {
	const alias, record = "registry/ctr/aliases/champion.json", "registry/ctr/versions/1/version.json"
	for name, tc := range map[string]struct {
		spoil func(*testing.T, *world)
		says  string
	}{
		"alias": {func(t *testing.T, w *world) { overwrite(t, w.models, alias, "{") },
			"champion.json is damaged"},
		"alias, emptied": {func(t *testing.T, w *world) { overwrite(t, w.models, alias, "") },
			"champion.json is damaged"},
		"version": {func(t *testing.T, w *world) { overwrite(t, w.models, record, "{") },
			"version.json is damaged"},
		"version gone": {func(t *testing.T, w *world) { w.models = without(t, w.models, record) }, "there is no"},
		"event": {func(t *testing.T, w *world) {
			overwrite(t, w.models, "registry/ctr/history/champion/00000001.json", "{")
		}, ""},
	} {
		for _, gate := range []*sweep.Gate{{Metric: "log_loss", Against: sweep.AgainstNone}, {Metric: "log_loss",
			Against: sweep.AgainstChampion, Margin: 1}} {
			t.Run(fmt.Sprintf("%s, gate against %s", name, gate.Against), func(t *testing.T) {
				first := newWorld(t, options{leaves: []int{2}})
				first.mustConclude(t)
				tc.spoil(t, first)
				second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{4},
					change: func(p *sweep.Plan) { p.Spec.Gate = gate }})
				second.models = first.models

				c, err := second.aggregator().Consider(t.Context(), "night-2")
				if err != nil || c == nil || c.Gate == nil {
					t.Fatalf("concluding gives %+v and %v; want a winner with a decision of the gate", c, err)
				}
				if c.Outcome != sweep.OutcomeWinner || c.Version == 0 {
					t.Errorf("concluded with %s, version %d (%s); want a registered winner", c.Outcome, c.Version,
						c.Reason)
				}
				// Without a comparison the alias is read all the same, and the version's record is not. The event of
				// the last move, whose case has no reason, is in the alias itself.
				compared := gate.Against != sweep.AgainstNone || strings.HasPrefix(name, "alias")
				if stays := tc.says != "" && compared; c.Gate.Promoted == stays || stays &&
					!strings.Contains(c.Gate.Reason, tc.says) {
					t.Errorf("promoted %t: %s; want the champion to stay: %t, because %q", c.Gate.Promoted,
						c.Gate.Reason, stays, tc.says)
				}
			})
		}
	}
}

// TestAnEndingWithoutAResult: if the ending counts a trial whose result no longer exists, that trial counts as
// failed, and another one wins.
func TestAnEndingWithoutAResult(t *testing.T) {
	w := newWorld(t, options{})
	best := w.mustConclude(t).Trial
	w.models, w.sweeps = blob.Memory(), without(t, without(t, w.sweeps, sweep.Names(w.plan.Sweep).Conclusion()),
		sweep.Names(w.plan.Sweep).Result(best))
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Trial == best || c.Done != 2 || c.Failed != 1 {
		t.Errorf("the best trial's result is gone: concluded as %+v; want another winner, with two trials done and "+
			"one failed", c)
	}
}

// TestAPlanOfAnotherSweepIsHopeless: a plan that belongs to another sweep is damage that no retry mends. Considering
// the sweep is an error, reconciling is not, and the log says once that the sweep cannot be concluded.
func TestAPlanOfAnotherSweepIsHopeless(t *testing.T) {
	w := newWorld(t, options{})
	text, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Plan(), 1<<26))(t)
	must.Get(w.sweeps.Put(t.Context(), sweep.Names("night-9").Plan(), blob.Any, bytes.NewReader(text)))(t)
	if _, err := w.aggregator().Consider(t.Context(), "night-9"); !problem.Is(err, problem.Damaged) ||
		!strings.Contains(err.Error(), "it belongs to sweep night-1") {
		t.Errorf("a plan of another sweep: got error %v; want it called damaged, and the other sweep named", err)
	}
	a, log := w.aggregator(), &bytes.Buffer{}
	a.Log = slog.New(slog.NewTextHandler(log, nil))
	for range 3 {
		if err := a.Reconcile(t.Context()); err != nil {
			t.Errorf("reconciling: got error %v, want none", err)
		}
	}
	if n := strings.Count(log.String(), "a sweep cannot be concluded"); n != 1 {
		t.Errorf("three reconciliations said %d times that the sweep cannot be concluded; want it once:\n%s", n, log)
	}
}

// TestADamagedRegistryIsReported: unlike a damaged object of the sweep, a damaged record of the registry concerns all
// sweeps of the model, so the reconciliation fails, and a message is redelivered, until it is repaired.
func TestADamagedRegistryIsReported(t *testing.T) {
	w := newWorld(t, options{})
	overwrite(t, w.models, "registry/"+w.plan.Spec.Model+"/keys/"+string(w.plan.Sweep)+".json", "{")
	if err := w.aggregator().Reconcile(t.Context()); !problem.Is(err, problem.Damaged) {
		t.Errorf("reconciling with a damaged registry: got %v, expected an error of kind damaged", err)
	}
	message := fmt.Sprintf(`{"format":1,"sweep":%q,"trial":0}`, w.plan.Sweep)
	if err := w.aggregator().Handle(t.Context(), []byte(message)); !problem.Is(err, problem.Damaged) {
		t.Errorf("handling a message with a damaged registry: got %v, expected an error of kind damaged", err)
	}
}

// TestAModelThatLiesIsPassedOver: a trial whose files do not give the scores that it claims is passed over, with the
// reason, and the next best wins.
func TestAModelThatLiesIsPassedOver(t *testing.T) {
	lie := func(edit func(*sweep.Result, map[string][]byte)) *sweep.Conclusion {
		w := newWorld(t, options{leaves: []int{8, 2}, store: func(r *sweep.Result, files map[string][]byte) {
			if r.Trial == 0 {
				r.Score = 0.999 // the best, so that it is tried first
				edit(r, files)
			}
		}})
		return w.mustConclude(t)
	}
	for name, tc := range map[string]struct {
		edit func(*sweep.Result, map[string][]byte)
		want string
	}{
		"another leaf value": {func(_ *sweep.Result, f map[string][]byte) {
			f["model.txt"] = bytes.Clone(f["model.txt"])
			_, leaf, _ := bytes.Cut(f["model.txt"], []byte("leaf_value=-"))
			leaf[0] = '9' // in model.txt, of which Cut returns a part; the length of a tree's text is checked before
		}, "predicts"},
		"another score": {func(_ *sweep.Result, f map[string][]byte) {
			scores, _ := sweep.DecodeScores(f["test.scores"])
			for i := range scores {
				scores[i] += 1e-6
			}
			f["test.scores"] = sweep.EncodeScores(scores)
		}, "predicts"},
		"no model": {func(_ *sweep.Result, f map[string][]byte) { f["model.txt"] = []byte("hello") },
			"LightGBM text"},
		"too few scores": {func(_ *sweep.Result,
			f map[string][]byte) {
			f["calib.scores"] = sweep.EncodeScores([]float64{1})
		}, "it scored 1 calib"},
		"damaged scores": {func(_ *sweep.Result, f map[string][]byte) { f["test.scores"][20] ^= 1 }, "checksum"},
		"feature count": {func(_ *sweep.Result, f map[string][]byte) { f["model.txt"] = []byte(otherModel) },
			"features"},
		"leaves' own trap": {func(_ *sweep.Result, f map[string][]byte) {
			f["model.txt"] = bytes.Replace(f["model.txt"], []byte("version=v3"), []byte("version=v4"), 1)
		}, "leaves cannot read"},
	} {
		t.Run(name, func(t *testing.T) {
			c := lie(tc.edit)
			if c.Outcome != sweep.OutcomeWinner || c.Trial != 1 || len(c.Rejected) != 1 || c.Rejected[0].Trial != 0 {
				t.Fatalf("trial 0's model lies: concluded as %+v; want trial 0 rejected and trial 1 the winner", c)
			}
			contains(t, c.Rejected[0].Reason, tc.want)
		})
	}
}

const otherModel = "tree\nversion=v3\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n" +
	"max_feature_idx=0\nobjective=binary sigmoid:1\nfeature_names=a\nfeature_infos=none\ntree_sizes=44\n\n" +
	"Tree=0\nnum_leaves=1\nnum_cat=0\nleaf_value=1\n\nend of trees\n"

// TestEitherPredictorConvicts: verification fails if the library leaves or our own predictor differs from the
// trainer's scores. Here leaves scores the first of every three rows, and our predictor all five, so that only ours
// finds the wrong score of the last row.
func TestEitherPredictorConvicts(t *testing.T) {
	model := func(leaf string) string { return strings.Replace(otherModel, "leaf_value=1", "leaf_value="+leaf, 1) }
	h := &holdout{
		manifest: &dataset.Manifest{Features: make([]dataset.Feature, 1)}, values: make([]float64, 5),
		sample:   &dataset.Sample{Split: "test", Row: []uint32{0, 1, 2, 3, 4}},
		testRows: []place{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}},
	}
	for _, tc := range []struct {
		ours, leaves string // what each of the two predicts for every row
		trained      []float64
		want         string // part of the error; empty for none
	}{
		{"1", "1", []float64{1, 1, 1, 1, 1}, ""},
		{"2", "1", []float64{1, 1, 1, 1, 1}, "the predictor predicts 2, the trainer 1"},
		{"1", "2", []float64{1, 1, 1, 1, 1}, "leaves predicts 2, the trainer 1"},
		{"1", "1", []float64{1, 1, 1, 1, 3}, "row 4 of the test sample the predictor predicts 1, the trainer 3"},
	} {
		w := &winner{verified: &sweep.Verified{}, trees: must.Get(gbt.ReadModel(strings.NewReader(model(tc.ours))))(t)}
		scorer := must.Get(leaves.LGEnsembleFromReader(bufio.NewReader(strings.NewReader(model(tc.leaves))), false))(t)
		err := w.verifyScores(scorer, h, h.testRows, tc.trained, 3)
		if (err == nil) != (tc.want == "") {
			t.Errorf("leaf %s, leaves' %s, trained %v: got %v, want %q", tc.ours, tc.leaves, tc.trained, err, tc.want)
		} else if err != nil {
			contains(t, err.Error(), tc.want)
		} else if w.verified.Rows != 2 {
			t.Errorf("leaves scored %d rows, expected 2 of 5", w.verified.Rows)
		}
	}
}

// TestFaultsOfEveryObject is the matrix of what an aggregator does about an object with which something is wrong for
// good, by the table of internal/sweep/WIRE.md. A row is a kind of objects. The columns are the faults: a checksum that
// never matches, no permission to read, an error of the store, a lost second half, and no such object. The sweep is
// concluded with the
//
//	best      or the next trial,
//	none      without a winner,
//	kept      best, and the champion stays as it is,
//
// or it
//
//	goes on, waits for a person who is told (stuck, setup), or for the next check (again).
func TestFaultsOfEveryObject(t *testing.T) {
	plain := newWorld(t, options{})
	plain.mustConclude(t)
	second := newWorld(t, options{into: plain, sweep: "night-2", leaves: []int{2, 31, 6}, trees: 40,
		change: func(p *sweep.Plan) { p.Spec.Gate.Margin = 1 }})
	names, prefix := sweep.Names("night-2"), sweep.DatasetDir(second.plan.Dataset.Name, second.plan.Dataset.Version)
	undisturbed := &world{datasets: second.datasets, sweeps: without(t, second.sweeps),
		models: without(t, second.models), now: second.now, plan: second.plan}
	c := undisturbed.mustConclude(t)
	best := c.Trial
	if got := comesTo(c, nil, best); got != "best" {
		t.Fatalf("undisturbed: %q, %+v; want the best trial to win and to be promoted", got, c)
	}
	with := func(create func(context.Context, *sweepstore.Sweep) (bool, error)) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			if ok, err := create(t.Context(), sweepstore.New(w.sweeps, "night-2")); !ok || err != nil {
				t.Fatalf("prepare: created %t, error %v", ok, err)
			}
		}
	}
	nothing := func(*testing.T, *world) {}

	for _, row := range []struct {
		kind  string
		match string                   // the object's name
		begin func(*testing.T, *world) // prepares the sweep
		late  bool                     // considered once more, when filePatience is over
		want  [5]string                // by fault, in the order of blobtest.Faults
	}{
		{"plan", names.Plan(), nothing, false, [5]string{"stuck", "setup", "again", "stuck", "goes on"}},
		{"result of the best", names.Result(best), nothing, false, [5]string{"next", "setup", "again", "next",
			"goes on"}},
		{"its model", names.Attempt(best, 0) + "model.txt", nothing, false, [5]string{"next", "setup", "again", "next",
			"next"}},
		{"its scores", names.Attempt(best, 0) + "test.scores", nothing, false,
			[5]string{"next", "setup", "again", "next", "next"}},
		{"its model, later", names.Attempt(best, 0) + "model.txt", nothing, true,
			[5]string{"next", "setup", "next", "next", "next"}},
		{"cancellation", names.Cancel(), with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.Cancel(ctx, created)
		}), false, [5]string{"cancelled", "setup", "again", "cancelled", "best"}},
		{"ending", names.Ending(), with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.CreateEnding(ctx, sweep.Ending{Format: 1, Sweep: "night-2", At: created, Trials: []int{0, 1, 2}})
		}), false, [5]string{"stuck", "setup", "again", "stuck", "best"}},
		{"conclusion", names.Conclusion(), with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.CreateConclusion(ctx, sweep.Conclusion{Format: 1, Sweep: "night-2",
				Outcome: sweep.OutcomeNoWinner, At: created, Reason: "x"})
		}), false, [5]string{"stuck", "setup", "again", "stuck", "best"}},
		{"manifest", prefix + dataset.ManifestFile, nothing, false, [5]string{"none", "setup", "again", "none",
			"none"}},
		{"sample", prefix + dataset.SampleFile, nothing, false, [5]string{"none", "setup", "again", "none", "none"}},
		{"targets", prefix + dataset.TargetsFile("test"), nothing, false, [5]string{"none", "setup", "again", "none",
			"none"}},
		{"champion's alias", "registry/ctr/aliases/champion.json", nothing, false,
			[5]string{"kept", "setup", "again", "kept", "best"}},
		{"champion's record", "registry/ctr/versions/1/version.json", nothing, false,
			[5]string{"kept", "setup", "again", "kept", "kept"}},
		{"champion's model", "registry/ctr/versions/1/" + scorer.FileModel, nothing, false,
			[5]string{"kept", "setup", "again", "kept", "kept"}},
		// The alias holds its last event itself, and the one before it led to the version before.
		{"champion's event", "registry/ctr/history/champion/00000001.json", nothing, false,
			[5]string{"best", "best", "best", "best", "best"}},
	} {
		t.Run(row.kind, func(t *testing.T) {
			for i, fault := range blobtest.Faults {
				var c *sweep.Conclusion
				var err error
				synctest.Test(t, func(t *testing.T) {
					w := &world{datasets: second.datasets, models: second.models, now: created.Add(time.Hour),
						plan: second.plan}
					w.sweeps = without(t, second.sweeps)
					row.begin(t, w)
					struck := 0
					for _, s := range []*blob.Store{&w.datasets, &w.sweeps, &w.models} {
						bad := must.Get(blobtest.NewFaulty(t.Context(), *s, fault, func(name string) bool {
							return name == row.match
						}))(t)
						*s, struck = bad, struck+bad.Struck()
					}
					if struck != 1 {
						t.Fatalf("%s: %d objects, want one", row.kind, struck)
					}
					a := w.aggregator()
					c, err = a.Consider(t.Context(), "night-2")
					if row.late {
						w.now = w.now.Add(filePatience)
						c, err = a.Consider(t.Context(), "night-2")
					}
				})
				if got := comesTo(c, err, best); got != row.want[i] {
					t.Errorf("%s, %s: %q (error %v, %+v); want %q", row.kind, fault, got, err, c, row.want[i])
				}
			}
		})
	}
}

// comesTo returns the word for an outcome, as in the table of TestFaultsOfEveryObject.
func comesTo(c *sweep.Conclusion, err error, best int) string {
	switch {
	case errors.As(err, new(*sweep.DecodeError)):
		return "stuck"
	case problem.Of(err) == problem.Environment:
		return "setup"
	case problem.Of(err) == problem.Damaged:
		return "damaged"
	case err != nil:
		return "again"
	case c == nil:
		return "goes on"
	case c.Outcome == sweep.OutcomeCancelled:
		return "cancelled"
	case c.Outcome == sweep.OutcomeNoWinner:
		return "none"
	case c.Trial != best:
		return "next"
	case c.Gate == nil || !c.Gate.Promoted:
		return "kept"
	}
	return "best"
}

// TestAggregatorsOverAFoulStore: three aggregators consider a sweep that is over, again and again, over a bad store:
// three in ten answers to their writes are lost, and calls stall for minutes (of a synctest bubble). With even seeds
// the store's client retries a write without an answer, with odd ones it gives up. All reach the conclusion of an
// undisturbed run, and the registry has one version, promoted once.
func TestAggregatorsOverAFoulStore(t *testing.T) {
	clean := newWorld(t, options{})
	sweeps := without(t, clean.sweeps)
	want := clean.mustConclude(t)
	files := versionFiles(t, clean.models)

	seeds, failed := uint64(4), 0
	switch {
	case testing.Short():
		seeds = 2
	case os.Getenv("COPPICE_FULL") != "":
		seeds = 12
	}
	for seed := range seeds {
		w := *clean
		w.sweeps, w.models = without(t, sweeps), blob.Memory()

		synctest.Test(t, func(t *testing.T) {
			all, failures := w.consideredBy(t, 3, seed)
			failed += failures
			for i, c := range all {
				if c == nil || c.Outcome != sweep.OutcomeWinner || c.Trial != want.Trial || c.Version != 1 ||
					!c.Gate.Promoted {
					t.Errorf("seed %d: aggregator %d concluded with %+v; want trial %d as version 1, promoted; its "+
						"gate: %+v", seed, i, c, want.Trial, c.Gate)
				}
			}
		})

		if got := versionFiles(t, w.models); got != files {
			t.Errorf("seed %d: the registry has\n%s\nwant what it has without a disturbance\n%s", seed, got, files)
		}
		if events, err := registry.New(w.models).History(t.Context(), "ctr"); err != nil || len(events) != 2 {
			t.Errorf("seed %d: history %+v, %v; want a registration and a promotion", seed, events, err)
		}
	}
	if failed == 0 {
		t.Error("no aggregator has failed, so that the test shows nothing; want some to meet a lost answer")
	}
}

// consideredBy lets n aggregators consider the sweep until each knows how it ended, and returns how often one of them
// failed.
func (w *world) consideredBy(t *testing.T, n int, seed uint64) (all []*sweep.Conclusion, failures int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	all = make([]*sweep.Conclusion, n)

	for i := range n {
		group.Go(func() {
			for turn := range uint64(200) {
				draw := seed<<20 + uint64(i)<<10 + turn
				a := w.aggregator()
				sweeps, models := blobtest.NewLossy(w.sweeps, draw, 0.3), blobtest.NewLossy(w.models, draw+1<<40, 0.3)
				sweeps.Repeats, models.Repeats = seed%2 == 0, seed%2 == 0
				a.Sweeps = blobtest.NewStalling(sweeps, draw, 0.05, 5*time.Minute)
				a.Registry = registry.New(blobtest.NewStalling(models, draw, 0.05, 5*time.Minute))

				c, err := a.Consider(t.Context(), w.plan.Sweep)
				if c != nil && err == nil {
					all[i] = c
					return
				}
				mu.Lock()
				failures++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all, failures
}

// versionFiles returns names and checksums of the files of all versions, except the one with their times.
func versionFiles(t *testing.T, models blob.Store) string {
	t.Helper()
	versions := must.Get(registry.New(models).Versions(t.Context(), "ctr"))(t)
	var out strings.Builder
	for _, v := range versions {
		fmt.Fprintln(&out, v.Number, v.Key)
		for _, f := range v.Files {
			fmt.Fprintln(&out, f.Name, f.SHA256)
		}
	}
	return out.String()
}
