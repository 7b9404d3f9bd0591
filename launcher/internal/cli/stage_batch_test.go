package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/stager"
)

// stages is a Batch that records submissions; after a submission, the command that waits for the job is interrupted.
type stages struct {
	existed   bool // jobs that were started before
	interrupt context.CancelFunc
	submitted []cloudjob.Work
	cancelled []string
}

func (s *stages) Name(id sweep.ID) string { return "jobs/" + string(id) }

func (s *stages) SubmitTask(_ context.Context, q cloudjob.Work) (bool, error) {
	s.submitted = append(s.submitted, q)
	s.interrupt()
	return s.existed, nil
}

func (s *stages) Status(context.Context, string) (engine.JobStatus, error) {
	return engine.JobStatus{State: engine.Running, Created: time.Unix(1, 0)}, nil
}

func (s *stages) Cancel(_ context.Context, job string) (engine.JobStatus, error) {
	s.cancelled = append(s.cancelled, job)
	return engine.JobStatus{State: engine.Cancelled}, nil
}

// stageInBatch runs launcher stage --batch on an export in a bucket.
func (w *world) stageInBatch(s *stages, flags ...string) (code int, errOut string) {
	w.t.Helper()
	must.Get(w.buckets["datasets"].Put(w.t.Context(), "exports/clicks.csv", blob.Any,
		bytes.NewReader(datasettest.Table(datasettest.Options{Rows: 100}))))(w.t)
	ctx, interrupt := context.WithCancel(w.t.Context())
	defer interrupt()
	s.interrupt = interrupt
	var out, e bytes.Buffer
	file := w.file("cloud.yaml", "name: clicks\nsource: gs://datasets/exports/*.csv\nlabel: is_click\n")
	code = Run(ctx, Setup{
		World: program.World{Args: append([]string{"stage", file, "--batch"}, flags...), Out: program.To(&out),
			Err: program.To(&e), Version: "v1", Now: func() time.Time { return w.now },
			Env: envconfig.MapLookuper(map[string]string{"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "datasets",
				"COPPICE_SWEEPS_BUCKET": "sweeps", "COPPICE_REGISTRY_BUCKET": "registry"})},
		Connect: func(context.Context, Env) (*Backends, error) {
			return &Backends{Bucket: func(name string) blob.Store { return w.buckets[name] }, Tasks: s,
				Close: func() error { return nil }}, nil
		},
	})
	return code, e.String()
}

// TestCtrlCOfAStagingJob: the command that started the job cancels it; one that only follows it does not.
func TestCtrlCOfAStagingJob(t *testing.T) {
	for name, c := range map[string]struct {
		existed bool
		says    string
		cancels int
	}{
		"own":      {false, "is cancelled", 1},
		"attached": {true, "was already running and continues", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stages{existed: c.existed}
			code, said := newWorld(t).stageInBatch(s)
			if code != sweep.ExitInterrupt || !strings.Contains(said, c.says) || len(s.cancelled) != c.cancels ||
				len(s.submitted) != 1 {
				t.Errorf("%d, cancelled %q\n%s", code, s.cancelled, said)
			}
		})
	}
}

