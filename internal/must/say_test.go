package must_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"testing"

	"coppice/internal/must"
)

// recorder counts the failures that a test would have.
type recorder struct {
	testing.TB
	failed int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed++ }

// TestSay: an error that is not as wanted fails a test: none, one that says something else, or one of another type.
// One that is wanted not to be fails it, too.
func TestSay(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "a.csv", Err: errors.New("it is gone")})
	for _, tc := range []struct {
		err    error
		want   string
		failed int // of Say, and of SayAs with a *fs.PathError
	}{
		{nil, "", 0}, {nil, "gone", 2}, {wrapped, "", 2}, {wrapped, "is gone", 0}, {wrapped, "is here", 2},
		{errors.New("it is gone"), "is gone", 1},
	} {
		r := &recorder{TB: t}
		must.Say(r, "reading", tc.err, tc.want)
		must.SayAs[*fs.PathError](r, "reading", tc.err, tc.want)
		if r.failed != tc.failed {
			t.Errorf("%v, where %q is wanted: %d failures, want %d", tc.err, tc.want, r.failed, tc.failed)
		}
	}
}

// TestEqual: a test fails at two values that differ, and goes on.
func TestEqual(t *testing.T) {
	r := &recorder{TB: t}
	must.Equal(r, 2, 2, "both")
	must.Equal(r, "b", "a", "letter %d", 1)
	must.Equal(r, math.NaN(), math.NaN(), "no number")
	if r.failed != 2 {
		t.Errorf("two letters, two NaN and one number twice: %d failures, want 2", r.failed)
	}
}
