package ingest

import (
	"fmt"
	"io/fs"
	"strings"
)

// TableError is a place of a source table that cannot be used, and what to do about it.
type TableError struct {
	File   string // the file's URI; empty when the whole table is meant
	Line   int    // of a text file, from 1; 0 when no line is meant
	Row    int64  // of the file's data rows, from 1; 0 when no row is meant
	Column string // empty when no column is meant
	Msg    string
	Err    error // the cause, if there is one
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

// Unwrap gives the cause.
func (e *TableError) Unwrap() error { return e.Err }

// IsInput says that what was handed in is at fault, and will be the next time.
func (*TableError) IsInput() bool { return true }

// NotFoundError is a source without files. It is fs.ErrNotExist.
type NotFoundError struct {
	Pattern string
	Msg     string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("%s: %s", e.Pattern, e.Msg) }

// Is makes the error fs.ErrNotExist.
func (e *NotFoundError) Is(target error) bool { return target == fs.ErrNotExist }

// ExistsError is a folder that Stage cannot write because something else is there.
type ExistsError struct {
	Dir string
	Msg string
}

func (e *ExistsError) Error() string { return fmt.Sprintf("%s: %s", e.Dir, e.Msg) }

// IsConflict says that something else is there already.
func (*ExistsError) IsConflict() bool { return true }

// brief shortens a value for a message.
func brief(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}
