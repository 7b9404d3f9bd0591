package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/reproduce"
)

// TestRegistryCommands: versions are listed and shown, with their files and parameters, promoted and rolled back, and
// the history says who did what. Models, versions and files that do not exist are not found. Numbers below 1, a name
// that is a path and an unknown command are refused.
func TestRegistryCommands(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitNotFound, "ctr", "registry", "show", "ctr")
	w.register(3)
	w.refused(sweep.ExitNotFound, "ctr", "registry", "rollback", "ctr", "--why", "a test")
	w.must("registry", "promote", "ctr@2", "--why", "approved")
	w.says(w.must("registry", "promote", "ctr@3", "--why", "a test"), "2 -> 3",
		"goes on with version 2 if answers would shift")
	w.says(w.must("registry", "rollback", "ctr", "--why", "worse"), "3 -> 2")

	// What lists and pages show.
	for _, args := range [][]string{{"list"}, {"list", "ctr"}, {"show", "ctr"}, {"show", "ctr@champion"},
		{"show", "ctr@2"}} {
		if out := w.must(append([]string{"registry"}, args...)...); !strings.Contains(out, "2") ||
			!strings.Contains(out, "auc 0.6") && args[0] == "show" {
			t.Errorf("registry %q: got %s; want version 2, and with show its AUC of .6", args, out)
		}
	}
	stored, _ := must.Get2(blob.ReadAll(t.Context(), w.buckets["registry"],
		"registry/ctr/versions/1/"+scorer.FileLevels, 1<<30))(t)
	if out := w.must("registry", "show", "ctr@1", "--file", scorer.FileLevels); out != string(stored) {
		t.Errorf("%d bytes of the levels were printed, %d are stored; want the same bytes", len(out), len(stored))
	}
	// Parameters that are not the default's: learning_rate 0.1 is, and version 3 does not say its own (register).
	for version, want := range map[string]string{"ctr@1": "lookahead_freq=0 num_leaves=63 ", "ctr@2": "the defaults",
		"ctr@3": ""} {
		out := w.must("registry", "show", version)
		if !strings.Contains(out, want) || strings.Contains(out, "parameters") != (want != "") ||
			strings.Contains(out, "learning_rate") {
			t.Errorf("%s does not show its parameters, %q:\n%s", version, want, out)
		}
	}

	// Who did what, and why.
	out := w.must("registry", "show", "ctr", "--history")
	w.says(out, "registered", "promoted champion", "rolled_back champion", "approved", "worse", "3 -> 2")
	var v []registry.Version
	if err := json.Unmarshal([]byte(w.must("registry", "list", "ctr", "--json")), &v); err != nil || len(v) != 3 {
		t.Errorf("registry list --json: %v, %v, expected 3 versions", v, err)
	}

	// What does not exist, or is no version.
	w.refused(sweep.ExitNotFound, "9", "registry", "show", "ctr@9")
	w.refused(sweep.ExitNotFound, "no.txt", "registry", "show", "ctr@1", "--file", "no.txt")
	w.refused(sweep.ExitUsage, "MODEL@VERSION", "registry", "promote", "ctr@best", "--why", "a test")
	for _, none := range []string{"ctr@0", "ctx@0", "ctr@-1"} { // ctx does not exist, so no alias of it does
		w.refused(sweep.ExitUsage, "a number from 1 on", "registry", "promote", none, "--alias", "canary", "--why",
			"a test")
	}
	w.refused(sweep.ExitInput, "../x", "registry", "list", "../x")
	w.refused(sweep.ExitUsage, "unknown command", "registry", "bogus")
}

