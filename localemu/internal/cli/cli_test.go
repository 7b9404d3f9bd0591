//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"coppice/internal/must"
)

// TestExecEnvironmentAndCode: a command under exec gets the local cloud's variables in place of the user's own of these
// names, and no others of Coppice's; the user's other variables stay. Its exit code is localemu's.
func TestExecEnvironmentAndCode(t *testing.T) {
	t.Parallel()
	p := localemu(t, []string{"COPPICE_PROJECT=of-the-user", "COPPICE_ZONES=x", "STORAGE_EMULATOR_HOST_GRPC=x",
		"MINE=kept"}, execArgs(nil, "/bin/sh", "-c", `env | grep -E "^(COPPICE_|MINE|.*EMULATOR)" | sort; exit 7`)...)
	if code := p.run(); code != 7 {
		t.Errorf("exit code %d, want the command's 7: %s", code, p.stderr.String())
	}
	got := map[string]string{}
	for line := range strings.Lines(p.stdout.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	for name, value := range map[string]string{
		"COPPICE_PROJECT": "local-project", "COPPICE_LOCATION": "us-central1",
		"COPPICE_DATASETS_BUCKET": "coppice-datasets",
		"COPPICE_SWEEPS_BUCKET":   "coppice-sweeps", "COPPICE_REGISTRY_BUCKET": "coppice-registry",
		"COPPICE_SCORES_TOPIC":          "coppice-scores",
		"COPPICE_JOBS_TOPIC":            "coppice-jobs",
		"COPPICE_VERDICTS_TOPIC":        "coppice-verdicts",
		"COPPICE_TASK_SERVICE_ACCOUNT":  "coppice-task@local-project.iam.gserviceaccount.com",
		"COPPICE_STAGE_SERVICE_ACCOUNT": "coppice-stager@local-project.iam.gserviceaccount.com",
		"COPPICE_TASK_IMAGE":            "coppice-task", "COPPICE_LAUNCHER_IMAGE": "coppice-launcher", "MINE": "kept",
	} {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
		delete(got, name)
	}
	// Addresses, whose ports are any that are free. Only Storage's library wants a URL.
	for name, begin := range map[string]string{"COPPICE_INSPECT_ENDPOINT": "127.0.0.1:",
		"COPPICE_BATCH_ENDPOINT": "127.0.0.1:", "COPPICE_BIGQUERY_ENDPOINT": "127.0.0.1:",
		"STORAGE_EMULATOR_HOST": "http://127.0.0.1:", "PUBSUB_EMULATOR_HOST": "127.0.0.1:"} {
		if !strings.HasPrefix(got[name], begin) {
			t.Errorf("%s is %q, expected it to begin with %q", name, got[name], begin)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("the environment also has %v, want nothing more", got)
	}
}

// TestExecStreamsAndSignalCode: a command under exec has localemu's own standard streams, and if a signal kills it,
// localemu's exit code is 128 and the signal's number.
func TestExecStreamsAndSignalCode(t *testing.T) {
	t.Parallel()
	p := localemu(t, nil, execArgs(nil, "/bin/sh", "-c", `cat; echo to stderr >&2; kill -9 $$`)...)
	stdin := must.Get(os.CreateTemp(t.TempDir(), "in"))(t)
	defer stdin.Close()
	must.Get(stdin.WriteString("from stdin"))(t)
	must.Get(stdin.Seek(0, 0))(t)
	p.cmd.Stdin = stdin
	if code := p.run(); code != 137 || p.stdout.String() != "from stdin" ||
		!strings.Contains(p.stderr.String(), "to stderr\n") {
		t.Errorf("exit code %d, %q, %q; want 137 of a kill, and what was "+
			"written", code, p.stdout.String(), p.stderr.String())
	}
}

// TestUsage: a wrong command line ends with the exit code of its kind and names what is wrong: 2 for usage, 3 and 4 for
// a file of faults that is wrong or absent. A command under exec that is not there, or cannot be executed, gives 127
// and 126, as in a shell. A right command line, a call for help and --version end with 0.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	faults := filepath.Join(dir, "faults.yaml")
	for path, text := range map[string]string{plain: "no program",
		faults: "duplicate_messages: true\ndrop_massages: 1\n"} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"exec"}, 2, "after --"},
		{[]string{"exec", "true"}, 2, "after --"},
		{[]string{"exec", "--nonsense", "--", "true"}, 2, "unknown flag"},
		{[]string{"nonsense"}, 2, "unknown command"},
		{[]string{"up"}, 2, "data"},
		{[]string{"exec", "--", "true"}, 2, "no aggregator"},
		{[]string{"exec", "--aggregator", plain, "--", "true"}, 2, "is not a program"},
		{execArgs([]string{"--image", "x"}, "true"), 2, "NAME=PATH"},
		{execArgs([]string{"--image", "x=" + plain}, "true"), 2, "is not a program"},
		{execArgs([]string{"--containers", "lxc"}, "true"), 2, "buildah, podman, docker"},
		{execArgs([]string{"--containers", "docker", "--image", "x=no/such/file:1"}, "true"), 0, ""},
		{execArgs([]string{"--aggregators", "0"}, "true"), 2, "--aggregators 0"},
		{execArgs([]string{"--port-base", "70000"}, "true"), 2, "--port-base"},
		{execArgs([]string{"--faults", faults}, "true"), 3, faults + ":2:1: unknown key \"drop_massages\""},
		{execArgs([]string{"--faults", filepath.Join(dir, "absent")}, "true"), 4, "absent"},
		{execArgs(nil, "no-such-command"), 127, "no-such-command"},
		{execArgs(nil, plain), 126, "permission denied"},
		{[]string{"--version"}, 0, ""},
		{[]string{"exec", "--help"}, 0, ""},
		{execArgs([]string{"--data", faults}, "true"), 2, "--data " + faults + " is a file; give a folder"},
		{execArgs([]string{"--log", faults}, "true"), 2, "--log " + faults + " is a file; give a folder"},
		{[]string{"help", "faults"}, 0, ""},
	} {
		p := localemu(t, nil, c.args...)
		if code := p.run(); code != c.code || !strings.Contains(p.stderr.String(), c.says) {
			t.Errorf("%q: code %d, %s; want %d, %q", c.args, code, p.stderr.String(), c.code, c.says)
		}
	}
}

