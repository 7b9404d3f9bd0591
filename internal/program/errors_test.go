package program_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
)

// TestKindsHaveExitCodes pins exit codes, which are an interface: of each kind of error by itself, wrapped, and joined
// to an error without a kind. What kind an error has is for the tests of the package that makes it.
func TestKindsHaveExitCodes(t *testing.T) {
	cause := errors.New("the cause")
	for kind, want := range map[problem.Kind]int{
		problem.Other:       sweep.ExitError,
		problem.Environment: sweep.ExitSetup,
		problem.Usage:       sweep.ExitUsage,
		problem.Damaged:     sweep.ExitInput,
		problem.Input:       sweep.ExitInput,
		problem.Conflict:    sweep.ExitConflict,
		problem.NotFound:    sweep.ExitNotFound,
		problem.Transient:   sweep.ExitTransient,
	} {
		made := problem.New(kind, "made")
		for how, err := range map[string]error{
			"itself":  made,
			"wrapped": fmt.Errorf("a: %w", made),
			"joined":  errors.Join(cause, made),
		} {
			if code := program.ExitCode(context.Background(), err); code != want {
				t.Errorf("an error of kind %v, %s: exit code %d, expected %d", kind, how, code, want)
			}
		}
	}

	input := problem.New(problem.Input, "a spec")
	for err, want := range map[error]int{
		cause:          sweep.ExitError,
		fs.ErrNotExist: sweep.ExitNotFound,
		problem.Wrap(problem.Environment, fs.ErrNotExist, "x"):              sweep.ExitSetup,
		problem.Wrap(problem.Damaged, fs.ErrNotExist, "x"):                  sweep.ExitInput,
		errors.Join(problem.New(problem.NotFound, "x"), input):              sweep.ExitInput,
		errors.Join(input, program.Usagef("--n"), errors.New("and others")): sweep.ExitUsage,
	} {
		if code := program.ExitCode(context.Background(), err); code != want {
			t.Errorf("%v: exit code %d, expected %d", err, code, want)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for err, want := range map[error]int{cause: sweep.ExitInterrupt, input: sweep.ExitInput} {
		if code := program.ExitCode(ctx, err); code != want {
			t.Errorf("%v, interrupted: exit code %d, expected %d", err, code, want)
		}
	}
}
