//go:build unix && !race

package predict_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/stager"
)

// processorTime is the processor time of this process so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// wideTable writes a CSV of so many columns of numbers and a label y, and returns its path. The numbers are always the
// same.
func wideTable(t *testing.T, columns, rows int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wide.csv")
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "y")
	for c := range columns {
		fmt.Fprintf(w, ",c%d", c)
	}
	state := uint32(1)
	for range rows {
		state = state*1664525 + 1013904223
		fmt.Fprintf(w, "\n%d", state>>31)
		for range columns {
			state = state*1664525 + 1013904223
			fmt.Fprintf(w, ",%d.5", state>>8%100)
		}
	}
	must.Do(t, w.Flush())
	return path
}

// wideModel registers a model of three trees, trained on a table of wideTable with so many columns.
func wideModel(t *testing.T, columns int) (*registry.Registry, registry.Version) {
	t.Helper()
	spec := must.Get(dataset.ParseSpec("d.yaml", []byte("name: t\nsource: "+wideTable(t, columns, 100)+
		"\nlabel: y\nsplit: {by: random, train: 0.8, test: 0.2}\ncontract: none\n")))(t)
	staged := must.Get((&stager.Stager{}).Stage(t.Context(), spec, stager.Destination{Dir: t.TempDir()}))(t)
	ds := must.Get(dataset.Open(staged.Place))(t)
	defer ds.Close()
	p := gbt.Defaults()
	p.NumIterations = 3
	trained := must.Get(gbt.Train(t.Context(), datasettest.Data(ds.Manifest, ds.Split("train")), p, gbt.Options{}))(t)
	var model bytes.Buffer
	must.Get(trained.Model.WriteTo(&model))(t)
	features := must.Get(json.Marshal(ds.Manifest.Encoding()))(t)
	r := registry.New(blob.Memory())
	v := must.Get(r.Register(t.Context(), "wide", "sweep-1", map[string][]byte{scorer.FileModel: model.Bytes(),
		scorer.FileFeatures: features, scorer.FileCalibrator: []byte(`{"format":1,"method":"none"}`)},
		registry.Info{At: time.Unix(1e9, 0), By: "test"}))(t)
	return r, v
}

// cost is what scoring a table took, from opening the version on.
type cost struct {
	processor time.Duration
	heap      uint64 // most bytes in use at the end of a batch, with those that are read already
	left      uint64 // at the end of the last
}

// scoreWide scores a table of wideTable with a model of wideModel, and measures that.
func scoreWide(t *testing.T, columns, rows int) (c cost) {
	t.Helper()
	r, v := wideModel(t, columns)
	in, out := wideTable(t, columns, rows), filepath.Join(t.TempDir(), "scored.csv")
	runtime.GC()
	before := processorTime(t)
	s := must.Get(scorer.OpenMapped(t.Context(), r, v, t.TempDir()))(t)
	defer s.Close()
	done, err := predict.Run(t.Context(), predict.Request{Scorer: s, In: in, Out: out, MaxUnseen: 1,
		Progress: func(int64) {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			c.heap, c.left = max(c.heap, m.HeapAlloc), m.HeapAlloc
		}})
	if err != nil || done.Rows != int64(rows) {
		t.Fatalf("scored %d columns and %d rows: %+v, %v; want all rows", columns, rows, done, err)
	}
	c.processor = processorTime(t) - before
	t.Logf("%d columns, %d rows: %v of processor time, heap %d MiB, in the end %d MiB", columns, rows, c.processor,
		c.heap>>20, c.left>>20)
	return c
}

// TestScoringIsLinear: twice the rows take at most three times the processor time; so do twice the columns, if
// COPPICE_FULL is set. The faster of two runs counts.
func TestScoringIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it scores wide tables")
	}
	const bound = 3

	// Columns and rows of the small table, and of the large one.
	for what, n := range map[string][4]int{"columns": {1000, 500, 2000, 500}, "rows": {500, 1000, 500, 2000}} {
		if what == "columns" && os.Getenv("COPPICE_FULL") == "" {
			continue // TestScoringAWideTable bounds 10,000
		}
		fastest := func(columns, rows int) time.Duration {
			return min(scoreWide(t, columns, rows).processor, scoreWide(t, columns, rows).processor)
		}
		small, large := fastest(n[0], n[1]), fastest(n[2], n[3])
		if large > bound*small {
			t.Errorf("%s: scoring %v columns and rows took %v of processor time, %v took %v; want at most %d times as "+
				"long", what, n[:2], small, n[2:], large, bound)
		}
	}
}

// TestScoringAWideTable bounds processor time and memory for a table of 10,000 columns and 1,000 rows (3,000 if
// COPPICE_FULL is set). Only a batch of it is in memory at a time: in the end about 196 MiB are in use, and each batch
// that was kept by mistake would be 20 MiB more.
func TestScoringAWideTable(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it scores 10,000 columns")
	}
	const most, left = 600 << 20, 235 << 20
	rows := 1000
	if os.Getenv("COPPICE_FULL") != "" {
		rows = 3000
	}
	c := scoreWide(t, 10_000, rows)
	if c.processor > 20*time.Second || c.heap > most || c.left > left {
		t.Errorf("scoring 10,000 columns and %d rows took %v of processor time and %d MiB, in the end %d MiB; want at "+
			"most 20 s, %d MiB and %d MiB", rows, c.processor, c.heap>>20, c.left>>20, most>>20, left>>20)
	}
}

