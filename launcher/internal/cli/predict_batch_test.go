package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
)

// fullBucket is a bucket that takes some objects and then no more.
type fullBucket struct {
	blob.Store
	left atomic.Int64
}

func (b *fullBucket) Put(ctx context.Context, name string, at blob.Generation, r io.Reader) (blob.Attrs, error) {
	if b.left.Add(-1) < 0 {
		return blob.Attrs{}, errors.New("the bucket is full")
	}
	return b.Store.Put(ctx, name, at, r)
}

// TestPredictInBatch: the tasks of a job share the tables, and what they write is what one process writes, also if a
// first job has ended in the middle.
func TestPredictInBatch(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	m := &machine{w: w, build: "v1", ended: map[string]provision.JobStatus{}}
	w.tasks = m
	here, there := blob.Memory(), &fullBucket{Store: blob.Memory()}
	w.buckets["clicks"], w.buckets["here"], w.buckets["there"] = blob.Memory(), here, there
	const tables = 9
	for i := range tables {
		text := datasettest.Table(datasettest.Options{Rows: 30 + i})
		if _, err := blob.Create(t.Context(), w.buckets["clicks"], fmt.Sprintf("day/%d.csv", i), text); err != nil {
			t.Fatal(err)
		}
	}
	contents := func(s blob.Store) map[string]string {
		out := map[string]string{}
		for o, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			data, _, err := blob.ReadAll(t.Context(), s, o.Name, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			out[o.Name] = string(bytes.TrimSpace(data))
		}
		return out
	}
	flags := []string{"--model", "ctr@1", "--in", "gs://clicks/day/*.csv", "--keep", "user_id", "--explain", "top:1"}
	w.must(append([]string{"predict", "--out", "gs://here/x/"}, flags...)...)
	batch := append([]string{"predict", "--out", "gs://there/x/", "--batch", "--tasks", "4", "--spot"}, flags...)

	there.left.Store(5)
	w.refused(sweep.ExitError, "the bucket is full", batch...)
	before := len(contents(there)) // two tasks may have tried to write one table
	if before < 1 || before > 5 {
		t.Errorf("%d tables were scored before the bucket was full, want 1 to 5", before)
	}
	there.left.Store(1000)
	want := fmt.Sprintf("tables scored: %d; scored before: %d", tables-before, before)
	if out := w.must(batch...); !strings.Contains(out, want) {
		t.Errorf("again it says %s, want %s", out, want)
	}
	if want, got := contents(here), contents(there); len(want) != tables || !maps.Equal(got, want) {
		t.Errorf("the job wrote %d tables, and they are not the %d of one process", len(got), len(want))
	}
	if len(m.jobs) != 2 || m.jobs[0].Tasks != 4 || !m.jobs[0].Spot || m.jobs[0].Env.Job == m.jobs[1].Env.Job ||
		!strings.HasPrefix(m.jobs[0].Env.Job, "predict-ctr-") {
		t.Errorf("submitted %+v; want two jobs of four tasks on Spot machines", m.jobs)
	}
	if m.jobs[0].Fingerprint != m.jobs[1].Fingerprint {
		t.Error("the command that goes on names another job, want that it finds one that runs")
	}
	if w.must(batch...); len(m.jobs) != 2 {
		t.Errorf("a job was submitted although all tables are scored")
	}
	w.refused(sweep.ExitUsage, "tables in a bucket", "predict", "--model", "ctr@1", "--in", "a.csv", "--out", "b.csv",
		"--batch")
	w.refused(sweep.ExitUsage, "--tasks is for --batch", append([]string{"predict", "--out", "gs://there/x/", "--tasks",
		"2"}, flags...)...)
}
