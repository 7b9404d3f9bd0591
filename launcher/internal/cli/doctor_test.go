package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

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

// unknown is a project of which only the caller can be read; its topics are missing, and all else is not known.
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

// TestDoctor: doctor shows who asks, what is in order and, first, each problem with its remedy. Its exit code says
// whether the setup, the spec or the command line is at fault.
func TestDoctor(t *testing.T) {
	w := newStagedWorld(t)
	w.inspect = func(context.Context, Env) (doctor.Cloud, error) { return unknown{}, nil } // the topics are missing
	code, out, errOut := w.run("doctor", w.spec())
	w.says(out, "ana@example.com", "problem", "projects/p/topics/coppice-scores: it does not exist",
		"\nterraform apply\n", " ok, 1 problem, ", "it is staged", "4 trials")
	if code != sweep.ExitSetup || !strings.HasSuffix(errOut, "1 problem; the command next to it fixes it\n") {
		t.Errorf("the topic is missing: exit code %d, output %s; want the code for a faulty setup, and one problem "+
			"counted", code, errOut)
	}
	if strings.Index(out, "│ problem") > strings.Index(out, "│ ok") {
		t.Errorf("want the problem above what is in order:\n%s", out)
	}

	code, out, _ = w.run("doctor", "--json")
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
		code, out, errOut := w.run("doctor", tc[0])
		if code == 0 || out != "" || !strings.Contains(errOut, tc[1]) {
			t.Errorf("a spec that %s: exit code %d, expected a refusal that says %q\n%s%s", name, code, tc[1], out,
				errOut)
		}
	}

	if code, _, errOut := w.run("doctor", "a", "b"); code != sweep.ExitUsage {
		t.Errorf("doctor with two arguments: exit code %d, output %s; want the code for wrong usage", code, errOut)
	}
	w.inspect = func(context.Context, Env) (doctor.Cloud, error) {
		return nil, setup.Dial("Google Cloud", context.Canceled)
	}
	if code, _, errOut := w.run("doctor"); code != sweep.ExitSetup ||
		!strings.Contains(errOut, "gcloud auth application-default login") {
		t.Errorf("without credentials: exit code %d, want %d and the command that logs in\n%s", code, sweep.ExitSetup,
			errOut)
	}
}

// newAccount is the project of a new account: its quota is 12 vCPUs in all regions, and all else is not known.
type newAccount struct{ unknown }

func (newAccount) Region(context.Context) (setup.Region, error) {
	return setup.Region{Quotas: map[string]setup.Quota{setup.CPUsAllRegions: {Limit: 12}}}, nil
}

// TestPlansAreComparedWithQuotas: a plan says which quota its machines exceed, or that the quotas could not be read,
// and fails for neither. In a local cloud, which has no quotas, it says nothing.
func TestPlansAreComparedWithQuotas(t *testing.T) {
	w := newStagedWorld(t)
	large := w.spec("n2-highmem-2", "n2-highmem-64")
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
		w.inspect = inspect
		for _, args := range [][]string{{"plan", large, "--json"}, {"sweep", large, "--dry-run", "--json"}} {
			code, out, errOut := w.run(args...)
			if code != 0 || !strings.Contains(out, says) || strings.Contains(out, "vCPUs, ") && says == "" {
				t.Errorf("%s: exit code %d, want 0 and %q in\n%s%s", args[0], code, says, out, errOut)
			}
		}
	}
}

// TestDoctorOnACluster: with a cluster's engine, doctor refuses and names the cluster's own command; it asks Google
// nothing.
func TestDoctorOnACluster(t *testing.T) {
	w := newWorld(t)
	w.env = map[string]string{"COPPICE_ENGINE": "slurm"}
	w.refused(2, "COPPICE_ENGINE is slurm; `sinfo`", "doctor")
}

// swept runs the sweep of a file without waiting, and returns its id.
func (w *world) swept(file string) string {
	w.t.Helper()
	var s struct{ Sweep string }
	must.Do(w.t, json.Unmarshal([]byte(w.must("sweep", file, "--no-wait", "--json")), &s))
	return s.Sweep
}

