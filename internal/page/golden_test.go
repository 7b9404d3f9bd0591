package page_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/page/plot"
)

var none = math.NaN()

var figure = regexp.MustCompile(`(?s)<figure id="([^"]+)".*?</figure>`)

// TestFiguresAreAsTheyWere: every table with a title of its own is as it was.
func TestFiguresAreAsTheyWere(t *testing.T) {
	for name, view := range map[string]writer{"sweep": sample(30), "model": versions(6)} {
		found := 0
		for _, f := range figure.FindAllStringSubmatch(write(t, view), -1) {
			if id, card := strings.CutSuffix(f[1], "-card"); card {
				isAsItWas(t, name+"-"+id+".html", []byte(strings.ReplaceAll(f[0], "><", ">\n<")+"\n"))
				found++
			}
		}
		if want := map[string]int{"sweep": 5, "model": 1}[name]; found != want {
			t.Errorf("the page of a %s has %d tables with titles, want %d", name, found, want)
		}
	}
}

// isAsItWas compares with a file in testdata, or writes it.
func isAsItWas(t *testing.T, name string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is drawn differently in line %s; after looking at it, go test ./internal/page -update", golden,
			firstDifference(got, want))
	}
}

// TestEveryDrawingIsKept: what is drawn of a sweep has a file that it is compared with, and of what is drawn for each
// parameter a category and a logarithmic axis have one.
func TestEveryDrawingIsKept(t *testing.T) {
	for _, c := range sample(30).Charts() {
		if !slices.Contains(charts, c.ID) && !strings.HasPrefix(c.ID, "slice-") {
			t.Errorf("the drawing %s is compared with no file: add it to charts, and go test ./internal/page -update",
				c.ID)
		}
	}
}

// TestWhatCannotBeDrawn: of rows without a finite number, and without rows, nothing comes that a browser cannot read.
func TestWhatCannotBeDrawn(t *testing.T) {
	nan := func(n int) []float64 { return slices.Repeat([]float64{none}, n) }
	for name, c := range map[string]*plot.Chart{
		"lines": (&plot.Plot{Chart: plot.Chart{ID: "c", W: 300, H: 200},
			Lines: []plot.Line{{X: nan(3), Y: nan(3), Low: nan(3), High: nan(3), Peak: 1, End: "end"}}}).Draw(),
		"scatter": (&plot.Plot{Chart: plot.Chart{ID: "c", W: 300, H: 200},
			Points: []plot.Point{{X: none, Y: 1}, {X: 1, Y: none}}}).Draw(),
	} {
		drawn := write(t, svg{c})
		isXML(t, name, []byte(drawn))
		if i := regexp.MustCompile(`NaN|Inf`).FindStringIndex(drawn); i != nil {
			t.Errorf("%s: of what is no number came %q, expected nothing", name, around(drawn, i[0]))
		}
	}
}
