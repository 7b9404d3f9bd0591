package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/engine"
	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/stager"
)

// empty fails for each object of a bucket, which must have none.
func (w *world) empty(bucket string) {
	w.t.Helper()
	for attrs, err := range w.buckets[bucket].List(w.t.Context(), "") {
		w.t.Errorf("bucket %s has %s (error %v), want nothing in it", bucket, attrs.Name, err)
	}
}

// TestPlanNeedsNoCloud: with --rows and --features, plan compares machines in the region of the environment without
// touching a bucket.
func TestPlanNeedsNoCloud(t *testing.T) {
	w := newWorld(t)
	w.buckets = nil // a bucket that is read or written ends the test
	var got struct {
		Region     string
		Comparison quote.Comparison
	}
	w.env = map[string]string{"COPPICE_LOCATION": "europe-west4"}
	out := w.must("plan", w.spec(), "--rows", "1000000", "--features", "40", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Region != "europe-west4" ||
		len(got.Comparison.Offers) == 0 || got.Comparison.Recommended == nil {
		t.Errorf("plan --json: %+v, %v, expected the region europe-west4, offers and a recommended machine", got, err)
	}
}

// TestPlanOfEveryObjective: a table that does not exist has a label that the sweep's objective can learn. For several
// classes the spec has to say how many there are, as each has trees of its own.
func TestPlanOfEveryObjective(t *testing.T) {
	w := newWorld(t)
	plans := func(metric string) []string {
		file := w.spec("metric: auc", metric)
		return []string{"plan", file, "--rows", "1000000", "--features", "40"}
	}
	for _, metric := range []string{"metric: rmse", "metric: ndcg@10\nobjective: lambdarank",
		"metric: multi_logloss\nparams: {num_class: 3}"} {
		w.says(w.must(plans(metric)...), "1,000,000 rows")
	}
	w.refused(sweep.ExitUsage, "say how many there are, 2 to 100, as params: {num_class: N}",
		plans("metric: multi_logloss")...)
}

// TestQuoteOfTheDocs: docs/run.md shows the output of this command as it is.
func TestQuoteOfTheDocs(t *testing.T) {
	w := newWorld(t)
	out := w.must("plan", "../../../examples/quote/sweep.yaml", "--rows", "130000000", "--features", "40", "--within",
		"1h", "--machines", "n2-highmem-64,n2-highmem-128")
	doc := must.Get(os.ReadFile("../../../docs/run.md"))(t)
	w.says(string(doc), out)
}

// TestTheProductionExample: the sweep in terraform/examples/production is quoted at an hour and 5 USD on Spot at most.
// The plan says what it assumes, and no limit is too short. Without Spot machines it costs at most 7 USD, and its
// budget lets it end.
func TestTheProductionExample(t *testing.T) {
	w := newWorld(t)
	command := []string{"plan", "../../../terraform/examples/production/nightly.yaml", "--rows", "130000000",
		"--features", "40", "--machines", "n2-highmem-64", "--vms", "2"}
	out := w.must(command...)
	w.says(out, "to start a machine, 400 MB/s to copy the dataset (assumed)", "per hour of a Spot machine",
		"as if scores were random (assumed)", "machine: {type: n2-highmem-64, vms: 2, spot: true, threads_per_task: 8}")
	w.lacks(out, "limits.")
	var got struct{ Comparison quote.Comparison }
	must.Do(t, json.Unmarshal([]byte(w.must(append(command, "--json")...)), &got))
	if s := got.Comparison.Offers[0].Spot; !(s.Hours.Expected <= 1) || !(s.Cost.Expected <= 5) {
		t.Errorf("quoted at %v hours and %v USD on Spot; expected at most 1 and 5", s.Hours, s.Cost)
	}
	spec := must.Get(readSpec(command[1]))(t)
	last := spec.Machine.Choice(len(spec.Machine.Fallback))
	if d := got.Comparison.Offers[0].OnDemand; *last.Spot || !(d.Cost.Expected <= 7) || !(d.Cost.High < spec.Budget) {
		t.Errorf("a night without Spot machines ends on %+v, at %v USD and a budget of %v; expected on demand, at "+
			"most 7 USD, and a budget that lets it end", last, d.Cost, spec.Budget)
	}
}

// TestALimitIsHeldBeforeAnythingIsWritten: a sweep that is sure to exceed a time limit is refused with the limit's
// place in the file, and nothing is written.
func TestALimitIsHeldBeforeAnythingIsWritten(t *testing.T) {
	w := newStagedWorld(t)
	spec := w.spec("trial: 1m, sweep: 5m", "trial: 1s, sweep: 1s")
	// At a millisecond (1e6 ns) for each value, no training ends within a second.
	w.refused(sweep.ExitInput, ":9:28: limits.sweep is 1s, but training takes", "sweep", spec, "--ns-per-value", "1e6")
	w.empty("sweeps")
}

// TestPlanOfAStagedDataset: plan needs the dataset to be staged. It counts each of the table's 1,200 rows once,
// although train has them in four orders, and says so.
func TestPlanOfAStagedDataset(t *testing.T) {
	w := newWorld(t)
	spec := w.spec()
	w.refused(sweep.ExitNotFound, "not staged", "plan", spec)
	w.staged()
	var shown struct {
		Dataset sweep.DatasetRef `json:"dataset"`
	}
	must.Do(t, json.Unmarshal([]byte(w.must("plan", spec, "--json")), &shown))
	all := 0
	for _, rows := range shown.Dataset.Rows {
		all += rows
	}
	if all != 1200 { // and not four times the rows of train
		t.Errorf("got the rows %v, want 1,200 in all", shown.Dataset.Rows)
	}
	out := w.must("plan", spec)
	train := fmt.Sprintf("%d rows to train on, in 4 orders", shown.Dataset.Rows[sweep.Train])
	w.says(out, "4 trials on clicks", train, "n2-highmem-2")
}

// TestPlanFlags: flags out of range, and flags that do not go together, are refused; so are an unknown machine type and
// a damaged file of prices.
func TestPlanFlags(t *testing.T) {
	w := newWorld(t)
	spec := w.spec()
	size := []string{"--rows", "1000", "--features", "4"}
	for says, args := range map[string][]string{
		"go together":           {"--rows", "5"},
		"--vms is -1":           {"--vms", "-1"},
		"give only one of them": {"--vms", "1", "--within", "1h"},
		"budget is -1":          {"--budget", "-1"},
		"--preemptions is 100":  {"--preemptions", "100"},
		"--startup is -1s":      {"--startup", "-1s"},
		"--ns-per-value is -1":  {"--ns-per-value", "-1"},
		"use 1 to":              {"--rows", "1000", "--features", "999999999"},
		"--rows is -5":          {"--rows", "-5", "--features", "-5"},
		"--vms is 2001":         {"--vms", "2001"},
	} {
		w.refused(sweep.ExitUsage, says, append([]string{"plan", spec}, args...)...)
	}
	w.refused(sweep.ExitInput, `did you mean "n2-highmem"?`,
		append([]string{"plan", spec, "--machines", "n2-highmen-4"}, size...)...)
	w.env = map[string]string{"COPPICE_PRICES": w.file("bad.json", `{"prices": 3}`)}
	w.refused(sweep.ExitInput, "bad.json:1:", append([]string{"plan", spec}, size...)...)
}

// TestTheLineToPasteIsTheOffer: if the line at the end of a plan is pasted into the spec, plan recommends the same
// again.
func TestTheLineToPasteIsTheOffer(t *testing.T) {
	w := newWorld(t)
	// asked plans a sweep with the line machine: and returns the line to paste, with its comment, and the
	// recommendation as JSON.
	asked := func(machine string, flags ...string) (line string, recommended string) {
		t.Helper()
		file := w.spec("machine: {type: n2-highmem-2, threads_per_task: 1}", machine)
		args := append([]string{"plan", file, "--rows", "1000000", "--features", "40"}, flags...)
		out := strings.Split(strings.TrimSpace(w.must(args...)), "\n")
		var got struct {
			Comparison struct{ Recommended json.RawMessage }
		}
		if err := json.Unmarshal([]byte(w.must(append(args, "--json")...)), &got); err != nil ||
			len(got.Comparison.Recommended) == 0 {
			t.Fatalf("%q --json recommends %s, %v, expected some machine", args, got.Comparison.Recommended, err)
		}
		at := slices.IndexFunc(out, func(line string) bool { return strings.HasPrefix(line, "machine: {") })
		return strings.Join(out[max(at, 0):], "\n"), string(got.Comparison.Recommended)
	}
	for name, tc := range map[string]struct{ machine, like, says string }{
		"its own": {"machine: {type: n2-highmem-16, threads_per_task: 1, tasks_per_vm: 1, local_ssd: 4}",
			"n2-highmem-16", "tasks_per_vm: 1, local_ssd: 4}"},
		"another type": {"machine: {type: n2-highmem-32, threads_per_task: 1, tasks_per_vm: 1, local_ssd: 8}",
			"n2-highmem-16", "threads_per_task: 1}"},
		"nothing more": {"machine: {type: n2-highmem-16, threads_per_task: 1}", "n2-highmem-16",
			"threads_per_task: 1}"},
		"zones": {"machine: {type: n2-highmem-16, threads_per_task: 1, zones: [us-central1-a]}", "n2-highmem-16",
			"# without zones: keep"},
		"a fallback": {"machine: {type: n2-highmem-16, threads_per_task: 1, wait: 1m, fallback: [{type: " +
			"n2-highmem-8}]}", "n2-highmem-16", "# without wait, fallback: keep"},
	} {
		line, want := asked(tc.machine, "--machines", tc.like, "--vms", "2")
		if !strings.HasPrefix(line, "machine: {type: "+tc.like+", vms: 2, ") || !strings.Contains(line, tc.says) {
			t.Errorf("%s: the line to paste is %s; want two %s and %q", name, line, tc.like, tc.says)
		}
		if _, got := asked(line, "--machines", tc.like); got != want {
			t.Errorf("%s: %s\ntakes %s\nwant  %s", name, line, got, want)
		}
	}
}

// TestAnEmptyPricesVariableIsUnset: an empty COPPICE_PRICES names no file. One that names a file that does not exist is
// an error.
func TestAnEmptyPricesVariableIsUnset(t *testing.T) {
	w := newWorld(t)
	w.env = map[string]string{"COPPICE_PRICES": "", "HOME": w.dir}
	args := []string{"plan", w.spec(), "--rows", "1000", "--features", "4"}
	w.must(args...)
	w.env["COPPICE_PRICES"] = filepath.Join(w.dir, "there.json")
	w.refused(sweep.ExitNotFound, "there.json", args...)
}

// TestOldPricesAreSaid: the built-in prices are 93 days old by this world's clock: plan and sweep --dry-run say so
// once, as text and as JSON. When they are 23 days old, they do not.
func TestOldPricesAreSaid(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	for _, args := range [][]string{{"sweep", file, "--dry-run"}, {"sweep", file, "--dry-run", "--json"},
		{"plan", file}, {"plan", file, "--json"}} {
		if out := w.must(args...); strings.Count(out, "the oldest price is from 2026-08-20, 93 days ago") != 1 {
			t.Errorf("%q: got\n%s\nwant once how old the oldest price is", args, out)
		}
	}
	w.now = w.now.AddDate(0, 0, -70)
	w.lacks(w.must("plan", file), "the oldest price")
}

// TestMachineOfASweep: a machine type or a number of local SSDs that Batch would refuse is an error with its place in
// the file, before the dataset is looked up.
func TestMachineOfASweep(t *testing.T) {
	w := newWorld(t)
	for machine, says := range map[string]string{
		"{type: n2-highmen-2}": `other.yaml:8:17: machine type "n2-highmen-2" is not in the catalogue (did you mean ` +
			`"n2-highmem"?)`,
		"{wait: 1m, fallback: [{type: custom-16-65536}]}": "describe it, machine: {vcpus: 16, memory: 64}",
		"{type: n2-highmem-64, local_ssd: 4}": "other.yaml:8:43: n2-highmem-64 takes 8, 16 or 24 local SSDs, " +
			"not 4",
	} {
		spec := w.spec("{type: n2-highmem-2, threads_per_task: 1}", machine)
		w.refused(sweep.ExitInput, says, "sweep", spec)
	}
	w.staged()
	w.refused(sweep.ExitInput, "e2-highmem-8 takes no local SSD", "sweep", w.spec("n2-highmem-2,", "e2-highmem-8,"))
}

// TestBudgetIsHeldBeforeAnythingIsWritten: a sweep whose budget is too small, or whose machine has no known price, is
// refused, and nothing is written. Without a budget a machine without a price is accepted.
func TestBudgetIsHeldBeforeAnythingIsWritten(t *testing.T) {
	w := newStagedWorld(t)
	spec := w.spec()
	w.refused(sweep.ExitInput, "the budget of $0.001 is too small: 1 x n2-highmem-2", "sweep", spec, "--budget",
		"0.001")
	w.refused(sweep.ExitInput, "too small", "sweep", w.file("with.yaml", sweepYAML+"budget: 0.001\n"))
	w.refused(sweep.ExitUsage, "budget is -3", "sweep", spec, "--budget", "-3")
	dear := w.spec("n2-highmem-2,", "m1-ultramem-40,")
	w.refused(sweep.ExitInput, "no Spot price of m1-ultramem-40 in us-central1 is known", "sweep", dear, "--budget",
		"50")
	w.empty("sweeps")
	w.says(w.must("sweep", dear, "--no-wait"), "no price known on Spot")
}

// TestTheQuoteIsKept: the expected cost and the budget are printed and written into the plan. A later start with
// another budget, or after prices have risen, attaches to the sweep, which keeps its budget. A new sweep is refused
// then.
func TestTheQuoteIsKept(t *testing.T) {
	w := newStagedWorld(t)
	spec := w.spec()
	out := w.must("sweep", spec, "--no-wait", "--id", "night-1", "--budget", "12.50")
	w.says(out, "expected: ", " on Spot, a budget of $12.50")
	p := w.plan("night-1")
	if p.Spec.Budget != 12.5 || p.Quote == nil || !(p.Quote.Hourly > 0.07) || p.Quote.Region != "us-central1" ||
		p.Spec.Machine.LocalSSD != 1 {
		t.Fatalf("the plan is %+v, expected the budget 12.5, one local SSD, and a quote for us-central1 above 0.07 USD",
			p)
	}
	// The same sweep with another budget, and when prices have changed, is the same sweep.
	w.now = w.now.Add(time.Hour)
	w.env = map[string]string{"COPPICE_PRICES": w.file("prices.json",
		`{"sources": {"a": "b"}, "prices": [{"family": "n2", "region": "us-central1", "date": "2026-12-01", `+
			`"source": "a", "spot": {"vcpu": 0.9, "gib": 0.9, "ssd": 0.9}}]}`)}
	out = w.must("sweep", spec, "--no-wait", "--id", "night-1", "--budget", "99")
	w.says(out, "was started with a budget of $12.50, and keeps it")

	// Nor is the same sweep refused because it would now cost more than its budget; a new one is.
	out = w.must("sweep", spec, "--no-wait", "--id", "night-1", "--budget", "12.50", "--startup", "20h")
	w.says(out, "attached to it")
	w.refused(sweep.ExitInput, "too small", "sweep", spec, "--no-wait", "--id", "night-2", "--budget", "12.50",
		"--startup", "20h")
}

// TestBill: four failed trials of nine minutes begin at ten-minute intervals, so that the machine works for 39 minutes
// (0.650 h) from the first claim, which is as old as the plan, to the last end. The bill has the cost of that at the
// plan's price, the attempts and the quote.
func TestBill(t *testing.T) {
	w := newStagedWorld(t)
	spec := w.spec()
	began := w.now
	w.jobs.run = func(p *sweep.Plan) {
		trials := sweepstore.NewTrials(w.buckets["sweeps"], p)
		for i := range p.Trials {
			from := began.Add(time.Duration(i) * 10 * time.Minute)
			must.Get(trials.CreateClaim(t.Context(), sweep.Claim{Format: 1, Sweep: p.Sweep, Trial: i, Host: "vm",
				At: from}))(t)
			must.Get(trials.CreateResult(t.Context(), sweep.Result{Format: 1, Sweep: p.Sweep, Trial: i,
				Status: sweep.StatusFailed, Reason: "x", TreesGrown: 7, Started: from, Ended: from.Add(9 * time.Minute),
				Usage: sweep.Usage{TrainSeconds: 500, NsPerValue: 4}}))(t)
		}
	}
	w.must("sweep", spec, "--no-wait", "--id", "night-1")
	w.now = began.Add(2 * time.Hour)
	out := w.must("bill", "night-1")
	w.says(out, "1 x n2-highmem-2 on Spot", "us-central1", "price of 2026-08-20", "0.650, from", "quoted", "actual",
		"training that counts", "lost with machines", "no budget")
	var b struct {
		MachineHours float64 `json:"machine_hours"`
		Cost         float64
		Hourly       float64
		Trials       []struct{ Cost float64 }
		Attempts     []struct{ End ledger.End }
		Quote        *sweep.Quote
	}
	if err := json.Unmarshal([]byte(w.must("bill", "night-1", "--json")), &b); err != nil || len(b.Trials) != 4 ||
		len(b.Attempts) != 4 || b.Attempts[3].End != ledger.Finished || b.Quote == nil {
		t.Fatalf("bill --json: %+v, %v, expected 4 trials, 4 finished attempts and the quote", b, err)
	}
	// 39 minutes at the plan's price. That of an n2-highmem-2 with a local SSD is above 0.07 USD an hour, so it is not
	// lost.
	if want := 39.0 / 60 * b.Hourly; b.Cost < want*0.999 || b.Cost > want*1.001 || !(b.Hourly > 0.07) {
		t.Errorf("the bill is %v USD at %v an hour, want %v USD and more than 0.07", b.Cost, b.Hourly, want)
	}
	w.refused(sweep.ExitNotFound, "there is no sweep nobody", "bill", "nobody")
}

// TestPlanBesideTwoSources: plan has a line for each machine type on Spot and one on demand, and says from which source
// each price is. Of n2d machines only the on-demand price is known, from an older source.
func TestPlanBesideTwoSources(t *testing.T) {
	w := newWorld(t)
	w.env = map[string]string{"COLUMNS": "80", "HOME": w.dir}
	out := w.must("plan", w.spec(), "--rows", "1000000", "--features", "40", "--machines", "n2-highmem-4,n2d-highmem-4")
	text := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", "")), " ")
	w.says(text, "machines time cost", "1 x n2-highmem-4 Spot", "1 x n2-highmem-4 on demand",
		"1 x n2d-highmem-4 on demand", ": n2-highmem-4 Spot, n2-highmem-4 on demand", "older: n2d-highmem-4 on demand")
}

// stages is a Batch that records submissions and cancellations. At a submission it interrupts the command, which would
// wait for the job.
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

// stageInBatch runs `launcher stage --batch` with further flags on a table in a bucket, and returns its exit code and
// error output.
func (w *world) stageInBatch(s *stages, flags ...string) (code int, errOut string) {
	w.t.Helper()
	must.Get(w.buckets["datasets"].Put(w.t.Context(), "exports/clicks.csv", blob.Any,
		bytes.NewReader(datasettest.Table(datasettest.Options{Rows: 100}))))(w.t)
	w.ctx, s.interrupt = context.WithCancel(w.t.Context())
	defer s.interrupt()
	w.tasks = s
	file := w.file("cloud.yaml", "name: clicks\nsource: gs://datasets/exports/*.csv\nlabel: is_click\n")
	code, _, errOut = w.run(append([]string{"stage", file, "--batch"}, flags...)...)
	return code, errOut
}

// TestCtrlCOfAStagingJob: if a command is interrupted while it waits for a staging job, it cancels the job if it has
// started it, and does not if it has attached to it.
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
				t.Errorf("interrupted: exit code %d, cancelled %q; want %d, %d cancelled and %q\n%s", code, s.cancelled,
					sweep.ExitInterrupt, c.cancels, c.says, said)
			}
		})
	}
}

