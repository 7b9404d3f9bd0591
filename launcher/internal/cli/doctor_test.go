package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	setup "coppice/internal/cloud"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/doctor"
)

// unknown is a project of which only the caller can be read, and whose scores topic is missing.
type unknown struct{}

func (unknown) Caller(context.Context) (string, error) { return "ana@example.com", nil }
func (unknown) Enabled(context.Context, []string) ([]string, error) {
	return nil, setup.ErrNotImitated
}
func (unknown) Held(context.Context, setup.Resource, []string) ([]string, error) {
	return nil, setup.ErrNotImitated
}
func (unknown) Topic(context.Context, string) error      { return setup.ErrNotThere }
func (unknown) Image(context.Context, setup.Image) error { return setup.ErrNotImitated }
func (unknown) Region(context.Context) (setup.Region, error) {
	return setup.Region{}, setup.ErrNotImitated
}
func (unknown) Offered(context.Context, string, string) error { return setup.ErrNotImitated }

// examined runs the command with a project that Inspect opens.
func (w *world) examined(inspect func(context.Context, Env) (doctor.Cloud, error), args ...string) (code int, out,
	errOut string) {
	var o, e bytes.Buffer
	code = Run(w.ctx, Setup{
		World: program.World{Args: args, Out: program.To(&o), Err: program.To(&e),
			Version: "v1", Now: func() time.Time { return w.now }, Env: envconfig.MapLookuper(map[string]string{
				"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "datasets", "COPPICE_SWEEPS_BUCKET": "sweeps",
				"COPPICE_REGISTRY_BUCKET": "registry"})},
		Connect: func(context.Context, Env) (*Backends, error) {
			return &Backends{Bucket: func(name string) blob.Store { return w.buckets[name] }, Jobs: w.jobs,
				Close: func() error { return nil }}, nil
		},
		Inspect: inspect,
	})
	return code, o.String(), e.String()
}

