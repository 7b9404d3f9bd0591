// Package problem is how errors say what kind they are. There are a few kinds, because there are a few things that a
// caller does about an error: mend the input, look for another name, decide again, restore an object, set up the
// environment, or try once more. Everything else about an error is text: where it is, what is wrong, what to do.
//
// An error of a type of its own exists only where a caller reads its fields; it then has a method Kind. All others are
// made here:
//
//	return problem.New(problem.NotFound, "registry: there is no model %.80q%s", name, hint)
//	return problem.Wrap(problem.Damaged, err, "registry: %s is damaged", object)
package problem

import (
	"errors"
	"fmt"
	"io/fs"
)

// Kind is what a caller can do about an error.
type Kind int

// The kinds, in the order in which they count if an error wraps or joins several: a damaged manifest is unusable input,
// whatever may be missing inside it.
const (
	Other       Kind = iota // unexpected: nothing that anyone could act on
	Environment             // a variable, credentials, a permission or an emulator is missing
	Usage                   // a wrong flag or argument
	Damaged                 // contents that are not those that were written: restore them
	Input                   // what was passed in cannot be used, however often it is tried: mend it
	Conflict                // it exists with other contents, or another party was first: look and decide again
	NotFound                // there is no such thing
	Transient               // the same call may succeed later
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"other", "environment", "usage", "damaged", "input", "conflict", "not found", "transient"}[k]
}

// Error is a message with a kind, and the cause if there is one.
type Error struct {
	kind Kind
	msg  string
	err  error // may be nil
}

// New returns an error of a kind. The message says where, what is wrong, and what to do.
func New(kind Kind, format string, args ...any) error {
	return &Error{kind: kind, msg: fmt.Sprintf(format, args...)}
}

// Wrap returns an error of a kind whose text is the message, a colon and the cause, as fmt.Errorf("...: %w", err)
// would.
func Wrap(kind Kind, err error, format string, args ...any) error {
	return &Error{kind: kind, msg: fmt.Sprintf(format, args...), err: err}
}

// As gives err a kind, and leaves its text as it is.
func As(kind Kind, err error) error { return &Error{kind: kind, err: err} }

// Error returns the message, and the cause behind it.
func (e *Error) Error() string {
	switch {
	case e.err == nil:
		return e.msg
	case e.msg == "":
		return e.err.Error()
	}
	return e.msg + ": " + e.err.Error()
}

// Unwrap returns the cause; nil if there is none.
func (e *Error) Unwrap() error { return e.err }

// Kind returns the kind.
func (e *Error) Kind() Kind { return e.kind }

// Of returns the kind of err. If it wraps or joins several errors that have kinds, the first in the order of the
// constants counts. An fs.ErrNotExist counts as NotFound. Without any, and for nil, it is Other.
func Of(err error) Kind {
	kind := Other
	each(err, func(e error) {
		k := Other
		if own, ok := e.(interface{ Kind() Kind }); ok {
			k = own.Kind()
		}
		if k != Other && (kind == Other || k < kind) {
			kind = k
		}
	})
	if (kind == Other || kind > NotFound) && errors.Is(err, fs.ErrNotExist) {
		return NotFound
	}
	return kind
}

// Is reports whether err, or any error that it wraps or joins, is of the kind.
func Is(err error, kind Kind) bool {
	found := false
	each(err, func(e error) {
		own, ok := e.(interface{ Kind() Kind })
		found = found || ok && own.Kind() == kind
	})
	return found || kind == NotFound && errors.Is(err, fs.ErrNotExist)
}

// each visits err and all errors below it.
func each(err error, visit func(error)) {
	if err == nil {
		return
	}
	visit(err)
	switch e := err.(type) { //nolint:errorlint // as errors.Is does it
	case interface{ Unwrap() error }:
		each(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, below := range e.Unwrap() {
			each(below, visit)
		}
	}
}
