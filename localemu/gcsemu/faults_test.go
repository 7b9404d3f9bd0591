//go:build unix

package gcsemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"

	"coppice/internal/sweep"
)

func TestFaults(t *testing.T) {
	w := start(t, Options{Faults: Faults{
		RefuseWrite: []Refusal{{Match: "sweeps/*/trials/0003/*", Times: 2, Status: 500}},
		LoseAnswer:  []Refusal{{Match: "lost/**", Times: 1}},
	}})
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
	for _, bad := range []Refusal{{Match: "", Times: 1}, {Match: "[", Times: 1}, {Match: "a"},
		{Match: "a", Times: 1, Status: 200}} {
		if bad.Check() == nil {
			t.Errorf("%+v passed", bad)
		}
	}
}

// TestReadFaults: each fault strikes the given number of times, and then the object is read whole.
func TestReadFaults(t *testing.T) {
	const text = "abcdefghij"
	for name, tc := range map[string]struct {
		fault ReadFault
		want  func(w *world, data string, err error) bool
	}{
		"refuse": {ReadFault{Does: "refuse", Times: 1},
			func(_ *world, _ string, err error) bool { return code(err) == 503 }},
		"status": {ReadFault{Does: "refuse", Times: 1, Status: 429},
			func(_ *world, _ string, err error) bool { return code(err) == 429 }},
		"slow": {ReadFault{Does: "slow", Times: 1, Delay: sweep.Duration(time.Millisecond)},
			func(_ *world, data string, err error) bool { return data == text && err == nil }},
		"flip": {ReadFault{Does: "flip", Times: 1}, func(_ *world, data string, err error) bool {
			return err != nil || data != text && len(data) == len(text) // the client compares checksums
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.fault.Match = "data/*"
			if err := tc.fault.Check(); err != nil {
				t.Fatal(err)
			}
			w := start(t, Options{Faults: Faults{Read: []ReadFault{tc.fault}}})
			o, other := w.b.Object("data/x"), w.b.Object("other")
			for _, o := range []*storage.ObjectHandle{o, other} {
				if _, err := w.put(o, text); err != nil {
					t.Fatal(err)
				}
			}
			if data, err := w.read(other); data != text || err != nil {
				t.Errorf("an object that does not match: %q, %v; want it whole", data, err)
			}
			if data, err := w.read(o); !tc.want(w, data, err) {
				t.Errorf("the first read gave %q, %v; want it to be struck", data, err)
			}
			if data, err := w.read(o); data != text || err != nil {
				t.Errorf("the second read gave %q, %v; want it whole", data, err)
			}
		})
	}
}

// TestAReadThatIsCut: half of the object, then the connection breaks. The client would continue from there with another
// request, so the test does not use one.
func TestAReadThatIsCut(t *testing.T) {
	w := start(t, Options{Faults: Faults{Read: []ReadFault{{Match: "**", Does: "cut", Times: 1}}}})
	if _, err := w.put(w.b.Object("x"), "abcdefghij"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		data string
		err  error
	}{{"abcde", io.ErrUnexpectedEOF}, {"abcdefghij", nil}} {
		r, err := http.Get("http://" + w.server.Addr() + "/bucket/x")
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r.Body)
		r.Body.Close()
		if string(data) != want.data || !errors.Is(err, want.err) {
			t.Errorf("read %q, %v; want %q, %v", data, err, want.data, want.err)
		}
	}
}

// TestAReadThatHangs ends with its client.
func TestAReadThatHangs(t *testing.T) {
	w := start(t, Options{Faults: Faults{Read: []ReadFault{{Match: "**", Does: "hang"}}}})
	if _, err := w.put(w.b.Object("x"), "x"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.b.Object("x").NewReader(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read that hangs ended with %v, want the client's own deadline", err)
	}
}

// TestRateOfReadFaults: a share of the reads is struck, the same ones with the same seed.
func TestRateOfReadFaults(t *testing.T) {
	struck := func(seed uint64) (hits []int) {
		f := newFaultState(Faults{Seed: seed, Read: []ReadFault{{Match: "**", Does: "flip", Rate: 0.25}}}, nil)
		for i := range 1000 {
			if f.read("x", "") != nil {
				hits = append(hits, i)
			}
		}
		return hits
	}
	a, b, c := struck(1), struck(1), struck(2)
	if len(a) < 200 || len(a) > 300 || fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) == fmt.Sprint(c) {
		t.Errorf("%d and %d of 1000 reads were struck at a rate of 0.25, the same with one seed: %t", len(a), len(c),
			fmt.Sprint(a) == fmt.Sprint(b))
	}
	for _, bad := range []ReadFault{{Match: "a", Does: "burn"}, {Does: "flip"}, {Match: "a", Does: "flip", Rate: 2},
		{Match: "a", Does: "slow"},
		{Match: "a", Does: "cut", Status: 500}, {Match: "a", Does: "cut", Times: -1},
		{Match: "a", Does: "refuse", Status: 200}} {
		if bad.Check() == nil {
			t.Errorf("%+v passed, want an error", bad)
		}
	}
}

// TestFaultsOfOneClient strike only those who call at its address.
func TestFaultsOfOneClient(t *testing.T) {
	names := map[string]string{}
	struck := map[string]int{}
	w := start(t, Options{
		Client: func(at net.Addr) string { return names[at.String()] },
		Struck: func(class string) { struck[class]++ },
		Faults: Faults{
			RefuseWrite: []Refusal{{Match: "refused", Times: 2, Client: "task-1"}},
			LoseAnswer:  []Refusal{{Match: "lost", Times: 1, Client: "launcher"}},
			Read:        []ReadFault{{Match: "read", Does: "refuse", Times: 2, Client: "task"}},
		},
	})
	open := func(client string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		names[l.Addr().String()] = client
		w.server.Open(l)
		return "http://" + l.Addr().String()
	}
	at := map[string]string{"nobody": "http://" + w.server.Addr()}
	for _, client := range []string{"task-1", "task-12", "launcher"} {
		at[client] = open(client)
	}
	w.mustPut("read", "x")

	const read = "GET /bucket/read"
	write := func(name string) string { return "POST /upload/storage/v1/b/bucket/o?uploadType=media&name=" + name }
	for _, c := range []struct {
		client, call string
		want         int
	}{
		{"nobody", write("refused"), 200}, {"task-12", write("refused"), 200}, {"task-1", write("refused"), 503},
		{"task-1", "DELETE /storage/v1/b/bucket/o/refused", 503}, {"task-1", write("refused"), 200},
		{"task-1", write("lost"), 200}, {"launcher", write("lost"), 503}, {"launcher", write("lost"), 200},
		{"nobody", read, 200}, {"launcher", read, 200}, {"task-12", read, 503}, {"task-1", read, 503},
		{"task-1", read, 200},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		r, err := http.NewRequestWithContext(w.ctx, method, at[c.client]+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(res.Body.Close()); err != nil || res.StatusCode != c.want {
			t.Errorf("%s by %s was answered with %d, expected %d", c.call, c.client, res.StatusCode, c.want)
		}
	}
	if struck["one client alone"] != 5 || struck["write refused"] != 2 || struck["answer lost"] != 1 ||
		struck["read: refuse"] != 2 {
		t.Errorf("struck have %v, expected five faults of one client alone", struck)
	}
}
