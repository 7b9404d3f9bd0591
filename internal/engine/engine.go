// Package engine has the words in which the programs speak of what runs a sweep's tasks, Google Cloud Batch or Slurm.
// A job is an array of equal tasks on hosts of one kind. An engine starts it once, repeats tasks that ended with
// certain exit codes, and says how far it is:
//
//	Array -> Submit -> Waiting -> Running -> Done, Failed or Cancelled; Gone once the engine knows it no more
//
// docs/design.md says what every engine guarantees, and what each does in its own way.
package engine

import (
	"context"
	"time"
)

// Phase is how far a job is.
type Phase string

// The phases of a job.
const (
	Waiting   Phase = "waiting" // for hosts: none of its tasks runs
	Running   Phase = "running"
	Stopping  Phase = "stopping" // it is being cancelled
	Done      Phase = "done"
	Failed    Phase = "failed"
	Cancelled Phase = "cancelled"
	Gone      Phase = "gone" // the engine knows no such job, or has forgotten it
)

// Ended reports whether the job runs nothing more.
func (s Phase) Ended() bool { return s == Done || s == Failed || s == Cancelled || s == Gone }

// Past ends a sentence about a job that has ended.
func (s Phase) Past() string {
	switch s {
	case Failed:
		return "had failed"
	case Done:
		return "had ended"
	}
	return "was " + string(s)
}

// Tasks counts a job's tasks.
type Tasks struct {
	Waiting int `json:"waiting,omitempty"` // for a host, first or again; of an ended job, to its end
	Running int `json:"running,omitempty"`
	Done    int `json:"done,omitempty"`
	Failed  int `json:"failed,omitempty"` // or never started before the job's end
}

// JobStatus is what an engine says of a job.
type JobStatus struct {
	State   Phase  `json:"state"`
	Tasks   Tasks  `json:"tasks,omitzero"`
	Failure string `json:"failure,omitempty"` // why it failed

	Created time.Time `json:"-"` // zero if it is Gone
	Began   bool      `json:"-"` // at least one task has run
	From    time.Time `json:"-"` // start of the first task; zero if unknown
	To      time.Time `json:"-"` // end of the last task; zero before that, or if unknown
	Lacks   string    `json:"-"` // why hosts could not be had, in the engine's latest words
	Lacked  time.Time `json:"-"` // when it said so; zero: now
}

// Link is a page about a job.
type Link struct{ Name, URL string }

// Array describes a job. Equal jobs have equal descriptions.
type Array struct {
	ID     string            // 1 to 63 of a-z, 0-9 and '-'
	Plan   string            // what it is for, in hexadecimal: a job with the same ID and another Plan is a conflict
	Labels map[string]string // for people and bills, where the engine has them

	Program string            // Task or Launcher
	Args    []string          // of the program
	Env     map[string]string // of the program; the engine adds COPPICE_SCRATCH, and the variables of each task

	Tasks        int
	TasksPerHost int
	Machine      string // the hosts' type
	Spot         bool
	Zones        []string // where the engine has them
	LocalSSDs    int      // of a host, where it has disks to choose
	CPUMilli     int64    // of a task, in thousandths of a CPU
	MemoryMiB    int64    // of a task

	Retries int // of a task that ends with a code in Repeat, or loses its host
	Repeat  []int32
	Limit   time.Duration // of a task's attempt; 0 for the engine's own
	Talks   bool          // its tasks call each other
}

// The programs that jobs run.
const (
	Task     = "task"
	Launcher = "launcher"
)

// Engine runs jobs. Its methods may be called by several processes at once, and again after a crash.
type Engine interface {
	Submitter
	Watcher
}

// Submitter starts jobs.
type Submitter interface {
	// Name is the full name of the job with the id; it ends in the id.
	Name(id string) string
	// Request is what Submit would send, as JSON, for people; an error of kind Input if the engine cannot run the job.
	Request(Array) ([]byte, error)
	// Submit starts the job; existed says that it had been started before.
	Submit(context.Context, Array) (existed bool, err error)
}

// Watcher follows jobs by their names.
type Watcher interface {
	// Status returns the job's status; that of a missing job is Gone.
	Status(ctx context.Context, name string) (JobStatus, error)
	// Cancel stops the job and returns once it has stopped.
	Cancel(ctx context.Context, name string) (JobStatus, error)
	// Delete makes the engine forget a job that has ended, so that Submit starts it again.
	Delete(ctx context.Context, name string) error
}
