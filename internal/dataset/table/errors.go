package table

import (
	"fmt"
	"strings"

	"coppice/internal/problem"
)

// InputError says what is unusable in a table, where it is, and what to do about it.
type InputError struct {
	File   string // the file's URI; empty for the whole table
	Line   int    // of a text file, from 1; 0 for none
	Row    int64  // of the file's data rows, from 1; 0 for none
	Column string // empty for none
	Msg    string
	Err    error // the cause, or nil
}

// Error says where it is, as far as that is known (file, line or row, column), then what is wrong, then the cause.
func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	switch {
	case e.Line > 0:
		fmt.Fprintf(&b, ":%d", e.Line)
	case e.Row > 0 && e.File != "":
		fmt.Fprintf(&b, ": row %d", e.Row)
	case e.Row > 0: // of a request
		fmt.Fprintf(&b, "row %d", e.Row)
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
func (e *InputError) Unwrap() error { return e.Err }

// Kind says that the input is at fault, permanently.
func (*InputError) Kind() problem.Kind { return problem.Input }
