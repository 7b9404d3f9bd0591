package ingest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// hinted are the columns with a warning of a code.
func hinted(s *staged, code string) []string {
	var out []string
	for _, w := range s.Manifest.About.Warnings {
		if w.Code == code {
			out = append(out, w.Column)
		}
	}
	slices.Sort(out)
	return out
}

func TestHints(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	codes := make([]int, 60)
	for i := range codes {
		codes[i] = 10_000 + rng.IntN(90_000)
	}
	var b strings.Builder
	b.WriteString("y,user,shop_id,campaignId,solid,paid,age,hour,price,code,amount,years,count,flag,forced_id,uid,bid\n")
	for i := range 6000 {
		amount, years := fmt.Sprintf("%.2f", 100*rng.Float64()), fmt.Sprint(18+rng.IntN(60))
		if i%40 == 0 {
			amount = "-999999"
		}
		if i%300 == 7 {
			years = "9999"
		}
		fmt.Fprintf(&b, "%d,u%d,%d,%d,%d,%d,%d,%d,%d,%d,%s,%s,%d,%d,%d,%d,%d\n", i/3%2, i/4, 1+rng.IntN(300),
			1+rng.IntN(9), rng.IntN(50), rng.IntN(40), 18+rng.IntN(60), rng.IntN(24),
			int(1e6*rng.Float64()), codes[rng.IntN(60)], amount, years, int(rng.ExpFloat64()*3),
			[]int{0, 1000, 1001, 1002, 1003}[rng.IntN(5)], rng.IntN(40), rng.IntN(30), rng.IntN(30))
	}
	s := mustStage(t, "label: y\nnumeric: [forced_id]\nsplit: {by: hash, key: user, train: 0.8, test: 0.2}\n",
		b.String())
	for code, want := range map[string][]string{
		HintIDs:  {"campaignId", "code", "shop_id", "uid"},
		WarnCode: {"amount", "years"},
		HintKey:  {"user"},
	} {
		if got := hinted(s, code); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
	for _, w := range s.Manifest.About.Warnings {
		if w.Column == "amount" && !strings.Contains(w.Text, " sampled rows have -999999, and all others 0") {
			t.Errorf("the warning about amount is %q, expected that rows have -999999 and all others 0 or more", w.Text)
		}
	}
}

// What was a category to the program that wrote a Parquet file is one, and predicts on plain numbers, too.
func TestDictionariesAreCategories(t *testing.T) {
	for file, whole := range map[string]bool{"table.parquet": true, "fastparquet.parquet": true} {
		path := filepath.Join("testdata", "dictionary", file)
		info := must.Get(os.Stat(path))(t)
		files := []table.File{{URI: file, Path: path, Bytes: info.Size()}}
		s := stageFiles(t, "label: y\nsplit: {by: random, train: 0.8, test: 0.2}\n", files, Options{})
		for name, want := range map[string]struct {
			kind dataset.Kind
			why  dataset.Why
			of   int
		}{
			"number":   {dataset.Numeric, dataset.WhyType, 0},
			"category": {dataset.Categorical, dataset.WhyDictionary, 7},
			"half":     {dataset.Categorical, dataset.WhyDictionary, 5},
			"word":     {dataset.Categorical, dataset.WhyType, 3},
		} {
			f := s.feature(t, name)
			if f.Kind != want.kind || f.Why != want.why || len(f.Categories) != want.of {
				t.Errorf("%s: %s is %s (%s) with %q; want %s (%s) with %d categories", file, name, f.Kind, f.Why,
					f.Categories, want.kind, want.why, want.of)
			}
		}
		if whole {
			checkEncoder(t, s, files, dataset.CSVSpec{})
		}
	}
}

// TestTrueShares: of a column with more levels than it keeps, the manifest has what it takes to say how many rows a
// category has.
func TestTrueShares(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,ip\n")
	for i := range 20_000 {
		ip := i * 7919 % 6000
		if i%10 == 0 {
			ip = 6001
		}
		fmt.Fprintf(&b, "%d,10.0.%d.%d\n", i/7%2, ip/256, ip%256)
	}
	s := mustStage(t, "label: y\nencodings: none\nsplit: {by: random, train: 0.8, test: 0.2}\n", b.String())
	e := s.Manifest.About.Encodings
	if len(e) != 1 || e[0].Name != "ip" || e[0].Levels < 5000 || e[0].Levels > 6000 || e[0].Kept != 254 ||
		e[0].Lumped < 0.6 || e[0].Lumped > 0.9 {
		t.Fatalf("%+v, want ip with about 5,400 levels, 254 of them kept, and most rows in others", e)
	}
	f := s.feature(t, "ip")
	total := int64(0)
	for _, n := range f.Counts {
		total += n
	}
	if share := float64(f.Counts[0]) / float64(total) * (1 - e[0].Lumped); f.Categories[0] != "10.0.23.113" ||
		share < 0.095 || share > 0.105 {
		t.Errorf("the most frequent is %s with %.4f of the rows, want 10.0.23.113 with a tenth", f.Categories[0], share)
	}
}
