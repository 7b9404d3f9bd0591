package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/explain"
)

// withReference registers version 1 again with the sampled rows of its test split.
func (g *grown) withReference() {
	g.t.Helper()
	read := func(name string) []byte {
		return must.Get(os.ReadFile(filepath.Join(g.dir, name)))(g.t)
	}
	sample := must.Get(dataset.ReadSample(read(dataset.SampleFile)))(g.t)
	all := must.Get(dataset.ReadTargets(read(dataset.TargetsFile(sample.Split))))(g.t)
	kept := scorer.Reference{Sample: sample}
	for _, row := range sample.Row {
		kept.Targets.Label = append(kept.Targets.Label, all.Label[row])
	}
	text := must.Get(kept.Encode())(g.t)

	r := registry.New(g.buckets["registry"])
	v := must.Get(r.Get(g.t.Context(), "ctr", "1"))(g.t)
	files := map[string][]byte{scorer.FileReference: text}
	for _, f := range v.Files {
		files[f.Name] = must.Get(r.ReadFile(g.t.Context(), v, f.Name))(g.t)
	}
	must.Get(r.Register(g.t.Context(), "ctr", "with-reference", files, v.Info))(g.t)
}

// explainedWorld has ctr@2, a version with the sampled rows of its test split.
type explainedWorld struct{ *world }

func newExplainedWorld(t *testing.T) explainedWorld {
	w := newWorld(t)
	g := w.grow(40)
	w.refused(sweep.ExitInput, "keeps no test rows (reference.arrow)", "registry", "explain", "ctr@1")
	g.withReference()
	return explainedWorld{w}
}

func (w explainedWorld) explain(flags ...string) (r explain.Report) {
	w.t.Helper()
	out := w.must(append([]string{"registry", "explain", "ctr@2", "--json"}, flags...)...)
	must.Do(w.t, json.Unmarshal([]byte(out), &r))
	return r
}

func TestExplain(t *testing.T) {
	w := newExplainedWorld(t)
	r := w.explain()
	if r.Metric != "log_loss" || r.Rows < 500 || !(r.Value > 0.1 && r.Value < 0.7) || !(*r.Expected < 0) {
		t.Errorf("explain ctr@2: got %d rows, %s %v, expected score %v; want 500 or more, log_loss in 0.1 to 0.7, "+
			"and a score below 0", r.Rows, r.Metric, r.Value, *r.Expected)
	}
	t.Run("threads change nothing", func(t *testing.T) {
		if !reflect.DeepEqual(r, w.explain("--threads", "3")) {
			t.Error("explain ctr@2 --threads 3: got another report than with one thread")
		}
	})
	t.Run("features in order", func(t *testing.T) { checkExplainedFeatures(t, r.Features) })
	t.Run("columns", func(t *testing.T) { checkExplainedColumns(t, r) })

	t.Run("options", func(t *testing.T) {
		if few := w.explain("--rows", "100", "--metric", "auc"); few.Rows != 100 || few.Metric != "auc" {
			t.Errorf("explain ctr@2 --rows 100 --metric auc: got %d rows by %s", few.Rows, few.Metric)
		}
	})
	t.Run("text", func(t *testing.T) {
		out := w.must("registry", "explain", "ctr@2")
		for _, part := range []string{"ctr@2 on ", "test rows of its night: log_loss 0.", "campaign_id",
			"95 % INTERVAL", "site:rate"} {
			w.says(strings.ToUpper(out), strings.ToUpper(part))
		}
	})
	t.Run("refusals", func(*testing.T) {
		w.refused(sweep.ExitUsage, "--rows is 1", "registry", "explain", "ctr@2", "--rows", "1")
		w.refused(sweep.ExitUsage, "--metric", "registry", "explain", "ctr@2", "--metric", "beauty")
		w.refused(sweep.ExitUsage, "the label has none", "registry", "explain", "ctr@2", "--metric", "multi_error")
	})
	t.Run("the model's page", func(t *testing.T) {
		w.must("registry", "promote", "ctr@2", "--why", "its page is looked at")
		html := w.must("report", "model:ctr", "--out", "-")
		first := regexp.MustCompile(`(?s)SHAP values of (\d+) test rows.*?<tbody><tr><th scope="row">([^<]+)<`)
		if m := first.FindStringSubmatch(html); m == nil || m[1] != "120" || m[2] != r.Features[0].Name {
			t.Errorf("the page of the model says %.200q of SHAP values; want those of 120 rows, of %s first", m,
				r.Features[0].Name)
		}
	})
}

