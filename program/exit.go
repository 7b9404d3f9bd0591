package program

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"coppice/sweep"
)

// An error knows its class: it has one of these methods, whichever package it is of, and says so by returning true. An engine
// knows nothing of programs and says what is at fault; an error of the programs themselves may say its exit code.
type (
	exitStatus    interface{ ExitStatus() int }
	setupError    interface{ IsSetup() bool }    // the environment: a variable, credentials, a permission, an emulator
	inputError    interface{ IsInput() bool }    // what was handed in: a spec, a table, a dataset, an object
	conflictError interface{ IsConflict() bool } // what is there already, or somebody else
	notFoundError interface{ IsNotFound() bool } // what is not there; fs.ErrNotExist is another way to say it
)

// ExitCode is the exit code of a command that ended with err, which is not nil. Of several classes, in what err wraps or joins,
// the first of these counts: a manifest that cannot be read as such is unusable input, whatever is missing inside it.
func ExitCode(ctx context.Context, err error) int {
	if own, ok := as[exitStatus](err); ok {
		return own.ExitStatus()
	}

	switch {
	case has(err, setupError.IsSetup):
		return sweep.ExitSetup
	case isUsage(err):
		return sweep.ExitUsage
	case has(err, inputError.IsInput):
		return sweep.ExitInput
	case has(err, conflictError.IsConflict):
		return sweep.ExitConflict
	case has(err, notFoundError.IsNotFound), errors.Is(err, fs.ErrNotExist):
		return sweep.ExitNotFound
	case ctx.Err() != nil:
		return sweep.ExitInterrupt
	}
	return sweep.ExitError
}

func as[E any](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// has says whether err is of a class.
func has[E any](err error, class func(E) bool) bool {
	e, ok := as[E](err)
	return ok && class(e)
}

// isUsage knows cobra's errors by their texts; the library has no types for them.
func isUsage(err error) bool {
	for _, begin := range []string{"unknown command", "accepts ", "required flag", "requires at least", "unknown flag"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return errors.As(err, new(*UsageError))
}
