package cli

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/reproduce"
)

// changed registers a version again, under another key, with some of its files changed.
func (g *grown) changed(n string, change map[string]func(string) string) registry.Version {
	g.t.Helper()
	r := registry.New(g.buckets["registry"])
	v := must.Get(r.Get(g.t.Context(), "ctr", n))(g.t)
	files := map[string][]byte{}
	for _, f := range v.Files {
		files[f.Name] = must.Get(r.ReadFile(g.t.Context(), v, f.Name))(g.t)
	}
	for name, do := range change {
		before := string(files[name])
		if files[name] = []byte(do(before)); string(files[name]) == before {
			g.t.Fatalf("%s did not change", name)
		}
	}
	key := strings.Join(append([]string{"changed"}, keys(change)...), "-")
	return must.Get(r.Register(g.t.Context(), "ctr", key, files, v.Info))(g.t)
}

func keys[V any](m map[string]V) (out []string) {
	for k := range maps.Keys(m) {
		out = append(out, k)
	}
	return out
}

func TestReproduce(t *testing.T) {
	w := newWorld(t)
	g := w.grow(12)
	for _, args := range [][]string{{"ctr@1"}, {"ctr@1", "--threads", "3"}, {"ctr", "--dataset", g.dir}} {
		if out := w.must(append([]string{"registry", "reproduce"}, args...)...); !strings.Contains(out, "12 trees") ||
			!strings.Contains(out, ": the same bytes") {
			t.Errorf("%q: got\n%s\nwant the same bytes", args, out)
		}
	}
	var r reproduce.Report
	if err := json.Unmarshal([]byte(w.must("registry", "reproduce", "ctr@1", "--json")), &r); err != nil || !r.Same() ||
		len(r.Files) != 4 {
		t.Errorf("got %+v, %v, want four files with the same bytes", r, err)
	}
}

// TestReproduceAtItsLimit: a version whose training ended at limits.trial is trained up to the same tree.
func TestReproduceAtItsLimit(t *testing.T) {
	w := newWorld(t)
	g := w.grow()
	g.limit = 5
	g.version(0, 12)
	g.limit = 0
	g.continued(1, 4, &sweep.Input{Model: "ctr", Version: 1})
	for version, trees := range map[string]string{"ctr@1": "5 trees", "ctr@2": "9 trees"} {
		if out := w.must("registry", "reproduce", version); !strings.Contains(out, trees) ||
			!strings.Contains(out, ": the same bytes") {
			t.Errorf("%s: got\n%s\nwant the same bytes of %s", version, out, trees)
		}
	}
	g.changed("1", map[string]func(string) string{scorer.FileResult: func(text string) string {
		return strings.Replace(text, `"at_limit": true`, `"at_limit": false`, 1)
	}})
	w.refused(sweep.ExitConflict, "5 trees were registered, 12 were grown, and the first 5 are the same", "registry",
		"reproduce", "ctr@3")
}

// input reads the model that a version continues.
func (g *grown) input(here *dataset.Manifest, in *sweep.Input) *gbt.InputModel {
	g.t.Helper()
	v := must.Get(registry.New(g.buckets["registry"]).Get(g.t.Context(), in.Model, strconv.Itoa(in.Version)))(g.t)
	files := map[string][]byte{}
	for name, to := range map[string]*sweep.Object{scorer.FileModel: &in.Text, scorer.FileDataset: &in.Dataset} {
		files[name] = must.Get(registry.New(g.buckets["registry"]).ReadFile(g.t.Context(), v, name))(g.t)
		*to = sweepstore.InputObject("night-1", files[name])
	}
	old := must.Get(dataset.DecodeManifest(files[scorer.FileDataset]))(g.t)
	m := must.Get(fit.Input(here, old, files[scorer.FileModel]))(g.t)
	return m
}

// A version that continues another is trained again from that one, as long as it is unchanged.
func TestReproduceContinued(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	g.continued(1, 5, &sweep.Input{Model: "ctr", Version: 1})
	g.continued(2, 5, &sweep.Input{Model: "ctr", Version: 2})
	for version, mode := range map[string]string{"ctr@2": "11 trees", "ctr@3": "16 trees"} {
		if out := w.must("registry", "reproduce", version); !strings.Contains(out, mode) ||
			!strings.Contains(out, ": the same bytes") {
			t.Errorf("%s: got\n%s\nwant the same bytes of %s", version, out, mode)
		}
	}

	g.changed("3", map[string]func(string) string{scorer.FilePlan: func(text string) string {
		return strings.Replace(text, `"version": 2`, `"version": 1`, 1)
	}})
	w.refused(sweep.ExitConflict, "version 1 of model ctr, which it continues, has another model.txt than in the plan",
		"registry", "reproduce", "ctr@4")
	w.must("registry", "delete", "ctr@1", "--yes", "--why", "tidying up")
	w.refused(sweep.ExitNotFound, "the model that it continues", "registry", "reproduce", "ctr@2")
}

