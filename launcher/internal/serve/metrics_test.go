package serve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/strictyaml"
	"coppice/internal/telemetry"
	"coppice/launcher/internal/serve"
	"coppice/launcher/internal/stager"
)

// tested returns the files of a version that records what its inputs and predictions are like on 3,000 held-out rows,
// and these records: the counts of the inputs, and the mean prediction.
func tested(tb testing.TB) (files map[string][]byte, usual cell.Inputs, mean float64) {
	tb.Helper()
	reg, _ := newRegistry()
	m := must.Get(serve.Load(tb.Context(), reg, register(tb, reg, "one", filesOf(tb, 1)), tb.TempDir()))(tb)
	defer m.Retire()
	in := must.Get(table.Expand(small.write(tb, 77)))(tb)
	t := must.Get(table.Open(in, table.Options{Threads: 1}))(tb)
	bin := metric.Bin{}
	must.Do(tb, t.Read(tb.Context(), m.Scorer.Columns(), 4096, func(b *table.Batch) error {
		predictions, err := m.Score(b, nil, &usual)
		for _, p := range predictions {
			bin.Rows, bin.Weight, bin.After = bin.Rows+1, bin.Weight+1, bin.After+p
		}
		return err
	}))
	files = maps.Clone(filesOf(tb, 1))
	for name, v := range map[string]any{scorer.FileInputs: usual,
		scorer.FileTested: metric.Tested{Format: 1, Calibrated: true, Bins: []metric.Bin{bin}}} {
		files[name] = must.Get(json.Marshal(v))(tb)
	}
	return files, usual, bin.After / bin.Weight
}

// measured starts a server of a version with these files that measures. It returns the server, and a function that
// reads /metrics: values by their names, which include the labels.
func measured(t *testing.T, files map[string][]byte) (s *served, read func() map[string]float64) {
	t.Helper()
	reg, store := newRegistry()
	register(t, reg, "one", files)
	promote(t, reg, 1)
	page, meters, telemetry, err := serve.StartMetrics(t.Context(), telemetry.Options{Program: "serve"})
	must.Do(t, err)
	t.Cleanup(func() { telemetry.Close(t.Context()) })
	s = start(t, store, func(c *serve.Config) { c.Metrics, c.Meters = page, meters })
	return s, func() map[string]float64 { return values(t, page) }
}

// values reads the page of Prometheus: numbers by name with labels.
func values(t *testing.T, metrics http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	out := map[string]float64{}
	for _, line := range strings.Split(w.Body.String(), "\n") {
		name, value, ok := strings.Cut(line, " ")
		if x, err := strconv.ParseFloat(value, 64); ok && err == nil {
			out[name] = x
		}
	}
	return out
}

// TestColumnsAreMeasured: of 1,000 rows, 300 lack a value in column n2, and 500 have a new id in i1. /metrics counts
// that, and the sum of the predictions. It also has each column's shares in the held-out rows, and their mean
// prediction.
func TestColumnsAreMeasured(t *testing.T) {
	files, usual, mean := tested(t)
	s, read := measured(t, files)
	rng := rand.New(rand.NewPCG(9, 9))
	var rows [][]string
	for i := range 1000 {
		_, cells := small.row(rng)
		if i%10 < 3 {
			cells[small.ids+2] = ""
		}
		if i%2 == 0 {
			cells[1] = fmt.Sprint("new", i)
		}
		rows = append(rows, cells)
	}
	sum := 0.0
	for _, part := range [][][]string{rows[:400], rows[400:]} {
		status, _, text := post(t, s.url+"/predict", "text/csv", csvOf(small.names(), part))
		if status != http.StatusOK {
			t.Fatalf("got status %d, %s; want 200", status, text)
		}
		for _, p := range numbersOf(t, text) {
			sum += p
		}
	}
	until(t, "both requests are counted", func() bool { return read()["coppice_serve_rows_total"] == 1000 })

	// What was counted of the requests.
	got := read()
	if missing := got[`coppice_serve_column_missing_total{column="n2"}`]; missing != 300 {
		t.Errorf("n2 is missing in %v of 1,000 rows, want 300", missing)
	}
	if unseen := got[`coppice_serve_column_unseen_total{column="i1"}`]; unseen < 500 || unseen > 700 {
		t.Errorf("i1 is unseen in %v of 1,000 rows, want the 500 that are new and few others", unseen)
	}
	if x := got["coppice_serve_predicted_total"]; math.Abs(x-sum) > 1e-9*sum {
		t.Errorf("the predictions add up to %v, want %v", x, sum)
	}

	// What the version records of its held-out rows.
	if x := got["coppice_serve_heldout_mean_prediction"]; math.Abs(x-mean) > 1e-12 {
		t.Errorf("the held-out rows' mean prediction is %v, want %v", x, mean)
	}
	for _, c := range usual.Columns {
		of := fmt.Sprintf("{column=%q}", c.Column)
		if n := got["coppice_serve_column_rows_total"+of]; n != 1000 {
			t.Errorf("%s: %v rows, want 1,000", c.Column, n)
		}
		if share := got["coppice_serve_column_heldout_missing_ratio"+of]; share !=
			float64(c.Missing)/float64(usual.Rows) {
			t.Errorf("%s: %v of the held-out rows lack it, want %d of %d", c.Column, share, c.Missing, usual.Rows)
		}
		share, there := got["coppice_serve_column_heldout_unseen_ratio"+of]
		if _, counted := got["coppice_serve_column_unseen_total"+of]; there != c.IDs || counted != c.IDs ||
			share != float64(c.Unseen)/float64(usual.Rows) {
			t.Errorf("%s: %v of the held-out rows are unseen (%v, %v), want %d of %d, of ids only", c.Column, share,
				there, counted, c.Unseen, usual.Rows)
		}
	}

	// No label has other values than columns, statuses and the histogram's bounds.
	labels := regexp.MustCompile(`(\w+)="`)
	for name := range got {
		for _, label := range labels.FindAllStringSubmatch(name, -1) {
			if strings.HasPrefix(name, "coppice_serve_") && !slices.Contains([]string{"column", "status", "le"},
				label[1]) {
				t.Errorf("%s has the label %s, want only column, status and le", name, label[1])
			}
		}
	}
}

