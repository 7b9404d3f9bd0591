package batchemu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/encoding/protojson"

	"coppice/internal/atomicfile"
	"coppice/localemu/internal/proc"
)

// With Options.Keep jobs outlive the server: each is a file that is written whenever the job changes. Resume reads
// them. To a task, a restart of the server is the loss of its machine.

// keptJob is a job's file.
type keptJob struct {
	Format   int               `json:"format"`
	ID       string            `json:"id"`
	Request  string            `json:"request,omitempty"` // key of Server.creations
	Job      json.RawMessage   `json:"job"`               // as GetJob returns it
	Tasks    []json.RawMessage `json:"tasks"`             // as GetTask returns them
	Attempts []int             `json:"attempts"`          // of each task, the next or the running one
	Began    time.Time         `json:"began"`
	Finished time.Time         `json:"finished"`
}

const keptFormat = 1

func (s *Server) keptFolder() string        { return filepath.Join(s.opts.Dir, "jobs") }
func (s *Server) keptFile(id string) string { return filepath.Join(s.keptFolder(), id+".json") }

// keep writes the job's file. The lock is held.
func (j *job) keep() {
	s := j.srv
	if !s.opts.Keep || s.closed { // what closing does to jobs is not kept
		return
	}
	if err := j.write(); err != nil {
		s.opts.Log.Error("keep a job", "job", j.id, "error", err)
	}
}

func (j *job) write() error {
	k := keptJob{Format: keptFormat, ID: j.id, Request: j.request, Began: j.began, Finished: j.finished}
	var err error
	if k.Job, err = protojson.Marshal(j.view()); err != nil {
		return err
	}
	for _, t := range j.tasks {
		text, err := protojson.Marshal(j.taskView(t))
		if err != nil {
			return err
		}
		k.Tasks, k.Attempts = append(k.Tasks, text), append(k.Attempts, t.attempt)
	}

	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(j.srv.keptFolder(), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(j.srv.keptFile(j.id), text, 0o644)
}

// Resume takes up the jobs of an earlier server on the same folder, if Options.Keep says so: those that had ended are
// there to be seen, and the others go on. It returns how many of either.
func (s *Server) Resume() (ended, resumed int, err error) {
	if !s.opts.Keep {
		return 0, 0, nil
	}
	files, err := filepath.Glob(filepath.Join(s.keptFolder(), "*.json"))
	if err != nil {
		return 0, 0, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeUp(files)
}

// takeUp makes the jobs of these files the server's. The lock is held.
func (s *Server) takeUp(files []string) (ended, resumed int, err error) {
	for _, file := range files {
		j, err := s.restore(file)
		if err != nil {
			return ended, resumed, fmt.Errorf("resume the job in %s: %w; remove the file to forget the job", file, err)
		}
		s.jobs[j.spec.Name] = j
		if j.request != "" {
			s.creations[j.request] = j
		}

		if terminal(j.state) {
			close(j.done)
			ended++
			continue
		}
		j.resume()
		resumed++
		go j.run()
	}
	return ended, resumed, nil
}

// Restart does to jobs, tasks and clients what ending and starting again does: all machines are lost, calls meanwhile
// are UNAVAILABLE, operations are forgotten, and the jobs are taken up from their files. It needs Options.Keep.
func (s *Server) Restart() error {
	s.ending.Lock()
	defer s.ending.Unlock()
	jobs, open := s.halt(true)
	if !open {
		return nil
	}
	machines, err := emptyFolder(s.machines)
	if err != nil {
		return fmt.Errorf("empty the folder of the pretend machines: %w", err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines, s.procs, s.closing = machines, proc.NewSet(), make(chan struct{})
	s.closed, s.away = false, false
	s.jobs, s.creations, s.ops = map[string]*job{}, map[string]*job{}, map[string]*operation{}
	s.opts.Struck("Batch restarted")

	files := make([]string, len(jobs))
	for i, j := range jobs {
		files[i] = s.keptFile(j.id)
	}
	_, _, err = s.takeUp(files)
	return err
}

// restore reads a job's file.
func (s *Server) restore(file string) (*job, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var k keptJob
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	view := &batchpb.Job{}
	if err := protojson.Unmarshal(k.Job, view); err != nil {
		return nil, err
	}
	parent, _, found := strings.Cut(view.GetName(), "/jobs/")
	if k.Format != keptFormat || !found || !jobIDPattern.MatchString(k.ID) {
		return nil, fmt.Errorf("format %d and name %.100q: expected format %d and a job's name", k.Format,
			view.GetName(), keptFormat)
	}
	plan, err := s.interpret(parent, view)
	if err != nil {
		return nil, err
	}
	if len(k.Tasks) != plan.tasks || len(k.Attempts) != plan.tasks {
		return nil, fmt.Errorf("%d tasks and %d attempts: expected %d", len(k.Tasks), len(k.Attempts), plan.tasks)
	}

	status, updated := view.Status, view.UpdateTime
	view.Status, view.UpdateTime = nil, view.CreateTime // as it was created
	j := newJob(s, k.ID, view, plan)
	j.request, j.began, j.finished = k.Request, k.Began, k.Finished
	j.state, j.events, j.updated = status.GetState(), status.GetStatusEvents(), updated.AsTime()
	for i, t := range j.tasks {
		seen := &batchpb.Task{}
		if err := protojson.Unmarshal(k.Tasks[i], seen); err != nil {
			return nil, fmt.Errorf("task %d: %w", i, err)
		}
		t.state, t.events, t.attempt = seen.GetStatus().GetState(), seen.GetStatus().GetStatusEvents(), k.Attempts[i]
	}
	return j, nil
}

// resume prepares an unfinished job to run again: tasks that ran have lost their machines. The lock is held.
func (j *job) resume() {
	if j.state == batchpb.JobStatus_CANCELLATION_IN_PROGRESS {
		j.askToStop()
	}

	lost := reserved[causeLost]
	for _, t := range j.tasks {
		switch t.state {
		case batchpb.TaskStatus_ASSIGNED: // it had not begun
			t.state = batchpb.TaskStatus_PENDING
		case batchpb.TaskStatus_RUNNING:
			text := t.set(j, batchpb.TaskStatus_FAILED, "a machine of an earlier localemu", lost.why,
				&batchpb.TaskExecution{ExitCode: lost.code})
			j.retry(t, lost.code, text)
		case batchpb.TaskStatus_FAILED: // its end was written, but not yet what follows
			if n := len(t.events); n > 0 {
				j.retry(t, t.events[n-1].GetTaskExecution().GetExitCode(), t.events[n-1].GetDescription())
			}
		}
	}
}
