package problem_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"coppice/internal/problem"
)

type own struct{}

func (own) Error() string      { return "own" }
func (own) Kind() problem.Kind { return problem.Conflict }

// TestOf: an error's kind is the first, in the order of the constants, of all that it wraps or joins. That of a missing
// file is NotFound, and Other that of an error without any.
func TestOf(t *testing.T) {
	cause := errors.New("the cause")
	input := problem.New(problem.Input, "spec.yaml:3: no such key %q", "trails")
	_, absent := os.Open("testdata/none")
	for _, tc := range []struct {
		err  error
		want problem.Kind
	}{
		{nil, problem.Other},
		{cause, problem.Other},
		{input, problem.Input},
		{fmt.Errorf("a: %w", input), problem.Input},
		{errors.Join(cause, input), problem.Input},
		{own{}, problem.Conflict},
		{absent, problem.NotFound},
		{fs.ErrNotExist, problem.NotFound},
		// own is of the kind Conflict, by its method. In the order of the constants Input is before it, and NotFound
		// after.
		{errors.Join(problem.New(problem.NotFound, "x"), own{}), problem.Conflict},
		{errors.Join(own{}, input), problem.Input},
		{problem.Wrap(problem.Damaged, absent, "manifest.json"), problem.Damaged},
		{problem.Wrap(problem.Input, problem.New(problem.Environment, "no credentials"), "read"), problem.Environment},
		{problem.As(problem.Transient, cause), problem.Transient},
	} {
		if got := problem.Of(tc.err); got != tc.want {
			t.Errorf("Of(%v) = %v, expected %v", tc.err, got, tc.want)
		}
	}
}

// TestTextAndCause: giving a kind keeps the cause, and As its text, too.
func TestTextAndCause(t *testing.T) {
	cause := errors.New("the cause")
	wrapped := problem.Wrap(problem.Damaged, cause, "object %s", "a/b")
	if got := wrapped.Error(); got != "object a/b: the cause" {
		t.Errorf("Wrap has the text %q, want object a/b: the cause", got)
	}
	if !errors.Is(wrapped, cause) || !problem.Is(fmt.Errorf("x: %w", wrapped), problem.Damaged) {
		t.Errorf("Wrap: got %#v, want one that wraps the cause and is of the kind damaged", wrapped)
	}
	if got := problem.As(problem.Input, cause).Error(); got != "the cause" {
		t.Errorf("As: text %q, expected the cause's", got)
	}
	if problem.Is(wrapped, problem.Input) {
		t.Error("Is: a damaged object is of the kind input, want it not to be")
	}
}