// checkExplainedFeatures: the table has its signal in campaign, age, price and site, in this order; users are noise.
func checkExplainedFeatures(t *testing.T, features []explain.Explained) {
	share, order := 0.0, []string{}
	for i, f := range features {
		share += f.Share
		order = append(order, f.Name)
		if i > 0 && f.Contribution > features[i-1].Contribution {
			t.Errorf("%s contributes %v, and stands behind %v; want descending order", f.Name, f.Contribution,
				features[i-1].Contribution)
		}
		if f.Splits == 0 && (f.Contribution != 0 || f.Worth != 0) {
			t.Errorf("%s, at which no tree looks: contributes %v and is worth %v; want 0", f.Name, f.Contribution,
				f.Worth)
		}
	}
	if math.Abs(share-1) > 1e-9 {
		t.Errorf("shares add up to %v, want 1", share)
	}
	for _, name := range []string{"campaign_id", "age"} {
		i := slices.Index(order, name)
		if i < 0 || i > 2 {
			t.Errorf("explain ctr@2: %s is number %d of %q, want it among the first three", name, i, order)
			continue
		}
		if f := features[i]; !(f.Low > 0 && f.Low <= f.Worth && f.Worth <= f.High) {
			t.Errorf("%s is worth %v, within %v and %v; want it between them, above 0", name, f.Worth, f.Low, f.High)
		}
	}
}

// checkExplainedColumns: several features of a column are one contribution, at most that of all of them.
func checkExplainedColumns(t *testing.T, r explain.Report) {
	of := map[string][]explain.Explained{}
	for _, f := range r.Features {
		of[strings.Join(f.From, " + ")] = append(of[strings.Join(f.From, " + ")], f)
	}
	for _, c := range r.Columns {
		apart := 0.0
		for _, f := range of[c.Name] {
			apart += f.Contribution
		}
		if len(of[c.Name]) != c.Features {
			t.Errorf("column %s: got %d features, want those that are made of it: %d", c.Name, c.Features,
				len(of[c.Name]))
		}
		if c.Contribution > apart+1e-12 || c.Features == 1 && math.Abs(c.Contribution-apart) > 1e-12 {
			t.Errorf("column %s of %d features: contributes %v, want at most their sum, %v (equal for one)", c.Name,
				c.Features, c.Contribution, apart)
		}
	}
}

// TestExplainClasses: contributions are there for each class and in all, and what is shown names the class that a
// feature moves most.
func TestExplainClasses(t *testing.T) {
	w := newWorld(t)
	g := w.growBy("{column: site, kind: classes}", 10)
	g.withReference()
	var r explain.Report
	text := w.must("registry", "explain", "ctr@2", "--rows", "200", "--json")
	must.Do(t, json.Unmarshal([]byte(text), &r))
	classes := g.manifest.Label.Classes
	if r.Metric != "multi_logloss" || !slices.Equal(r.Classes, classes) || len(r.ExpectedByClass) != len(classes) ||
		r.Expected != nil {
		t.Errorf("got %s, classes %q, %d expected scores; want multi_logloss and a score of each of %q", r.Metric,
			r.Classes, len(r.ExpectedByClass), classes)
	}
	features, columns := 0.0, 0.0
	for _, f := range r.Features {
		sum := 0.0
		for _, v := range f.ByClass {
			sum += v
		}
		if len(f.ByClass) != len(classes) || math.Abs(sum-f.Contribution) > 1e-12 {
			t.Errorf("%s: got contributions %v, want those of each class, which add up to %v", f.Name, f.ByClass,
				f.Contribution)
		}
		features += f.Contribution
	}
	for _, c := range r.Columns {
		columns += c.Contribution
	}
	if top := r.Features[0]; !(top.Contribution > 0) || !(columns > 0 && columns <= features+1e-9) {
		t.Errorf("features contribute %v, columns %v, the first %v; want more than 0, and no more together", features,
			columns, top.Contribution)
	}
	out := w.must("registry", "explain", "ctr@2", "--rows", "200")
	if k := slices.Index(r.Features[0].ByClass, slices.Max(r.Features[0].ByClass)); !strings.Contains(out,
		classes[k]+" (") || strings.Contains(out, "base score") {
		t.Errorf("got\n%s\nwant class %s beside the first feature, and no base score", out, classes[k])
	}
	w.refused(sweep.ExitUsage, "auc is for binary labels", "registry", "explain", "ctr@2", "--metric", "auc")
}