// TestDisksOfAStagingJob: a staging job has the fewest local SSDs that its machine type allows, or the number of
// --local-ssd. A number that the type does not allow, and a type without local SSDs, are refused, and nothing is
// submitted.
func TestDisksOfAStagingJob(t *testing.T) {
	for machine, want := range map[string]int{"n2-highmem-8": 1, "n2-highmem-16": 2, "c2-standard-60": 8,
		"c4-standard-32-lssd": 5, "c3d-standard-30-lssd": 2, "n1-standard-8": 1} {
		s := &stages{} // interrupts the command once the job is submitted, so that success ends with that exit code
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

// twoTiB is a BigQuery that would read two TiB, and exports a small table as CSV.
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

// TestWhatBigQueryCostsIsTold: stage --dry-run says what reading a table of BigQuery costs, and reads nothing. plan
// says it of a sweep on such a dataset, if the dataset's YAML is beside the sweep's file; else it says how to find out.
func TestWhatBigQueryCostsIsTold(t *testing.T) {
	w := newWorld(t)
	w.warehouse = twoTiB{w.buckets["datasets"]}
	const text = "name: clicks\nsource: bigquery://ads-1/events/clicks\nlabel: is_click\ndrop: [revenue]\n" +
		"split: {by: hash, key: user_id, train: 0.6, valid: 0.4}\n"
	spec := w.file("rows.yaml", text)
	want := "BigQuery would read 2.0 TiB: at most 12.50 USD" // at the world's 6.25 USD per TiB
	w.says(w.must("stage", spec, "--dry-run"), want)
	w.empty("datasets")
	w.must("stage", spec)
	sweeps := w.spec()
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
	w.file("clicks.yaml", strings.ReplaceAll(text, "clicks", "others")) // comes before dataset.yaml, but is of another
	plans("`launcher stage DATASET.yaml --dry-run` says for how much BigQuery is read")
	w.file("clicks.yaml", text)
	w.warehouse = closed{}
	plans("for how much is unknown: bigquery://ads-1/events/clicks: access denied")
}
