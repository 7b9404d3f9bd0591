package search

import (
	"fmt"
	"strings"

	"coppice/internal/problem"
)

// SpecError is a part of the search that cannot be turned into trials. It unwraps to the error of the trainer, or of
// this package.
type SpecError struct {
	Part string // such as "fixed[1]", "grid num_leaves=31" or "random learning_rate"
	Err  error
}

func specErrorf(part, format string, args ...any) error {
	return &SpecError{part, fmt.Errorf(format, args...)}
}

// Error returns "part: what".
func (e *SpecError) Error() string { return fmt.Sprintf("search: %s: %v", e.Part, e.Err) }

// Unwrap returns the cause.
func (e *SpecError) Unwrap() error { return e.Err }

// Kind says that the spec is to be mended.
func (*SpecError) Kind() problem.Kind { return problem.Input }

// Path is the part's path in a spec, such as search.constraints[0].
func (e *SpecError) Path() string {
	path := e.Part
	if name, ok := strings.CutPrefix(path, "random "); ok {
		path = "random." + name
	}
	return "search." + path
}

// SelectedError says that there is nothing left for a trial to train: a forward selection has ended before its step,
// since no group that it tried helped, or the generation that a population's trial would continue has no model.
type SelectedError struct{ Reason string }

func (e *SelectedError) Error() string { return e.Reason }
