package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/sweepview"
)

// What people's tables do to ids, and how the launcher reports it.

// respelt is the click table with some text replaced in one of its columns.
func respelt(rows int, column int, spell func(string) string) string {
	lines := strings.Split(strings.TrimSpace(string(datasettest.Table(datasettest.Options{Rows: rows, Seed: 8}))), "\n")
	for i, line := range lines[1:] {
		cells := strings.Split(line, ",")
		cells[column] = spell(cells[column])
		lines[i+1] = strings.Join(cells, ",")
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestPredictOnRespeltIDs: 3 and 3.0 are the same id; ids that the model cannot know are counted, reported, and
// rejected on request.
func TestPredictOnRespeltIDs(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	same := func(s string) string { return s }
	score := func(table string, flags ...string) (code int, text, out, errOut string) {
		t.Helper()
		scored := filepath.Join(t.TempDir(), "scored.csv")
		code, out, errOut = w.run(append([]string{"predict", "--model", "ctr", "--in", w.file("in.csv", table), "--out", scored, "--raw"}, flags...)...)
		data, err := os.ReadFile(scored)
		if (err == nil) != (code == 0) {
			t.Errorf("%q ended with %d, and the file it writes: %v", flags, code, err)
		}
		return code, string(data), out, errOut
	}

	code, usual, out, errOut := score(respelt(3000, 1, same))
	if code != 0 || strings.Contains(errOut, "warning") || !strings.Contains(out, "site") ||
		!strings.Contains(out, "unseen") {
		t.Fatalf("the usual table: %d\n%s\n%s", code, out, errOut)
	}
	code, floats, _, errOut := score(respelt(3000, 1, func(id string) string { return id + ".0" }), "--max-unseen",
		"0.2")
	if code != 0 || floats != usual || strings.Contains(errOut, "warning") {
		t.Errorf("campaigns as 3.0 instead of 3: ended with %d, the same predictions %t\n%s", code, floats == usual,
			errOut)
	}

	prefixed := respelt(3000, 2, func(site string) string { return "www." + site })
	if code, _, _, errOut = score(prefixed); code != 0 ||
		!strings.Contains(errOut,
			"warning: site: 100 % of the values are unseen, compared with 0 % of the dataset's held-out rows") {
		t.Errorf("sites that the model does not know: ended with %d\n%s", code, errOut)
	}
	if code, _, _, errOut = score(prefixed, "--max-unseen", "0.2"); code != int(sweep.ExitInput) ||
		!strings.Contains(errOut, "site (100 %, usually 0 %)") || !strings.Contains(errOut, "nothing was written") {
		t.Errorf("--max-unseen 0.2: ended with %d\n%s", code, errOut)
	}
	if code, _, _, errOut = score(prefixed, "--max-unseen", "2"); code != int(sweep.ExitUsage) {
		t.Errorf("--max-unseen 2: ended with %d\n%s", code, errOut)
	}

	_, _, out, _ = score(respelt(3000, 4, func(string) string { return "" }), "--json")
	var said struct {
		Inputs   []predict.Input
		Warnings []string
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%v, expected JSON, in:\n%s", err, out)
	}
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
	text := must.Get(json.Marshal(in))(t)
	return text
}

// TestStageTellsOfIDs: shares are of all rows, levels are counted, and the advice about columns can be pasted.
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
	for _, want := range []string{
		"10.9.9.9 8.", " levels, all others together ",
		"hint: shop_id: grouped by shop_id; shop_id itself is not a feature",
		"sampled rows have -999999, and all others 0",
		"warning: no value at all: empty\n", "warning: the same value in every row: same, odd name\n",
		"drop: [\"same\", \"empty\", \"serial\", \"odd name\"]\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("stage does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "; drop the column") {
		t.Errorf("columns to drop are told of one by one:\n%s", out)
	}

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
		t.Errorf("with %s:\n%s", list, again)
	}
}

// TestSweepRefusesACalibWithoutPositives: before anything is submitted.
func TestSweepRefusesACalibWithoutPositives(t *testing.T) {
	w := newWorld(t)
	var b bytes.Buffer
	b.WriteString("y,x,part\n")
	for i := range 3000 {
		part := []string{"train", "valid", "calib", "test"}[i%4]
		y := i / 4 % 2
		if part == "calib" {
			y = 0
		}
		fmt.Fprintf(&b, "%d,%d,%s\n", y, i%17, part)
	}
	w.file("t.csv", b.String())
	w.must("stage", w.file("d.yaml", "name: clicks\nsource: t.csv\nlabel: y\nsplit: {by: column, column: part}\n"))
	w.refused(sweep.ExitInput, "none of the 750 rows of calib in dataset clicks@", "sweep", w.file("s.yaml", sweepYAML),
		"--no-wait")
	if len(w.jobs.submitted) > 0 {
		t.Errorf("submitted %v", w.jobs.submitted)
	}
}

// TestDatasetsNewestFirst: versions are hashes, whose order says nothing.
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
		return b.Staged.Compare(a.Staged)
	}) {
		t.Errorf("datasets list has %+v; expected four versions, the newest first", all)
	}
}
