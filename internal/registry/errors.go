package registry

import (
	"fmt"
	"time"

	"coppice/internal/problem"
)

// wrong is an argument that cannot be registered: what it is, and what would be right.
func wrong(what, format string, args ...any) error {
	return problem.New(problem.Input, "registry: %s: %s", what, fmt.Sprintf(format, args...))
}

// missing is a model, version, alias or file that does not exist. The hint, which may be empty, says what does.
func missing(kind, name, hint string) error {
	return problem.New(problem.NotFound, "registry: there is no %s %.80q%s", kind, name, hint)
}

// Damaged is an object that differs from what the registry wrote.
func Damaged(object string, err error) error {
	return problem.Wrap(problem.Damaged, err, "registry: %s is damaged", object)
}

// ConflictError says that another party was first, so that the caller has to look and decide again: the version with
// the same key has other files, or an alias is not in the expected state.
type ConflictError struct{ msg string }

// Error says what exists and what to do.
func (e *ConflictError) Error() string { return e.msg }

// Kind is problem.Conflict.
func (*ConflictError) Kind() problem.Kind { return problem.Conflict }

// elsewhere is an alias that is not where the caller expects it.
func elsewhere(now Alias, expect Expect) error {
	return &ConflictError{fmt.Sprintf("registry: %s of %s points at %s, not at %s as expected: it was moved in the "+
		"meantime; look at the history and decide again",
		now.Name, now.Model, versionName(now.Version), versionName(expect.Version))}
}

func versionName(n int) string {
	if n == 0 {
		return "no version"
	}
	return fmt.Sprintf("version %d", n)
}

// DeletedError is a version that was deleted.
type DeletedError struct {
	Model   string
	Version int
	Act     Act
}

// Error says by whose act.
func (e *DeletedError) Error() string {
	return fmt.Sprintf("registry: version %d of %s was deleted by %s on %s: %s", e.Version, e.Model, e.Act.By,
		e.Act.At.Format(time.DateTime), e.Act.Why)
}

// Kind is problem.NotFound.
func (*DeletedError) Kind() problem.Kind { return problem.NotFound }
