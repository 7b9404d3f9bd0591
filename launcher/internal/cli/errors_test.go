package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/slot"
	"coppice/launcher/internal/sweepview"
)

// TestExitCodes pins the launcher's exit codes.
func TestExitCodes(t *testing.T) {
	some := &sweep.Plan{}
	for err, want := range map[error]int{
		&NoWinnerError{Conclusion: &sweep.Conclusion{}}:    sweep.ExitNoWinner,
		&NotPromotedError{Conclusion: &sweep.Conclusion{}}: sweep.ExitNotPromoted,
		&sharedSlotError{"night", some, some}:              sweep.ExitInput,
		&conflictError{errors.New("x")}:                    sweep.ExitConflict,
		&conflictError{fs.ErrNotExist}:                     sweep.ExitConflict,
		&transientError{errors.New("x")}:                   sweep.ExitTransient,
		&cloudjob.FailedError{}:                            sweep.ExitError,
		&cloudjob.FailedError{Code: sweep.ExitInput}:       sweep.ExitInput,
		&cloudjob.FailedError{Code: sweep.ExitInterrupt}:   sweep.ExitInterrupt,
		// the command turns it into a usage error
		&predict.Error{}:                                  sweep.ExitError,
		&slot.Error{Err: errors.New("x")}:                 sweep.ExitError, // and this as well
		&sweepview.NotFoundError{}:                        sweep.ExitNotFound,
		&MissingJobError{}:                                sweep.ExitError,
		&UnwellError{}:                                    sweep.ExitSetup,
		&registry.ConflictError{}:                         sweep.ExitConflict,
		&search.SpecError{Err: &search.ExpressionError{}}: sweep.ExitInput,
		program.Usagef("x"):                               sweep.ExitUsage,
		errors.Join(&conflictError{fs.ErrExist}, fs.ErrPermission): sweep.ExitConflict,
	} {
		for how, err := range map[string]error{"itself": err, "wrapped": fmt.Errorf("a: %w", err)} {
			if code := program.ExitCode(t.Context(), err); code != want {
				t.Errorf("%T, %s: exit code %d, expected %d", err, how, code, want)
			}
		}
	}
}
