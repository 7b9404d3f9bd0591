package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"coppice/internal/cloud"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/task/internal/stage"
	"coppice/task/internal/worker"
)

// TestExitCodes pins how the task ends, which decides whether Batch starts it again.
func TestExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		worker.Transient(errors.New("x")):                            sweep.ExitTransient,
		worker.Transient(context.Canceled):                           sweep.ExitTransient,
		fmt.Errorf("%w: split valid has none", fit.ErrNoRows):        sweep.ExitInput,
		fmt.Errorf("%w: 1 folds", fit.ErrScheme):                     sweep.ExitInput,
		&gbt.MismatchError{}:                                         sweep.ExitConflict,
		stage.ErrVersion:                                             sweep.ExitError,
		worker.Transient(&cloud.SetupError{}):                        sweep.ExitTransient,
		&gbt.ParamError{}:                                            sweep.ExitInput,
		&dataset.CorruptError{}:                                      sweep.ExitInput,
		&cloud.SetupError{}:                                          sweep.ExitSetup,
		sweep.NotA("plan", fs.ErrNotExist):                           sweep.ExitInput,
		program.Usagef("--checkpoint x: %w", fs.ErrPermission):       sweep.ExitUsage,
		errors.Join(worker.Transient(errors.New("x")), fs.ErrClosed): sweep.ExitTransient,
	} {
		for how, err := range map[string]error{"itself": err, "wrapped": fmt.Errorf("a: %w", err)} {
			if code := program.ExitCode(t.Context(), err); code != want {
				t.Errorf("%T, %s: exit code %d, expected %d", err, how, code, want)
			}
		}
	}
}