// TestBadVersions: a version that is marked bad says so where it is shown, is skipped by rollback and cannot be
// promoted until the mark is removed. If an alias points at it, marking says how to move that.
func TestBadVersions(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	w.must("registry", "promote", "ctr@2", "--alias", "canary", "--why", "5 %")
	w.must("registry", "bad", "ctr@2", "--why", "broken labels")
	out := w.must("registry", "show", "ctr@canary")
	w.says(out, "canary", "broken labels")
	w.says(w.must("registry", "rollback", "ctr", "--why", "a test"), "3 -> 1") // past 2, which is bad
	w.refused(sweep.ExitConflict, "broken labels", "registry", "promote", "ctr@2", "--why", "a test")
	w.must("registry", "bad", "ctr@2", "--undo", "--why", "they were right")
	w.must("registry", "promote", "ctr@2", "--why", "a test")
	w.says(w.must("registry", "bad", "ctr@2", "--why", "x"), "still the champion", "canary still")
	out = w.must("registry", "show", "ctr", "--history")
	w.says(out, "marked_bad", "cleared", "promoted canary")
	w.refused(sweep.ExitUsage, "number", "registry", "promote", "ctr@1", "--alias", "7", "--why", "a test")
	w.must("registry", "promote", "ctr@1", "--alias", "canary", "--why", "a test")

	// canary was only at 2 before, which is bad again. --to 0 takes the alias away.
	w.refused(sweep.ExitNotFound, "marked bad", "registry", "rollback", "ctr", "--alias", "canary", "--why", "a test")
	w.says(w.must("registry", "rollback", "ctr", "--alias", "canary", "--to", "0", "--why", "it is over"),
		"canary of ctr: version 1 -> -")
	w.refused(sweep.ExitNotFound, "canary", "registry", "show", "ctr@canary")
	w.refused(sweep.ExitUsage, "--why", "registry", "bad", "ctr@1")
	w.refused(sweep.ExitUsage, "which version", "registry", "bad", "ctr", "--why", "x")
}

// TestABadFirstChampion: to move the champion away from a version that is marked bad, a command is advised that works:
// there is no rollback from the first champion.
func TestABadFirstChampion(t *testing.T) {
	w := newWorld(t)
	w.register(2)
	w.must("registry", "promote", "ctr@1", "--why", "the first")
	out := w.must("registry", "bad", "ctr@1", "--why", "broken labels")
	w.says(out, "champion still points at it; to move that: launcher registry promote ctr@VERSION --alias champion")
	w.lacks(out, "rollback")
	w.must("registry", "promote", "ctr@2", "--alias", "champion", "--why", "as advised")
}

// TestDeleteAsks: delete needs the version's number, and asks for it to be typed unless --yes is given. The champion
// cannot be deleted.
func TestDeleteAsks(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	w.refused(sweep.ExitUsage, "--yes", "registry", "delete", "ctr@1", "--why", "room")
	w.refused(sweep.ExitConflict, "champion", "registry", "delete", "ctr@3", "--why", "room", "--yes")
	w.refused(sweep.ExitUsage, "ctr@3", "registry", "delete", "ctr@champion", "--why", "room", "--yes")

	// answer runs the command with a text typed at the question.
	answer := func(text string) (int, string) {
		w.in = strings.NewReader(text)
		code, out, errOut := w.run("registry", "delete", "ctr@1", "--why", "room")
		return code, out + errOut
	}
	if code, out := answer("y\n"); code != sweep.ExitUsage || !strings.Contains(out, "nothing was changed") {
		t.Errorf("the answer y ended with %d; want that of wrong usage, and nothing changed\n%s", code, out)
	}
	w.must("registry", "show", "ctr@1")
	if code, out := answer("ctr@1\n"); code != 0 {
		t.Errorf("the version's name as an answer ended with %d, want 0\n%s", code, out)
	}
	w.refused(sweep.ExitNotFound, "was deleted", "registry", "show", "ctr@1")
	w.says(w.must("registry", "show", "ctr", "--history"), "deleted")
	w.must("registry", "delete", "ctr@2", "--why", "room", "--yes")
}

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

