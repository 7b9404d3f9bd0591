package report_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/report"
)

// trained is a model of a few trees.
func trained(t *testing.T) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	const rows = 2000
	d := &gbt.Data{Rows: rows, Columns: [][]byte{make([]byte, rows), make([]byte, rows)},
		RowMajor: make([]byte, 2*rows), Label: make([]float32, rows),
		Features: []gbt.Feature{{Name: "price", Bins: 4, Bounds: []float64{1, 2, 3}, Missing: -1},
			{Name: "site", Bins: 5, Categorical: true, Missing: -1}}}
	for i := range rows {
		a, b := byte(rng.IntN(4)), byte(rng.IntN(4))
		d.Columns[0][i], d.Columns[1][i], d.RowMajor[2*i], d.RowMajor[2*i+1] = a, b, a, b
		if rng.Float64() < 0.1+0.15*float64(a)+0.1*float64(b%2) {
			d.Label[i] = 1
		}
	}
	p := gbt.Defaults()
	p.Objective, p.NumIterations, p.NumLeaves = "binary", 10, 7
	res := must.Get(gbt.Train(t.Context(), d, p, gbt.Options{}))(t)
	var text bytes.Buffer
	must.Get(res.Model.WriteTo(&text))(t)
	return text.Bytes()
}

// TestDamagedModel: if a version's trees cannot be read, the model's page has a note and shows the rest, as the page of
// that version.
func TestDamagedModel(t *testing.T) {
	store := blob.Memory()
	reg := registry.New(store)
	v := must.Get(reg.Register(t.Context(), "ctr", "night-1", map[string][]byte{scorer.FileModel: trained(t)},
		registry.Info{At: planned, By: "aggregator", Why: "best", Labels: map[string]string{"sweep": "night-1",
			"trial": "3"}}))(t)
	f, _ := v.File(scorer.FileModel)
	for object, err := range store.List(t.Context(), "") {
		if err == nil && strings.HasSuffix(object.Name, f.Object) {
			_, err = store.Put(t.Context(), object.Name, blob.Any, strings.NewReader("tree\n"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	m := must.Get(report.New(blob.Memory(), blob.Memory(), reg, false).Model(t.Context(), "ctr"))(t)
	var out bytes.Buffer
	must.Do(t, m.Write(&out))
	// Of is the version that the page shows: the newest, as none is live.
	if m.Of != 1 || len(m.Notes) != 1 || m.Features != nil ||
		!strings.Contains(out.String(), "night-1\">night-1</a>, 3<") || strings.Contains(out.String(), "version 0") {
		t.Errorf("of version %d, notes %q; expected a note, and a page of the sweep and the trial that "+
			"version 1 comes from", m.Of, m.Notes)
	}
}

// TestModel: a model's page has the features of its champion, here version 1 of two, by their names in the model, since
// its manifest is damaged. For a model of several classes a note names the command that shows contributions. The test
// makes one of ten trees of clicks, which become five of each of two classes.
func TestModel(t *testing.T) {
	reg := registry.New(blob.Memory())
	for i, key := range []string{"night-1", "night-2"} {
		classes := strings.NewReplacer("num_class=1", "num_class=2", "num_tree_per_iteration=1", "num_tree_per_iteration=2",
			"objective=binary sigmoid:1", "objective=multiclass num_class:2").Replace(string(trained(t)))
		// The reference cannot be read either, but that is not told: of several classes it is not needed.
		files := map[string][]byte{scorer.FileModel: []byte(classes), scorer.FileReference: []byte("no rows"),
			scorer.FileDataset: []byte("{")}
		v, err := reg.Register(t.Context(), "ctr", key, files, registry.Info{At: planned, By: "aggregator", Why: "best",
			Metrics: map[string]float64{"auc": 0.7}, Labels: map[string]string{"sweep": key, "trial": "3",
				"dataset": "clicks@0123456789abcdef"}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			must.Get(reg.Promote(t.Context(), "ctr", v.Number, registry.Expect{},
				registry.Act{By: "ana", Why: "the first", At: planned}))(t)
		}
	}
	m := must.Get(report.New(blob.Memory(), blob.Memory(), reg, false).Model(t.Context(), "ctr"))(t)
	if m.Of != 1 || len(m.Features) != 2 || m.Features[0].Splits == 0 || m.Features[0].Feature != "price" {
		t.Fatalf("of version %d, features %+v; expected those of version 1, price first", m.Of, m.Features)
	}
	if notes := strings.Join(m.Notes, "; "); strings.Contains(notes, scorer.FileReference) ||
		!strings.Contains(notes, "launcher registry explain ctr@1") {
		t.Errorf("notes %s; want a command in place of contributions, which are drawn of one score a row", notes)
	}
	var out bytes.Buffer
	if err := m.Write(&out); err != nil || !strings.Contains(out.String(), "What version 1 uses") {
		t.Errorf("the model's page (error %v) begins %.300s; want the features of version 1", err, out.String())
	}
}
