package ingest

import (
	"fmt"
	"io/fs"
	"strings"
)

// TableError is an unusable place in a source table, and what to do about it.
type TableError struct {
	File   string // the file's URI; empty for the whole table
	Line   int    // of a text file, from 1; 0 for none
	Row    int64  // of the file's data rows, from 1; 0 for none
	Column string // empty for none
	Msg    string
	Err    error // the cause, or nil
}

func (e *TableError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	switch {
	case e.Line > 0:
		fmt.Fprintf(&b, ":%d", e.Line)
	case e.Row > 0:
		fmt.Fprintf(&b, ": row %d", e.Row)
	}

	if e.Column != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		fmt.Fprintf(&b, "column %q", e.Column)
	}

	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)

	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *TableError) Unwrap() error { return e.Err }

// IsInput says that the input is at fault, permanently.
func (*TableError) IsInput() bool { return true }

// NotFoundError is a source without files. It is an fs.ErrNotExist.
type NotFoundError struct {
	Pattern string
	Msg     string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("%s: %s", e.Pattern, e.Msg) }

// Is makes the error an fs.ErrNotExist.
func (e *NotFoundError) Is(target error) bool { return target == fs.ErrNotExist }

// ExistsError is a target folder that is not empty.
type ExistsError struct {
	Dir string
	Msg string
}

func (e *ExistsError) Error() string { return fmt.Sprintf("%s: %s", e.Dir, e.Msg) }

// IsConflict says that the target exists already.
func (*ExistsError) IsConflict() bool { return true }

// brief shortens a value for a message.
func brief(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}
