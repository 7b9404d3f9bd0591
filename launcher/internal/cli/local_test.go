package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

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
