package gcsemu

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"sync"
)

// Faults are the failures to inject. Each entry strikes Times times.
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
	Match  string
	Times  int
	Status int
	Client string
}

// Check returns what is wrong with a refusal.
func (f Refusal) Check() error {
	if err := CheckPattern(f.Match); err != nil {
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

// faultState counts how often each fault may still strike.
type faultState struct {
	mu      sync.Mutex
	refuses []Refusal
	loses   []Refusal
	reads   []readFault
	clocks  []Clock
	random  *rand.Rand
	struck  func(class string)
}

func newFaultState(f Faults) *faultState {
	return &faultState{struck: func(string) {}, refuses: append([]Refusal(nil), f.RefuseWrite...),
		loses: append([]Refusal(nil), f.LoseAnswer...),
		reads: newReadFaults(f.Read), clocks: f.Clocks, random: newRandom(f.Seed)}
}

// refuse returns the answer to a write that a fault refuses, else nil.
func (f *faultState) refuse(object, client string) *response {
	return f.strike(f.refuses, object, client, "refused on purpose", "write refused")
}

// lose returns the answer that takes the place of a successful one, else nil.
func (f *faultState) lose(object, client string) *response {
	return f.strike(f.loses, object, client, "answer lost on purpose", "answer lost")
}

func (f *faultState) strike(entries []Refusal, object, client, why, class string) *response {
	f.mu.Lock()
	defer f.mu.Unlock()

	for i := range entries {
		e := &entries[i]
		if e.Times == 0 || !Matches(e.Match, object) || !hits(e.Client, client) {
			continue
		}

		e.Times--
		f.tell(class, e.Client)
		status := e.Status
		if status == 0 {
			status = http.StatusServiceUnavailable
		}
		return answer(status, "localemu: "+why)
	}
	return nil
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
