package batch

import (
	"errors"
	"slices"
	"testing"
	"time"

	"coppice/internal/engine"
)

// TestAMachineThatGoesCostsAnAttempt: Batch repeats a task whose machine was taken away, not one that took too long.
func TestAMachineThatGoesCostsAnAttempt(t *testing.T) {
	j := (&Jobs{}).Describe(engine.Array{Repeat: []int32{75}, Env: map[string]string{}})
	for code, want := range map[int32]bool{exitPreempted: true, 75: true, 50005: false,
		1: false} {
		if got := slices.Contains(j.RetryExitCodes, code); got != want {
			t.Errorf("exit code %d is tried again: %t, want %t", code, got, want)
		}
	}
}

// TestWordsOfStates: what Batch says of a job, in the programs' words.
func TestWordsOfStates(t *testing.T) {
	for state, want := range map[State]engine.Phase{Queued: engine.Waiting, Scheduled: engine.Waiting,
		Running: engine.Running, Succeeded: engine.Done, Failed: engine.Failed, Deleting: engine.Stopping,
		Cancelling: engine.Stopping, Cancelled: engine.Cancelled} {
		s, err := toJobStatus(Status{State: state, Counts: map[string]int64{"PENDING": 3, "ASSIGNED": 1, "RUNNING": 2,
			"SUCCEEDED": 4, "FAILED": 5, "UNEXECUTED": 6}}, nil)
		if err != nil || s.State != want || s.State.Ended() != state.Finished() ||
			s.Tasks != (engine.Tasks{Waiting: 3, Running: 3, Done: 4, Failed: 11}) {
			t.Errorf("%s: told %+v, %v, want %s", state, s, err, want)
		}
	}
	if s, err := toJobStatus(Status{}, ErrNotExist); err != nil || s.State != engine.Gone || !s.State.Ended() {
		t.Errorf("a job that is not there: %+v, %v, want gone", s, err)
	}
	if _, err := toJobStatus(Status{}, errDenied); !errors.Is(err, errDenied) {
		t.Errorf("Batch cannot be asked: %v", err)
	}
}

// TestTasksWithoutMachines: of a job that was given up, those had none to the end that could not get one.
func TestTasksWithoutMachines(t *testing.T) {
	lacks := []Event{{Text: "CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED", Time: time.Unix(7, 0)}}
	for want, s := range map[engine.Tasks]Status{
		{Failed: 4}: {State: Cancelled, Counts: map[string]int64{"UNEXECUTED": 4}},
		{Waiting: 3, Done: 1}: {State: Cancelled, Counts: map[string]int64{"UNEXECUTED": 3, "SUCCEEDED": 1},
			Events: lacks},
	} {
		got, err := toJobStatus(s, nil)
		if err != nil || got.Tasks != want || len(s.Events) > 0 && got.Lacked != lacks[0].Time {
			t.Errorf("of the job %+v: told %+v, %v, want %+v", s, got, err, want)
		}
	}
}

var errDenied = errors.New("denied")
