// Package slurm runs jobs as arrays of a Slurm cluster, by calling Slurm's commands on a login node:
//
//	Submit   sbatch --hold with the script of script.go, squeue to see that no other is there, scontrol release
//	Status   squeue, read by queue.go
//	Cancel   scancel, squeue until it has ended
//
// A job is an array job of the same name. Its comment says how many tasks it has and for which plan it is, which also
// tells it from jobs of the same name that are not Coppice's. Once an array has ended, another may have its name:
// minutes later Slurm forgets it anyway. Nothing is needed that only an administrator can set up, such as accounting.
package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"coppice/internal/cloud"
	"coppice/internal/engine"
	"coppice/internal/problem"
)

// Options say where jobs run.
type Options struct {
	Folder    string // which login node and nodes see: bin/task, bin/launcher and logs; only Submit needs it
	Partition string // "" for the cluster's default
	Scratch   string // a folder on each node; "" for its TMPDIR
}

// Limits of a command.
const (
	commandLimit = time.Minute
	maxOutput    = 64 << 20 // a line of squeue for each of 100,000 tasks has less
	maxMessage   = 500      // of what a command says of its failure
)

// How long to wait for a cancelled job, beyond the 30 seconds that Slurm gives its tasks by default, and for a
// controller that does not answer.
const (
	cancelFor = 5 * time.Minute
	retryFor  = 2 * time.Minute
)

// Jobs runs jobs. It is safe for concurrent use.
type Jobs struct {
	opts  Options
	run   func(ctx context.Context, input []byte, command ...string) ([]byte, error)
	pause time.Duration // between two questions
}

// New returns the cluster of this machine.
func New(o Options) *Jobs { return &Jobs{o, runCommand, 2 * time.Second} }

const prefix = "slurm/"

var own = "--user=" + strconv.Itoa(os.Getuid()) // whose arrays

// Name implements engine.Engine.
func (*Jobs) Name(id string) string { return prefix + id }

// refused is what sbatch says of a job that it will never take; one that only has to wait is none.
var refused = regexp.MustCompile(`(?i)invalid|node configuration is not available|not permitted|denied`)

// Request returns the command and the script with which the job would be submitted, as JSON. It also asks Slurm whether
// it would take the job (sbatch --test-only): one that it will never take is an error of the kind problem.Input, so
// that no plan is written for it.
func (c *Jobs) Request(q engine.Array) ([]byte, error) {
	command, script, err := c.command(q)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.opts.Folder); err != nil {
		return nil, problem.Wrap(problem.Environment, err, "COPPICE_SLURM_FOLDER")
	}
	_, err = c.run(context.Background(), []byte(script), append(slices.Clone(command), "--test-only")...)
	switch {
	case problem.Is(err, problem.Environment):
		return nil, err
	case err != nil && refused.MatchString(err.Error()):
		return nil, problem.Wrap(problem.Input, err, "Slurm refuses the job")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(map[string]any{"command": command, "script": strings.Split(strings.TrimSpace(script), "\n")})
	return out.Bytes(), err
}

// Submit starts the job, unless one of its name exists that has not ended; existed says whether that is so.
//
// Several launchers may submit the same job at once, or die half way, and two arrays must never run. So an array is
// submitted on hold. Then every launcher looks at all arrays of the name, cancels all but the one that Slurm took
// first, and releases that.
func (c *Jobs) Submit(ctx context.Context, q engine.Array) (existed bool, err error) {
	command, script, err := c.command(q)
	if err != nil {
		return false, err
	}

	// Submit an array if there is none.
	live, err := c.live(ctx, q.ID, own)
	if err != nil {
		return false, err
	}
	mine := 0 // the id of the array submitted here
	if len(live) == 0 {
		if err := os.Mkdir(c.logs(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return false, problem.Wrap(problem.Environment, err, "the folder for the tasks' logs")
		}
		out, err := c.run(ctx, []byte(script), command...)
		if err != nil {
			return false, err
		}
		if mine, err = arrayID(out); err != nil {
			return false, err
		}
		if live, err = c.live(ctx, q.ID, own); err != nil {
			return false, err
		}
		if len(live) == 0 {
			return false, fmt.Errorf("slurm job %d of %s was cancelled as soon as it was there; submit it again",
				mine, q.ID)
		}
	}

	// Cancel all arrays of the name but the first.
	first := live[0]
	for _, a := range live[1:] {
		if _, err := c.run(ctx, nil, "scancel", strconv.Itoa(a.id)); err != nil {
			return false, err
		}
	}
	if first.plan != q.Plan {
		return false, problem.New(problem.Conflict, "slurm job %d of the name %s was made for another plan (%.12s, "+
			"not %.12s); use another sweep id, or wait until it has ended", first.id, q.ID, first.plan, q.Plan)
	}

	// Release it.
	if first.held {
		if _, err := c.run(ctx, nil, "scontrol", "release", strconv.Itoa(first.id)); err != nil {
			// No error if another launcher has released it meanwhile, and maybe its tasks have ended since.
			if live, lookErr := c.live(ctx, q.ID, own); lookErr != nil || len(live) > 0 && live[0].held {
				return false, errors.Join(err, lookErr)
			}
		}
	}
	return first.id != mine, nil
}

// arrayID reads the id of the array that sbatch has printed, behind which a cluster's name may follow.
func arrayID(out []byte) (int, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";")
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id <= 0 {
		return 0, fmt.Errorf("sbatch printed %.80q instead of a job's number", out)
	}
	return int(id), nil
}

// live returns the arrays with this job id that have not ended, in the order in which Slurm took them; see arrays for
// whose.
func (c *Jobs) live(ctx context.Context, id string, whose ...string) ([]*array, error) {
	all, err := c.arrays(ctx, id, whose...)
	return slices.DeleteFunc(all, func(a *array) bool { return a.status().State.Ended() }), err
}