// TestSweepContinues plans sweeps that start from the champion.
func TestSweepContinues(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	night := func(more string) string { return w.file("sweep.yaml", sweepYAML+more) }
	planned := func(args ...string) (out string, plan sweep.Plan) {
		t.Helper()
		var got struct {
			Plan  sweep.Plan
			Notes []string
		}
		text := w.must(append(args, "--dry-run", "--json")...)
		must.Do(t, json.Unmarshal([]byte(text), &got))
		return strings.Join(got.Notes, "\n"), got.Plan
	}

	// First there is no champion, then there is one.
	notes, plan := planned("sweep", night("continue: {from: champion}\n"))
	if plan.Input != nil || !strings.Contains(notes, "model ctr has no champion to continue yet") {
		t.Errorf("without a champion: %+v\n%s", plan.Input, notes)
	}
	fresh := plan.Sweep
	w.must("registry", "promote", "ctr@1", "--why", "it is the first")
	notes, plan = planned("sweep", night("continue: {from: champion}\n"))
	if in := plan.Input; in == nil || in.Version != 1 || in.Trees != 6 || plan.Sweep == fresh ||
		!strings.Contains(notes, "continues version 1 of model ctr, 6 trees: the trials add trees to it") {
		t.Errorf("with a champion: %+v, sweep %s\n%s", in, plan.Sweep, notes)
	}

	// Tasks find it in the sweep's folder.
	w.must("sweep", night("continue: {from: 1}\n"), "--id", "continued", "--no-wait")
	started, _ := must.Get2(sweepstore.New(w.buckets["sweeps"], "continued").Plan(t.Context()))(t)
	for _, o := range []sweep.Object{started.Input.Text, started.Input.Dataset} {
		if _, lost, err := sweepstore.NewTrials(w.buckets["sweeps"], started).File(t.Context(), o); lost != nil ||
			err != nil {
			t.Error(lost, err)
		}
	}

	// A version that cannot be continued is rejected before a machine starts.
	for _, c := range [][2]string{
		{"continue: {}\n", "from is missing"},
		{"continue: {from: champion, mode: grow}\n", problem.Gone("continue.mode:")},
		{"continue: {from: 'Not a name'}\n", "another alias, or a version's number"},
		{"params: {refit_decay_rate: 0.5}\n", "leaves of those that it has keep their values"},
	} {
		w.refused(sweep.ExitInput, c[1], "sweep", night(c[0]), "--dry-run")
	}
	w.refused(sweep.ExitNotFound, "7", "sweep", night("continue: {from: 7}\n"), "--dry-run")
	w.staged() // with statistics of ids from other rows
	w.refused(sweep.ExitInput, "continue version 1 of model ctr: ", "sweep", night("continue: {from: champion}\n"),
		"--dry-run")
	_ = g
}

// If a version cannot be reproduced, the message says which file differs, and where.
func TestReproduceDiffers(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	replace := func(old, fresh string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, fresh, 1) }
	}

	g.changed("1", map[string]func(string) string{scorer.FileModel: func(text string) string {
		before, tree, _ := strings.Cut(text, "Tree=3\n")
		head, values, _ := strings.Cut(tree, "leaf_value=")
		first, rest, _ := strings.Cut(values, " ")
		fresh := ("0.25" + strings.Repeat("0", 30))[:len(first)] // tree_sizes counts the bytes
		return before + "Tree=3\n" + head + "leaf_value=" + fresh + " " + rest
	}})
	w.refused(sweep.ExitConflict, "model.txt: from tree 4 of 6 on: the same splits, other leaf values", "registry",
		"reproduce", "ctr@2")

	g.changed("1", map[string]func(string) string{scorer.FileCalibrator: replace(`"method"`, `"method" `)})
	w.refused(sweep.ExitConflict, "differs in calibrator.json: line 1", "registry", "reproduce", "ctr@3")

	// A plan with another parameter grows other trees; a newer build is named as a reason.
	v := g.changed("1", map[string]func(string) string{scorer.FilePlan: func(text string) string {
		text = strings.Replace(text, `"learning_rate": 0.1`, `"learning_rate": 0.2`, 1)
		return strings.Replace(text, `"coppice": "v1"`, `"coppice": "v0"`, 1)
	}})
	_, out, errOut := w.run("registry", "reproduce", "ctr@4")
	if v.Number != 4 || !strings.Contains(errOut, "from tree 1 of 6 on") ||
		!strings.Contains(errOut, "planned by build v0, and trained again by v1") {
		t.Errorf("another learning rate: got\n%s%s", out, errOut)
	}

	w.put("datasets", sweep.DatasetDir(g.manifest.Name, g.manifest.Version)+dataset.TargetsFile(dataset.TrainSplit),
		"x")
	w.refused(sweep.ExitInput, dataset.TargetsFile(dataset.TrainSplit), "registry", "reproduce", "ctr@1")
}
