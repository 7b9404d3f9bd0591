//go:build e2e

package e2e

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/must"
)

var pythonBlock = regexp.MustCompile("(?s)# The model file by itself\n.*?\n```python\n(.*?)\n```\n")

// TestInteropReadmeExample runs the Python lines of docs/serving.md beside a registered version, on rows with
// missing values, rare categories and ones that train has not, and compares with `launcher predict --raw`.
func TestInteropReadmeExample(t *testing.T) {
	python(t)
	readme := must.Get(os.ReadFile("docs/serving.md"))(t)
	m := pythonBlock.FindSubmatch(readme)
	if m == nil {
		t.Fatal("docs/serving.md has no Python block")
	}

	table := func(seed uint64, rows int) string {
		rng := rand.New(rand.NewPCG(seed, 3))
		var b strings.Builder
		b.WriteString("y,site,device,age,price\n")
		for range rows {
			site, device, age := int(rng.ExpFloat64()*60), rng.IntN(4), rng.IntN(70)
			cells := []string{fmt.Sprintf("s%d", site), []string{"phone", "tv", "tablet", "NA"}[device],
				fmt.Sprint(age), fmt.Sprintf("%.3f", 10*rng.Float64())}
			if rng.IntN(6) == 0 {
				cells[rng.IntN(2)*2] = "" // site or age
			}
			if seed > 1 && rng.IntN(10) == 0 {
				cells[1] = "fridge"
			}
			p := 0.1 + 0.3*float64(site%3)/2 + 0.2*float64(device%2)
			y := 0
			if rng.Float64() < p+float64(age)/400 {
				y = 1
			}
			fmt.Fprintf(&b, "%d,%s\n", y, strings.Join(cells, ","))
		}
		return b.String()
	}

	l := newLocal(t)
	train, today := l.file("train.csv", table(1, 6000)), l.file("today.csv", table(2, 2000))
	l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+train+"\nlabel: y\nencodings: none\n"+
		"split: {by: random, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}\n"), "--json")
	l.must("launcher", "sweep", l.file("sweep.yaml", "name: t\ndataset: t\nmodel: m\n"+pythonSweep), "--json")
	scored := filepath.Join(l.dir, "scored.csv")
	l.must("launcher", "predict", "--model", "m", "--raw", "--in", today, "--out", scored)

	// The example's files are those of the version, beside today's table.
	version := filepath.Join(l.data, "gcs", "coppice-registry", "registry", "m", "versions", "1")
	for _, name := range []string{"model.txt", "features.json"} {
		data := must.Get(os.ReadFile(filepath.Join(version, name)))(t)
		l.file(name, string(data))
	}
	script := l.file("example.py", string(m[1])+"\nprint(*map(repr, raw.tolist()), sep='\\n')\n")
	r := execute(t, l.dir, nil, python(t), script)
	r.ok(t)

	f := must.Get(os.Open(scored))(t)
	defer f.Close()
	rows := must.Get(csv.NewReader(f).ReadAll())(t)
	got := strings.Fields(r.out)
	if len(got) != 2000 || len(rows) != 2001 {
		t.Fatalf("the example scored %d rows, predict %d; want 2000", len(got), len(rows)-1)
	}
	different := map[string]bool{}
	for i, row := range rows[1:] {
		want, err1 := strconv.ParseFloat(row[1], 64)
		have, err2 := strconv.ParseFloat(got[i], 64)
		if err1 != nil || err2 != nil || !(math.Abs(want-have) <= 1e-12) {
			t.Fatalf("row %d: the example says %s, predict %s", i, got[i], row[1])
		}
		different[row[1]] = true
	}
	if len(different) < 100 {
		t.Errorf("only %d different scores, by which little is compared", len(different))
	}
}
