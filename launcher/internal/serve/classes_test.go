package serve_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/scorer"
	"coppice/launcher/internal/serve"
)

// kinds is a model of three classes, one of which has a name to be quoted in CSV and in JSON.
var kinds = shape{ids: 2, numbers: 3, rows: 2000, trees: 8, leaves: 7,
	classes: []string{"early", `late, "ü" <b>`, "never"}}

// TestAnswersOfClassesAreThoseOfPredict: every form of a request gets the columns and bits of `launcher predict`.
func TestAnswersOfClassesAreThoseOfPredict(t *testing.T) {
	reg, store := newRegistry()
	files := kinds.trained(t, 1)
	if !bytes.Contains(files[scorer.FileFeatures], []byte(`"class":3`)) {
		t.Fatalf("the model has no rate of the most frequent class, of ids: %.2000s", files[scorer.FileFeatures])
	}
	v := register(t, reg, "one", files)
	s := start(t, store, nil)
	names := kinds.names()
	for _, n := range []int{1, 70, 300} {
		rows := someRows(kinds, n, uint64(n))
		text := written(t, reg, v, names, rows)
		want, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || len(want) != n+1 || len(want[0]) != 1+len(kinds.classes) {
			t.Fatalf("launcher predict wrote %.200s (%v); want %d rows of a class and its %d probabilities", text, err,
				n, len(kinds.classes))
		}

		status, _, got := post(t, s.url+"/predict", "text/csv", csvOf(names, rows))
		if status != http.StatusOK || !bytes.Equal(got, text) {
			t.Errorf("%d rows of CSV: got status %d, %.200s; want what launcher predict writes, %.200s", n, status, got,
				text)
		}

		status, _, got = post(t, s.url+"/predict", "application/json", instancesOf(names, rows))
		var a struct{ Predictions []map[string]any }
		if err := json.Unmarshal(got, &a); err != nil || status != http.StatusOK || len(a.Predictions) != n {
			t.Fatalf("%d rows of JSON: got status %d, %.300s (%v); want an object for each", n, status, got, err)
		}
		for r, row := range a.Predictions {
			for c, name := range want[0] {
				if got := fmt.Sprint(row[name]); c > 0 && row[name] != number(t, want[r+1][c]) ||
					c == 0 && got != want[r+1][0] || len(row) != len(want[0]) {
					t.Fatalf("%d rows of JSON: row %d is %v; want %s %s", n, r, row, name, want[r+1][c])
				}
			}
		}
	}
}

func number(tb testing.TB, text string) float64 {
	tb.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		tb.Fatalf("got %q, want a probability", text)
	}
	return x
}

// TestClassesAreMeasured: rows are measured by the probability of their likeliest class.
func TestClassesAreMeasured(t *testing.T) {
	s, read := measured(t, kinds.trained(t, 1))
	post(t, s.url+"/predict", "application/json", instancesOf(kinds.names(), someRows(kinds, 40, 2)))
	until(t, "the request is counted", func() bool { return read()["coppice_serve_rows_total"] == 40 })
	if mean := read()["coppice_serve_predicted_total"] / 40; mean <= 1./3 || mean > 1 {
		t.Errorf("got a mean of %v; want that of the likeliest classes' probabilities", mean)
	}
}

func page(tb testing.TB, url string) string {
	tb.Helper()
	r, err := http.Get(url)
	must.Do(tb, err)
	defer r.Body.Close()
	text := must.Get(io.ReadAll(r.Body))(tb)
	return string(text)
}

// TestRowsOfManyClassesAreBounded: an answer has at most as many bytes as a request.
func TestRowsOfManyClassesAreBounded(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", kinds.trained(t, 1))
	s := start(t, store, func(c *serve.Config) { c.MaxBytes = 8 << 10 })
	most := 0
	for n := 10; n <= 60; n += 10 {
		status, _, got := post(t, s.url+"/predict", "text/csv", csvOf(kinds.names(), someRows(kinds, n, 1)))
		if status == http.StatusOK {
			most = n
		} else if !strings.Contains(string(got), "rows; send them in several requests") {
			t.Errorf("%d rows: got status %d, %s; want that they be sent in several requests", n, status, got)
		}
	}
	if most < 20 || most > 50 { // a row of three classes takes 195 bytes of JSON at most
		t.Errorf("%d rows were answered, want 20 to 50 of 60", most)
	}
}

// TestAnswersKeepTheirForm: a version of other classes does not answer after the one before.
func TestAnswersKeepTheirForm(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", kinds.trained(t, 1))
	register(t, reg, "two", filesOf(t, 1))
	promote(t, reg, 1)
	s := start(t, store, func(c *serve.Config) { c.MaxShift = 0 })
	want := "ctr@2 answers with one number, and ctr@1 with probabilities of 3 classes (early, "
	promote(t, reg, 2)
	until(t, "the new version waits", func() bool { return strings.Contains(page(t, s.url+"/status"), want) })
	_, header, _ := post(t, s.url+"/predict", "text/csv", csvOf(kinds.names(), someRows(kinds, 3, 1)))
	if got := header.Get("Coppice-Version"); got != "ctr@1" {
		t.Errorf("%s answers; want ctr@1", got)
	}
}