// TestVerify: registry show --verify has the moves of the aliases, the last of which is the head, and says that nothing
// is changed. A file with other bytes is found. It does not go with a version or with --history.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	var verified registry.Verification
	out := w.must("registry", "show", "ctr", "--verify", "--json")
	if err := json.Unmarshal([]byte(out), &verified); err != nil || len(verified.Moves) != 3 ||
		verified.Heads[0].SHA256 != verified.Moves[2] {
		t.Fatalf("got %s (%v), want three moves, the last of which is the head", out, err)
	}
	w.says(w.must("registry", "show", "ctr", "--verify"), verified.Moves[2], "everything is unchanged")
	w.refused(sweep.ExitNotFound, "ctx", "registry", "show", "ctx", "--verify")
	w.refused(sweep.ExitUsage, "verify", "registry", "show", "ctr", "--verify", "--history")
	if code, out, errOut := w.run("registry", "show", "ctr@1", "--verify"); code != sweep.ExitUsage || out != "" ||
		!strings.Contains(errOut, "--verify checks the whole model: launcher registry show ctr --verify") {
		t.Errorf("--verify of a version alone: %d; want that of wrong usage, and the right command: "+
			"%s%s", code, out, errOut)
	}

	w.put("registry", "registry/ctr/versions/2/model.txt", "tree 9")
	w.refused(sweep.ExitInput, "registry/ctr/versions/2/model.txt is damaged", "registry", "show", "ctr", "--verify")
}

// TestVersionsSayHowTheyStand: registry show says whether a version is live, since when or until when, and lists files
// with --all. Lists have the metric that chose a version, by its report or its plan, and its age. status begins with
// what is live.
func TestVersionsSayHowTheyStand(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.spec(), "--id", "night-1")
	must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "ctr", "night-1",
		map[string][]byte{"model.txt": []byte("tree")}, registry.Info{At: w.now.Add(4 * time.Hour), By: "aggregator",
			Metrics: map[string]float64{"auc": 0.7, "log_loss": 0.125}, Labels: map[string]string{"sweep": "night-1"}},
	))(t)
	w.now = w.now.Add(53 * time.Hour) // 2 days, whole ones, after all of them
	for _, c := range []struct{ args, want string }{
		{"show ctr@3", "ctr version 3 (champion) | live | champion since 2026-11-21 (2 days ago)"},
		{"show ctr@1", "ctr version 1 | not live | champion from 2026-11-21 to 2026-11-21, then version 2"},
		{"show ctr@4", "ctr version 4 | not live | never the champion, which is version 3"},
		// One file, "tree 2", of six bytes.
		{"show ctr@3", "1, 6 B (--all lists them)"}, {"show ctr@3 --all", "model.txt │ 6 B, sha256"},
		{"list ctr", "4 │ │ log_loss 0.125 │ 2 days │"}, {"list", "ctr │ 4 │ 3 │ 2 days"},
	} {
		out := w.must(append([]string{"registry"}, strings.Fields(c.args)...)...)
		text := strings.Join(strings.Fields(out), " ")
		w.says(text, strings.Split(c.want, " | ")...)
		if strings.Contains(out, "sha256") != strings.Contains(c.args, "--all") {
			t.Errorf("registry %s: want checksums only with --all:\n%s", c.args, out)
		}
	}
	if out := w.must("status", "night-1"); !strings.HasPrefix(out,
		"ctr version 1 was promoted; version 3 is live. On test auc 0.61. There was no champion.\n") {
		t.Errorf("status begins with\n%.200s\nexpected what is live, and how good by the metric of the sweep", out)
	}

	// The plan says what chose a version where its report has no interval of that.
	must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "ctr", "night-2",
		map[string][]byte{"model.txt": []byte("tree"), scorer.FilePlan: []byte(`{"spec":{"metric":"auc"}}`)},
		registry.Info{At: w.now, By: "aggregator", Metrics: map[string]float64{"auc": 0.7, "log_loss": 0.125}}))(t)
	w.says(w.must("registry", "list", "ctr"), "auc 0.7")
}

// changed registers version 1 again, as a new version, with the text of a file changed.
func (g *grown) changed(file string, change func(string) string) registry.Version {
	g.t.Helper()
	r := registry.New(g.buckets["registry"])
	v := must.Get(r.Get(g.t.Context(), "ctr", "1"))(g.t)
	files := map[string][]byte{}
	for _, f := range v.Files {
		files[f.Name] = must.Get(r.ReadFile(g.t.Context(), v, f.Name))(g.t)
	}
	before := string(files[file])
	if files[file] = []byte(change(before)); string(files[file]) == before {
		g.t.Fatalf("%s is as it was, want it changed", file)
	}
	key := must.Get(r.Numbers(g.t.Context(), "ctr"))(g.t)
	return must.Get(r.Register(g.t.Context(), "ctr", fmt.Sprint("changed-", len(key)), files, v.Info))(g.t)
}

