package program

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// exitStatus is an error that gives its exit code directly. All others state what is at fault by their kind (package
// problem).
type exitStatus interface{ ExitStatus() int }

// ExitCode returns the exit code of a command that ended with err, which must not be nil. An error's own exit code
// comes first, and then its kind: of several that err wraps or joins, the one that problem.Of names. cobra's errors
// about the command line have no kind and are usage errors. Of all others, a file system that allows no writing is at
// fault with the environment, and the rest is an interruption if ctx has ended, and else unexpected.
func ExitCode(ctx context.Context, err error) int {
	var own exitStatus
	if errors.As(err, &own) {
		return own.ExitStatus()
	}

	switch kind := problem.Of(err); {
	case kind == problem.Environment:
		return sweep.ExitSetup
	case kind == problem.Usage, isUsage(err):
		return sweep.ExitUsage
	case kind == problem.Input, kind == problem.Damaged:
		return sweep.ExitInput
	case kind == problem.Conflict:
		return sweep.ExitConflict
	case kind == problem.NotFound:
		return sweep.ExitNotFound
	case kind == problem.Transient:
		return sweep.ExitTransient
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOSPC),
		errors.Is(err, syscall.EDQUOT):
		return sweep.ExitSetup
	case ctx.Err() != nil:
		return sweep.ExitInterrupt
	}
	return sweep.ExitError
}

// isUsage recognises cobra's errors by their texts, because cobra has no types for them.
func isUsage(err error) bool {
	for _, begin := range []string{"unknown command", "accepts ", "requires at least", "unknown flag"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return false
}
