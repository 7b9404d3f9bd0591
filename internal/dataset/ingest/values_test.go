package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// TestValues: columns of numbers are beside the labels of every split, as they are in the table, whether they are
// features, roles or neither; a dataset without them is what it was.
func TestValues(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("user,x,bid,price,sales\n")
	for i := range 400 {
		fmt.Fprintf(&csv, "u%d,%d,%d.5,%d,%d\n", i%50, i%7, i%11, -i, i%3)
	}
	const spec = "label: {column: sales, above: 1}\ndrop: [price]\nencodings: none\n" +
		"split: {by: hash, key: user, train: 0.6, valid: 0.2, test: 0.2}\n"
	with, without := mustStage(t, spec+"values: [bid, price, sales]\n", csv.String()), mustStage(t, spec, csv.String())
	if with.Manifest.Format != dataset.FormatValues || without.Manifest.Format != dataset.FormatVersion ||
		len(with.Manifest.Features) != len(without.Manifest.Features) {
		t.Errorf("formats %d and %d, %d features and %d", with.Manifest.Format, without.Manifest.Format,
			len(with.Manifest.Features), len(without.Manifest.Features))
	}

	d := with.Dataset
	must.Do(t, d.Verify(t.Context(), nil))
	rows := 0
	for _, s := range d.Splits {
		rows += s.Rows
		data := must.Get(os.ReadFile(filepath.Join(with.dir, filepath.FromSlash(dataset.TargetsFile(s.Name)))))(t)
		fetched := must.Get(dataset.ReadTargets(data))(t)
		picked := fetched.Pick([]uint32{uint32(s.Rows - 1)})
		for name, v := range s.Values {
			if len(v) != s.Rows || len(fetched.Values[name]) != s.Rows || picked.Values[name][0] != v[s.Rows-1] {
				t.Fatalf("%s of %s has %d values, fetched %d, picked %v", name, s.Name, len(v),
					len(fetched.Values[name]), picked.Values)
			}
		}
		for r, price := range s.Values["price"] {
			i := int(-price)
			want := [3]float32{float32(i%11) + 0.5, float32(-i), float32(i % 3)}
			got := [3]float32{fetched.Values["bid"][r], price, s.Values["sales"][r]}
			if got != want || (s.Label[r] == 1) != (i%3 > 1) {
				t.Fatalf("row %d of %s has the values %v, label %v; expected %v", r, s.Name, got, s.Label[r], want)
			}
		}
	}
	if rows != 400 {
		t.Errorf("%d rows have values", rows)
	}

	for _, names := range []string{"[label]", "[bid price]", "[log]", "[bid, bid]", "[2]"} {
		_, err := dataset.ParseSpec("dataset.yaml", []byte("name: d\nsource: t.csv\nlabel: y\nvalues: "+names+"\n"))
		if err == nil || !strings.Contains(err.Error(), "dataset.yaml:4:") {
			t.Errorf("values: %s: %v, expected an error with its line", names, err)
		}
	}
}
