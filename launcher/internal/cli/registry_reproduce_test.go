package cli

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
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
	if out := w.must("registry", "reproduce", "ctr@1"); !strings.Contains(out, "5 trees") ||
		!strings.Contains(out, ": the same bytes") {
		t.Errorf("got\n%s\nwant the same bytes of 5 trees", out)
	}
	g.changed("1", map[string]func(string) string{scorer.FileResult: func(text string) string {
		return strings.Replace(text, `"at_limit": true`, `"at_limit": false`, 1)
	}})
	w.refused(sweep.ExitConflict, "5 trees were registered, 12 were grown, and the first 5 are the same", "registry",
		"reproduce", "ctr@2")
}

// TestReproduceWithWhatIsGone: of a version with a parameter that earlier builds knew, the error names its build.
func TestReproduceWithWhatIsGone(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	g.changed("1", map[string]func(string) string{scorer.FilePlan: func(text string) string {
		return strings.Replace(text, `"num_leaves":`, `"path_smooth": 2, "num_leaves":`, 1)
	}})
	w.refused(sweep.ExitInput, "(asked for: 2); it was planned by build v1: reproduce it with that", "registry",
		"reproduce", "ctr@2")
}

// TestReproduceContinued: a version whose trials added trees to an older one, as earlier builds could, predicts as
// before, and is not trained again.
func TestReproduceContinued(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	g.changed("1", map[string]func(string) string{scorer.FilePlan: func(text string) string {
		return strings.Replace(text, `"spec":`, `"input": {"model": "ctr", "version": 1, "trees": 6}, "spec":`, 1)
	}})
	w.refused(sweep.ExitInput, problem.Gone("continue:"), "registry", "reproduce", "ctr@2")
	table := w.file("rows.csv", string(datasettest.Table(datasettest.Options{Rows: 20})))
	w.must("predict", "--model", "ctr@2", "--in", table, "--out", filepath.Join(w.dir, "scored.csv"))
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