// replacing returns a change of a text: the first old part becomes fresh.
func replacing(old, fresh string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, fresh, 1) }
}

// TestReproduce: registry reproduce trains a version again to the same bytes of its four files, with any number of
// threads, on the bucket's dataset or a local copy.
func TestReproduce(t *testing.T) {
	w := newWorld(t)
	g := w.grow(12)
	for _, args := range [][]string{{"ctr@1"}, {"ctr@1", "--threads", "3"}, {"ctr", "--dataset", g.dir}} {
		w.says(w.must(append([]string{"registry", "reproduce"}, args...)...), "12 trees", ": the same bytes")
	}
	var r reproduce.Report
	if err := json.Unmarshal([]byte(w.must("registry", "reproduce", "ctr@1", "--json")), &r); err != nil || !r.Same() ||
		len(r.Files) != 4 {
		t.Errorf("got %+v, %v, want four files with the same bytes", r, err)
	}
}

// TestReproduceAtItsLimit: a version whose training ended after 5 of 12 trees, at its time limit, is trained again up
// to the same tree. If its result does not say that, it is trained to the end, and differs.
func TestReproduceAtItsLimit(t *testing.T) {
	w := newWorld(t)
	g := w.grow()
	g.limit = 5
	g.version(0, 12)
	g.limit = 0
	w.says(w.must("registry", "reproduce", "ctr@1"), "5 trees", ": the same bytes")
	g.changed(scorer.FileResult, replacing(`"at_limit": true`, `"at_limit": false`))
	w.refused(sweep.ExitConflict, "5 trees were registered, 12 were grown, and the first 5 are the same", "registry",
		"reproduce", "ctr@2")
}

// TestReproduceOfAnotherBuild: what only earlier builds know cannot be trained again, and the error names the build: a
// parameter, and trees that were added to an older version. Such a version still predicts.
func TestReproduceOfAnotherBuild(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	g.changed(scorer.FilePlan, replacing(`"num_leaves":`, `"path_smooth": 2, "num_leaves":`))
	w.refused(sweep.ExitInput, "(asked for: 2); it was planned by build v1: reproduce it with that", "registry",
		"reproduce", "ctr@2")
	g.changed(scorer.FilePlan, replacing(`"spec":`, `"input": {"model": "ctr", "version": 1, "trees": 6}, "spec":`))
	w.refused(sweep.ExitInput, "coppice v1 wrote it", "registry", "reproduce", "ctr@3")
	w.must("predict", "--model", "ctr@3", "--in", w.rows(20), "--out", filepath.Join(w.dir, "scored.csv"))
}

// TestReproduceDiffers: if a version's training gives other bytes, the error says which file differs first and where: a
// leaf's value, the calibrator, or all trees because of another parameter, and then also which builds. A damaged
// dataset is an input error.
func TestReproduceDiffers(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	g.changed(scorer.FileModel, func(text string) string {
		before, tree, _ := strings.Cut(text, "Tree=3\n")
		head, values, _ := strings.Cut(tree, "leaf_value=")
		first, rest, _ := strings.Cut(values, " ")
		fresh := ("0.25" + strings.Repeat("0", 30))[:len(first)] // tree_sizes counts the bytes
		return before + "Tree=3\n" + head + "leaf_value=" + fresh + " " + rest
	})
	// Tree=3 is the fourth, since the file counts from 0.
	w.refused(sweep.ExitConflict, "model.txt: from tree 4 of 6 on: the same splits, other leaf values", "registry",
		"reproduce", "ctr@2")

	g.changed(scorer.FileCalibrator, replacing(`"method"`, `"method" `))
	w.refused(sweep.ExitConflict, "differs in calibrator.json: line 1", "registry", "reproduce", "ctr@3")

	// A plan with another parameter grows other trees; a newer build is named as a reason.
	g.changed(scorer.FilePlan, func(text string) string {
		return replacing(`"coppice": "v1"`, `"coppice": "v0"`)(
			replacing(`"learning_rate": 0.1`, `"learning_rate": 0.2`)(text))
	})
	w.refused(sweep.ExitConflict, "from tree 1 of 6 on", "registry", "reproduce", "ctr@4")
	w.refused(sweep.ExitConflict, "planned by build v0, and trained again by v1", "registry", "reproduce", "ctr@4")

	w.put("datasets", sweep.DatasetDir(g.manifest.Name, g.manifest.Version)+dataset.TargetsFile(dataset.TrainSplit),
		"x")
	w.refused(sweep.ExitInput, dataset.TargetsFile(dataset.TrainSplit), "registry", "reproduce", "ctr@1")
}

