package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/explain"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/sweepview"
)

// TestPredict scores 700 rows, in the order of the table, and keeps columns. Predictions are the probabilities of the
// raw scores, since register's version has no calibration. Contributions add up to the raw scores (explained). The same
// rows written as Parquet and scored again give the same bytes. --json has the number of rows.
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
		t.Errorf("the header is %q; want what is kept, the prediction and the raw score", rows[0])
	}
	users := strings.Split(string(table), "\n")
	for i, row := range rows[1:] {
		p, err1 := strconv.ParseFloat(row[2], 64)
		raw, err2 := strconv.ParseFloat(row[3], 64)
		if err1 != nil || err2 != nil || math.Abs(p-gbt.Probability(raw)) > 1e-15 ||
			!strings.HasPrefix(users[i+1], row[0]+",") {
			t.Fatalf("row %d is %q; want its user, and the probability of its raw score", i, row)
		}
	}
	explained(t, w, in, rows[1:])
	// Keep all that the model reads in Parquet, and score that: the predictions are the same.
	parquet := filepath.Join(w.dir, "out.parquet")
	w.must("predict", "--model", "ctr@1", "--in", in, "--out", parquet, "--keep",
		"user_id,campaign_id,site,hour,age,price,day")
	again := filepath.Join(w.dir, "again.csv")
	w.must("predict", "--model", "ctr", "--in", parquet, "--out", again, "--keep", "user_id,site", "--raw")
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("scored from Parquet: want the bytes of the output from CSV (%v)", err)
	}
	var sum map[string]any
	if err := json.Unmarshal([]byte(w.must("predict", "--model", "ctr", "--in", in, "--out", out, "--json")),
		&sum); err != nil || sum["rows"] != 700.0 {
		t.Errorf("predict --json: %v, %v, expected 700 rows", sum, err)
	}
}

// explained exports version 1 to a folder, and predicts the table in with that and --contributions. In each row the
// contributions and expected_score have to add up to the raw score, the fourth column of want.
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