// TestDisksOfAStagingJob: a number that the catalogue allows for the type, and no other.
func TestDisksOfAStagingJob(t *testing.T) {
	for machine, want := range map[string]int{"n2-highmem-8": 1, "n2-highmem-16": 2, "c2-standard-60": 8,
		"c4-standard-32-lssd": 5, "c3d-standard-30-lssd": 2, "n1-standard-8": 1} {
		s := &stages{}
		code, said := newWorld(t).stageInBatch(s, "--machine", machine)
		if code != sweep.ExitInterrupt || len(s.submitted) != 1 || s.submitted[0].LocalSSD != want ||
			s.submitted[0].Machine != machine {
			t.Errorf("--machine %s: exit code %d, submitted %+v, output %s; want one job on it with %d local SSDs",
				machine, code, s.submitted, said, want)
		}
	}
	s := &stages{}
	if code, said := newWorld(t).stageInBatch(s, "--machine", "n1-standard-8", "--local-ssd",
		"16"); code != sweep.ExitInterrupt || len(s.submitted) != 1 || s.submitted[0].LocalSSD != 16 {
		t.Errorf("n1-standard-8 with 16 local SSDs: exit code %d, submitted %+v, output %s; want one job with all 16",
			code, s.submitted, said)
	}
	for says, flags := range map[string][]string{
		"c2-standard-60 takes 8 local SSDs, not 1": {"--machine", "c2-standard-60", "--local-ssd",
			"1"},
		"--local-ssd: n1-standard-8 takes": {"--machine", "n1-standard-8", "--local-ssd",
			"9"},
		"c4-standard-32-lssd comes with 5 local SSDs, not 4": {"--machine", "c4-standard-32-lssd",
			"--local-ssd", "4"},
		"--machine: e2-standard-4 takes no local SSD":                  {"--machine", "e2-standard-4"},
		`--machine: machine type "q9-big-4" is not in the catalogue`:   {"--machine", "q9-big-4"},
		`--machine: machine type "n2-highmem-9" is not in the catalog`: {"--machine", "n2-highmem-9"},
	} {
		s := &stages{}
		if code, said := newWorld(t).stageInBatch(s, flags...); code != sweep.ExitUsage ||
			!strings.Contains(said, says) || len(s.submitted) != 0 {
			t.Errorf("%q: exit code %d, submitted %+v, output %s; want wrong usage with %q, and nothing submitted",
				flags, code, s.submitted, said, says)
		}
	}
}

// twoTiB is a table of BigQuery, as CSV.
type twoTiB struct{ bucket blob.Store }

func (twoTiB) Look(context.Context, string) (int64, string, error) { return 2 << 40, "rows", nil }

func (b twoTiB) Export(ctx context.Context, _, _, uri string) error {
	folder := strings.TrimSuffix(strings.TrimPrefix(uri, "gs://datasets/"), "*.parquet")
	_, err := b.bucket.Put(ctx, folder+"0.csv", blob.Absent,
		bytes.NewReader(datasettest.Table(datasettest.Options{Rows: 1200})))
	return err
}

// closed is a BigQuery in which nothing may be read.
type closed struct{ stager.Warehouse }

func (closed) Look(context.Context, string) (int64, string, error) {
	return 0, "", errors.New("access denied")
}

// TestWhatBigQueryCostsIsTold before anything is read, and of a sweep on such a table, where its dataset.yaml is.
func TestWhatBigQueryCostsIsTold(t *testing.T) {
	w := newWorld(t)
	w.warehouse = twoTiB{w.buckets["datasets"]}
	const text = "name: clicks\nsource: bigquery://ads-1/events/clicks\nlabel: is_click\ndrop: [revenue]\n" +
		"split: {by: hash, key: user_id, train: 0.6, valid: 0.4}\n"
	spec := w.file("rows.yaml", text)
	want := "BigQuery would read 2.0 TiB: at most 12.50 USD"
	if out := w.must("stage", spec, "--dry-run"); !strings.Contains(out, want) {
		t.Errorf("stage --dry-run says %q, want %q", out, want)
	}
	w.empty("datasets")
	w.must("stage", spec)
	sweeps := w.file("sweep.yaml", sweepYAML)
	plans := func(want string) {
		t.Helper()
		out := strings.Join(strings.Fields(w.must("plan", sweeps)), " ")
		if want = "each night is staged anew: " + want; !strings.Contains(out, want) {
			t.Errorf("plan says %s, want %q", out, want)
		}
	}
	plans("`launcher stage DATASET.yaml --dry-run` says for how much BigQuery is read")
	w.file("dataset.yaml", text)
	plans(want)
	w.file("clicks.yaml", strings.ReplaceAll(text, "clicks", "others"))
	plans("`launcher stage DATASET.yaml --dry-run` says for how much BigQuery is read")
	w.file("clicks.yaml", text)
	w.warehouse = closed{}
	plans("for how much is unknown: bigquery://ads-1/events/clicks: access denied")
}
