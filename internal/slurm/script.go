package slurm

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"coppice/internal/cloud"
	"coppice/internal/engine"
	"coppice/internal/problem"
)

var (
	namePattern      = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	planPattern      = regexp.MustCompile(`^[0-9a-f]{1,64}$`)
	variablePattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	partitionPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.,-]*$`)
	folderPattern    = regexp.MustCompile(`^/[^%\\\x00-\x1f"']*$`) // sbatch itself replaces % and \ in the logs' name
)

// command returns the command that submits the job, and the script that it reads from its standard input. The job is
// checked first. A task gets whole CPUs, rounded down, at least one; the time limit is rounded up to minutes.
func (c *Jobs) command(q engine.Array) (command []string, script string, err error) {
	if err := c.checkArray(q); err != nil {
		return nil, "", err
	}
	command = []string{"sbatch", "--parsable", "--hold", "--requeue", "--export=ALL",
		"--job-name=" + q.ID, fmt.Sprintf("--comment=coppice %d %s", q.Tasks, q.Plan),
		fmt.Sprintf("--array=0-%d", q.Tasks-1), "--nodes=1", "--ntasks=1",
		fmt.Sprintf("--cpus-per-task=%d", max(q.CPUMilli/1000, 1)), fmt.Sprintf("--mem=%dM", q.MemoryMiB),
		"--open-mode=append", "--output=" + filepath.Join(c.logs(), "%x-%a.log"), "--chdir=" + c.opts.Folder}
	if q.Limit > 0 {
		command = append(command, fmt.Sprintf("--time=%d", (q.Limit+time.Minute-1)/time.Minute))
	}
	if c.opts.Partition != "" {
		command = append(command, "--partition="+c.opts.Partition)
	}
	return command, c.script(q), nil
}

// checkArray returns an error for texts that the shell or Slurm would read as something else, and for wishes that no
// cluster can fulfil, such as zones. Wrong settings of the environment are a *cloud.SetupError, all else problem.Input.
func (c *Jobs) checkArray(q engine.Array) error {
	bad := func(what string, args ...any) error { return problem.New(problem.Input, "slurm job: "+what, args...) }
	for name, value := range map[string]string{"FOLDER": c.opts.Folder, "SCRATCH": c.opts.Scratch} {
		if value != "" && !folderPattern.MatchString(value) || value == "" && name == "FOLDER" {
			return &cloud.SetupError{What: fmt.Sprintf("COPPICE_SLURM_%s is %.200q", name, value),
				Hint: "give the whole path of a folder, beginning with / and without quotes, % and \\"}
		}
	}
	switch p := c.opts.Partition; {
	case p != "" && !partitionPattern.MatchString(p):
		return &cloud.SetupError{What: fmt.Sprintf("COPPICE_SLURM_PARTITION is %.80q", p),
			Hint: "`sinfo` lists the cluster's partitions"}
	case !namePattern.MatchString(q.ID) || !planPattern.MatchString(q.Plan):
		return bad("the name %.80q or the plan %.80q has other characters than a-z, 0-9 and '-'", q.ID, q.Plan)
	case q.Program != engine.Task && q.Program != engine.Launcher:
		return bad("there is no program %.80q", q.Program)
	case q.Tasks < 1 || q.Tasks > maxTasks || q.MemoryMiB < 1 || q.Retries < 0 || q.Limit < 0:
		return bad("%d tasks of %d MiB, repeated %d times, for %v", q.Tasks, q.MemoryMiB, q.Retries, q.Limit)
	case len(q.Zones) > 0:
		return bad("machine.zones: a cluster has none; leave them out, and set COPPICE_SLURM_PARTITION")
	}
	for _, k := range slices.Sorted(maps.Keys(q.Env)) {
		if !variablePattern.MatchString(k) || strings.ContainsRune(q.Env[k], 0) {
			return bad("the variable %.80q must have letters, digits and '_', and hold no zero byte", k)
		}
	}
	for _, a := range q.Args {
		if strings.ContainsRune(a, 0) {
			return bad("the argument %.80q has a zero byte", a)
		}
	}
	return nil
}

// quote makes one word of a text, for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// script returns the shell script that a node runs for each task. It sets the job's variables, runs the program in the
// shared folder, and has Slurm run the task again after the exit codes in q.Repeat. All texts that come from a spec are
// quoted.
func (c *Jobs) script(q engine.Array) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n")
	for _, k := range slices.Sorted(maps.Keys(q.Env)) {
		fmt.Fprintf(&b, "export %s=%s\n", k, quote(q.Env[k]))
	}
	scratch := `"${TMPDIR:-/tmp}"`
	if c.opts.Scratch != "" {
		scratch = quote(c.opts.Scratch)
	}
	codes := make([]string, len(q.Repeat))
	for i, code := range q.Repeat {
		codes[i] = fmt.Sprint(code)
	}
	words := []string{quote(filepath.Join(c.opts.Folder, "bin", q.Program))}
	for _, a := range q.Args {
		words = append(words, quote(a))
	}
	fmt.Fprintf(&b, body, scratch, q.ID, strings.Join(words, " "), strings.Join(codes, " | "), q.Retries)
	return b.String()
}

// body is the part of the script that is the same for all jobs. Its verbs are the scratch folder, the job's name, the
// program's command line, the exit codes to repeat as a case pattern, and how often.
//
// When Slurm stops a task, it sends SIGTERM and kills what is left of the script 30 seconds later. If it takes a node
// away, it starts the task again by itself. So the script asks for another run only if the program has ended by itself.
//
// All tasks of a job on a node share the job's scratch folder. Each task holds a shared lock on a file beside the
// folder while it runs. Every task that begins or ends removes the folders whose lock files nobody has locked (tidy).
const body = `own=%s/coppice-$(id -u)
base=$own/$SLURMD_NODENAME
(umask 077; mkdir -p "$base") && [ -O "$own" ] ||
  { echo "the folder $own is not ours: set COPPICE_SLURM_SCRATCH" >&2; exit 6; }
tidy() {
  for lock in "$base"/*.lock; do
    flock -n "$lock" sh -c 'rm -rf "${1%%.lock}" "$1"' sh "$lock"
  done
}
export COPPICE_SCRATCH="$base/%s"
while exec 9>>"$COPPICE_SCRATCH.lock" && flock -s 9; do
  [ "$COPPICE_SCRATCH.lock" -ef /proc/self/fd/9 ] && break
done
tidy
mkdir -p "$COPPICE_SCRATCH"
export COPPICE_TASK_INDEX="$SLURM_ARRAY_TASK_ID" COPPICE_TASK_ATTEMPT="${SLURM_RESTART_COUNT:-0}"
export HOSTNAME="$SLURMD_NODENAME"
told=
trap 'told=1; kill -TERM "$task" 2>/dev/null' TERM
%s &
task=$!
[ -z "$told" ] || kill -TERM "$task" 2>/dev/null # told before it was known whom to tell
wait "$task"
code=$?
while kill -0 "$task" 2>/dev/null; do # a signal has ended the waiting, not the task
  wait "$task"
  code=$?
done
exec 9>&-
tidy
sleep 1 # Slurm tells the task and this script to go, in any order
trap - TERM
case $code in
%s)
  if [ -z "$told" ] && [ "$COPPICE_TASK_ATTEMPT" -lt %d ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" && sleep 60
  fi
  ;;
esac
exit "$code"
`
