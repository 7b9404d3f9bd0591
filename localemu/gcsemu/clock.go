package gcsemu

import (
	"fmt"
	"net/http"
	"regexp"
	"time"
)

// Clock is a client whose clock is wrong. Its clock itself cannot be set, so the storage's times, as this client sees
// them, are moved the other way: their distance from the client's clock is what it would be. Times that the client
// writes into objects stay right.
type Clock struct {
	Client string // as in Refusal
	Ahead  time.Duration
}

// maxAhead bounds it: more than a day is another fault.
const maxAhead = 24 * time.Hour

// Check reports an invalid clock.
func (c Clock) Check() error {
	if c.Client == "" || c.Ahead == 0 || c.Ahead.Abs() > maxAhead {
		return fmt.Errorf("client is %q and ahead %s: name a client, and use -%s to %s, but not 0s", c.Client, c.Ahead,
			maxAhead, maxAhead)
	}
	return nil
}

// ahead returns how far the client's clock is ahead.
func (f *faultState) ahead(client string) time.Duration {
	for _, c := range f.clocks {
		if hits(c.Client, client) {
			f.struck("clock wrong")
			return c.Ahead
		}
	}
	return 0
}

var timesOfObjects = regexp.MustCompile(`"(timeCreated|updated|timeStorageClassUpdated|timeFinalized)": ?"[^"]{20,40}"`)

// shift moves the times of objects and buckets in an answer.
func (a *response) shift(ahead time.Duration) {
	shiftHeader(a.header, ahead)
	body := timesOfObjects.ReplaceAllFunc(a.body.Bytes(), func(found []byte) []byte {
		text := string(found)
		at := len(text) - 1
		for text[at-1] != '"' {
			at--
		}
		v, err := time.Parse(time.RFC3339Nano, text[at:len(text)-1])
		if err != nil {
			return found
		}
		return []byte(text[:at] + v.Add(-ahead).Format(time.RFC3339Nano) + `"`)
	})
	body = append([]byte(nil), body...)
	a.body.Reset()
	a.body.Write(body)
}

func shiftHeader(h http.Header, ahead time.Duration) {
	if v, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		h.Set("Last-Modified", v.Add(-ahead).UTC().Format(http.TimeFormat))
	}
}

// shifting moves the time in the header of contents.
type shifting struct {
	http.ResponseWriter
	ahead time.Duration
	done  bool
}

func (w *shifting) once() {
	if !w.done {
		w.done = true
		shiftHeader(w.Header(), w.ahead)
	}
}

func (w *shifting) WriteHeader(status int) {
	w.once()
	w.ResponseWriter.WriteHeader(status)
}

func (w *shifting) Write(p []byte) (int, error) {
	w.once()
	return w.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (w *shifting) Unwrap() http.ResponseWriter { return w.ResponseWriter }
