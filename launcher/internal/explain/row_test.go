package explain_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/explain"
	"coppice/launcher/internal/explain/explaintest"
)

// clicks is a version that scores prices and sites.
func clicks(tb testing.TB) *scorer.Scorer {
	tb.Helper()
	reg := registry.New(blob.Memory())
	s, err := scorer.Open(tb.Context(), reg, explaintest.Clicks(tb, reg))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// TestPastedRow: the same row as CSV, with tabs and as JSON gives the same contributions, under the names that the user
// wrote, and they add up to the raw score.
func TestPastedRow(t *testing.T) {
	s := clicks(t)
	var first []byte
	for _, text := range []string{"ad price,site,other\n9,a,x\n", "site\tad price\na\t9",
		"{\"ad price\": 9,\n \"site\": \"a\"}"} {
		got, err := explain.Text(t.Context(), s, text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		sum := got.Expected
		for _, f := range got.Features {
			sum += f.Shap
		}
		if len(got.Features) == 0 || got.Features[0].Name != "ad price" || got.Features[0].Value != "9" ||
			got.Features[0].Shap <= 0 || math.Abs(sum-got.Raw) > 1e-9 {
			t.Errorf("%q: got %+v, which adds up to %v; want ad price, 9, to raise the score the most", text, got, sum)
		}
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(data, first) {
			t.Errorf("%q: got %s, want %s as of the first form", text, data, first)
		}
	}
	for _, text := range []string{"site\tad price\tother\na\t\t", "\tsite\tad price\n0\ta\t\n"} { // of a spreadsheet
		got, err := explain.Text(t.Context(), s, text)
		if err != nil || !slices.ContainsFunc(got.Features, func(f explain.RowFeature) bool {
			return f.Name == "ad price" && f.Value == "missing"
		}) {
			t.Errorf("%q: got %+v, %v; want that ad price is missing", text, got, err)
		}
	}
	for text, want := range map[string]string{"": "row", "ad price,site\n": "no row", "site\na": "ad price",
		"ad price,site\n1,a\n2,b": "more than one row", "{\"ad price\": 1": "JSON",
		strings.Repeat("x", 50<<10): "bytes"} {
		if got, err := explain.Text(t.Context(), s, text); err == nil || !problem.Is(err, problem.Input) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, %v; want an error of the input with %q", text, got, err, want)
		}
	}
}

// TestPastedRowOfClasses: the likeliest class is explained, whose score is what its contributions add up to.
func TestPastedRowOfClasses(t *testing.T) {
	reg := registry.New(blob.Memory())
	s, err := scorer.Open(t.Context(), reg, explaintest.Sites(t, reg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for text, want := range map[string]string{"ad price,click\n2,1": "b", "ad price,click\n2,0": ""} {
		got, err := explain.Text(t.Context(), s, text)
		if err != nil {
			t.Fatal(err)
		}
		sum := got.Expected
		for _, f := range got.Features {
			sum += f.Shap
		}
		if want == "" {
			want = got.Class
		}
		if got.Class != want || got.Class == "" || !(got.Prediction > 1./3 && got.Prediction <= 1) ||
			math.Abs(sum-got.Raw) > 1e-9 {
			t.Errorf("%q: got %+v, which adds up to %v; want class %s, more likely than the others", text, got, sum,
				want)
		}
	}
}

// TestAnInfinitePrediction: JSON has no number for it, so it is a text; an answer without it would be empty.
func TestAnInfinitePrediction(t *testing.T) {
	for v, want := range map[float64]string{math.Inf(1): `"prediction":"+Inf"`, 0.25: `"prediction":0.25`} {
		got, err := json.Marshal(explain.Row{Prediction: explain.Number(v)})
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("a prediction of %v is %s, %v; want %s in it", v, got, err, want)
		}
	}
}

func FuzzPastedRow(f *testing.F) {
	s := clicks(f)
	for _, text := range []string{"ad price,site\n9,a", `{"ad price":9,"site":"a"}`, "ad price\tsite\n\"\t", "{}",
		"\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := explain.Text(t.Context(), s, text)
		answered := err == nil && got != nil && !math.IsNaN(float64(got.Prediction))
		if !answered && !problem.Is(err, problem.Input) {
			t.Errorf("%q: got %+v, %v; want a prediction or an error of the input", text, got, err)
		}
	})
}
