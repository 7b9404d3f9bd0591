package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/sweepview"
)

// TestExitCodes pins the exit codes of errors that are not simply of a kind.
func TestExitCodes(t *testing.T) {
	conflict := problem.New(problem.Conflict, "x")
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"no winner":              {sweepview.NoWinner(&sweep.Conclusion{}, ""), sweep.ExitNoWinner},
		"not promoted":           {sweepview.NotPromoted(&sweep.Conclusion{}), sweep.ExitNotPromoted},
		"a job failed":           {&cloudjob.FailedError{}, sweep.ExitError},
		"a job's input":          {&cloudjob.FailedError{Code: sweep.ExitInput}, sweep.ExitInput},
		"a job was interrupted":  {&cloudjob.FailedError{Code: sweep.ExitInterrupt}, sweep.ExitInterrupt},
		"a task's failure":       {markTransient(errors.New("x"), sweep.ExitError), sweep.ExitTransient},
		"a task was interrupted": {markTransient(context.Canceled, sweep.ExitInterrupt), sweep.ExitTransient},
		"a task's input":         {markTransient(program.Usagef("x"), sweep.ExitUsage), sweep.ExitUsage},
		"joined":                 {errors.Join(conflict, fs.ErrPermission), sweep.ExitConflict},
	} {
		for how, err := range map[string]error{"itself": tc.err, "wrapped": fmt.Errorf("a: %w", tc.err)} {
			if code := program.ExitCode(t.Context(), err); code != tc.want {
				t.Errorf("%s, %s: exit code %d, expected %d", name, how, code, tc.want)
			}
		}
	}
}
