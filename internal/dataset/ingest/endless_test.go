package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// A file of 100 GB that cannot be a table is refused when its first megabytes are hashed, not its last.
func TestFilesWithoutEndAreRefusedAtOnce(t *testing.T) {
	const size = 100 << 30
	line := strings.Repeat("x", 2*hashPart)
	for name, tc := range map[string]struct{ begins, want string }{
		"a hole":                 {"", "byte 1 is NUL"},
		"a hole after two rows":  {"y,a\n1,2\n", "byte 9 is NUL"},
		"a row without an end":   {line, "bytes 1 to 16777216 hold no end of a line, and a row has at most 16777216"},
		"a second row without":   {"y,a\n" + line, "bytes 16777217 to 33554432 hold no end of a line"},
		"a hole in another part": {strings.Repeat("1,2\n", hashPart/2), "byte 33554433 is NUL"},
	} {
		path := filepath.Join(t.TempDir(), "t.csv")
		must.Do(t, errors.Join(os.WriteFile(path, []byte(tc.begins), 0o666), os.Truncate(path, size)))
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second) // hashing all of it takes longer
		_, err := Fingerprint(ctx, parseSpec(t, "label: y\n"), []table.File{{URI: "t.csv", Path: path, Bytes: size}})
		stop()
		if !errors.As(err, new(*table.InputError)) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Fingerprint came with %v, expected %q", name, err, tc.want)
		}
	}
}

// A table whose only column is dropped as useless is an error about the table, not about a manifest.
func TestATableWithoutFeatures(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,note\n")
	for i := range 400 {
		b.WriteString([]string{"0,", "1,"}[i%2] + strings.Repeat("x", 2000+i) + "\n")
	}
	_, err := Stage(t.Context(), parseSpec(t, "label: y\n"), []table.File{writeFile(t, "a.csv", b.String())},
		filepath.Join(t.TempDir(), "out"), Options{})
	if err == nil || !strings.Contains(err.Error(), "no column is left to be a feature") {
		t.Errorf("staging a column of long texts: %v, expected an error that says that no feature is left", err)
	}

	b.Reset()
	b.WriteString("y,thing_id\n")
	r := rand.New(rand.NewPCG(2, 1))
	for range 6000 { // nine of ten values are alone
		fmt.Fprintf(&b, "%d,t%d\n", r.IntN(2), r.IntN(60_000))
	}
	_, err = Stage(t.Context(), parseSpec(t, "label: y\n"), []table.File{writeFile(t, "b.csv", b.String())},
		filepath.Join(t.TempDir(), "out"), Options{Learner: func(context.Context, *encode.Lesson) ([]float64, error) {
			return nil, errors.New("there is nothing to learn from")
		}})
	if err == nil || !strings.Contains(err.Error(), "no column is left to be a feature") {
		t.Errorf("staging an id alone: %v, expected an error that says that no feature is left", err)
	}
}

// The index of a pandas.DataFrame is no feature, unless the spec says so; columns of folders are features.
func TestColumnsThatAreNoMeasurements(t *testing.T) {
	path := filepath.Join("..", "table", "testdata", "pandas", "named.parquet")
	files := []table.File{{URI: path, Path: path, Partitions: []table.Partition{{Name: "shop", Value: "ulm"}}}}
	for spec, want := range map[string]string{"label: y\n": "a shop", "label: y\nnumeric: [row]\n": "row a shop"} {
		r := must.Get(Stage(t.Context(), parseSpec(t, spec), files, filepath.Join(t.TempDir(), "out"), Options{}))(t)
		var names []string
		for _, f := range r.Manifest.Features {
			names = append(names, f.Name)
		}
		said := false
		for _, w := range r.Manifest.About.Warnings {
			said = said || w.Code == HintIndex && w.Column == "row"
		}
		if got := strings.Join(names, " "); !sameWords(got, want) || said != (spec == "label: y\n") {
			t.Errorf("%q: features %s, said that the index is left out: %v; expected %s", spec, got, said, want)
		}
	}
}

func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
