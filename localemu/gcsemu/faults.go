package gcsemu

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"coppice/internal/sweep"
	"coppice/localemu/internal/httpjson"
)

// Faults are the failures to inject.
type Faults struct {
	// RefuseWrite answers a write (upload, delete, copy ...) with an error, and writes nothing.
	RefuseWrite []Refusal
	// LoseAnswer writes the object and answers 503, as when a connection breaks at the worst moment.
	LoseAnswer []Refusal
	// Read strikes reads of contents.
	Read []ReadFault
	// Clocks are clients whose clocks are wrong.
	Clocks []Clock
	// Seed is for the random choices.
	Seed uint64
}

// Refusal selects the writes to strike. Match is compared with the object's name, part by part: "*" within a part, "**"
// for any number of parts. Status 0 is 503. With a Client, only that client's writes are struck (see Options.Client).
type Refusal struct {
	Match  string `yaml:"match"`
	Times  int    `yaml:"times"`
	Status int    `yaml:"status"`
	Client string `yaml:"client"`
}

// clientPattern matches the clients that a fault can be limited to: the command and everything it runs, the
// aggregators, all tasks, or the task of an index.
var clientPattern = regexp.MustCompile(`^(|launcher|aggregator|task(-(0|[1-9][0-9]{0,5}))?)$`)

func checkTarget(match, client string) error {
	if !clientPattern.MatchString(client) {
		return fmt.Errorf("client is %.40q: use launcher, aggregator, task, or task-3 for the task with that index",
			client)
	}
	return CheckPattern(match)
}

// Check returns what is wrong with a refusal.
func (f Refusal) Check() error {
	if err := checkTarget(f.Match, f.Client); err != nil {
		return err
	}
	if f.Times < 1 {
		return fmt.Errorf("times is %d: use 1 or more", f.Times)
	}
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("status is %d: use an HTTP error, 400 to 599", f.Status)
	}
	return nil
}

// ReadFault is an injected fault in reading contents. It strikes Times times, or always if Times is 0, each time with
// the probability Rate, or 1 if that is 0.
type ReadFault struct {
	Match  string         `yaml:"match"` // as in Refusal
	Does   string         `yaml:"does"`  // one of readFaults
	Times  int            `yaml:"times"`
	Rate   float64        `yaml:"rate"`
	Status int            `yaml:"status"` // of "refuse"; 0 is 503
	Delay  sweep.Duration `yaml:"delay"`  // of "slow"; of "hang", after which the connection breaks
	Client string         `yaml:"client"` // as in Refusal
}

// readFaults are the possible faults of a read: refuse answers with an error; cut sends the first half and breaks the
// connection; flip changes one bit in the middle, but not the checksums in the header; slow waits before the first
// byte; hang sends nothing until the client gives up, or the connection breaks.
var readFaults = []string{"refuse", "cut", "flip", "slow", "hang"}

// Check returns what is wrong with a fault.
func (f ReadFault) Check() error {
	if err := checkTarget(f.Match, f.Client); err != nil {
		return err
	}

	switch {
	case !slices.Contains(readFaults, f.Does):
		return fmt.Errorf("does is %q: use one of %s", f.Does, strings.Join(readFaults, ", "))
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

// Clock is a client whose clock is wrong. Its clock itself cannot be set, so the storage's times, as this client sees
// them, are moved the other way: their distance from the client's clock is what it would be. Times that the client
// writes into objects stay right.
type Clock struct {
	Client string         `yaml:"client"` // as in Refusal
	Ahead  sweep.Duration `yaml:"ahead"`
}

// maxAhead bounds it: more than a day is another fault.
const maxAhead = 24 * time.Hour

// Check returns what is wrong with a clock.
func (c Clock) Check() error {
	if c.Client == "" || c.Ahead == 0 || time.Duration(c.Ahead).Abs() > maxAhead {
		return fmt.Errorf("client is %q and ahead %s: name a client, and use -%s to %s, but not 0s", c.Client, c.Ahead,
			maxAhead, maxAhead)
	}
	return checkTarget("**", c.Client)
}

// faultState counts how often each fault may still strike.
type faultState struct {
	struck func(class string)

	mu sync.Mutex
	Faults
	random *rand.Rand
}

func newFaultState(f Faults, struck func(string)) *faultState {
	if struck == nil {
		struck = func(string) {}
	}
	f.RefuseWrite, f.LoseAnswer = slices.Clone(f.RefuseWrite), slices.Clone(f.LoseAnswer)
	f.Read = slices.Clone(f.Read)
	for i := range f.Read {
		if f.Read[i].Times == 0 {
			f.Read[i].Times = -1 // without limit
		}
	}
	return &faultState{struck: struck, Faults: f, random: rand.New(rand.NewPCG(f.Seed, 0x72656164))}
}

// refuse returns the error of a write that a fault refuses.
func (f *faultState) refuse(object, client string) error {
	return f.strike(f.RefuseWrite, object, client, "refused on purpose", "write refused")
}

// lose returns the error that takes the place of an answer.
func (f *faultState) lose(object, client string) error {
	return f.strike(f.LoseAnswer, object, client, "answer lost on purpose", "answer lost")
}

func (f *faultState) strike(entries []Refusal, object, client, why, class string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if e.Times == 0 || !Matches(e.Match, object) || !hits(e.Client, client) {
			continue
		}
		e.Times--
		f.tell(class, e.Client)
		return refusal(e.Status, why)
	}
	return nil
}

func refusal(code int, why string) error {
	if code == 0 {
		code = http.StatusServiceUnavailable
	}
	return httpjson.Errorf(code, "localemu: %s", why)
}

// read returns the fault that strikes a read of the object; nil if none does.
func (f *faultState) read(object, client string) *ReadFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.Read {
		r := &f.Read[i]
		if r.Times == 0 || !Matches(r.Match, object) || !hits(r.Client, client) {
			continue
		}
		if r.Rate > 0 && f.random.Float64() >= r.Rate {
			continue
		}
		if r.Times > 0 {
			r.Times--
		}
		f.tell("read: "+r.Does, r.Client)
		struck := *r
		return &struck
	}
	return nil
}