// TestPredictExplains: with --explain top:2 each row names the two features whose contributions are farthest from 0,
// with these contributions. A number of features that cannot be is refused.
func TestPredictExplains(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	const tableRows = 40
	text := datasettest.Table(datasettest.Options{Rows: tableRows})
	in, out := w.file("in.csv", string(text)), filepath.Join(w.dir, "out.csv")
	w.must("predict", "--model", "ctr", "--in", in, "--out", out, "--contributions", "--explain", "top:2")
	local := must.Get(os.ReadFile(out))(t)
	rows, err := csv.NewReader(bytes.NewReader(local)).ReadAll()
	if err != nil || len(rows) != tableRows+1 {
		t.Fatalf("got %d lines, %v, want a header and %d rows", len(rows), err, tableRows)
	}
	n := len(rows[0]) - 4 // where the four columns of the two reasons begin; the expected score is before them
	if got := strings.Join(rows[0][n:], " "); got != "reason_1 reason_1_adds reason_2 reason_2_adds" {
		t.Fatalf("got the last columns %s, want two reasons and what they add", got)
	}
	for i, row := range rows[1:] {
		// By feature, how far its contribution is from 0. Each reason has to be the farthest that is left, and leaves.
		left := map[string]float64{}
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

// TestPredictRefuses: tables that the model cannot score are refused with file, line and columns, and flags that do not
// go together with what to use. No output is left, and the table itself is never overwritten. A quote within a cell is
// an error, unless quotes mean nothing.
func TestPredictRefuses(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	table := datasettest.Table(datasettest.Options{Rows: 50})
	in, out, folder := w.file("in.csv", string(table)), filepath.Join(w.dir, "out.csv"), t.TempDir()
	// The model reads site and five columns that short.csv lacks. Line 3 of ragged.csv is short.
	const header, row = "user_id,campaign_id,site,hour,age,price,day\n", "u1,4000,site2,3,20,1.5,2026-11-01\n"
	short := w.file("short.csv", "user_id,site\nu1,site2\n")
	ragged, stray := w.file("ragged.csv", header+row+"u1\n"), w.file("stray.csv", header+strings.Replace(row, "site",
		`si"te`, 1))
	predict := func(in, out string, flags ...string) []string {
		return append([]string{"predict", "--model", "ctr", "--in", in, "--out", out}, flags...)
	}

	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		// Tables.
		{sweep.ExitInput, `short.csv: 5 columns are missing: "age", "campaign_id"`, predict(short, out)},
		{sweep.ExitInput, "ragged.csv:3", predict(ragged, out)},
		{sweep.ExitInput, "--quote none of `launcher predict`", predict(stray, out)},
		{sweep.ExitNotFound, "nowhere", predict(filepath.Join(w.dir, "nowhere.csv"), out)},

		// Flags, one wrong at a time. The quote may be none but no other character than the usual one.
		{sweep.ExitUsage, "give --in and --out: ", []string{"predict", "--model", "ctr"}},
		{sweep.ExitUsage, "no such column (the columns are: ", predict(in, out, "--keep", "nobody")},
		{sweep.ExitUsage, "given twice", predict(in, out, "--keep", "site,site")},
		{sweep.ExitUsage, "one character", predict(in, out, "--delimiter", ";;")},
		{sweep.ExitUsage, "use none", predict(in, out, "--quote", "'")},

		// Places that the output cannot have. The last is the table itself, by another spelling of its path.
		{sweep.ExitUsage, ".parquet", predict(in, filepath.Join(w.dir, "out.xls"))},
		{sweep.ExitUsage, "--out nodir/x.csv: folder nodir does not exist\n", predict(in, "nodir/x.csv")},
		{sweep.ExitUsage, "--out gs://b/x.csv: tables in a bucket are scored into a bucket, ",
			predict(in, "gs://b/x.csv")},
		{sweep.ExitUsage, "--out " + folder + " is a folder; give the file's name, too\n", predict(in, folder)},
		{sweep.ExitUsage, "tables in a bucket are scored into a bucket", predict("gs://b/x.csv", out)},
		{sweep.ExitUsage, "it is the table to score", predict(in, filepath.Dir(in)+"/./in.csv")},
	} {
		w.refused(c.code, c.says, c.args...)
	}
	if after, err := os.ReadFile(in); err != nil || !bytes.Equal(table, after) {
		t.Errorf("the table has %d bytes (error %v), want its %d unchanged", len(after), err, len(table))
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an output was left behind, want none")
	}
	w.must(predict(stray, out, "--quote", "none")...)
}

// What people's tables do to ids, and how the launcher reports it.

// respelt is the click table (datasettest.Table) as CSV, with the cells of one column replaced by what spell makes of
// them. Columns count from 0, see below.
func respelt(rows int, column int, spell func(string) string) string {
	lines := strings.Split(strings.TrimSpace(string(datasettest.Table(datasettest.Options{Rows: rows, Seed: 8}))), "\n")
	for i, line := range lines[1:] {
		cells := strings.Split(line, ",")
		cells[column] = spell(cells[column])
		lines[i+1] = strings.Join(cells, ",")
	}
	return strings.Join(lines, "\n") + "\n"
}

// Columns of the click table, for respelt.
const (
	columnCampaign = 1 // ids that are whole numbers
	columnSite     = 2 // ids that are names
	columnAge      = 4 // numbers, of which a fifth is missing
)

// TestPredictOnRespeltIDs: ids 3 and 3.0 are the same. If all ids of a column are unseen, a warning compares the share
// with that of the held-out rows; with --max-unseen 0.2 that is an error, and nothing is written. A share above 1, such
// as --max-unseen 2, is wrong usage. A column in which all values are missing is a warning, too, the only one.
func TestPredictOnRespeltIDs(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	same := func(s string) string { return s } // for the table as it is
	// score runs predict on a table, and returns what it ended with, wrote and printed.
	score := func(table string, flags ...string) (code int, text, out, errOut string) {
		t.Helper()
		scored := filepath.Join(t.TempDir(), "scored.csv")
		code, out, errOut = w.run(append([]string{"predict", "--model", "ctr", "--in", w.file("in.csv", table),
			"--out", scored, "--raw"}, flags...)...)
		data, err := os.ReadFile(scored)
		if (err == nil) != (code == 0) {
			t.Errorf("%q ended with %d, and the file it writes: %v; want it written if all is well, and only "+
				"then", flags, code, err)
		}
		return code, string(data), out, errOut
	}

	code, usual, out, errOut := score(respelt(3000, columnCampaign, same))
	if code != 0 || strings.Contains(errOut, "warning") || !strings.Contains(out, "site") ||
		!strings.Contains(out, "unseen") {
		t.Fatalf("the usual table ended with %d; want 0 without a warning, and its shares\n%s\n%s", code, out, errOut)
	}
	withPoint := respelt(3000, columnCampaign, func(id string) string { return id + ".0" })
	code, floats, _, errOut := score(withPoint, "--max-unseen", "0.2")
	if code != 0 || floats != usual || strings.Contains(errOut, "warning") {
		t.Errorf("campaigns as 3.0 instead of 3: ended with %d, the same predictions %t; want 0, true and no "+
			"warning\n%s", code, floats == usual, errOut)
	}

	// Sites that the model does not know.
	prefixed := respelt(3000, columnSite, func(site string) string { return "www." + site })
	if code, _, _, errOut = score(prefixed); code != 0 ||
		!strings.Contains(errOut,
			"warning: site: 100 % of the values are unseen, compared with 0 % of the dataset's held-out rows") {
		t.Errorf("sites that the model does not know: ended with %d; want 0 and a warning\n%s", code, errOut)
	}
	if code, _, _, errOut = score(prefixed, "--max-unseen", "0.2"); code != int(sweep.ExitInput) ||
		!strings.Contains(errOut, "site (100 %, of held-out rows 0 %)") ||
		!strings.Contains(errOut, "nothing was written") {
		t.Errorf("--max-unseen 0.2 ended with %d; want that of a wrong input, the shares of site, and nothing "+
			"written\n%s", code, errOut)
	}
	if code, _, _, errOut = score(prefixed, "--max-unseen", "2"); code != int(sweep.ExitUsage) {
		t.Errorf("--max-unseen 2 ended with %d; want that of wrong usage\n%s", code, errOut)
	}

	// No age at all.
	_, _, out, _ = score(respelt(3000, columnAge, func(string) string { return "" }), "--json")
	var said struct {
		Inputs   []predict.Input
		Warnings []string
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%v, expected JSON, in:\n%s", err, out)
	}

	// Now is the share in this table, and Usual that of the held-out rows, here a fifth. Age has no ids to be unseen.
	shares := map[string]predict.Input{}
	for _, in := range said.Inputs {
		shares[in.Column] = in
	}
	age, site := shares["age"], shares["site"]
	if age.Missing.Now != 1 || !age.Missing.High || age.Missing.Usual == nil || *age.Missing.Usual < 0.1 ||
		*age.Missing.Usual > 0.3 || age.Unseen != nil {
		t.Errorf("age: %+v, want all missing where a fifth is usual", age)
	}
	if site.Unseen == nil || site.Unseen.High || site.Missing.Now != 0 || len(said.Warnings) != 1 ||
		!strings.HasPrefix(said.Warnings[0], "age: 100 % of the values are missing, compared with ") {
		t.Errorf("site: %+v; warnings %q, want one about age", site, said.Warnings)
	}
}

// usualInputs counts the values in the dataset's sample, as the aggregator does.
func usualInputs(t *testing.T, dir string, ds *dataset.Dataset) []byte {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(dir, dataset.SampleFile)))(t)
	sample := must.Get(dataset.ReadSample(data))(t)
	in := must.Get(datasettest.Encoder(t, ds).CountSample(sample))(t)
	return must.Get(json.Marshal(in))(t)
}