// TestACluster: machines that a spec describes by vCPUs and memory have no price, and neither plan, bill nor report
// makes one up.
func TestACluster(t *testing.T) {
	w := newWorld(t)
	w.free = true
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	file := w.spec("{type: n2-highmem-2, threads_per_task: 1}", "{vcpus: 2, memory: 16, threads_per_task: 1}")
	// custom-2-16384 is Google's way to write 2 vCPUs and 16 GiB, in MiB.
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
		t.Error("the report of a sweep on a cluster says what it cost, want no such part")
	}
}

// TestWaitingForDays: watch cancels the job of an ended sweep that still waits for machines, even days after the end.
func TestWaitingForDays(t *testing.T) {
	w := newStagedWorld(t)
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	id := w.swept(w.spec())
	must.Get(sweepstore.New(w.buckets["sweeps"], sweep.ID(id)).CreateEnding(t.Context(), sweep.Ending{Format: 1,
		Sweep: sweep.ID(id), Trials: []int{0}, At: w.now}))(t)
	w.jobs.status, w.now = &engine.JobStatus{State: engine.Waiting}, w.now.Add(5*24*time.Hour)
	w.must("watch", id)
	if !w.jobs.cancelled {
		t.Error("five days after the sweep's end its job still waits for machines, want it cancelled")
	}
}

// TestTakesLocal: which commands continue in a local cloud. fit does, whatever cloud the environment names, so that no
// experiment lands in production. Others do only where the environment names no cloud and a local one has been made.
func TestTakesLocal(t *testing.T) {
	made := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(made, "lock"), nil, 0o644))
	production := map[string]string{"COPPICE_PROJECT": "p", "COPPICE_SWEEPS_BUCKET": "b"}
	for name, tc := range map[string]struct {
		env   map[string]string
		local string // what the command asks for (Setup.local)
		want  string // the folder of the local cloud; "" if the command stays
	}{
		"fit, no cloud":                     {nil, "data", "data"},
		"fit, production":                   {production, "data", "data"},
		"fit, in an emulated cloud":         {map[string]string{"COPPICE_BATCH_ENDPOINT": "127.0.0.1:1"}, "data", ""},
		"fit --where batch":                 {production, inCloud, ""},
		"fit --where batch, no cloud":       {map[string]string{"COPPICE_LOCAL": made}, inCloud, ""},
		"another command, no cloud":         {map[string]string{"COPPICE_LOCAL": made}, "", made},
		"another command, no folder":        {map[string]string{"COPPICE_LOCAL": made + "/no"}, "", ""},
		"another command, an empty name":    {map[string]string{"COPPICE_LOCAL": ""}, "", ""},
		"another command, production":       {map[string]string{"COPPICE_LOCAL": made, "COPPICE_PROJECT": "p"}, "", ""},
		"another command, nothing was made": {nil, "", ""},
		"another command, in an emulated one": {map[string]string{"COPPICE_LOCAL": made,
			"COPPICE_BATCH_ENDPOINT": "x"}, "", ""},
	} {
		w := &Setup{World: program.World{Env: envconfig.MapLookuper(tc.env)}, local: tc.local,
			Local: func(string, []string) error { return nil }}
		must.Equal(t, w.takesLocal(), tc.want, "%s: continues in", name)
	}
}

// TestFitMakesItsFolder: the first fit continues in the folder that --data names, or else COPPICE_LOCAL, or else in
// coppice-data.
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
			t.Errorf("fit continues in %q, %v; want %q", got, err, want)
		}
	}
}