// signalled starts localemu with a shell script as its command, and returns when the script has written a process id to
// $PIDFILE: that of its child, or its own.
func signalled(t *testing.T, script string) (p *instance, child int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	p = localemu(t, []string{"PIDFILE=" + file}, execArgs(nil, "/bin/sh", "-c", script)...)
	p.start()
	return p, readPID(t, file)
}

// TestSignalEndsCommandAndLeavesNothing: SIGINT, SIGTERM and SIGHUP reach the command, which ends as it likes, here
// with 9. Its children are killed.
func TestSignalEndsCommandAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p, child := signalled(t,
			`trap 'echo caught; exit 9' INT TERM HUP; sleep 600 & echo $! > $PIDFILE; while :; do sleep 0.01; done`)
		must.Do(t, p.cmd.Process.Signal(sig))
		if code := p.code(); code != 9 || p.stdout.String() != "caught\n" {
			t.Errorf("%v: exit code %d, %q, %q; want 9, since the command catches "+
				"it", sig, code, p.stdout.String(), p.stderr.String())
		}
		eventually(t, "the command's child, which was killed, is gone", func() bool { return !alive(child) })
	}
}

// TestASignalEndsTheWaiting: with --wait, localemu waits for a data folder that another command uses and says what to
// do. SIGTERM ends the waiting, with 143. Here the test itself holds the folder's lock.
func TestASignalEndsTheWaiting(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	used := flock.New(filepath.Join(data, "lock"))
	if locked, err := used.TryLock(); err != nil || !locked {
		t.Fatalf("lock %s: %t, %v", data, locked, err)
	}
	defer used.Close()
	p := localemu(t, nil, execArgs([]string{"--wait", "--data", data}, "true")...)
	p.cmd.Stderr = nil
	messages := must.Get(p.cmd.StderrPipe())(t)
	p.start()
	lines := bufio.NewScanner(messages)
	for lines.Scan() && !strings.Contains(lines.Text(), "waiting for another command") {
		t.Log(lines.Text())
	}
	if want := "end it and start `coppice localemu up --data " + data + "`"; !strings.Contains(lines.Text(), want) {
		t.Errorf("it says %q, want what to do: %q", lines.Text(), want)
	}
	must.Do(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if !lines.Scan() || !strings.Contains(lines.Text(), "ended before the local cloud was there") {
		t.Errorf("it ends with %q (%v), want that the local cloud was not there yet", lines.Text(), lines.Err())
	}
	if code := p.code(); code != 143 { // 128 and the number of SIGTERM, 15
		t.Errorf("code %d, want 143", code)
	}
}

// TestSecondSignalKills: a command that catches the first SIGINT and goes on is killed, with its child, at the second.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	p, child := signalled(t,
		`trap 'echo no; echo x > $PIDFILE.asked' INT; sleep 600 & echo $! > $PIDFILE; while :; do sleep 0.01; done`)
	must.Do(t, p.cmd.Process.Signal(syscall.SIGINT))
	asked := p.cmd.Env[slices.IndexFunc(p.cmd.Env,
		func(v string) bool { return strings.HasPrefix(v, "PIDFILE=") })][len("PIDFILE="):] + ".asked"
	eventually(t, "the command refuses", func() bool { _, err := os.Stat(asked); return err == nil })
	must.Do(t, p.cmd.Process.Signal(syscall.SIGINT))
	if code := p.code(); code != 137 {
		t.Errorf("exit code %d, want 137: the second signal kills", code)
	}
	eventually(t, "the command's child, which was killed, is gone", func() bool { return !alive(child) })
}