// TestStageTellsOfIDs: staging says how frequent ids are, how many levels there are, and which columns are useless. Its
// advice, drop: [...], can be pasted into the spec, and then it is not given again. Every twelfth of 6,000 rows has the
// ip 10.9.9.9 (8.3 %), and every fiftieth an amount of -999999, which looks like a mark of missing values.
func TestStageTellsOfIDs(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(3, 1))
	var b bytes.Buffer
	b.WriteString("is_click,ip,shop_id,amount,same,empty,serial,odd name\n")
	for i := range 6000 {
		ip := fmt.Sprintf("10.0.%d.%d", rng.IntN(20), rng.IntN(256))
		if i%12 == 0 {
			ip = "10.9.9.9"
		}
		amount := fmt.Sprintf("%.2f", 50*rng.Float64())
		if i%50 == 0 {
			amount = "-999999"
		}
		fmt.Fprintf(&b, "%d,%s,%d,%s,1,,%d,x\n", rng.IntN(2), ip, 1+rng.IntN(200), amount, i)
	}
	w.file("t.csv", b.String())
	out := w.must("stage",
		w.file("d.yaml", "name: t\nsource: t.csv\nlabel: is_click\nencodings: none\nsplit: {by: hash, key: shop_id, "+
			"train: 0.8, valid: 0.2}\n"))
	w.says(out, "10.9.9.9 8.", " levels, all others together ",
		"hint: shop_id: grouped by shop_id; shop_id itself is not a feature",
		"sampled rows have -999999, and all others 0", "warning: no value at all: empty\n",
		"warning: the same value in every row: same, odd name\n",
		"drop: [\"same\", \"empty\", \"serial\", \"odd name\"]\n")
	w.lacks(out, "; drop the column")

	// The list is YAML that removes the columns.
	list := ""
	if at := strings.Index(out, "\ndrop: ["); at >= 0 {
		list = strings.SplitN(out[at+1:], "\n", 2)[0]
	}
	again := w.must("stage",
		w.file("e.yaml", "name: t\nsource: t.csv\nlabel: is_click\nencodings: none\nsplit: {by: random, train: 0.8, "+
			"valid: 0.2}\n"+list+"\n"))
	if strings.Contains(again, "drop: [") || strings.Contains(again, "odd name") ||
		!strings.Contains(again, "hint: shop_id: 200 different whole numbers on ") {
		t.Errorf("with %s in the spec, got\n%s\nwant no advice about these columns, and a hint about shop_id", list,
			again)
	}
}