// TestWithoutACloudItsVariablesAreNamed: an empty COPPICE_LOCAL names no folder, so that a command says which variables
// are missing, and not that there is no cloud in "". fit --where batch says the same, and does not take a local cloud
// instead.
func TestWithoutACloudItsVariablesAreNamed(t *testing.T) {
	for name, folder := range map[string]string{"a command": "", "fit": t.TempDir()} {
		w := &Setup{World: program.World{Env: envconfig.MapLookuper(map[string]string{"COPPICE_LOCAL": folder})},
			Local: func(string, []string) error { return nil }}
		run := func(ctx context.Context) error { return w.withCloud(ctx, func() error { return nil }) }
		if name == "fit" {
			cmd := fitCommand(w)
			cmd.SetArgs([]string{"t.csv", "--label", "y", "--where", "batch", "--name", "t"})
			run = cmd.ExecuteContext
		}
		must.Say(t, name+" without a cloud", run(t.Context()), "COPPICE_PROJECT")
	}
}

// TestFitRefuses: what fit cannot do is said with what to use, before anything is staged: the bucket of datasets stays
// empty. A fault in the specs that it makes is one of the flag that it came from. In the cloud it wants --name, since a
// table's file name should not by accident become the dataset and the model of the nights; and it refuses the name of
// a model that predicts another label, even one without a champion.
func TestFitRefuses(t *testing.T) {
	w := newWorld(t)
	table := w.file("t.csv", "a,y\n"+strings.Repeat("1,0\n2,1\n3,0\n", 9))
	must.Get(registry.New(w.buckets["registry"]).Register(t.Context(), "other", "sweep-0", map[string][]byte{
		scorer.FileDataset: []byte(`{"format":1,"name":"t","label":{"column":"z","kind":"binary"}}`)},
		registry.Info{At: w.now, By: "test"}))(t)
	const batch = "--where batch --name t "
	for says, args := range map[string]string{
		`the model "other" predicts z: give the model of y another name (--name)`: "--where batch --name other",

		// Of several tables the one in a bucket is named.
		"gs://b/new.csv: a table in a bucket is trained on in its cloud": "gs://b/new.csv",

		"--where batch needs --name":                        "--where batch",
		"--out " + w.dir + " exists: give a new folder":     "--out " + w.dir,
		"not a directory":                                   "--out " + table + "/model",
		"launcher: --metric: metric rmse is for regression": batch + "--metric rmse",
		"launcher: --metric: metric auc is for binary":      batch + "--metric auc --objective regression",
		"launcher: --drop y: it is the label":               batch + "--drop y",
	} {
		w.refused(sweep.ExitUsage, says, append([]string{"fit", table, "--label", "y"}, strings.Fields(args)...)...)
		w.empty("datasets")
	}
}

// TestServeOfNothing: serve refuses at once a model that the registry does not have; it does not wait for it.
func TestServeOfNothing(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	for _, model := range []string{"ctx", "ctr@7", "ctr@nosuch"} {
		w.refused(sweep.ExitNotFound, "--model "+model+": registry: there is no", "serve", "--model", model, "--listen",
			"127.0.0.1:0")
	}
}

// TestFitAfterATrouble: a fit that a full disk has ended without a winner says what to do: the same command would find
// the sweep that has ended. With another seed it begins a new one.
func TestFitAfterATrouble(t *testing.T) {
	w := newWorld(t)
	table := w.file("t.csv", "a,y\n"+strings.Repeat("1,0\n2,1\n3,0\n", 200))
	ended := w.concluded(sweep.OutcomeNoWinner, func(c *sweep.Conclusion) { c.Reason = "the disk is full" })
	sweeps := map[sweep.ID]bool{}
	w.jobs.run = func(p *sweep.Plan) {
		sweeps[p.Sweep] = true
		must.Do(t, sweepstore.New(w.buckets["sweeps"], p.Sweep).Tell(t.Context(), "j", 0, &sweep.Trouble{Format: 1,
			Sweep: p.Sweep, Text: "the disk is full", At: w.now}))
		ended(p)
	}
	for i, seed := range []string{"0", "0", "1"} {
		w.refused(sweep.ExitNoWinner, "the disk is full\nMend that, and fit again with another --seed", "fit", table,
			"--label", "y", "--where", "batch", "--name", "t", "--seed", seed)
		if want := 1 + i/2; len(sweeps) != want {
			t.Errorf("after fit %d, with the seed %s: %d sweeps, want %d", i, seed, len(sweeps), want)
		}
	}
}
