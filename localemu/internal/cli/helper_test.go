//go:build unix

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/cloud/batch"
	"coppice/internal/cloud/gcs"

	"coppice/internal/blob"
)

// TestMain makes the test binary every program of these tests: localemu itself, the aggregator, the command that runs
// inside, and the task, chosen by its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch kind, what, _ := strings.Cut(os.Args[1], ":"); kind {
		case "localemu":
			os.Exit(mainProgram(os.Args[2:]))
		case "serve":
			os.Exit(aggregatorProgram(os.Getenv("TEST_AGGREGATOR")))
		case "command":
			os.Exit(report(commandProgram(what)))
		case "task":
			os.Exit(report(taskProgram()))
		}
	}
	os.Exit(m.Run())
}

// mainProgram is localemu's main program, with an executable beside which there is no other program.
func mainProgram(args []string) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return Run(context.Background(), State{
		Args: args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Signals: signals, Executable: "/nonexistent/localemu", Version: "test-1",
	})
}

// report prints an error, if there is one, and returns the exit code.
func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// aggregatorProgram stands for the aggregator: it writes its process id and audience to its log and runs until it gets
// SIGTERM. In the mode "die" it ends at once, with 3.
func aggregatorProgram(mode string) int {
	fmt.Println("aggregator", os.Getpid(), os.Getenv("COPPICE_AUDIENCE"))
	if mode == "die" {
		fmt.Println("cannot go on")
		return 3
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	<-asked
	fmt.Println("ended as asked")
	return 0
}

// taskProgram writes its process id to where the command finds it, and hangs.
func taskProgram() error {
	if err := os.WriteFile(os.Getenv("PIDFILE")+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.Rename(os.Getenv("PIDFILE")+".new", os.Getenv("PIDFILE")); err != nil {
		return err
	}
	<-time.After(time.Hour) // an empty select would be a deadlock to a runtime without cgo
	return errors.New("nobody ended this task")
}

// commandProgram is what a command under exec does: submit a job, keep an object, or read it.
func commandProgram(what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	switch what {
	case "submit":
		return submitTask(ctx)
	case "keep":
		return keep(ctx)
	case "read":
		return readKept(ctx)
	}
	return fmt.Errorf("unknown command %q", what)
}

// bucket is the bucket of sweeps in the local cloud whose environment this process has.
func bucket(ctx context.Context) (blob.Store, error) {
	c, err := gcs.New(ctx)
	if err != nil {
		return nil, err
	}
	return c.Bucket(os.Getenv("COPPICE_SWEEPS_BUCKET")), nil
}

// keep creates an object; that it exists already is an error.
func keep(ctx context.Context) error {
	b, err := bucket(ctx)
	if err != nil {
		return err
	}
	created, err := blob.Create(ctx, b, "sweeps/x/plan.json", []byte("kept"))
	if !created {
		return fmt.Errorf("created is %v: %w", created, err)
	}
	return nil
}

// readKept prints the object that keep has created.
func readKept(ctx context.Context) error {
	b, err := bucket(ctx)
	if err != nil {
		return err
	}
	data, _, err := blob.ReadAll(ctx, b, "sweeps/x/plan.json", 100)
	fmt.Printf("%s\n", data)
	return err
}

// poll repeats the question until the answer is yes.
func poll(ctx context.Context, done func() (bool, error)) error {
	for range time.Tick(2 * time.Millisecond) {
		if yes, err := done(); yes || err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}

// submitTask runs a Batch job whose task is this binary, and exits while it runs.
func submitTask(ctx context.Context) error {
	c, err := batch.New(ctx, batch.Options{
		Project: os.Getenv("COPPICE_PROJECT"), Location: os.Getenv("COPPICE_LOCATION"),
		Endpoint: os.Getenv("COPPICE_BATCH_ENDPOINT"),
	})
	if err != nil {
		return err
	}
	_, _, err = c.Submit(ctx, batch.Job{
		ID: "left-1", Labels: map[string]string{batch.PlanLabel: "abc"}, Image: os.Getenv("COPPICE_TASK_IMAGE"),
		Args: []string{"task"},
		Env:  map[string]string{"PIDFILE": os.Getenv("PIDFILE")}, Tasks: 1, Parallelism: 1, TasksPerVM: 1,
		MachineType: "n2-highmem-2",
		CPUMilli:    1000, MemoryMiB: 1000,
	})
	if err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		_, err := os.Stat(os.Getenv("PIDFILE"))
		return err == nil, nil
	})
}

// instance is a started localemu.
type instance struct {
	*testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
	tmp    string // its temporary folder
}

// localemu starts localemu with the arguments; env is added to its environment.
func localemu(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	p := &instance{T: t, tmp: t.TempDir()}
	p.cmd = exec.Command(os.Args[0], append([]string{"localemu"}, args...)...)
	p.cmd.Env = append(append(os.Environ(), "TMPDIR="+p.tmp), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = 5 * time.Second // a leftover process that kept a stream open would show as an error
	return p
}

// start starts it. It is killed at the end of the test if it still runs.
func (p *instance) start() {
	p.Helper()
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has usually ended
}

// code waits for its end and returns the exit code. The test fails if a temporary data folder is left.
func (p *instance) code() int {
	p.Helper()
	err := p.cmd.Wait()
	if p.cmd.ProcessState == nil {
		p.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(p.tmp, "localemu-*")); err != nil || len(left) > 0 {
		p.Errorf("temporary folders are left: %q, %v", left, err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// run is start and code.
func (p *instance) run() int {
	p.Helper()
	p.start()
	return p.code()
}

// execArgs is "exec --aggregator none flags -- command".
func execArgs(flags []string, command ...string) []string {
	args := append([]string{"exec", "--aggregator", "none"}, flags...)
	return append(append(args, "--"), command...)
}

// alive reports whether a process runs. One that has ended and only waits to be reaped (state Z) does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// eventually waits until ok returns true, which no channel signals; after 30 s the test fails and says what was
// awaited.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited 30 s in vain until %s", what)
		}
	}
}

// readPID waits until the file holds a process id and returns it.
func readPID(t *testing.T, path string) int {
	t.Helper()
	var pid int
	eventually(t, path+" holds a process id", func() bool {
		data, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(data), "\n") && len(data) == 0 {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil && pid > 0
	})
	return pid
}