// TestDatasetsNewestFirst: datasets list has the newest version first, although versions are hashes in any order.
func TestDatasetsNewestFirst(t *testing.T) {
	w := newWorld(t)
	for i := range 4 {
		w.now = w.now.Add(time.Hour)
		var b strings.Builder
		b.WriteString("y,x\n")
		for row := range 200 {
			fmt.Fprintf(&b, "%d,%d\n", row%2, row*(i+1)%37)
		}
		w.file("t.csv", b.String())
		w.must("stage", w.file("d.yaml", "name: t\nsource: t.csv\nlabel: y\n"))
	}
	var all []sweepview.ListedDataset
	must.Do(t, json.Unmarshal([]byte(w.must("datasets", "list", "--json")), &all))
	if len(all) != 4 || !slices.IsSortedFunc(all, func(a, b sweepview.ListedDataset) int {
		return b.Staged.Compare(a.Staged) // descending
	}) {
		t.Errorf("datasets list has %+v; expected four versions, the newest first", all)
	}
}

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
	g.changed(scorer.FileReference, func(string) string { return string(text) })
}

// explainedWorld has ctr@2, a version with the sampled rows of its test split.
type explainedWorld struct{ *world }

// newExplainedWorld makes that world. Before, ctr@1, which has no such rows, cannot be explained.
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

// TestExplain: registry explain reports the features and columns of a version: sorted, with the same numbers for any
// number of threads, as JSON and as text. The model's page has the same feature first.
func TestExplain(t *testing.T) {
	w := newExplainedWorld(t)
	r := w.explain()
	// A log loss below 0.7 is less than that of always saying a half, ln 2. A score below 0 means that fewer than half
	// of the rows are positive.
	if r.Metric != "log_loss" || r.Rows < 500 || !(r.Value > 0.1 && r.Value < 0.7) || !(*r.Expected < 0) {
		t.Errorf("explain ctr@2: got %d rows, %s %v, expected score %v; want 500 or more, log_loss in 0.1 to 0.7, "+
			"and a score below 0", r.Rows, r.Metric, r.Value, *r.Expected)
	}
	t.Run("threads change nothing", func(t *testing.T) {
		if !reflect.DeepEqual(r, w.explain("--threads", "3")) {
			t.Error("explain ctr@2 --threads 3: got another report than without it, want the same")
		}
	})
	t.Run("features in order", func(t *testing.T) { checkExplainedFeatures(t, r.Features) })
	t.Run("columns", func(t *testing.T) { checkExplainedColumns(t, r) })

	t.Run("options", func(t *testing.T) {
		if few := w.explain("--rows", "100", "--metric", "auc"); few.Rows != 100 || few.Metric != "auc" {
			t.Errorf("explain ctr@2 --rows 100 --metric auc: got %d rows by %s, want 100 by auc", few.Rows, few.Metric)
		}
	})
	t.Run("text", func(*testing.T) {
		out := w.must("registry", "explain", "ctr@2")
		for _, part := range []string{"ctr version 2 on ", "test rows of its night: log_loss 0.", "campaign_id",
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
		// 120 is what package report draws at most (effectRows).
		if m := first.FindStringSubmatch(html); m == nil || m[1] != "120" || m[2] != r.Features[0].Name {
			t.Errorf("the page of the model says %.200q of SHAP values; want those of 120 rows, of %s first", m,
				r.Features[0].Name)
		}
	})
}

// checkExplainedFeatures checks that features are sorted by contribution, that unused ones are worth nothing, and that
// the shares of the gain add up to 1. Campaign and age, in which the table has most of its signal, have to be among the
// first three, and their worth above 0 with certainty.
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

// checkExplainedColumns checks that each column counts its features, and that their common contribution is at most the
// sum of theirs, since they may cancel out; of a single feature it is the same.
func checkExplainedColumns(t *testing.T, r explain.Report) {
	madeOf := map[string][]explain.Explained{} // features by their columns
	for _, f := range r.Features {
		name := strings.Join(f.From, " + ")
		madeOf[name] = append(madeOf[name], f)
	}
	for _, c := range r.Columns {
		apart := 0.0
		for _, f := range madeOf[c.Name] {
			apart += f.Contribution
		}
		if len(madeOf[c.Name]) != c.Features {
			t.Errorf("column %s: got %d features, want those that are made of it: %d", c.Name, c.Features,
				len(madeOf[c.Name]))
		}
		if c.Contribution > apart+1e-12 || c.Features == 1 && math.Abs(c.Contribution-apart) > 1e-12 {
			t.Errorf("column %s of %d features: contributes %v, want at most their sum, %v (equal for one)", c.Name,
				c.Features, c.Contribution, apart)
		}
	}
}

// TestExplainClasses: of a model of several classes, each feature has a contribution for each class, which add up to
// its own. The text names the class that a feature moves most, and has no base score.
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
