//go:build unix && !race

package predict_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"context"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/scorer"
	"coppice/launcher/internal/predict"
)

// stopping is a bucket that takes some objects and then no more.
type stopping struct {
	blob.Store
	left int
}

var errFull = errors.New("the bucket is full")

func (s *stopping) Put(ctx context.Context, name string, at blob.Generation, r io.Reader) (blob.Attrs, error) {
	if s.left == 0 {
		return blob.Attrs{}, errFull
	}
	s.left--
	return s.Store.Put(ctx, name, at, r)
}

// TestABucketIsScoredOnce: a run that stopped goes on where it was, and each row is written once, in the order of its
// table.
func TestABucketIsScoredOnce(t *testing.T) {
	r, v := wideModel(t, 3)
	s := must.Get(scorer.OpenMapped(t.Context(), r, v, t.TempDir()))(t)
	defer s.Close()
	from, to := blob.Memory(), &stopping{Store: blob.Memory(), left: 2}
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
	to.left = 10
	if b, err := run(); err != nil || b.Scored != 2 || b.WereScored != 2 {
		t.Fatalf("got %v, %d tables scored and %d before; want 2 and 2", err, b.Scored, b.WereScored)
	}
	var names []string
	for o, err := range to.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
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