// TestOfManyColumnsSomeAreNamed: of 500 columns 199 are counted by name, and the others together as "other": 200 series
// of each kind. A column that is called other is among the latter. The shares of held-out rows are those of the version
// that answers now, and none if that does not record them.
func TestOfManyColumnsSomeAreNamed(t *testing.T) {
	page, meters, telemetry, err := serve.StartMetrics(t.Context(), telemetry.Options{Program: "serve"})
	must.Do(t, err)
	defer telemetry.Close(t.Context())
	in := &cell.Inputs{Rows: 10}
	for i := range 500 {
		in.Columns = append(in.Columns, cell.InputCount{Column: fmt.Sprintf("c%03d", i), Missing: int64(i % 2),
			IDs: true, Unseen: 3})
	}
	in.Columns[7].Column = "other"
	usual := *in
	usual.Rows = 40
	for range 2 { // the same once more: the counts below are of both
		meters.Swapped(t.Context(), &serve.Model{Scorer: &scorer.Scorer{Usual: &usual}})
		meters.Answered(t.Context(), []float64{.25, math.NaN()}, in)
	}

	// Add up the columns of each kind.
	got := values(t, page)
	sums := map[string]float64{}
	for name, x := range got {
		if kind, _, ok := strings.Cut(name, "{column="); ok {
			sums[kind] += x
			sums["series of "+kind]++
		}
	}
	for name, want := range map[string]float64{"coppice_serve_column_rows_total": 2 * 500 * 10,
		"coppice_serve_column_missing_total": 2 * 250, "coppice_serve_column_unseen_total": 2 * 500 * 3,
		"series of coppice_serve_column_rows_total": 200, "series of coppice_serve_column_heldout_unseen_ratio": 200} {
		if sums[name] != want {
			t.Errorf("%s: %v, want %v", name, sums[name], want)
		}
	}
	// All columns are alike, so that the share of the others together is that of each: 3 of 40 rows.
	if x := got[`coppice_serve_column_heldout_unseen_ratio{column="other"}`]; x != 3./40 {
		t.Errorf("of the other columns' held-out values %v are unseen, want %v", x, 3./40)
	}
	if x := got["coppice_serve_predicted_total"]; x != .5 {
		t.Errorf("the predictions add up to %v, want .5: one that is no number counts as 0", x)
	}

	// A version that does not record its inputs.
	meters.Swapped(t.Context(), &serve.Model{Scorer: &scorer.Scorer{}})
	for name := range values(t, page) {
		if strings.Contains(name, "heldout") && strings.Contains(name, "column") {
			t.Errorf("%s is there, want none of a version that does not record its inputs", name)
		}
	}
}

// TestAlertRules: the rules for Prometheus in docs/serving.md are YAML in Prometheus' form, and each name of a
// measurement in them is one that /metrics has.
func TestAlertRules(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/serving.md"))(t)
	_, block, _ := strings.Cut(string(text), "```yaml\ngroups:")
	block, _, _ = strings.Cut(block, "\n```")
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	must.Get(strictyaml.Decode("docs/serving.md", []byte("groups:"+block), &file))(t)
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) != 3 {
		t.Fatalf("docs/serving.md has %+v, want one group of three rules", file)
	}

	files, _, _ := tested(t)
	s, read := measured(t, files)
	post(t, s.url+"/predict", "text/csv", csvOf(small.names(), someRows(small, 50, 1)))
	until(t, "the request is counted", func() bool { return read()["coppice_serve_rows_total"] == 50 })
	known := map[string]bool{}
	for name := range read() {
		name, _, _ = strings.Cut(name, "{")
		known[name] = true
	}
	names := regexp.MustCompile(`coppice_\w+`)
	for _, rule := range file.Groups[0].Rules {
		asked := names.FindAllString(rule.Expr, -1)
		if rule.Alert == "" || rule.For == "" || rule.Annotations["summary"] == "" || len(asked) < 3 {
			t.Errorf("the rule %+v lacks a part; want alert, for, a summary and three measurements or more", rule)
		}
		for _, name := range asked {
			if !known[name] {
				t.Errorf("%s asks for %s, want /metrics to have it", rule.Alert, name)
			}
		}
	}
}

