package slurm

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"coppice/internal/engine"
)

// format has a line for each task: array, index, state, when it was submitted, started and ended, the job's comment,
// and why it waits or ended. No field but the last can have a bar where the comment is ours.
const format = "%F|%K|%T|%V|%S|%e|%k|%r"

// layout is how Slurm writes a time.
const layout = "2006-01-02T15:04:05"

// maxTasks is more than any cluster's MaxArraySize.
const maxTasks = 4_000_000

// comment is a job's: how many tasks it has, and what it is for.
var comment = regexp.MustCompile(`^coppice ([1-9][0-9]{0,6}) ([0-9a-f]{1,64})$`)

// array is a job as squeue shows it. Slurm forgets tasks some minutes after their end, one by one.
type array struct {
	id    int
	plan  string
	tasks int // in all
	held  bool
	seen  []task // by index
}

type task struct {
	index                     int
	state                     string
	submitted, started, ended time.Time
	reason                    string
}

// parseQueue reads what squeue has printed in the form of format, and returns the arrays by their ids, which is the
// order in which Slurm took them. Lines of jobs that are not Coppice's, by their comment, are left out. A line of
// Coppice's that cannot be read is an error.
func parseQueue(out []byte) ([]*array, error) {
	byID := map[int]*array{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		// The fields: 0 array, 1 index, 2 state, 3 to 5 submitted, started and ended, 6 the job's comment, 7 reason.
		f := strings.SplitN(line, "|", 8)
		var ours []string // the comment's number of tasks and plan
		if len(f) == 8 {
			ours = comment.FindStringSubmatch(strings.TrimSpace(f[6]))
		}
		if ours == nil {
			continue
		}

		// Once err is set, the fields that follow are not read.
		id, err := strconv.Atoi(f[0])
		t := task{state: f[2], reason: f[7]}
		if err == nil {
			t.index, err = strconv.Atoi(f[1])
		}
		for i, to := range []*time.Time{&t.submitted, &t.started, &t.ended} {
			if text := f[3+i]; err == nil && text != "N/A" && text != "Unknown" {
				*to, err = time.Parse(layout, text)
			}
		}
		tasks, _ := strconv.Atoi(ours[1]) // at most seven digits
		if err != nil || id <= 0 || t.index < 0 || t.index >= tasks || tasks > maxTasks {
			return nil, fmt.Errorf("squeue printed a line that this build cannot read: %.200q", line)
		}
		a := byID[id]
		if a == nil {
			a = &array{id: id, plan: ours[2], tasks: tasks}
			byID[id] = a
		}
		a.held = a.held || t.state == "PENDING" && strings.HasPrefix(t.reason, "JobHeld")
		a.seen = append(a.seen, t)
	}

	var all []*array
	for _, a := range byID {
		slices.SortFunc(a.seen, func(a, b task) int { return cmp.Compare(a.index, b.index) })
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *array) int { return cmp.Compare(a.id, b.id) })
	return all, nil
}

// ends are the states of tasks that run no more. A state that is not known here counts as running: it ends no sweep.
var ends = map[string]engine.Phase{"COMPLETED": engine.Done, "CANCELLED": engine.Cancelled, "FAILED": engine.Failed,
	"TIMEOUT": engine.Failed, "NODE_FAIL": engine.Failed, "PREEMPTED": engine.Failed, "BOOT_FAIL": engine.Failed,
	"DEADLINE": engine.Failed, "OUT_OF_MEMORY": engine.Failed, "REVOKED": engine.Failed}

// waits are the states of tasks without a node.
var waits = []string{"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}

// reasons has, by Slurm's own word, what those reasons mean of which the word does not say it.
var reasons = map[string]string{
	"Resources":             "no node has room",
	"Priority":              "other jobs come first",
	"BeginTime":             "it was requeued; Slurm starts it again after two minutes",
	"JobHeldUser":           "it was submitted and not released: run the same command again",
	"JobHeldAdmin":          "an administrator holds it",
	"PartitionTimeLimit":    "limits.sweep is above the partition's time limit",
	"PartitionConfig":       "no node of the partition has what a task takes: take smaller vcpus and memory",
	"ReqNodeNotAvail":       "nodes are down, drained or reserved",
	"AssocMaxJobsLimit":     "the account runs as many jobs as it may",
	"QOSMaxCpuPerUserLimit": "you use as many CPUs as you may",
}

// status derives the array's status from the tasks that the queue still knows. Tasks that it has forgotten count as
// done: Slurm forgets a task some minutes after its end. The array runs if any task runs; else it waits if any task
// waits; else it is cancelled if any task was, failed if any has failed, and otherwise done. In the counts, cancelled
// tasks are among the failed ones.
func (a *array) status() engine.JobStatus {
	// Forgotten tasks have run and are done.
	s := engine.JobStatus{State: engine.Done, Began: len(a.seen) < a.tasks}
	s.Tasks.Done = max(a.tasks-len(a.seen), 0)
	cancelled := 0
	for _, t := range a.seen {
		if s.Created.IsZero() || t.submitted.Before(s.Created) {
			s.Created = t.submitted
		}
		end, ended := ends[t.state]
		switch {
		case slices.Contains(waits, t.state):
			s.Tasks.Waiting++
			if s.Lacks == "" {
				s.Lacks = explainReason(t.reason)
			}
			continue
		case !ended:
			s.Tasks.Running++
		case end == engine.Done:
			s.Tasks.Done++
		case end == engine.Cancelled:
			cancelled++
			if !t.started.Before(t.ended) { // it was cancelled before it ran, so its times say nothing
				continue
			}
		default:
			s.Tasks.Failed++
			if s.Failure == "" {
				s.Failure = fmt.Sprintf("task %d: %s (%s)", t.index, t.state, t.reason)
			}
		}

		// The task runs or has run.
		s.Began = true
		if s.From.IsZero() || t.started.Before(s.From) {
			s.From = t.started
		}
		if ended && t.ended.After(s.To) {
			s.To = t.ended
		}
	}

	switch {
	case s.Tasks.Running > 0:
		s.State = engine.Running
	case s.Tasks.Waiting > 0:
		s.State = engine.Waiting
	case cancelled > 0:
		s.State = engine.Cancelled
	case s.Tasks.Failed > 0:
		s.State = engine.Failed
	}
	s.Tasks.Failed += cancelled
	if !s.State.Ended() {
		s.To = time.Time{}
	}
	if s.State != engine.Failed { // one failed task is no failure of a job that goes on
		s.Failure = ""
	}
	return s
}

// explainReason returns Slurm's reason why a task waits, or, where its meaning is known, that with the reason behind it
// in parentheses. Names of nodes may follow behind a comma in the reason. "None" gives "".
func explainReason(reason string) string {
	if reason == "None" { // Slurm has not looked at it yet
		return ""
	}
	word, _, _ := strings.Cut(reason, ",")
	if text := reasons[strings.TrimSpace(word)]; text != "" {
		return fmt.Sprintf("%s (%s)", text, reason)
	}
	return reason
}
