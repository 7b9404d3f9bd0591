//go:build e2e

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/scorer"
)

// compared is what python/tests/compare.py prints.
type compared struct {
	Rows         int      `json:"rows"`
	ValuesDiffer int      `json:"values_differ"` // encoded values whose bits differ
	DifferIn     []string `json:"differ_in"`     // features
	MaxDiff      float64  `json:"max_diff"`      // of predictions
	MaxRawDiff   float64  `json:"max_raw_diff"`
	Refused      bool     `json:"refused"` // a damaged version, by its checksum
}

// agree reports whether every row is the same to both: raw scores are the same bits.
func (c compared) agree(rows int) bool {
	return c.Rows == rows && c.ValuesDiffer == 0 && c.MaxRawDiff == 0 && c.MaxDiff <= 1e-12
}

const pythonSweep = `
metric: log_loss
trials: 1
seed: 3
params: {num_iterations: 60, learning_rate: 0.2, min_data_in_leaf: 5, min_data_per_group: 5}
search: {fixed: [{}]}
machine: {type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 1}
limits: {trial: 2m, sweep: 5m}
gate: {against: none}
`

const nastySpec = `
label: click
categorical: [user, campaign, advertiser, device, premium, big]
missing: ["", NA, "null", "-999.0"]
split: {by: time, column: ts, train: 0.6, valid: 0.15, calib: 0.15, test: 0.1}
derive: {ts: [hour, weekday], signup: [age, weekday, hour]}
encodings:
  columns: {user: [rate, count, recency, categories], site: [levels, rate], campaign: [rate, count], big: [rate, categories]}
  keys: [[user, site], [ts.hour, campaign], [price~, device], [slot, premium], [score, ts.weekday]]
  back_off: {campaign: advertiser}
`

// TestInteropPythonPackage registers models and has the Python package, which shares no code with the programs, encode
// and predict the rows that `launcher predict` scored, among them levels that train has not.
func TestInteropPythonPackage(t *testing.T) {
	python(t)
	clicks := func(t *testing.T, dir string) (train, table string, rows int) {
		path := filepath.Join(dir, "clicks.parquet")
		execute(t, dir, nil, binaryOf(t, "clicks"), "--rows", "20000", "--out", path).ok(t)
		return path, path, 20000
	}
	nasty := func(format string) func(t *testing.T, dir string) (train, table string, rows int) {
		return func(t *testing.T, dir string) (train, table string, rows int) {
			for seed, n := range []int{8000, 3000} {
				folder := filepath.Join(dir, fmt.Sprint(seed))
				execute(t, ".", nil, python(t), "python/tests/nasty.py", folder, fmt.Sprint(seed+1),
					fmt.Sprint(n)).ok(t)
			}
			return filepath.Join(dir, "0", "nasty."+format), filepath.Join(dir, "1", "nasty."+format), 3000
		}
	}

	empty := func(t *testing.T, dir string) (train, table string, rows int) {
		train, table, rows = nasty("parquet")(t, dir)
		execute(t, ".", nil, python(t), "python/tests/nasty.py", filepath.Dir(table), "2", "3000", "signup").ok(t)
		return train, table, rows
	}

	for name, tc := range map[string]struct {
		make func(t *testing.T, dir string) (train, table string, rows int)
		spec string
	}{
		"clicks": {clicks, "label: is_click\ndrop: [impression_id]\ncategorical: [campaign_id, publisher_id]\n" +
			"split: {by: time, column: ts, train: 0.6, valid: 0.15, calib: 0.15, test: 0.1}\n"},
		"csv":     {nasty("csv"), nastySpec},
		"parquet": {nasty("parquet"), nastySpec},
		// the table to score has a column of times without any value, typed as numbers
		"no time": {empty, nastySpec},
	} {
		if os.Getenv("COPPICE_FULL") == "" && name != "no time" {
			continue // of all formats, and of clicks, it has the most kinds of columns and statistics
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t)
			train, table, rows := tc.make(t, l.dir)
			l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+train+"\n"+tc.spec), "--json")
			l.must("launcher", "sweep", l.file("sweep.yaml", "name: t\ndataset: t\nmodel: m\n"+
				pythonSweep), "--json")
			scored := filepath.Join(l.dir, "scored.parquet")
			l.must("launcher", "predict", "--model", "m", "--raw", "--in", table, "--out", scored)

			version := filepath.Join(l.data, "gcs", "coppice-registry", "registry", "m", "versions", "1")
			against := []string{"--table", table, "--scored", scored, "--values", modelValues(t, version, table)}
			for _, reader := range []string{"pyarrow", "pandas"} {
				c := l.compare(slices.Concat([]string{"--version", version, "--reader", reader}, against)...)
				t.Logf("%s: %d rows, predictions differ by %g at most, raw scores by %g", reader, c.Rows, c.MaxDiff,
					c.MaxRawDiff)
				if !c.agree(rows) {
					t.Errorf("%s: %+v, and all %d rows should be the same", reader, c, rows)
				}
			}
			if c := l.compare(slices.Concat([]string{"--version", "gs://coppice-registry", "--model", "m"},
				against)...); !c.agree(rows) {
				t.Errorf("from the bucket: %+v", c)
			}

			// A comparison that cannot fail would prove nothing.
			for _, plant := range []string{"seed", "level", "sum"} {
				c := l.compare(slices.Concat([]string{"--version", version, "--plant", plant}, against)...)
				if c.agree(rows) || c.ValuesDiffer == 0 || c.Refused != (plant != "seed") {
					t.Errorf("with a planted wrong %s: %+v", plant, c)
				}
			}
		})
	}
}

// compare runs python/tests/compare.py inside the local cloud.
func (l *local) compare(args ...string) compared {
	l.t.Helper()
	script := must.Get(filepath.Abs("python/tests/compare.py"))(l.t)
	r := l.script("shift\nexec \"$@\"\n", slices.Concat([]string{python(l.t), script}, args)...)
	r.ok(l.t)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var c compared
	decode(l.t, lines[len(lines)-1], &c)
	return c
}

// modelValues writes the model values of a table to a file, row by row, by a version's features and levels.
func modelValues(t *testing.T, version, file string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(version, scorer.FileFeatures)))(t)
	encoding := must.Get(dataset.DecodeEncoding(data))(t)
	levels, err := dataset.OpenLevels(filepath.Join(version, scorer.FileLevels), encoding.Tables)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open the levels: %v", err)
	}
	t.Cleanup(func() { levels.Close() })
	encoder := must.Get(cell.NewEncoder(encoding, levels))(t)

	files := must.Get(table.Expand(file))(t)
	from := must.Get(table.Open(files, table.Options{Threads: 1}))(t)
	var out []byte
	must.Do(t, from.Read(t.Context(), encoder.Columns(), 4096, func(b *table.Batch) error {
		values, err := encoder.Encode(b, nil, nil, 1)
		for _, x := range values {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
		}
		return err
	}))
	path := filepath.Join(t.TempDir(), "values")
	must.Do(t, os.WriteFile(path, out, 0o644))
	return path
}