// shape is the table of clicks that a model is trained on: ids i0 ..., numbers n0 ..., and the label.
type shape struct {
	ids, numbers, rows, trees, leaves int
	classes                           []string // nil for a label of 0 and 1
}

// write makes the table as CSV; the same seed makes the same rows. Ids are texts, some of them seen once.
func (s shape) write(tb testing.TB, seed uint64) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "clicks.csv")
	f := must.Get(os.Create(path))(tb)
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "click,"+strings.Join(s.names(), ","))
	rng := rand.New(rand.NewPCG(seed, 1))
	for range s.rows {
		label, cells := s.row(rng)
		class := fmt.Sprint(label)
		if len(s.classes) > 0 { // the first class for 0, any of the others for 1
			class = `"` + strings.ReplaceAll(s.classes[label*(1+rng.IntN(len(s.classes)-1))], `"`, `""`) + `"`
		}
		fmt.Fprintf(w, "%s,%s\n", class, strings.Join(cells, ","))
	}
	must.Do(tb, w.Flush())
	return path
}

// names returns the names of the columns: the ids, then the numbers.
func (s shape) names() []string {
	var names []string
	for i := range s.ids {
		names = append(names, fmt.Sprintf("i%d", i))
	}
	for i := range s.numbers {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return names
}

// row draws a row: cells of ids, of which few are frequent, and of numbers. Both add to a score. The label is 1 with
// the chance score^2 / (1 + score^2) if the score is above 0, else never.
func (s shape) row(rng *rand.Rand) (label int, cells []string) {
	score := -1.0
	for i := range s.ids {
		id := int(rng.ExpFloat64() * float64(20+200*i))
		cells = append(cells, fmt.Sprintf("id%d", id))
		score += float64(id%7-3) / 6
	}
	for i := range s.numbers {
		x := rng.NormFloat64()
		cells = append(cells, fmt.Sprintf("%.4f", x))
		score += x / float64(2+i)
	}
	if rng.Float64() < 1/(1+1/max(1e-9, score*score)) && score > 0 {
		label = 1
	}
	return label, cells
}

// trained stages the table drawn with the seed, trains a model on it, and returns the files of a version: model,
// features, levels of ids and, unless there are several classes, a calibrator that changes nothing.
func (s shape) trained(tb testing.TB, seed uint64) map[string][]byte {
	tb.Helper()
	label, p := "click", gbt.Defaults()
	if k := len(s.classes); k > 0 {
		label, p.Objective, p.NumClass = "{column: click, kind: classes}", "multiclass", k
	}
	spec := must.Get(dataset.ParseSpec("d.yaml", []byte("name: t\nsource: "+s.write(tb, seed)+
		"\nlabel: "+label+"\nsplit: {by: random, train: 0.8, test: 0.2}\ncontract: none\n")))(tb)
	staged := must.Get((&stager.Stager{}).Stage(tb.Context(), spec, stager.Destination{Dir: tb.TempDir()}))(tb)
	ds := must.Get(dataset.Open(staged.Place))(tb)
	defer ds.Close()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf = s.trees, s.leaves, 5
	p.Seed = seed
	done := must.Get(gbt.Train(tb.Context(), datasettest.Data(ds.Manifest, ds.Split("train")), p,
		gbt.Options{Threads: 2}))(tb)
	var model bytes.Buffer
	must.Get(done.Model.WriteTo(&model))(tb)
	features := must.Get(json.Marshal(ds.Manifest.Encoding()))(tb)
	files := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileFeatures: features}
	if len(s.classes) == 0 {
		files[scorer.FileCalibrator] = []byte(`{"format":1,"method":"none"}`)
	}
	if levels, err := os.ReadFile(filepath.Join(staged.Place, dataset.LevelsFile)); err == nil {
		files[scorer.FileLevels] = levels
	}
	return files
}

// register registers the files as the next version of the model ctr; another key makes another version.
func register(tb testing.TB, r *registry.Registry, key string, files map[string][]byte) registry.Version {
	tb.Helper()
	return must.Get(r.Register(tb.Context(), "ctr", key, files, registry.Info{At: time.Unix(1e9, 0), By: "test"}))(tb)
}

// newRegistry returns an empty registry, and the store that it is in.
func newRegistry() (*registry.Registry, blob.Store) {
	store := blob.Memory()
	return registry.New(store), store
}
