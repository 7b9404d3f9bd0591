package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

func TestPredict(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	table := datasettest.Table(datasettest.Options{Rows: 700, Seed: 8})
	in := w.file("in.csv", string(table))
	out := filepath.Join(w.dir, "out.csv")
	w.must("predict", "--model", "ctr", "--in", in, "--out", out, "--keep", "user_id,site", "--raw")
	text := must.Get(os.ReadFile(out))(t)
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 701 {
		t.Fatalf("the predictions have %d lines, %v, expected a header and 700 rows", len(rows), err)
	}
	if strings.Join(rows[0], ",") != "user_id,site,prediction,raw_score" {
		t.Errorf("header %q", rows[0])
	}
	users := strings.Split(string(table), "\n")
	for i, row := range rows[1:] {
		p, err1 := strconv.ParseFloat(row[2], 64)
		raw, err2 := strconv.ParseFloat(row[3], 64)
		if err1 != nil || err2 != nil || math.Abs(p-gbt.Probability(raw)) > 1e-15 ||
			!strings.HasPrefix(users[i+1], row[0]+",") {
			t.Fatalf("row %d: %q", i, row)
		}
	}
	explained(t, w, in, rows[1:])
	// Through Parquet and back: the same predictions.
	parquet := filepath.Join(w.dir, "out.parquet")
	w.must("predict", "--model", "ctr@1", "--in", in, "--out", parquet, "--keep",
		"user_id,campaign_id,site,hour,age,price,day")
	again := filepath.Join(w.dir, "again.csv")
	w.must("predict", "--model", "ctr", "--in", parquet, "--out", again, "--keep", "user_id,site", "--raw")
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("scored from Parquet, the output differs: %v", err)
	}
	var sum map[string]any
	if err := json.Unmarshal([]byte(w.must("predict", "--model", "ctr", "--in", in, "--out", out, "--json")),
		&sum); err != nil || sum["rows"] != 700.0 {
		t.Errorf("predict --json: %v, %v, expected 700 rows", sum, err)
	}
}

// explained: of a saved version without any cloud, each feature's contribution and expected_score add up to the raw
// score of the registered one.
func explained(t *testing.T, w *world, in string, want [][]string) {
	t.Helper()
	v := must.Get(registry.New(w.buckets["registry"]).Get(t.Context(), "ctr", "1"))(t)
	saved, out := filepath.Join(w.dir, "saved"), filepath.Join(w.dir, "explained.csv")
	must.Do(t, registry.New(w.buckets["registry"]).Export(t.Context(), v, saved))
	w.must("predict", "--model", saved, "--in", in, "--out", out, "--raw", "--contributions")
	text := must.Get(os.ReadFile(out))(t)
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != len(want)+1 {
		t.Fatalf("got %d lines, %v, want a header and %d rows", len(rows), err, len(want))
	}
	last := len(rows[0]) - 1
	if rows[0][last] != "expected_score" || !strings.HasPrefix(rows[0][2], "contribution:") {
		t.Errorf("got the header %q, want contributions and at last expected_score", rows[0])
	}
	moved := false
	for i, row := range rows[1:] {
		sum := 0.0
		for _, cell := range row[2:] {
			x := must.Get(strconv.ParseFloat(cell, 64))(t)
			sum += x
		}
		raw, err := strconv.ParseFloat(want[i][3], 64)
		if err != nil || math.Abs(sum-raw) > 1e-9 {
			t.Fatalf("row %d: got contributions that add up to %v, want %v (%v)", i, sum, raw, err)
		}
		moved = moved || row[last] != want[i][3]
	}
	if !moved {
		t.Error("got the expected score as every row's raw score, want contributions")
	}
}

