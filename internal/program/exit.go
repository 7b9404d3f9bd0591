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

// An error states its class by having one of these methods, in any package, and returning true from it. Libraries say
// what is at fault; errors of the programs themselves may give an exit code directly.
type (
	exitStatus    interface{ ExitStatus() int }
	setupError    interface{ IsSetup() bool }    // the environment: a variable, credentials, a permission, an emulator
	inputError    interface{ IsInput() bool }    // what was passed in: a spec, a table, a dataset, an object
	conflictError interface{ IsConflict() bool } // something that exists already, or another party
	notFoundError interface{ IsNotFound() bool } // something missing; fs.ErrNotExist is equivalent
)

// ExitCode returns the exit code of a command that ended with err, which must not be nil. An error's own exit code
// comes first, and then its class. If err wraps or joins errors of several classes, the first case below counts: a
// damaged manifest is unusable input, for instance, even if the cause is that a file is missing.
func ExitCode(ctx context.Context, err error) int {
	if own, ok := as[exitStatus](err); ok {
		return own.ExitStatus()
	}

	kind := problem.Of(err)
	switch {
	case kind == problem.Environment, has(err, setupError.IsSetup):
		return sweep.ExitSetup
	case kind == problem.Usage, isUsage(err):
		return sweep.ExitUsage
	case kind == problem.Input, kind == problem.Damaged, has(err, inputError.IsInput):
		return sweep.ExitInput
	case kind == problem.Conflict, has(err, conflictError.IsConflict):
		return sweep.ExitConflict
	case kind == problem.NotFound, has(err, notFoundError.IsNotFound):
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

// as returns the first error of type E that err wraps or joins.
func as[E any](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// has reports whether err has a class.
func has[E any](err error, class func(E) bool) bool {
	e, ok := as[E](err)
	return ok && class(e)
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
