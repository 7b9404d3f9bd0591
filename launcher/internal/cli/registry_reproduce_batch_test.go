package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/reproduce"
	"coppice/launcher/internal/sweepview"
)

// machine runs a job's tasks at once, in this process, with the environment that is written into the job and nothing
// else.
type machine struct {
	w     *world
	build string
	jobs  []cloudjob.Work
	ended map[string]provision.JobStatus
}

func (m *machine) Name(id sweep.ID) string { return "jobs/" + string(id) }

func (m *machine) SubmitTask(ctx context.Context, q cloudjob.Work) (bool, error) {
	m.jobs = append(m.jobs, q)
	q.Env.Scratch = m.w.t.TempDir()
	if q.Kind == cloudjob.Predict { // of an attempt that was killed
		if err := os.MkdirAll(filepath.Join(q.Env.Scratch, "predict-0", "half"), 0o700); err != nil {
			m.w.t.Error(err)
		}
	}
	codes := make([]int, max(1, q.Tasks))
	var tasks sync.WaitGroup
	for i := range codes {
		tasks.Go(func() {
			var out bytes.Buffer
			env := q.Env.Variables()
			env["BATCH_TASK_INDEX"] = strconv.Itoa(i)
			codes[i] = Run(ctx, Setup{
				World: program.World{Args: []string{string(q.Kind) + "-task"}, Out: program.To(&out), Err: program.To(&out),
					Version: m.build, Now: func() time.Time { return m.w.now }, Env: envconfig.MapLookuper(env)},
				Connect: func(context.Context, Env) (*Backends, error) {
					return &Backends{Bucket: func(name string) blob.Store { return m.w.buckets[name] },
						Close: func() error { return nil }}, nil
				},
			})
		})
	}
	tasks.Wait()
	code := slices.Max(codes)
	state := provision.JobStatus{State: "SUCCEEDED", Finished: true, Created: time.Unix(1, 0)}
	if code != 0 {
		state.State = "FAILED"
	}
	m.ended[m.Name(sweep.ID(q.Env.Job))] = state
	if left, _ := os.ReadDir(q.Env.Scratch); len(left) > 0 {
		m.w.t.Errorf("the task left %q on its machine, expected nothing", left)
	}
	return false, nil
}

func (m *machine) Status(_ context.Context, job string) (provision.JobStatus, error) {
	if s, ok := m.ended[job]; ok {
		return s, nil
	}
	return provision.JobStatus{State: sweepview.JobMissing, Finished: true}, nil
}

func (m *machine) Cancel(context.Context, string) (provision.JobStatus, error) {
	return provision.JobStatus{}, nil
}

// TestReproduceInBatch: a job's report is that of this machine, and its failure is told.
func TestReproduceInBatch(t *testing.T) {
	w := newWorld(t)
	g := w.grow(12)
	m := &machine{w: w, build: "v1", ended: map[string]provision.JobStatus{}}
	w.tasks = m
	var here, there reproduce.Report
	for out, args := range map[*reproduce.Report][]string{&here: nil, &there: {"--batch", "--machine", "n2-standard-8",
		"--spot"}} {
		text := w.must(append([]string{"registry", "reproduce", "ctr@1", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(text), out); err != nil {
			t.Fatal(err)
		}
		out.Seconds = 0
	}
	if len(there.Files) == 0 || !there.Same() || there.Build != "v1" || len(there.Files) != len(here.Files) ||
		there.Trees != here.Trees || there.Dataset != here.Dataset {
		t.Errorf("the job reports %+v, expected %+v as here", there, here)
	}
	if len(m.jobs) != 1 || m.jobs[0].Machine != "n2-standard-8" || !m.jobs[0].Spot || m.jobs[0].LocalSSD == 0 ||
		!strings.HasPrefix(m.jobs[0].Env.Job, "reproduce-clicks-") ||
		len(m.jobs[0].Fingerprint) != 32 {
		t.Errorf("submitted %+v, expected one job on a Spot machine n2-standard-8 with a disk, and a fingerprint "+
			"that fits a label", m.jobs)
	}

	// Again it is another run. Another build says so where the bytes differ.
	m.build = "v9"
	if out := w.must("registry", "reproduce", "ctr@1", "--batch"); !strings.Contains(out, "12 trees") ||
		!strings.Contains(out, "the same bytes") || len(m.jobs) != 2 || m.jobs[1].Env.Job == m.jobs[0].Env.Job {
		t.Errorf("again: %d jobs, and it says\n%s\nexpected a second job and the same bytes", len(m.jobs), out)
	}
	g.changed("1", map[string]func(string) string{"model.txt": func(s string) string { return strings.Replace(s, "leaf_value=", "leaf_value=0", 1) }})
	w.refused(sweep.ExitConflict, "trained again by v9", "registry", "reproduce", "ctr@2", "--batch")

	w.refused(sweep.ExitUsage, "--threads has no effect with --batch", "registry", "reproduce", "ctr@1", "--batch",
		"--threads", "2")
	w.refused(sweep.ExitUsage, "--spot has no effect without --batch", "registry", "reproduce", "ctr@1", "--spot")

	// A dataset that is gone is noticed here, one whose files are damaged by the job.
	datasets := w.buckets["datasets"]
	w.buckets["datasets"] = blob.Memory()
	w.refused(sweep.ExitNotFound, "is not staged", "registry", "reproduce", "ctr@1", "--batch")
	if len(m.jobs) != 3 {
		t.Errorf("%d jobs were submitted; want 3, none for a dataset that is gone", len(m.jobs))
	}
	w.buckets["datasets"] = datasets
	for object, err := range datasets.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(object.Name, ".arrow") {
			if _, err := datasets.Put(t.Context(), object.Name, object.Generation, strings.NewReader("")); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.refused(sweep.ExitInput, "reproduce job reproduce-clicks-", "registry", "reproduce", "ctr@1", "--batch")
}