// grown is a world with a staged dataset, and versions of ctr trained on it as sweeps register them, without a report.
type grown struct {
	*world
	manifest *dataset.Manifest
	dir      string
	limit    int // trees at which trainings reach their limit; 0 for none
}

// grow stages a dataset and registers a version of it for each number of trees.
func (w *world) grow(trees ...int) *grown {
	w.t.Helper()
	return w.growBy("is_click", trees...)
}

// growBy is grow with another label, as dataset.yaml writes it.
func (w *world) growBy(label string, trees ...int) *grown {
	w.t.Helper()
	o := datasettest.Options{Rows: 3000, Split: "{by: hash, key: user_id, train: 0.6, valid: 0.1, test: 0.3}",
		Label: label}
	dir, m := datasettest.Dir(w.t, o)
	g := &grown{world: w, manifest: m, dir: dir}
	for _, name := range append(names(m.Files), dataset.ManifestFile) {
		text := must.Get(os.ReadFile(filepath.Join(dir, name)))(w.t)
		w.put("datasets", sweep.DatasetDir(m.Name, m.Version)+name, string(text))
	}
	w.put("datasets", sweep.DatasetLatest(m.Name), `{"format":1,"version":"`+m.Version+`"}`)
	for i, n := range trees {
		g.version(i, n)
	}
	return g
}

// names returns the names of files.
func names(files []dataset.FileInfo) (out []string) {
	for _, f := range files {
		out = append(out, f.Name)
	}
	return out
}

// version trains a model of so many trees, or up to g.limit, and registers it with its plan and result as the
// aggregator does, as that of sweep night-i.
func (g *grown) version(i, trees int) registry.Version {
	g.t.Helper()
	ds := must.Get(dataset.Open(g.dir))(g.t)
	defer ds.Close()

	p := gbt.Defaults()
	p.NumIterations = trees
	by := "log_loss"
	if n := len(g.manifest.Label.Classes); n > 0 {
		p.Objective, p.NumClass, by = "multiclass", n, "multi_logloss"
	}
	m := must.Get(metric.Lookup(by))(g.t)
	table, valid := fit.NewTable(ds), sweep.Rows{Split: "valid"}
	q := fit.Request{Params: p, Metric: m, Valid: &valid, Threads: 1}
	q.OnTree = func(t gbt.Progress) error {
		if t.Tree == g.limit {
			return gbt.ErrLimit
		}
		return nil
	}
	res := must.Get(table.Train(g.t.Context(), q))(g.t)
	plan := sweep.Plan{Format: 1, Sweep: sweep.ID("night-" + strconv.Itoa(i)), Coppice: "v1",
		Spec:    sweep.Spec{Model: "ctr", Objective: p.Objective, Metric: by, Seed: 7},
		Dataset: sweep.DatasetRef{Name: g.manifest.Name, Version: g.manifest.Version},
		Holdout: sweep.Holdout{Valid: valid, Calib: sweep.Rows{Split: "test", Folds: []uint8{0, 1, 2, 3}},
			Test: sweep.Rows{Split: "test", Folds: []uint8{4, 5, 6, 7, 8, 9}}},
		Sizing: sweep.Sizing{ThreadsPerTask: 1}, Heartbeat: sweep.Duration(30 * time.Second),
		Takeover: sweep.Duration(5 * time.Minute), Trials: []sweep.Trial{{Params: p.Map()}}}

	var model bytes.Buffer
	must.Get(res.Model.WriteTo(&model))(g.t)
	levels := datasettest.Levels(g.t, ds)
	encoding, kept := scorer.Compact(res.Model, g.manifest.Encoding(), levels)
	manifest := must.Get(os.ReadFile(filepath.Join(g.dir, dataset.ManifestFile)))(g.t)
	files := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileDataset: manifest}
	if kept != nil {
		files[scorer.FileLevels] = kept.Encode()
	}
	made := map[string]any{scorer.FileFeatures: encoding, scorer.FilePlan: plan,
		scorer.FileResult: sweep.Result{Format: 1, Sweep: plan.Sweep, Status: sweep.StatusDone, Params: p.Map(),
			TreesGrown: res.Grown, AtLimit: g.limit > 0}}
	if p.NumClass == 1 {
		made[scorer.FileCalibrator] = g.calibrated(table, res.Model, plan)
	}
	for name, v := range made {
		text, err := json.MarshalIndent(v, "", "  ")
		if name == scorer.FileCalibrator { // which the aggregator writes in one line
			text, err = json.Marshal(v)
		}
		must.Do(g.t, err)
		files[name] = append(text, '\n')
	}
	v := must.Get(registry.New(g.buckets["registry"]).Register(g.t.Context(), "ctr", string(plan.Sweep), files,
		registry.Info{At: g.now, By: "aggregator",
			Labels: map[string]string{"sweep": string(plan.Sweep), "trial": "0", "dataset": g.manifest.Name + "@" +
				g.manifest.Version}}))(g.t)
	return v
}