// TestExplainingCanBeEnded: rows that are explained come in batches of 512, after each of which an interruption is
// noticed. One that comes at the first batch ends the run within 1,024 rows, and leaves no file.
func TestExplainingCanBeEnded(t *testing.T) {
	r, v := wideModel(t, 5)
	s := must.Get(scorer.OpenMapped(t.Context(), r, v, t.TempDir()))(t)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var last int64
	out := filepath.Join(t.TempDir(), "scored.csv")
	_, err := predict.Run(ctx, predict.Request{Scorer: s, In: wideTable(t, 5, 3000), Out: out, MaxUnseen: 1, Explain: 2,
		Progress: func(rows int64) { last = rows; cancel() }})
	_, missing := os.Stat(out)
	if !errors.Is(err, context.Canceled) || last > 1024 || !errors.Is(missing, os.ErrNotExist) {
		t.Errorf("ended at the first batch: %v after %d rows, output %v; want it cancelled within 1,024 rows, no file",
			err, last, missing)
	}
}

var errFull = errors.New("the bucket is full")

// TestABucketIsScoredOnce: a run over the tables of a bucket that failed after two of four is continued by the next
// run, which scores only the others. Each row is written once, in the order of its table. Two tables that would have
// one output, and a pattern without objects, are errors.
func TestABucketIsScoredOnce(t *testing.T) {
	r, v := wideModel(t, 3)
	s := must.Get(scorer.OpenMapped(t.Context(), r, v, t.TempDir()))(t)
	defer s.Close()
	left := 2 // objects that the bucket takes
	from, to := blob.Memory(), blobtest.Before(blob.Memory(), blobtest.Put, func(context.Context, string) error {
		if left == 0 {
			return errFull
		}
		left--
		return nil
	})
	put := func(name, text string) {
		must.Get(blob.Create(t.Context(), from, name, []byte(text)))(t)
	}
	want := map[string]int{}
	for day := range 4 {
		var text strings.Builder
		text.WriteString("c0,c1,c2\n")
		for i := range 10 + day {
			fmt.Fprintf(&text, "%d,%d,1\n", i, day)
		}
		put(fmt.Sprintf("clicks/day=%d/part.csv", day), text.String())
		want[fmt.Sprintf("scored/day=%d/part.csv", day)] = 10 + day
	}
	put("clicks/day=0/_SUCCESS", "")
	put("other.csv", "c0\n1\n")

	// The first run fails when the bucket is full, the second does the rest.
	run := func() (*predict.Bucket, error) {
		b := &predict.Bucket{Request: predict.Request{Scorer: s, MaxUnseen: 1, Keep: []string{"c0"}}, From: from,
			To:      to,
			Pattern: "clicks/*/*.csv", Prefix: "scored/"}
		_, err := b.Run(t.Context())
		return b, err
	}
	if b, err := run(); !errors.Is(err, errFull) || b.Scored != 2 {
		t.Fatalf("got %v and %d tables from a bucket that takes two; want its error and 2", err, b.Scored)
	}
	left = 10
	if b, err := run(); err != nil || b.Scored != 2 || b.WereScored != 2 {
		t.Fatalf("got %v, %d tables scored and %d before; want 2 and 2", err, b.Scored, b.WereScored)
	}

	// Each output has all rows of its table.
	var names []string
	for o, err := range to.List(t.Context(), "") {
		must.Do(t, err)
		names = append(names, o.Name)
		data, _, err := blob.ReadAll(t.Context(), to, o.Name, 1<<20)
		lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		if err != nil || len(lines) != 1+want[o.Name] || string(lines[0]) != "c0,prediction" {
			t.Fatalf("%s: got %d lines beginning with %s, %v; want a header and %d rows", o.Name, len(lines), lines[0],
				err, want[o.Name])
		}
		for i, line := range lines[1:] {
			if !bytes.HasPrefix(line, fmt.Appendf(nil, "%d,", i)) {
				t.Errorf("%s: row %d is %s; want the table's order", o.Name, i, line)
			}
		}
	}
	if len(names) != 4 || !slices.IsSorted(names) {
		t.Errorf("got the objects %v, want the four of %v", names, want)
	}

	// part.csv and part.tsv of one day would have one output.
	put("clicks/day=1/part.tsv", "c0\tc1\tc2\n1\t2\t3\n")
	b := &predict.Bucket{Request: predict.Request{Scorer: s, MaxUnseen: 1}, From: from, To: to, Pattern: "clicks",
		Prefix: "x/"}
	if _, err := b.Run(t.Context()); !problem.Is(err, problem.Input) || !strings.Contains(err.Error(),
		"would both be scored") {
		t.Errorf("got %v for two tables of one output; want both named", err)
	}
	b.Pattern = "none/*"
	if _, err := b.Run(t.Context()); !problem.Is(err, problem.NotFound) {
		t.Errorf("got %v for a glob without objects; want that none matches", err)
	}
}