// TestDoctor: doctor shows who asks, what is in order and each problem with its remedy, and ends with a code.
func TestDoctor(t *testing.T) {
	w := newStagedWorld(t)
	file := w.file("sweep.yaml", sweepYAML)
	open := func(context.Context, Env) (doctor.Cloud, error) { return unknown{}, nil }
	code, out, errOut := w.examined(open, "doctor", file)
	w.says(out, "ana@example.com", "problem", "projects/p/topics/coppice-scores: it does not exist",
		"\nterraform apply\n", " ok, 1 problem, ", "it is staged", "4 trials")
	if code != sweep.ExitSetup || !strings.HasSuffix(errOut, "1 problem; the command next to it fixes it\n") {
		t.Errorf("one right is missing: exit code %d, output %s; want the code for a faulty setup, and one problem "+
			"counted", code, errOut)
	}
	if strings.Index(out, "│ problem") > strings.Index(out, "│ ok") {
		t.Errorf("the problem is not shown first:\n%s", out)
	}

	code, out, _ = w.examined(open, "doctor", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != sweep.ExitSetup || r.Caller != "ana@example.com" ||
		r.Counts[doctor.Problem] != 1 || len(r.Findings) < 8 {
		t.Errorf("doctor --json: exit code %d, %v, expected %d, the caller ana@example.com, one problem and 8 "+
			"findings or more\n%s", code, err, sweep.ExitSetup, out)
	}

	bad := w.file("bad.yaml", "nothing: x\n")
	for name, tc := range map[string][2]string{
		"is missing": {w.dir + "/none.yaml", "none.yaml: no such file or directory"},
		"is wrong":   {bad, "bad.yaml:1:1: "},
	} {
		code, out, errOut := w.examined(open, "doctor", tc[0])
		if code == 0 || out != "" || !strings.Contains(errOut, tc[1]) {
			t.Errorf("a spec that %s: exit code %d, expected a refusal that says %q\n%s%s", name, code, tc[1], out, errOut)
		}
	}

	none := func(context.Context, Env) (doctor.Cloud, error) {
		return nil, setup.Dial("Google Cloud", context.Canceled)
	}
	if code, _, errOut := w.examined(none, "doctor"); code != sweep.ExitSetup ||
		!strings.Contains(errOut, "gcloud auth application-default login") {
		t.Errorf("no credentials: %d\n%s", code, errOut)
	}
	if code, _, errOut := w.examined(open, "doctor", "a", "b"); code != sweep.ExitUsage {
		t.Errorf("doctor with two arguments: exit code %d, output %s; want the code for wrong usage", code, errOut)
	}
}

// newAccount is a new account, which has 12 vCPUs in all regions.
type newAccount struct{ unknown }

func (newAccount) Region(context.Context) (setup.Region, error) {
	return setup.Region{Quotas: map[string]setup.Quota{setup.CPUsAllRegions: {Limit: 12}}}, nil
}

// TestPlansAreComparedWithQuotas: a plan says what it exceeds or that this is not known, and fails for neither.
func TestPlansAreComparedWithQuotas(t *testing.T) {
	w := newStagedWorld(t)
	large := w.file("large.yaml", strings.Replace(sweepYAML, "n2-highmem-2", "n2-highmem-64", 1))
	for says, inspect := range map[string]func(context.Context, Env) (doctor.Cloud, error){
		"1 x n2-highmem-64 need 64 vCPUs, 12 of 12 are free": func(context.Context, Env) (doctor.Cloud, error) {
			return newAccount{}, nil
		},
		"the project's quotas were not compared with its machines: no route": func(context.Context, Env) (doctor.Cloud,
			error) {
			return nil, errors.New("no route")
		},
		"": func(context.Context, Env) (doctor.Cloud, error) { return unknown{}, nil },
	} {
		for _, args := range [][]string{{"plan", large, "--json"}, {"sweep", large, "--dry-run", "--json"}} {
			code, out, errOut := w.examined(inspect, args...)
			if code != 0 || !strings.Contains(out, says) || strings.Contains(out, "vCPUs, ") && says == "" {
				t.Errorf("%s: exit code %d, want 0 and %q in\n%s%s", args[0], code, says, out, errOut)
			}
		}
	}
}

// TestDoctorOnACluster: nothing of Google is asked.
func TestDoctorOnACluster(t *testing.T) {
	w := newWorld(t)
	w.env = map[string]string{"COPPICE_ENGINE": "slurm"}
	w.refused(2, "COPPICE_ENGINE is slurm; `sinfo`", "doctor")
}

// swept runs a sweep that ends at once, and returns its id.
func (w *world) swept(file string) string {
	w.t.Helper()
	var s struct{ Sweep string }
	must.Do(w.t, json.Unmarshal([]byte(w.must("sweep", file, "--no-wait", "--json")), &s))
	return s.Sweep
}

// TestACluster: machines that are described have no price: neither plan, bill nor page makes one up.
func TestACluster(t *testing.T) {
	w := newWorld(t)
	w.free = true
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	file := w.file("sweep.yaml", strings.Replace(sweepYAML, "{type: n2-highmem-2, threads_per_task: 1}",
		"{vcpus: 2, memory: 16, threads_per_task: 1}", 1))
	says := "1 x custom-2-16384, of a cluster, without a price: 3 min"
	if out := w.must("plan", file); !strings.HasPrefix(out, says) {
		t.Errorf("want a machine of a cluster without a price at the beginning of the plan:\n%s", out)
	}
	id := w.swept(file)
	if out := w.must("bill", id); strings.Contains(out, "$0") || !strings.Contains(out, "no price") {
		t.Errorf("want a bill without dollars, which says that there is no price:\n%s", out)
	}
	page := filepath.Join(t.TempDir(), "sweep.html")
	w.must("report", id, "--out", page)
	if text := string(must.Get(os.ReadFile(page))(t)); strings.Contains(text, "What it cost") {
		t.Error("the page of a sweep on a cluster says what it cost")
	}
}

// TestWaitingForDays: a job of an ended sweep that still waits for machines is cancelled days later, too.
func TestWaitingForDays(t *testing.T) {
	w := newStagedWorld(t)
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	id := w.swept(w.file("sweep.yaml", sweepYAML))
	must.Get(sweepstore.New(w.buckets["sweeps"], sweep.ID(id)).CreateEnding(t.Context(), sweep.Ending{Format: 1,
		Sweep: sweep.ID(id), Trials: []int{0}, At: w.now}))(t)
	w.jobs.status, w.now = &engine.JobStatus{State: engine.Waiting}, w.now.Add(5*24*time.Hour)
	w.must("watch", id)
	if !w.jobs.cancelled {
		t.Error("after five days the job waits for machines on")
	}
}

// TestTakesLocal: which commands continue in a local cloud. fit does whatever cloud the environment names, so that an
// experiment lands in no production; others only where there is no cloud, and one has been made before.
func TestTakesLocal(t *testing.T) {
	made := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(made, "lock"), nil, 0o644))
	production := map[string]string{"COPPICE_PROJECT": "p", "COPPICE_SWEEPS_BUCKET": "b"}
	for name, tc := range map[string]struct {
		env   map[string]string
		local string
		want  string
	}{
		"fit, no cloud":                     {nil, "data", "data"},
		"fit, production":                   {production, "data", "data"},
		"fit, in an emulated cloud":         {map[string]string{"COPPICE_BATCH_ENDPOINT": "127.0.0.1:1"}, "data", ""},
		"fit --where batch":                 {production, inCloud, ""},
		"fit --where batch, no cloud":       {map[string]string{"COPPICE_LOCAL": made}, inCloud, ""},
		"another command, no cloud":         {map[string]string{"COPPICE_LOCAL": made}, "", made},
		"another command, no folder":        {map[string]string{"COPPICE_LOCAL": made + "/no"}, "", ""},
		"another command, production":       {map[string]string{"COPPICE_LOCAL": made, "COPPICE_PROJECT": "p"}, "", ""},
		"another command, nothing was made": {nil, "", ""},
		"another command, in an emulated one": {map[string]string{"COPPICE_LOCAL": made,
			"COPPICE_BATCH_ENDPOINT": "x"}, "", ""},
	} {
		w := &Setup{World: program.World{Env: envconfig.MapLookuper(tc.env)}, local: tc.local,
			Local: func(string, []string) error { return nil }}
		if got := w.takesLocal(); got != tc.want {
			t.Errorf("%s: continues in %q, want %q", name, got, tc.want)
		}
	}
}

