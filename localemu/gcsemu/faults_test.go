//go:build unix

package gcsemu

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

func TestFaults(t *testing.T) {
	struck := map[string]int{}
	w := start(t, Options{
		Struck: func(class string) { struck[class]++ },
		Faults: Faults{
			Write:  []Fault{{Match: "sweeps/*/trials/0003/*", Times: 2, Status: 500}},
			Answer: []Fault{{Match: "lost/**", Times: 1}},
		},
	})
	o := w.b.Object("sweeps/s/trials/0003/result.json")
	for range 2 {
		if _, err := w.put(o, "x"); code(err) != 500 {
			t.Errorf("refused write: %v", err)
		}
	}
	if _, err := o.Attrs(w.ctx); !errors.Is(err, storage.ErrObjectNotExist) {
		t.Errorf("a refused write is there: %v", err)
	}
	if _, err := w.put(o, "x"); err != nil {
		t.Errorf("third time: %v", err)
	}
	if _, err := w.put(w.b.Object("lost/a/b"), "x"); code(err) != 503 {
		t.Errorf("lost answer: %v", err)
	}
	if data, err := w.read(w.b.Object("lost/a/b")); data != "x" || err != nil {
		t.Errorf("the write behind a lost answer: %q %v", data, err)
	}
	if struck["write refused"] != 2 || struck["answer lost"] != 1 {
		t.Errorf("struck have %v, expected two refused writes and one lost answer", struck)
	}
	for _, bad := range []Fault{{Match: ""}, {Match: "["}, {Match: "a", Times: -1}, {Match: "a", Status: 200},
		{Match: "a", Delay: -1}, {Match: "a", Delay: 1, Status: 500}} {
		if bad.Check() == nil {
			t.Errorf("%+v passed", bad)
		}
	}
}

// TestReadFaults: each fault strikes the given number of times, and then the object is read at once.
func TestReadFaults(t *testing.T) {
	const text, long = "abcdefghij", 100 * time.Millisecond
	for name, tc := range map[string]struct {
		fault Fault
		want  func(data string, err error, took time.Duration) bool
	}{
		"refused": {Fault{Times: 1}, func(_ string, err error, _ time.Duration) bool { return code(err) == 503 }},
		"status": {Fault{Times: 1, Status: 429},
			func(_ string, err error, _ time.Duration) bool { return code(err) == 429 }},
		"delayed": {Fault{Times: 1, Delay: sweep.Duration(long)},
			func(data string, err error, took time.Duration) bool {
				return data == text && err == nil && took >= long
			}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.fault.Match = "data/*"
			must.Do(t, tc.fault.Check())
			w := start(t, Options{Faults: Faults{Read: []Fault{tc.fault}}})
			o, other := w.b.Object("data/x"), w.b.Object("other")
			for _, o := range []*storage.ObjectHandle{o, other} {
				must.Get(w.put(o, text))(t)
			}
			if data, err := w.read(other); data != text || err != nil {
				t.Errorf("an object that does not match: %q, %v; want it whole", data, err)
			}
			began := time.Now()
			if data, err := w.read(o); !tc.want(data, err, time.Since(began)) {
				t.Errorf("the first read gave %q, %v after %s; want it to be struck", data, err, time.Since(began))
			}
			if data, err := w.read(o); data != text || err != nil {
				t.Errorf("the second read gave %q, %v; want it whole", data, err)
			}
		})
	}
}

// TestTooOften: an object that is written more often than the service has it is refused, others are not, and the
// refused write works once the time is over.
func TestTooOften(t *testing.T) {
	const within = time.Second
	w := start(t, Options{Faults: Faults{Write: []Fault{{Match: "**", Status: 429}}}})
	began := time.Now()
	w.mustPut("hot", "1")
	w.mustPut("other", "1")
	_, err := w.put(w.b.Object("hot"), "2")
	if took := time.Since(began); took < within && code(err) != 429 {
		t.Errorf("a second write after %s ended with %v, expected 429", took, err)
	}
	for code(err) == 429 {
		_, err = w.put(w.b.Object("hot"), "2")
	}
	if took := time.Since(began); err != nil || took < within {
		t.Errorf("it was written after %s, %v; expected %s or more", took, err, within)
	}
}

// TestTheServicesLimit holds without any fault: a burst of writes passes, what goes on so fast is refused.
func TestTheServicesLimit(t *testing.T) {
	w := start(t, Options{})
	began := time.Now()
	written, refused := 0, 0
	for ; refused < 3; written++ {
		_, err := w.put(w.b.Object("hot"), "1")
		for ; code(err) == 429; _, err = w.put(w.b.Object("hot"), "1") {
			if refused++; !strings.Contains(err.Error(), "exceeded the rate limit for object mutation operations") {
				t.Fatalf("the refusal says %v; expected the service's words", err)
			}
		}
		if took := time.Since(began); err != nil || took > time.Minute {
			t.Fatalf("write %d after %s: %v; expected five at once and then one a second", written, took, err)
		}
	}
	if took := time.Since(began); written < burst || took < time.Duration(written-burst)*time.Second {
		t.Errorf("written %d times in %s; expected at most %d at once and then one a second", written, took, burst)
	}
	w.mustPut("other", "1")
	if err := w.b.Object("other").Delete(w.ctx); err != nil {
		t.Errorf("another object is refused, too: %v", err)
	}
}

// TestAlways: a fault without a number strikes every time.
func TestAlways(t *testing.T) {
	w := start(t, Options{Faults: Faults{Read: []Fault{{Match: "x"}}}})
	w.mustPut("x", "x")
	for range 20 {
		if _, err := w.read(w.b.Object("x")); code(err) != 503 {
			t.Fatalf("a read that is always refused ended with %v", err)
		}
	}
}
