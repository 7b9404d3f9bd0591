package slurm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/engine"
	"coppice/internal/must"
)

// node runs the script as a node does, with a program for task; the folder holds what it and scontrol have written.
type node struct {
	dir  string
	vars []string
}

func newNode(t *testing.T, task string, vars ...string) *node {
	dir := commands(t, map[string]string{"sleep": "", "scontrol": `echo "$@" >>"$OUT/requeued"`, "bin/task": task})
	return &node{dir, append([]string{"OUT=" + dir, "PATH=" + dir + ":/usr/bin:/bin", "SLURM_ARRAY_TASK_ID=2",
		"SLURM_ARRAY_JOB_ID=7", "SLURMD_NODENAME=n1"}, vars...)}
}

func (n *node) run(t *testing.T, q engine.Array) (code int, requeued string) {
	t.Helper()
	c := New(Options{Folder: n.dir, Scratch: filepath.Join(n.dir, "scratch")})
	_, script := must.Get2(c.command(q))(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh")
	cmd.Stdin, cmd.Env = strings.NewReader(script), n.vars
	var said bytes.Buffer
	cmd.Stderr = &said
	_ = cmd.Run()
	if said.Len() > 0 {
		t.Logf("the script said: %s", &said)
	}
	data, _ := os.ReadFile(filepath.Join(n.dir, "requeued"))
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(string(data))
}

// TestScriptTellsTheTask: a task gets every value as it is, whatever a shell would make of it, and a folder on its node
// that is gone after it.
func TestScriptTellsTheTask(t *testing.T) {
	hostile := "a'b \"$(touch $OUT/hacked)\" `touch $OUT/hacked`\n\\ ; & \u00fc"
	q := job()
	q.Env["COPPICE_STAGE_SPEC"] = hostile
	q.Args = []string{"run", hostile}
	n := newNode(t, `printf %s "$COPPICE_STAGE_SPEC" >"$OUT/spec"; printf %s "$2" >"$OUT/arg"
echo "$COPPICE_TASK_INDEX $COPPICE_TASK_ATTEMPT $HOSTNAME $COPPICE_SCRATCH" >"$OUT/told"
echo x >"$COPPICE_SCRATCH/data"`, "SLURM_RESTART_COUNT=1")
	scratch := filepath.Join(n.dir, "scratch")
	base := filepath.Join(scratch, "coppice-"+uid(t), "n1")
	for _, left := range []string{"night-0", "night-0.lock"} { // of a task that was killed
		must.Do(t, os.MkdirAll(base, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(base, left), nil, 0o600))
	}
	if code, requeued := n.run(t, q); code != 0 || requeued != "" {
		t.Fatalf("the script: exit code %d, requeued %q", code, requeued)
	}
	for name, want := range map[string]string{"spec": hostile, "arg": hostile,
		"told": "2 1 n1 " + filepath.Join(base, "night-1") + "\n"} {
		if got, err := os.ReadFile(filepath.Join(n.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: the task got %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(n.dir, "hacked")); err == nil {
		t.Error("a value was run")
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 0 {
		t.Errorf("left on the node: %v, %v", left, err)
	}
}

func uid(t *testing.T) string {
	out := must.Get(exec.CommandContext(t.Context(), "id", "-u").Output())(t)
	return strings.TrimSpace(string(out))
}

// TestScriptRepeats: a task that ended by itself with a code to repeat is requeued, so many times; one that Slurm told
// to go is not, since Slurm itself decides what becomes of it.
func TestScriptRepeats(t *testing.T) {
	for name, c := range map[string]struct {
		task, restarts string
		code           int
		requeued       string
	}{
		"transient":     {"exit 75", "0", 75, "requeue 7_2"},
		"killed":        {"kill -9 $$", "1", 137, "requeue 7_2"},
		"too often":     {"exit 75", "2", 75, ""},
		"an error":      {"exit 1", "0", 1, ""},
		"done":          {"exit 0", "0", 0, ""},
		"told to go":    {"trap 'exit 75' TERM; kill -TERM $PPID; while :; do :; done", "0", 75, ""},
		"it goes later": {"trap 'sh -c :; exit 0' TERM; kill -TERM $PPID; while :; do :; done", "0", 0, ""},
	} {
		code, requeued := newNode(t, c.task, "SLURM_RESTART_COUNT="+c.restarts).run(t, job())
		if code != c.code || requeued != c.requeued {
			t.Errorf("%s: exit code %d, requeued %q, want %d, %q", name, code, requeued, c.code, c.requeued)
		}
	}
}

// TestFolderOfAnother: scratch is in a folder of all users, where another may have made ours.
func TestFolderOfAnother(t *testing.T) {
	n := newNode(t, "exit 0")
	path := filepath.Join(n.dir, "scratch", "coppice-"+uid(t))
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, nil, 0o600))
	if code, _ := n.run(t, job()); code != 6 {
		t.Errorf("exit code %d, want 6", code)
	}
}
