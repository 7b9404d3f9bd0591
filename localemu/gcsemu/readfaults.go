package gcsemu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadFault is an injected fault in reading contents. It strikes Times times, or always if Times is 0, each time with
// the probability Rate, or 1 if that is 0.
type ReadFault struct {
	Match  string // as in Refusal
	Does   string // one of ReadFaults
	Times  int
	Rate   float64
	Status int           // of "refuse"; 0 is 503
	Delay  time.Duration // of "slow"; of "hang", after which the connection breaks
	Client string        // as in Refusal
}

// ReadFaults are the possible faults of a read: refuse answers with an error; cut sends the first half and breaks the
// connection; flip changes one bit in the middle, but not the checksums in the header; slow waits before the first
// byte; hang sends nothing until the client gives up, or the connection breaks.
var ReadFaults = []string{"refuse", "cut", "flip", "slow", "hang"}

// Check reports an invalid fault.
func (f ReadFault) Check() error {
	if err := CheckPattern(f.Match); err != nil {
		return err
	}

	switch {
	case !slices.Contains(ReadFaults, f.Does):
		return fmt.Errorf("does is %q: use one of %s", f.Does, strings.Join(ReadFaults, ", "))
	case f.Times < 0:
		return fmt.Errorf("times is %d: use 1 or more, or leave it out for always", f.Times)
	case !(f.Rate >= 0 && f.Rate <= 1):
		return fmt.Errorf("rate is %v: use a share from 0 to 1", f.Rate)
	case f.Status != 0 && (f.Does != "refuse" || f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status is %d: use an HTTP error, 400 to 599, with refuse", f.Status)
	case f.Delay < 0 || f.Does == "slow" && f.Delay == 0 || f.Delay > 0 && f.Does != "slow" && f.Does != "hang":
		return fmt.Errorf("delay is %s: use more than 0s with slow, any with hang, and none elsewhere", f.Delay)
	}

	return nil
}

// readFault is a ReadFault that counts.
type readFault struct {
	ReadFault
	left int // -1: without limit
}

func newReadFaults(faults []ReadFault) []readFault {
	out := make([]readFault, len(faults))
	for i, f := range faults {
		out[i] = readFault{f, f.Times}
		if f.Times == 0 {
			out[i].left = -1
		}
	}
	return out
}

// read returns the fault that strikes a read of the object; nil if none does.
func (f *faultState) read(object, client string) *ReadFault {
	f.mu.Lock()
	defer f.mu.Unlock()

	for i := range f.reads {
		r := &f.reads[i]
		if r.left == 0 || !Matches(r.Match, object) || !hits(r.Client, client) {
			continue
		}
		if r.Rate > 0 && f.random.Float64() >= r.Rate {
			continue
		}

		if r.left > 0 {
			r.left--
		}
		f.tell("read: "+r.Does, r.Client)
		return &r.ReadFault
	}

	return nil
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x72656164)) }

// before carries out the part of a fault that comes before any contents; done means that nothing more is to be sent.
func (f *ReadFault) before(ctx context.Context, w http.ResponseWriter) (done bool) {
	switch f.Does {
	case "refuse":
		status := f.Status
		if status == 0 {
			status = http.StatusServiceUnavailable
		}
		answer(status, "localemu: refused on purpose").send(w)
		return true

	case "hang":
		if f.Delay == 0 {
			<-ctx.Done()
			return true
		}
		if pause(ctx, f.Delay) {
			panic(http.ErrAbortHandler) // breaks the connection
		}
		return true

	case "slow":
		return !pause(ctx, f.Delay)
	}

	return false
}

// pause waits, and reports whether the client waited, too.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// spoiling changes contents on their way to the client.
type spoiling struct {
	http.ResponseWriter
	does string
	sent int64
}

func (w *spoiling) Write(p []byte) (int, error) {
	length, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	if err != nil || length == 0 {
		length = int64(len(p))
	}
	at := length/2 - w.sent // the middle, in p
	w.sent += int64(len(p))
	if at < 0 || at >= int64(len(p)) {
		return w.ResponseWriter.Write(p)
	}

	if w.does == "cut" {
		_, _ = w.ResponseWriter.Write(p[:at]) // the client may have left
		if f, ok := w.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler) // breaks the connection
	}
	p = slices.Clone(p)
	p[at] ^= 1
	return w.ResponseWriter.Write(p)
}
