package cli

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"coppice/dataset"
	"coppice/launcher/internal/reproduce"
	"coppice/registry"
	"coppice/scorer"
	"coppice/sweep"
)

// changed registers a version again, under another key, with some of its files changed.
func (g *grown) changed(n string, change map[string]func(string) string) registry.Version {
	g.t.Helper()
	r := registry.New(g.buckets["registry"])
	v, err := r.Get(g.t.Context(), "ctr", n)
	if err != nil {
		g.t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range v.Files {
		if files[f.Name], err = r.ReadFile(g.t.Context(), v, f.Name); err != nil {
			g.t.Fatal(err)
		}
	}
	for name, do := range change {
		before := string(files[name])
		if files[name] = []byte(do(before)); string(files[name]) == before {
			g.t.Fatalf("%s did not change", name)
		}
	}
	v, err = r.Register(g.t.Context(), "ctr", strings.Join(append([]string{"changed"}, keys(change)...), "-"), files, v.Info)
	if err != nil {
		g.t.Fatal(err)
	}
	return v
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
		if out := w.must(append([]string{"registry", "reproduce"}, args...)...); !strings.Contains(out, "12 trees") || !strings.Contains(out, ": the same bytes") {
			t.Errorf("%q: got\n%s\nwant the same bytes", args, out)
		}
	}
	var r reproduce.Report
	if err := json.Unmarshal([]byte(w.must("registry", "reproduce", "ctr@1", "--json")), &r); err != nil || !r.Same() || len(r.Files) != 4 {
		t.Errorf("got %+v, %v, want four files with the same bytes", r, err)
	}
}

// A version that does not come out again says which file differs, and where.
func TestReproduceDiffers(t *testing.T) {
	w := newWorld(t)
	g := w.grow(6)
	replace := func(old, fresh string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, fresh, 1) }
	}

	g.changed("1", map[string]func(string) string{scorer.FileModel: func(text string) string {
		before, tree, _ := strings.Cut(text, "Tree=3\n")
		head, values, _ := strings.Cut(tree, "leaf_value=")
		_, rest, _ := strings.Cut(values, " ")
		return before + "Tree=3\n" + head + "leaf_value=0.25 " + rest
	}})
	w.refused(sweep.ExitConflict, "model.txt: from tree 4 of 6 on: the same splits, other leaf values", "registry", "reproduce", "ctr@2")

	g.changed("1", map[string]func(string) string{scorer.FileCalibrator: replace(`"method"`, `"method" `)})
	w.refused(sweep.ExitConflict, "differs in calibrator.json: line 1", "registry", "reproduce", "ctr@3")

	// A plan with another parameter grows other trees, and a newer build is named as a reason.
	v := g.changed("1", map[string]func(string) string{scorer.FilePlan: func(text string) string {
		text = strings.Replace(text, `"learning_rate": 0.1`, `"learning_rate": 0.2`, 1)
		return strings.Replace(text, `"coppice": "v1"`, `"coppice": "v0"`, 1)
	}})
	_, out, errOut := w.run("registry", "reproduce", "ctr@4")
	if v.Number != 4 || !strings.Contains(errOut, "from tree 1 of 6 on") || !strings.Contains(errOut, "planned by build v0, and this is v1") {
		t.Errorf("another learning rate: got\n%s%s", out, errOut)
	}

	w.put("datasets", sweep.DatasetDir(g.manifest.Name, g.manifest.Version)+dataset.TargetsFile(dataset.TrainSplit), "x")
	w.refused(sweep.ExitInput, dataset.TargetsFile(dataset.TrainSplit), "registry", "reproduce", "ctr@1")
}
