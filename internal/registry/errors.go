package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// InputError is an argument that cannot be registered.
type InputError struct {
	What string // such as "file name" or "key"
	Msg  string // what is wrong with it, and what would be right
}

// Error returns "registry: what: message".
func (e *InputError) Error() string { return fmt.Sprintf("registry: %s: %s", e.What, e.Msg) }

// IsInput says that the input is at fault, permanently.
func (*InputError) IsInput() bool { return true }

// NotFoundError is a model, version, alias or file that does not exist.
type NotFoundError struct {
	Kind string // model, version, alias or file
	Name string
	Hint string // what does exist, appended to the name; may be empty
}

// Error says what was looked for and what exists.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("registry: there is no %s %.80q%s", e.Kind, e.Name, e.Hint)
}

// IsNotFound says that the object does not exist.
func (*NotFoundError) IsNotFound() bool { return true }

// ConflictError says that another party was first: the version with the same key has other files, or an alias is not in
// the expected state.
type ConflictError struct {
	Model string

	Key     string // of the version
	Version int
	File    string // the first that differs

	Alias    string
	Expected int // version; 0 for none
	Found    int
}

// Error says what exists and what to do.
func (e *ConflictError) Error() string {
	if e.Alias != "" {
		const text = "registry: %s of %s points at %s, not at %s as expected: " +
			"it was moved in the meantime; look at the history and decide again"
		return fmt.Sprintf(text, e.Alias, e.Model, versionName(e.Found), versionName(e.Expected))
	}
	return fmt.Sprintf("registry: version %d of %s was registered for %s with another %s; register under another key",
		e.Version, e.Model, e.Key, e.File)
}

// IsConflict says that another party was first.
func (*ConflictError) IsConflict() bool { return true }

func versionName(n int) string {
	if n == 0 {
		return "no version"
	}
	return fmt.Sprintf("version %d", n)
}

// BadError is a version that an alias cannot be moved to, because it was marked bad.
type BadError struct {
	Model   string
	Version int
	Bad     Remark
}

// Error says who marked it and what to do.
func (e *BadError) Error() string {
	return fmt.Sprintf("registry: version %d of %s was marked bad by %s on %s: %s; clear the mark first if that is "+
		"no longer so",
		e.Version, e.Model, e.Bad.By, e.Bad.At.Format(time.DateTime), e.Bad.Why)
}

// IsConflict says that someone has decided otherwise.
func (*BadError) IsConflict() bool { return true }

// DeletedError is a version that was deleted.
type DeletedError struct {
	Model   string
	Version int
	Act     Act
}

// Error says who deleted it.
func (e *DeletedError) Error() string {
	return fmt.Sprintf("registry: version %d of %s was deleted by %s on %s: %s", e.Version, e.Model, e.Act.By,
		e.Act.At.Format(time.DateTime), e.Act.Why)
}

// IsNotFound says that the version no longer exists.
func (*DeletedError) IsNotFound() bool { return true }

// InUseError is a version that cannot be deleted because an alias points at it.
type InUseError struct {
	Model   string
	Version int
	Aliases []string
}

// Error says what points at it.
func (e *InUseError) Error() string {
	return fmt.Sprintf("registry: version %d of %s is %s; move or remove the alias first", e.Version, e.Model,
		strings.Join(e.Aliases, " and "))
}

// IsConflict says that the version is still needed.
func (*InUseError) IsConflict() bool { return true }

// NoPreviousError says that an alias has no version to roll back to.
type NoPreviousError struct {
	Model, Alias string
	Passed       []int // versions that were skipped: marked bad, or deleted
}

// Error says why.
func (e *NoPreviousError) Error() string {
	if len(e.Passed) > 0 {
		slices.Sort(e.Passed)
		return fmt.Sprintf("registry: %s of %s has nowhere to return to: version %s, where it pointed before, is "+
			"marked bad or deleted; promote one instead",
			e.Alias, e.Model, ranges(slices.Compact(e.Passed)))
	}
	return fmt.Sprintf("registry: %s of %s never pointed at another version that it could return to; promote one "+
		"instead", e.Alias, e.Model)
}

// IsNotFound says that there is no such version.
func (*NoPreviousError) IsNotFound() bool { return true }

// CorruptError is an object that differs from what the registry wrote.
type CorruptError struct {
	Object string
	Err    error
}

// Error names the object.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("registry: %s is damaged: %v", e.Object, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// IsInput says that the input is at fault, permanently.
func (*CorruptError) IsInput() bool { return true }

// IsDamaged says that the contents are not those that were written.
func (*CorruptError) IsDamaged() bool { return true }