// TestKilledLocalemuTakesProcessesAlong: if localemu is killed, the command ends with it.
func TestKilledLocalemuTakesProcessesAlong(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux ends processes with their parent")
	}
	t.Parallel()
	p, command := signalled(t, `echo $$ > $PIDFILE; while :; do read x < /dev/zero; done`)
	must.Do(t, p.cmd.Process.Kill())
	if err := p.cmd.Wait(); err == nil {
		t.Error("localemu was killed and Wait returned no error, want one")
	}
	eventually(t, "the command ends with localemu", func() bool { return !alive(command) })
}

// TestTasksEndWithTheWorld: when the command ends while a task of its Batch job runs, the task is ended, too.
func TestTasksEndWithTheWorld(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	p := localemu(t, []string{"PIDFILE=" + file}, execArgs([]string{"--image", "coppice-task=" + os.Args[0]},
		os.Args[0], "command:submit")...)
	if code := p.run(); code != 0 {
		t.Fatalf("exit code %d, want 0: %s", code, p.stderr.String())
	}
	if pid := readPID(t, file); alive(pid) {
		t.Errorf("the task, process %d, still runs; want it ended with the local cloud", pid)
	}
}

// TestAggregatorRunsAndEnds: an aggregator runs beside the command, with a log of its own, and ends when asked. The log
// is named by the aggregator's number and by how often it was started again: aggregator-0.0.log.
func TestAggregatorRunsAndEnds(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	p := localemu(t, []string{"LOGS=" + logs}, "exec", "--aggregator", os.Args[0], "--log", logs, "--", "/bin/sh", "-c",
		`while ! grep -q aggregator $LOGS/aggregator-0.0.log; do sleep 0.01; done`)
	if code := p.run(); code != 0 {
		t.Fatalf("exit code %d, want 0: %s", code, p.stderr.String())
	}
	log, err := os.ReadFile(filepath.Join(logs, "aggregator-0.0.log"))
	if err != nil || !strings.Contains(string(log), " coppice-aggregator.local-project\nended as asked\n") {
		t.Errorf("the aggregator's log is %q, %v; want its account, and that it ended as asked", log, err)
	}
}

// TestAggregatorThatDiesEndsEverything: an aggregator that dies ends the command, too, and the error has its exit code.
func TestAggregatorThatDiesEndsEverything(t *testing.T) {
	t.Parallel()
	p := localemu(t, []string{"TEST_AGGREGATOR=die"}, "exec", "--aggregator", os.Args[0], "--", "/bin/sh", "-c",
		"sleep 600")
	began := time.Now()
	if code := p.run(); code != 1 {
		t.Errorf("with an aggregator that dies: code %d, want 1", code)
	}
	if says := p.stderr.String(); !strings.Contains(says, "aggregator 0 ended unexpectedly, with exit code 3") ||
		!strings.Contains(says, "cannot go on") {
		t.Errorf("the error is %q, want the aggregator's exit code 3", says)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v, want at most 20 s", took)
	}
}

// TestAnAggregatorThatIsKilledComesBack: an aggregator that is killed from outside, as the kernel does when memory is
// short, is started again, with a second log; localemu says so and the command goes on.
func TestAnAggregatorThatIsKilledComesBack(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	p := localemu(t, []string{"LOGS=" + logs}, "exec", "--aggregator", os.Args[0], "--log", logs, "--", "/bin/sh", "-c",
		`appears() { while ! grep -q aggregator "$1"; do sleep 0.01; done; }
appears $LOGS/aggregator-0.0.log
kill -9 $(cut -d" " -f2 $LOGS/aggregator-0.0.log)
appears $LOGS/aggregator-0.1.log`)
	if code := p.run(); code != 0 || !strings.Contains(p.stderr.String(), "an aggregator was killed") {
		t.Errorf("killed the aggregator: code %d, %s; want it to be said, and the command to go on", code,
			p.stderr.String())
	}
}

