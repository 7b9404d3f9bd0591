package must

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Say fails the test, which goes on, unless err is as wanted: with want in its text, or nil if want is empty. what says
// what gave the error.
func Say(t testing.TB, what string, err error, want string) {
	t.Helper()
	SayAs[error](t, what, err, want)
}

// SayAs is Say of an error that has to be of type E as well, itself or one that it wraps.
func SayAs[E error](t testing.TB, what string, err error, want string) {
	t.Helper()
	var as E
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got error %.900v, want none", what, err)
	case want != "" && (!errors.As(err, &as) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s:\ngot error %.900v (%T)\nwant a %v with ... %s ...", what, err, err, reflect.TypeFor[E](), want)
	}
}

// Equal fails the test, which goes on, unless got is want. what and its values say what was looked at.
func Equal[T comparable](t testing.TB, got, want T, what string, values ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%s: got %#v, want %#v", fmt.Sprintf(what, values...), got, want)
	}
}
