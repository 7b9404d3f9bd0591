package gcsemu

import (
	"cmp"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"coppice/internal/sweep"
	"coppice/localemu/internal/httpjson"
)

// Faults are the failures to inject.
type Faults struct {
	Write  []Fault // writes (upload, delete, copy ...), of which then nothing is written
	Answer []Fault // answers to writes that were carried out, as when a connection breaks at the worst moment
	Read   []Fault // reads of contents
}

// Fault strikes requests for objects whose names match, Times times, or always if that is 0: they are answered with an
// error or, with a Delay, only later. Always 429 is the service's limit: for an object a second time within a second.
// Match is compared part by part: "*" within a part, "**" for any number of parts.
type Fault struct {
	Match  string         `yaml:"match"`
	Times  int            `yaml:"times"`
	Status int            `yaml:"status"` // 0 is 503
	Delay  sweep.Duration `yaml:"delay"`
}

// burst is how many writes of one object may come at once. The service documents only that an object can be written
// about once a second in the long run; that it allows five at once, and refuses all that come above that, is a guess.
const burst = 5

var tooOften = &Fault{Status: http.StatusTooManyRequests}

// Check returns what is wrong with a fault.
func (f Fault) Check() error {
	switch {
	case f.Times < 0:
		return fmt.Errorf("times is %d: use 1 or more, or leave it out for always", f.Times)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status is %d: use an HTTP error, 400 to 599", f.Status)
	case f.Delay < 0 || f.Delay > 0 && f.Status != 0:
		return fmt.Errorf("delay is %s and status %d: use a delay above 0s, or a status", f.Delay, f.Status)
	}
	return CheckPattern(f.Match)
}

// faultList counts how often each fault may still strike.
type faultList struct {
	class   string
	tell    func(class string) // of every strike
	limited bool               // as the service's writes are

	mu     sync.Mutex
	faults []Fault
	times  []int                // that each has struck
	over   map[string]time.Time // when the writes of an object that were let through are over, one a second
}

func newFaultList(class string, faults []Fault, tell func(string)) *faultList {
	if tell == nil {
		tell = func(string) {}
	}
	return &faultList{class: class, tell: tell, faults: faults, times: make([]int, len(faults)),
		over: map[string]time.Time{}}
}

// strike decides whether a fault strikes a request for the object. If so, it returns the error to answer with, or, for
// a fault with a delay, sleeps and returns nil. It also enforces the service's limit on writes.
func (l *faultList) strike(object string) error {
	f := l.next(object)
	switch {
	case f == nil:
		return nil
	case f == tooOften:
		return httpjson.Errorf(f.Status, "The object %s exceeded the rate limit for object mutation operations "+
			"(create, update, and delete). Please reduce your request rate.", object)
	case f.Delay == 0:
		l.tell(l.class)
		return httpjson.Errorf(cmp.Or(f.Status, http.StatusServiceUnavailable), "localemu: %s on purpose", l.class)
	}
	l.tell("delay")
	time.Sleep(time.Duration(f.Delay))
	return nil
}

// next returns the first fault for the object that may still strike, and counts the strike. Without one it returns
// tooOften if the limit on writes is exceeded, else nil.
func (l *faultList) next(object string) *Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.faults {
		if f.Times > 0 && l.times[i] == f.Times || !Matches(f.Match, object) {
			continue
		}
		// "Always 429" (0 times stand for always) strikes only a second write within a second.
		if f.Times == 0 && f.Status == http.StatusTooManyRequests && l.passes("fault:"+object, 1) {
			continue
		}
		l.times[i]++
		return &f
	}
	if l.limited && !l.passes(object, burst) {
		return tooOften
	}
	return nil
}

// passes reports whether a write of an object is within a limit of one a second, of which up to burst may come at once,
// and counts it if it is. Each write takes up one second; ahead is how far those let through reach into the future. The
// lock is held.
func (l *faultList) passes(object string, burst int) bool {
	ahead := max(time.Until(l.over[object]), 0)
	if ahead > time.Duration(burst-1)*time.Second {
		return false
	}
	l.over[object] = time.Now().Add(ahead + time.Second)
	return true
}

// Matches reports whether a pattern of object names, as in Fault, covers a name.
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

// matches reports whether a name fits a pattern, both split at "/". "**" stands for any number of parts, also none: it
// either ends here or takes the first part of the name.
func matches(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return matches(pattern[1:], name) || len(name) > 0 && matches(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	ok, err := path.Match(pattern[0], name[0]) // a part that is no pattern fits nothing
	return err == nil && ok && matches(pattern[1:], name[1:])
}