// Status implements engine.Watcher. It is the status of this user's array that has not ended, or else of the latest
// one. If this user has none, an array of another user counts as long as it has not ended: those who share a bucket
// must not conclude each other's sweeps while they run.
func (c *Jobs) Status(ctx context.Context, name string) (engine.JobStatus, error) {
	id := strings.TrimPrefix(name, prefix)
	all, err := c.arrays(ctx, id, own)
	if err == nil && len(all) == 0 {
		all, err = c.live(ctx, id)
	}
	if err != nil || len(all) == 0 {
		return engine.JobStatus{State: engine.Gone}, err
	}
	for _, a := range all {
		if s := a.status(); !s.State.Ended() {
			return s, nil
		}
	}
	return all[len(all)-1].status(), nil
}

// Cancel implements engine.Watcher. It cancels this user's arrays of the name and returns when they have ended, or with
// an error after cancelFor.
func (c *Jobs) Cancel(ctx context.Context, name string) (engine.JobStatus, error) {
	live, err := c.live(ctx, strings.TrimPrefix(name, prefix), own)
	if err != nil {
		return engine.JobStatus{}, err
	}
	for _, a := range live {
		if _, err := c.run(ctx, nil, "scancel", strconv.Itoa(a.id)); err != nil {
			return engine.JobStatus{}, err
		}
	}
	var last engine.JobStatus
	_, err = backoff.Retry(ctx, func() (bool, error) {
		if last, err = c.Status(ctx, name); err != nil {
			return false, backoff.Permanent(err)
		}
		if !last.State.Ended() {
			return false, fmt.Errorf("%s after %v: it was cancelled, and is %s", name, cancelFor, last.State)
		}
		return true, nil
	}, backoff.WithBackOff(backoff.NewConstantBackOff(c.pause)), backoff.WithMaxElapsedTime(cancelFor))
	return last, err
}

// Delete implements engine.Watcher. There is nothing to do: an array that has ended does not keep another from being
// submitted.
func (*Jobs) Delete(context.Context, string) error { return nil }

// arrays asks squeue for the arrays with this job id, in the order in which Slurm took them: those of all users, or
// only this user's if whose is own. It asks again, for retryFor, while Slurm's controller does not answer.
func (c *Jobs) arrays(ctx context.Context, id string, whose ...string) ([]*array, error) {
	if !namePattern.MatchString(id) {
		return nil, problem.New(problem.Input, "%.80q cannot be the name of a job", id)
	}
	out, err := backoff.Retry(ctx, func() ([]byte, error) {
		out, err := c.run(ctx, nil, append([]string{"squeue", "--noheader", "--array", "--states=all", "--name=" + id,
			"--format=" + format}, whose...)...)
		if err != nil && !problem.Is(err, problem.Transient) {
			return nil, backoff.Permanent(err)
		}
		return out, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(c.pause)), backoff.WithMaxElapsedTime(retryFor))
	if err != nil {
		return nil, err
	}
	return parseQueue(out)
}

// passed matches the environment variables that the commands get, and through sbatch --export=ALL the tasks. All others
// that the user has set are not passed on, because some are secrets. Variables that begin with SBATCH_ are options of
// sbatch, for instance the account that pays.
var passed = regexp.MustCompile(`^(HOME|PATH|USER|LOGNAME|SHELL|LANG|LD_LIBRARY_PATH|SLURM_CONF|SBATCH_[A-Z_]+|` +
	`(STORAGE|PUBSUB)_EMULATOR_HOST|GOOGLE_APPLICATION_CREDENTIALS)=`)

// unreachable is what commands say when their controller does not answer.
var unreachable = regexp.MustCompile(`(?i)unable to contact slurm controller|timed out|connection refused|` +
	`temporarily unable|resource temporarily unavailable`)

// runCommand runs one of Slurm's commands with input as its standard input, and returns what it prints. A command that
// gives no answer in time, or whose controller does not answer, is problem.Transient; one that is not installed is a
// *cloud.SetupError.
func runCommand(ctx context.Context, input []byte, command ...string) ([]byte, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, &cloud.SetupError{What: command[0] + " is not in PATH",
			Hint: "run this on a login node of the cluster, or leave COPPICE_ENGINE out"}
	}
	limited, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(limited, path, command[1:]...)
	cmd.WaitDelay = time.Second                                // for what the command has started and left
	cmd.Env = []string{"TZ=UTC", "SLURM_TIME_FORMAT=standard"} // as parseQueue reads times
	for _, v := range os.Environ() {
		if passed.MatchString(v) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	var out, message limit
	out.most, message.most = maxOutput, maxMessage
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &message
	err = cmd.Run()
	said := strings.Join(strings.Fields(message.kept.String()), " ")
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, problem.New(problem.Transient, "%s gave no answer in %v", command[0], commandLimit)
	case err != nil && unreachable.MatchString(said):
		return nil, problem.New(problem.Transient, "%s: %s", command[0], said)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", command[0], err, said)
	case out.kept.Len() == maxOutput:
		return nil, fmt.Errorf("%s printed %d bytes or more", command[0], maxOutput)
	}
	return out.kept.Bytes(), nil
}

// limit is a writer that keeps the first bytes written to it, at most so many, and drops the rest. The buffer is
// not embedded: os/exec would then find its method ReadFrom and use that, past Write.
type limit struct {
	kept bytes.Buffer
	most int
}

func (l *limit) Write(p []byte) (int, error) {
	l.kept.Write(p[:min(len(p), l.most-l.kept.Len())])
	return len(p), nil
}

func (c *Jobs) logs() string { return filepath.Join(c.opts.Folder, "logs") }
