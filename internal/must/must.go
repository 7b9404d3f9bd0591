// Package must ends a test at a step that has to succeed before there is anything to look at:
//
//	data := must.Get(os.ReadFile(name))(t)
//	must.Do(t, os.Remove(name))
//
// What a test is about is not such a step: there it says what was done, what came and what was expected, itself or by
// Say and Equal, and goes on.
package must

import "testing"

// Do ends the test if err is not nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, expected none", err)
	}
}

// Get returns what a call has given if its error is nil. A call with two results can be no function's other
// argument, so the test follows.
func Get[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Get2 is Get for a call with two results and an error.
func Get2[A, B any](a A, b B, err error) func(t testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		Do(t, err)
		return a, b
	}
}
