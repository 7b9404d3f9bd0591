package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"coppice/internal/cloud"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/task/internal/stage"
)

// TestWhatIsWorthAnotherAttempt: Batch retries a task whose error is transient; any other fails the sweep's job at
// once.
func TestWhatIsWorthAnotherAttempt(t *testing.T) {
	for _, tc := range []struct {
		err       error
		permanent bool
	}{
		{errors.New("connection reset"), false},
		{context.Canceled, false},
		{fs.ErrPermission, false},
		{fs.ErrNotExist, true},
		{sweep.NotA("plan", errors.New("x")), true},
		{problem.New(problem.Damaged, "x"), true},
		{&dataset.CorruptError{}, true},
		{stage.ErrVersion, true},
		{problem.New(problem.Input, "x"), true},
		{problem.New(problem.Conflict, "x"), false},
		{&cloud.SetupError{}, true},
		{&cloud.PermissionError{}, true},
		{fmt.Errorf("%w: split valid", fit.ErrNoRows), true},
	} {
		err := retryable(fmt.Errorf("a: %w", tc.err))
		if transient := problem.Is(err, problem.Transient); transient == tc.permanent {
			t.Errorf("%T: transient %t, expected %t", tc.err, transient, !tc.permanent)
		}
	}
	if err := retryable(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// TestATaskToldToStopIsTriedAgain: once a task is told to stop, any error ends it with the code that Batch retries,
// whatever the error's cause is.
func TestATaskToldToStopIsTriedAgain(t *testing.T) {
	for _, cause := range []error{
		errors.New("connection reset"),
		fs.ErrNotExist,
		problem.New(problem.Damaged, "x"),
		&dataset.CorruptError{},
		stage.ErrVersion,
		problem.New(problem.Input, "x"),
		problem.New(problem.Conflict, "x"),
		&cloud.PermissionError{},
	} {
		err := Transient(fmt.Errorf("a: %w", cause))
		if code := program.ExitCode(t.Context(), err); code != sweep.ExitTransient {
			t.Errorf("a task told to stop that met %T ended with exit code %d, expected %d", cause, code,
				sweep.ExitTransient)
		}
	}
}
