package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/must"
	"coppice/internal/program"
)

// asTask makes the test program run as the task itself: --workers starts processes.
const asTask = "COPPICE_TEST_AS_TASK"

func TestMain(m *testing.M) {
	if os.Getenv(asTask) != "" {
		world := program.FromOS("v1")
		os.Exit(Run(context.Background(), Setup{World: world}))
	}
	os.Exit(m.Run())
}

// processes remembers what was started.
type processes struct {
	mu     sync.Mutex
	cmds   []*exec.Cmd
	dead   bool // an earlier first process was killed
	change func(args []string)
}

func (p *processes) self(ctx context.Context, args []string) *exec.Cmd {
	if p.change != nil {
		p.change(args)
	}
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asTask+"=1")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmds = append(p.cmds, cmd)
	return cmd
}

// watched calls seen with every line.
type watched struct {
	bytes.Buffer
	seen func(line string)
}

func (w *watched) Write(b []byte) (int, error) {
	w.seen(string(b))
	return w.Buffer.Write(b)
}

// runWorkers runs a command line that starts processes. onLine is called with what it shows.
func (p *processes) runWorkers(t *testing.T, onLine func(line string), args ...string) (code int, out, errOut string) {
	t.Helper()
	o := &watched{seen: onLine}
	var e bytes.Buffer
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if p.dead {
		must.Do(t, os.Mkdir(filepath.Join(temp, workersFolder+"1"), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(temp, workersFolder+"1", workersLock), nil, 0o600))
	}
	code = Run(t.Context(), Setup{World: program.World{Args: args, Env: envconfig.MapLookuper(nil), Out: program.To(o),
		Err: program.To(&e), Version: "v1"}, Self: p.self})
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v leaves %v in the folder of temporary files, error %v; want nothing", args, left, err)
	}
	for _, cmd := range p.cmds {
		if cmd.ProcessState == nil {
			t.Errorf("%v has not waited for the process %v", args, cmd.Args)
		}
	}
	return code, o.String(), e.String()
}

func TestWorkersTrainTheSameModel(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 3000})
	p := params(t, "num_iterations: 20\nnum_leaves: 9\nearly_stopping_round: 5\nbagging_fraction: 0.7\n"+
		"bagging_freq: 1\nfeature_fraction: 0.8\n")
	model := filepath.Join(t.TempDir(), "model.txt")
	if code, _, errOut := run(t, nil, "train", "--dataset", dir, "--params", p, "--out", model); code != 0 {
		t.Fatalf("train: exit code %d, %s; want 0", code, errOut)
	}
	want := must.Get(os.ReadFile(model))(t)
	same := func(what string) {
		t.Helper()
		got, err := os.ReadFile(model)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: another model than from one process, error %v", what, err)
		}
		if err := os.Remove(model); err != nil {
			t.Error(err)
		}
	}

	nothing := func(string) {}
	code, out, errOut := new(processes).runWorkers(t, nothing, "train", "--dataset", dir, "--params", p, "--out",
		model, "--workers", "3", "--json")
	var got trained
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Team == nil || got.Team.Workers != 3 ||
		got.Team.Teams != 1 || got.Team.Sent == 0 {
		t.Fatalf("3 workers: exit code %d, %v, %+v, want 0 and one team of 3\n%s", code, err, got.Team, errOut)
	}
	same("3 workers")
	if strings.Contains(errOut, "gone") {
		t.Errorf("3 workers of which none was killed: messages %q; want none that one is gone", errOut)
	}

	// Two of four are killed: one after the first tree, one after the third.
	killed := 0
	ps := &processes{dead: true}
	code, out, errOut = ps.runWorkers(t, func(line string) {
		for i, tree := range []string{"tree     1 ", "tree     3 "} {
			if strings.Contains(line, tree) && killed == i {
				killed++
				_ = ps.cmds[i].Process.Kill() // it may have been killed before
			}
		}
	}, "train", "--dataset", dir, "--params", p, "--out", model, "--workers", "4")
	if code != 0 || killed != 2 || !strings.Contains(errOut, "worker 1 is gone (signal: killed); the others go on") ||
		!strings.Contains(out, "rows were divided") {
		t.Errorf("two of 4 workers are killed (%d): exit code %d, want 0 and a message of it\n%s%s", killed, code, out,
			errOut)
	}
	same("two of 4 workers are killed")

	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	if code, _, errOut = new(processes).runWorkers(t, nothing, "train", "--dataset", dir, "--params", p, "--out",
		model, "--workers",
		"2", "--checkpoint", checkpoint, "--checkpoint-every", "0s"); code != 0 {
		t.Errorf("2 workers with checkpoints: exit code %d, want 0\n%s", code, errOut)
	}
	same("2 workers with checkpoints")
}

// TestWorkersTrainARanking: of queries with rows all over the table.
func TestWorkersTrainARanking(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 3000, Encodings: "none",
		Split: "{by: hash, key: user_id, train: 0.8, valid: 0.2}\ngroup: user_id"})
	p := params(t, "objective: lambdarank\nnum_iterations: 10\nnum_leaves: 9\nbagging_fraction: 0.7\n"+
		"bagging_freq: 1\n")
	var models [2][]byte
	for i, workers := range []string{"1", "3"} {
		out := filepath.Join(t.TempDir(), "model.txt")
		code, _, errOut := new(processes).runWorkers(t, func(string) {}, "train", "--dataset", dir, "--params", p,
			"--out", out, "--workers", workers)
		if code != 0 {
			t.Fatalf("%s workers: exit code %d, want 0\n%s", workers, code, errOut)
		}
		var err error
		if models[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(models[0], models[1]) {
		t.Error("3 workers: another model than from one process, want the same")
	}
}

func TestWorkersThatFailEndTheTraining(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 2000})
	p := params(t, "num_iterations: 5\n")
	elsewhere := &processes{change: func(args []string) {
		for i := range args {
			args[i] = strings.Replace(args[i], p, filepath.Join(dir, "none.yaml"), 1)
		}
	}}
	code, _, errOut := elsewhere.runWorkers(t, func(string) {}, "train", "--dataset", dir, "--params", p, "--workers",
		"2")
	if code == 0 || !strings.Contains(errOut, "worker 1 has failed (exit status ") {
		t.Errorf("a worker does not find the parameters: exit code %d, %s; want that it has failed", code, errOut)
	}

	for _, args := range [][]string{{"--workers", "0"}, {"--workers", "65"}} {
		code, _, errOut := run(t, nil, append([]string{"train", "--dataset", dir}, args...)...)
		if code != 2 || !strings.Contains(errOut, "--workers") {
			t.Errorf("train %v: exit code %d, %s; want 2 and a word on --workers", args, code, errOut)
		}
	}
}

// The folder of a training is not swept while it is made.
func TestFoldersAreMadeWhileOthersSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, over := context.WithCancel(t.Context())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for ctx.Err() == nil {
			sweepWorkers()
		}
	}()
	w := &Setup{World: program.World{Err: program.To(&bytes.Buffer{})}, Self: new(processes).self}
	for range 200 {
		c, _, err := w.startWorkers(t.Context(), &fit.Request{}, trainFlags{workersFlags: workersFlags{workers: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = os.Stat(c.dir); err != nil {
			t.Error(err)
		}
		if c.close(); err != nil {
			break
		}
	}
	over()
	<-swept
}