// TestAKilledLocalemuIsClearedUp: the next localemu removes the temporary data folder of one that was killed. It
// removes neither that of one that runs nor a data folder of the user's that has a similar name.
func TestAKilledLocalemuIsClearedUp(t *testing.T) {
	t.Parallel()
	killed := localemu(t, nil, execArgs(nil, "/bin/sh", "-c", "sleep 600")...)
	killed.start()
	folders := func() []string {
		return must.Get(filepath.Glob(filepath.Join(killed.tmp, "localemu-*", "lock")))(t)
	}
	eventually(t, "the killed one has a folder", func() bool { return len(folders()) == 1 })
	own := filepath.Join(killed.tmp, "localemu-mine")
	next := localemu(t, nil, execArgs([]string{"--data", own}, "/bin/true")...)
	// This one has another TMPDIR, so it cannot remove anything here.
	if next.run(); len(folders()) != 2 {
		t.Fatalf("folders %q; want that of the one that runs, and one of a person", folders())
	}
	must.Do(t, killed.cmd.Process.Kill())
	_ = killed.cmd.Wait()
	next = localemu(t, []string{"TMPDIR=" + killed.tmp}, execArgs(nil, "/bin/true")...)
	if code := next.run(); code != 0 || len(folders()) != 1 || !strings.HasPrefix(folders()[0], own) {
		t.Errorf("code %d, folders %q: %s; want only that of a person to be left", code, folders(),
			next.stderr.String())
	}
}

// TestDataIsKept: what a command stores in a folder is there for the next one.
func TestDataIsKept(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "cloud")
	if p := localemu(t, nil, execArgs([]string{"--data", data}, os.Args[0], "command:keep")...); p.run() != 0 {
		t.Fatalf("localemu ended with an error: %s", p.stderr.String())
	}
	p := localemu(t, nil, execArgs([]string{"--data", data}, os.Args[0], "command:read")...)
	if code := p.run(); code != 0 || p.stdout.String() != "kept\n" {
		t.Errorf("exit code %d, %q, %q; want 0, and what the first one "+
			"kept", code, p.stdout.String(), p.stderr.String())
	}
}

// TestExportsGiveAShellTheValues: a shell that reads the lines of exports has exactly the values that went in, whatever
// characters they have. Those of plain words, with '=' among them, stand without quotes; a '%' is quoted, as all that
// means something to some shell.
func TestExportsGiveAShellTheValues(t *testing.T) {
	t.Parallel()
	values := []string{"plain", "a=b=c", "50%", "%PATH%", "=", "with blank", "it's",
		"\"$HOME\" \\`id`", "a\nb", "*?[x]~;&|#", ""}
	var env []string
	script := ""
	for i, value := range values {
		env = append(env, fmt.Sprintf("V%d=%s", i, value))
		script += fmt.Sprintf(`printf '%%s\0' "$V%d";`, i)
	}
	lines := exports(env)
	out := must.Get(exec.CommandContext(t.Context(), "/bin/sh", "-c", lines+script).Output())(t)
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, values) {
		t.Errorf("a shell that reads\n%shas %q, want %q", lines, got, values)
	}
	if !strings.Contains(lines, "export V1=a=b=c\n") || !strings.Contains(lines, "export V2='50%'\n") {
		t.Errorf("the lines are\n%swant a=b=c without quotes, and '50%%' in them", lines)
	}
}

// TestUp: up writes the file env into its data folder, by which other programs find the local cloud, and removes it
// when it ends. Meanwhile no other localemu can use the folder (exit code 5). Objects written through the settings stay
// in the folder.
func TestUp(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "a cloud")
	up := localemu(t, nil, "up", "--data", data, "--aggregator", "none")
	up.start()
	env := filepath.Join(data, "env")
	eventually(t, "the settings are there", func() bool { _, err := os.Stat(env); return err == nil })
	second := localemu(t, nil, execArgs([]string{"--data", data}, "true")...)
	if code := second.run(); code != 5 || !strings.Contains(second.stderr.String(), "another localemu is using "+data) {
		t.Errorf("a second localemu: exit code %d, want 5, and whose folder it is: %s", code, second.stderr.String())
	}
	inside := localemu(t, []string{"ENVFILE=" + env},
		execArgs(nil, "/bin/sh", "-c", `. "$ENVFILE"; exec "$0" command:keep`, os.Args[0])...)
	if code := inside.run(); code != 0 { // writes to the first cloud by its settings, from within another one
		t.Errorf("with the settings: exit code %d, want 0: %s", code, inside.stderr.String())
	}
	must.Do(t, up.cmd.Process.Signal(syscall.SIGINT))
	if code := up.code(); code != 0 {
		t.Errorf("interrupted: exit code %d, want 0: %s", code, up.stderr.String())
	}
	if !strings.Contains(up.stdout.String(), "export COPPICE_PROJECT=local-project\n") ||
		!strings.Contains(up.stderr.String(), "'"+env+"'") {
		t.Errorf("up says %q, %q; want the settings, and the file they are in", up.stdout.String(), up.stderr.String())
	}
	if _, err := os.Stat(env); !os.IsNotExist(err) {
		t.Errorf("the settings after the end: got %v, want that they are removed", err)
	}
	if _, err := os.Stat(filepath.Join(data, "gcs", "coppice-sweeps", "sweeps", "x", "plan.json")); err != nil {
		t.Errorf("the object that was written by the settings: got %v, want it in the folder", err)
	}
}
