//go:build unix

package world

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
)

// TestAWrongClock: to a client that is 400 s ahead, an object that has just been written is 400 s old by its own clock,
// whichever way it asks.
func TestAWrongClock(t *testing.T) {
	spec, err := ParseFaults("f", []byte("clock_offset: [{client: task-1, ahead: 400s}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), Options{Data: t.TempDir(), Faults: spec, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := w.bucket(t, "owner", "coppice-sweeps")
	if _, err := s.Put(t.Context(), "a.json", blob.Absent, strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}

	for task, ahead := range []time.Duration{0, 400 * time.Second} {
		address := storageOf(t, w.clients.task("", task))
		now := time.Now()
		for how, at := range timesOf(t, address) {
			if age := now.Sub(at); (age - ahead).Abs() > time.Minute {
				t.Errorf("task %d reads by %s that the object was written %s ago; expected %s", task, how, age, ahead)
			}
		}
	}
}

// timesOf returns the time of a.json as told by its attributes, a listing and the header of its contents.
func timesOf(t *testing.T, address string) map[string]time.Time {
	t.Helper()
	get := func(target string) ([]byte, http.Header) {
		r, err := http.Get(address + target)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v: %s", target, r.StatusCode, err, body)
		}
		return body, r.Header
	}

	var object struct{ Updated time.Time }
	body, _ := get("/storage/v1/b/coppice-sweeps/o/a.json")
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []struct{ Updated time.Time } }
	body, _ = get("/storage/v1/b/coppice-sweeps/o")
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("the listing is %s, %v; expected one object", body, err)
	}
	_, header := get("/storage/v1/b/coppice-sweeps/o/a.json?alt=media")
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	if err != nil {
		t.Fatalf("Last-Modified is %q: %v", header.Get("Last-Modified"), err)
	}
	return map[string]time.Time{"attributes": object.Updated, "listing": list.Items[0].Updated, "contents": modified}
}
