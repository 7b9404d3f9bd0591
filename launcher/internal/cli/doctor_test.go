package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	setup "coppice/internal/cloud"
	"coppice/internal/program"
	"coppice/internal/sweep"
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

func TestDoctor(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	open := func(context.Context, Env) (doctor.Cloud, error) { return unknown{}, nil }
	code, out, errOut := w.examined(open, "doctor", file)
	for _, want := range []string{"ana@example.com", "problem", "projects/p/topics/coppice-scores: it does not exist",
		"\nterraform apply\n", " ok, 1 problem, ", "it is staged", "4 trials"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
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
	w := newWorld(t)
	w.staged()
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