// ahead returns how far the client's clock is ahead.
func (f *faultState) ahead(client string) time.Duration {
	for _, c := range f.Clocks {
		if hits(c.Client, client) {
			f.struck("clock wrong")
			return time.Duration(c.Ahead)
		}
	}
	return 0
}

// hits reports whether a fault for the client wanted ("" for all) strikes this client. "task" covers task-0, task-1 and
// so on.
func hits(wanted, client string) bool {
	return wanted == "" || client == wanted || strings.HasPrefix(client, wanted+"-")
}

// tell counts a fault that strikes.
func (f *faultState) tell(class, wanted string) {
	f.struck(class)
	if wanted != "" {
		f.struck("one client alone")
	}
}

// before carries out the part of a fault that comes before any contents; done means that nothing else is to be sent.
func (f *ReadFault) before(ctx context.Context) (done bool, err error) {
	switch f.Does {
	case "refuse":
		return true, refusal(f.Status, "refused on purpose")
	case "hang":
		if f.Delay == 0 {
			<-ctx.Done()
		} else {
			pause(ctx, time.Duration(f.Delay))
		}
		panic(http.ErrAbortHandler) // breaks the connection
	case "slow":
		pause(ctx, time.Duration(f.Delay))
	}
	return false, nil
}

// pause waits, unless the client leaves before.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// spoiling changes contents on their way to the client. It does not implement io.ReaderFrom, so that every byte passes
// Write.
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

// Matches reports whether a pattern of object names, as in Refusal, covers a name.
func Matches(pattern, name string) bool {
	return matches(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// CheckPattern returns what is wrong with a pattern of object names.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("match %q is not a pattern of object names", pattern)
	}
	return nil
}

// matches compares a name with a pattern, both split at "/".
func matches(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		return matches(pattern[1:], name) || len(name) > 0 && matches(pattern, name[1:])
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && matches(pattern[1:], name[1:])
}

// Damages are the ways to damage stored bytes: one bit flipped in the middle, all zeroed, the second half cut off, none
// left.
var Damages = []string{"flip", "zero", "cut", "empty"}

// Spoil damages bytes.
func Spoil(data []byte, how string) ([]byte, error) {
	out := slices.Clone(data)
	switch {
	case how == "empty", how == "flip" && len(out) == 0:
		return nil, nil
	case how == "cut":
		return out[:len(out)/2], nil
	case how == "zero":
		return make([]byte, len(out)), nil
	case how == "flip":
		out[len(out)/2] ^= 1
		return out, nil
	}
	return nil, fmt.Errorf("damage %q: use one of %s", how, strings.Join(Damages, ", "))
}

// Damage overwrites one of the objects whose names match with damaged contents, as a mistaken writer would: a new
// generation, with its own checksums. choose picks one of n. Without a match it does nothing.
func (s *Server) Damage(match, how string, choose func(n int) int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*object
	for _, bucket := range slices.Sorted(maps.Keys(s.buckets)) {
		objects := s.buckets[bucket].objects
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			if Matches(match, name) {
				found = append(found, objects[name])
			}
		}
	}
	if len(found) == 0 {
		return nil
	}

	o := found[choose(len(found))]
	data, err := os.ReadFile(s.path(o.file))
	if err != nil {
		return err
	}
	if data, err = Spoil(data, how); err != nil {
		return err
	}
	u, err := s.newUpload(&call{bucket: o.Bucket, object: o.Name})
	if err != nil {
		return err
	}
	defer u.close()
	u.wanted.ContentType = o.ContentType
	_, err = u.Write(data)
	if err == nil {
		_, err = s.write(u)
	}
	if err == nil {
		s.faults.struck("object damaged")
	}
	return err
}