// TestFitMakesItsFolder: the first fit makes the folder that COPPICE_LOCAL names, and --data goes before it.
func TestFitMakesItsFolder(t *testing.T) {
	for want, tc := range map[string]struct {
		env  map[string]string
		args []string
	}{
		"coppice-data": {},
		"mine":         {env: map[string]string{"COPPICE_LOCAL": "mine"}},
		"yours":        {env: map[string]string{"COPPICE_LOCAL": "mine"}, args: []string{"--data", "yours"}},
	} {
		got := ""
		w := &Setup{World: program.World{Env: envconfig.MapLookuper(tc.env)},
			Local: func(folder string, _ []string) error { got = folder; return nil }}
		cmd := fitCommand(w)
		cmd.SetArgs(append([]string{"t.csv", "--label", "y"}, tc.args...))
		if err := cmd.ExecuteContext(t.Context()); err != nil || got != want {
			t.Errorf("fit goes on in %q, %v, want %q", got, err, want)
		}
	}
}

// TestFitInTheCloudNamesIt: without a cloud in the environment its variables are named, not a local cloud.
func TestFitInTheCloudNamesIt(t *testing.T) {
	w := &Setup{World: program.World{Env: envconfig.MapLookuper(map[string]string{"COPPICE_LOCAL": t.TempDir()})},
		Local: func(string, []string) error { return nil }}
	cmd := fitCommand(w)
	cmd.SetArgs([]string{"t.csv", "--label", "y", "--where", "batch", "--name", "t"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "COPPICE_PROJECT") {
		t.Errorf("%v, want that COPPICE_PROJECT is named", err)
	}
}

// TestFitInTheCloudIsNamed: a table's file name is no reason to become the dataset and the model of the nights.
func TestFitInTheCloudIsNamed(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitUsage, "--where batch needs --name", "fit", w.file("t.csv", "a,y\n1,0\n"), "--label", "y",
		"--where", "batch")
}

// TestFitNamesTheFlag: what is wrong in the specs that fit makes is said of its flags, before anything is staged.
func TestFitNamesTheFlag(t *testing.T) {
	w := newWorld(t)
	table := w.file("t.csv", "a,y\n"+strings.Repeat("1,0\n2,1\n3,0\n", 9))
	for want, args := range map[string][]string{
		"launcher: --metric: metric rmse is for regression": {"--metric", "rmse"},
		"launcher: --metric: metric auc is for binary":      {"--metric", "auc", "--objective", "regression"},
		"launcher: --drop y: it is the label":               {"--drop", "y"},
	} {
		args = append([]string{"fit", table, "--label", "y", "--where", "batch", "--name", "t"}, args...)
		w.refused(sweep.ExitUsage, want, args...)
	}
}

// TestServeOfNothing: a model that the registry does not have is not waited for.
func TestServeOfNothing(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	for _, model := range []string{"ctx", "ctr@7", "ctr@nosuch"} {
		w.refused(sweep.ExitNotFound, "--model "+model+": registry: there is no", "serve", "--model", model, "--listen",
			"127.0.0.1:0")
	}
}

// TestFitOfAnotherLabel: a name is of one label, whatever version is its newest or its champion.
func TestFitOfAnotherLabel(t *testing.T) {
	w := newWorld(t)
	must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "t", "sweep-0", map[string][]byte{
		scorer.FileDataset: []byte(`{"format":1,"name":"t","label":{"column":"z","kind":"binary"}}`)},
		registry.Info{At: w.now, By: "test"}))(t)
	w.refused(sweep.ExitUsage, `the model "t" predicts z: give the model of y another name (--name)`, "fit",
		w.file("t.csv", "a,y\n"+strings.Repeat("1,0\n2,1\n", 9)), "--label", "y", "--where", "batch", "--name", "t")
}