// calibrated fits the calibrator of a model on the plan's calib.
func (g *grown) calibrated(table *fit.Table, m *gbt.Model, plan sweep.Plan) *calibrate.Calibrator {
	g.t.Helper()
	calib := must.Get(table.Select(plan.Holdout.Calib))(g.t)
	raw := must.Get(m.PredictBinned(&calib.Data, 1))(g.t)
	choice := must.Get(calibrate.Choose(raw, calib.Label, nil, false))(g.t)
	return choice.Calibrator
}

// TestListAcrossNights: registry list has the newest version first, each with its aliases and the day of its sweep's
// slot, if the sweep has one.
func TestListAcrossNights(t *testing.T) {
	w := newWorld(t)
	g := w.grow(2, 3)
	r := registry.New(g.buckets["registry"])
	v := must.Get(r.Get(t.Context(), "ctr", "2"))(t)
	files := map[string][]byte{"model.txt": []byte("x")}
	v.Info.Labels = map[string]string{"sweep": "nightly-20261119-2300", "dataset": "clicks@0123456789abcdef"}
	must.Get(r.Register(t.Context(), "ctr", "nightly", files, v.Info))(t)
	w.must("registry", "promote", "ctr@2", "--why", "better")
	w.must("registry", "promote", "ctr@2", "--alias", "canary", "--why", "5 %")

	var got []struct {
		Version int
		Night   string
		Aliases []string
	}
	must.Do(t, json.Unmarshal([]byte(w.must("registry", "list", "ctr", "--json")), &got))
	// The sweeps of versions 1 and 2, night-0 and night-1, have no slot in their names. A version without aliases has
	// an empty list, not null.
	if len(got) != 3 || got[0].Version != 3 || got[0].Night != "2026-11-19" || got[2].Version != 1 ||
		got[2].Night != "" || !slices.Equal(got[1].Aliases, []string{"canary", "champion"}) || got[0].Aliases == nil {
		t.Errorf("got %+v; want versions 3 to 1, newest first, with their nights and aliases", got)
	}
	out := w.must("registry", "list", "ctr")
	if at := strings.Index(out, "2026-11-19"); at < 0 || at > strings.Index(out, "canary champion") {
		t.Errorf("got\n%s\nwant the newest night, 2026-11-19, before the champion", out)
	}

	// A version that cannot be read hides no other.
	w.put("registry", "registry/ctr/versions/1/version.json", "cut off")
	code, out, errOut := w.run("registry", "list", "ctr")
	if code != sweep.ExitInput || !strings.Contains(out, "2026-11-19") ||
		!strings.Contains(errOut, "registry/ctr/versions/1/version.json is damaged") {
		t.Errorf("listed with a damaged version: ended with %d\n%s\n%s\nwant %d, the others and what is damaged", code,
			out, errOut, sweep.ExitInput)
	}
}