// TestPredictExplains: the reasons of a row are those of its contributions that are farthest from 0.
func TestPredictExplains(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	const table = 40
	text := datasettest.Table(datasettest.Options{Rows: table})
	in, out := w.file("in.csv", string(text)), filepath.Join(w.dir, "out.csv")
	w.must("predict", "--model", "ctr", "--in", in, "--out", out, "--contributions", "--explain", "top:2")
	local := must.Get(os.ReadFile(out))(t)
	rows, err := csv.NewReader(bytes.NewReader(local)).ReadAll()
	if err != nil || len(rows) != table+1 {
		t.Fatalf("got %d lines, %v, want a header and %d rows", len(rows), err, table)
	}
	n := len(rows[0]) - 4
	if got := strings.Join(rows[0][n:], " "); got != "reason_1 reason_1_adds reason_2 reason_2_adds" {
		t.Fatalf("got the last columns %s, want two reasons and what they add", got)
	}
	for i, row := range rows[1:] {
		left := map[string]float64{} // by feature, how far it is from 0
		for c, cell := range row[:n-1] {
			if name, ok := strings.CutPrefix(rows[0][c], "contribution:"); ok {
				x, _ := strconv.ParseFloat(cell, 64)
				left[name] = math.Abs(x)
			}
		}
		for k := n; k < len(row); k += 2 {
			adds, err := strconv.ParseFloat(row[k+1], 64)
			far, ok := left[row[k]]
			delete(left, row[k])
			if err != nil || !ok || math.Abs(adds) != far || far < slices.Max(slices.Collect(maps.Values(left))) {
				t.Errorf("row %d: got the reason %s with %s, want the feature that adds or takes most of those left",
					i+1, row[k], row[k+1])
			}
		}
	}

	for _, wrong := range []string{"3", "top:", "top:0", "top:-1", "bottom:3"} {
		w.refused(sweep.ExitUsage, "as in top:3", "predict", "--model", "ctr", "--in", in, "--out", out, "--explain",
			wrong)
	}
	w.refused(sweep.ExitUsage, "features", "predict", "--model", "ctr", "--in", in, "--out", out, "--explain",
		"top:10000")
}

func TestPredictRefuses(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	in := w.file("in.csv", string(datasettest.Table(datasettest.Options{Rows: 50})))
	short := w.file("short.csv", "user_id,site\nu1,site2\n")
	ragged := w.file("ragged.csv",
		"user_id,campaign_id,site,hour,age,price,day\nu1,4000,site2,3,20,1.5,2026-11-01\nu1\n")
	out := filepath.Join(w.dir, "out.csv")
	w.refused(sweep.ExitInput, `short.csv: 5 columns are missing: "age", "campaign_id"`, "predict", "--model", "ctr",
		"--in", short, "--out", out)
	w.refused(sweep.ExitInput, "ragged.csv:3", "predict", "--model", "ctr", "--in", ragged, "--out", out)
	w.refused(sweep.ExitUsage, ".parquet", "predict", "--model", "ctr", "--in", in, "--out",
		filepath.Join(w.dir, "out.xls"))
	w.refused(sweep.ExitUsage, "no such column (the columns are: ", "predict", "--model", "ctr", "--in", in, "--out",
		out, "--keep", "nobody")
	w.refused(sweep.ExitNotFound, "nowhere", "predict", "--model", "ctr", "--in", filepath.Join(w.dir, "nowhere.csv"),
		"--out", out)
	w.refused(sweep.ExitUsage, "give --in and --out: ", "predict", "--model", "ctr")
	w.refused(sweep.ExitUsage, "given twice", "predict", "--model", "ctr", "--in", in, "--out", out, "--keep",
		"site,site")
	w.refused(sweep.ExitUsage, "one character", "predict", "--model", "ctr", "--in", in, "--out", out, "--delimiter",
		";;")
	w.refused(sweep.ExitUsage, "use none", "predict", "--model", "ctr", "--in", in, "--out", out, "--quote", "'")
	stray := w.file("stray.csv", "user_id,campaign_id,site,hour,age,price,day\nu1,4000,si\"te2,3,20,1.5,2026-11-01\n")
	w.refused(sweep.ExitInput, "--quote none of `launcher predict`", "predict", "--model", "ctr", "--in", stray,
		"--out", out)
	w.must("predict", "--model", "ctr", "--in", stray, "--out", filepath.Join(w.dir, "stray-out.csv"), "--quote",
		"none")
	w.refused(sweep.ExitUsage, "--out nodir/x.csv: folder nodir does not exist\n", "predict", "--model", "ctr", "--in",
		in, "--out", "nodir/x.csv")
	w.refused(sweep.ExitUsage, "--out gs://b/x.csv: tables in a bucket are scored into a bucket, ", "predict",
		"--model",
		"ctr", "--in", in, "--out", "gs://b/x.csv")
	folder := t.TempDir()
	w.refused(sweep.ExitUsage, "--out "+folder+" is a folder; give the file's name, too\n", "predict", "--model", "ctr",
		"--in", in, "--out", folder)
	w.refused(sweep.ExitUsage, "tables in a bucket are scored into a bucket", "predict", "--model", "ctr", "--in",
		"gs://b/x.csv", "--out", out)
	before := must.Get(os.ReadFile(in))(t)
	w.refused(sweep.ExitUsage, "it is the table to score", "predict", "--model", "ctr", "--in", in, "--out",
		filepath.Join(filepath.Dir(in), ".", "in.csv"))
	if after, err := os.ReadFile(in); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the table was overwritten: %v", err)
	}
	w.refused(sweep.ExitUsage, "unknown command", "registry", "bogus")
	if _, err := os.Stat(out); err == nil {
		t.Error("an output was left behind")
	}
}
