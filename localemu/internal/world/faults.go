package world

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"coppice/internal/atomicfile"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
)

// FaultsExample is a file with every key, as a starting point.
const FaultsExample = `seed: 7                        # of what happens to messages
duplicate_messages: true       # every message is delivered twice, with two ids
shuffle_messages: true         # messages change places
drop_messages: 0.5             # this share of messages is never delivered
lose_acks: 0.3                 # this share of acknowledgements is lost
lose_machine: {1: [3s, 1m]}    # these times after the job began to run, each with its local SSD
no_capacity:
  - {type: n2-highmem-16, zone: us-central1-a, spot: true}      # no such machines there: a job allowed nowhere else waits
  - {type: n2-highmem-32, fail: true}                           # nowhere in the region, and the job fails at once
cpus_all_regions: 12           # the project's quota of vCPUs: a job gets the machines that fit, and no others later
refuse_write:         # nothing is written; default: 503 (status), always (times; 429: a second write within a second)
  - {match: "sweeps/*/trials/0003/**", times: 2, status: 429}
lose_answer:                                                    # it is written, but the client gets an error
  - {match: "sweeps/*/trials/*/result.json", times: 1}
read_fault:                                                     # reads of objects' contents; with a delay, no error
  - {match: "sweeps/*/trials/**", times: 5, status: 429}
  - {match: "plans/*", delay: 2s}
at_write:              # when the nth such object has been written, before the writer gets the response (nth: 1)
  - {match: "sweeps/*/trials/*/claims/*", nth: 3, does: lose_machine, vm: 1, code: 50001}   # or 50002 (default), 50003, 50004, 50006
  - {match: "sweeps/*/trials/*/checkpoints/**", does: lose_machine, vm: 0, notice: 5s}      # SIGTERM so long before
  - {match: "sweeps/*/trials/*/result.json", nth: 2, does: kill_task, task: 0}              # SIGKILL: 137
  - {match: "sweeps/*/ending.json", does: kill_aggregators}                                 # all, by SIGKILL; they start again
`

// FaultSpec are the contents of a file of failures to inject into the local cloud. The zero FaultSpec inject none.
type FaultSpec struct {
	Seed      uint64  `yaml:"seed"`
	Duplicate bool    `yaml:"duplicate_messages"`
	Shuffle   bool    `yaml:"shuffle_messages"`
	Drop      float64 `yaml:"drop_messages"`
	LoseAcks  float64 `yaml:"lose_acks"`

	Lose     map[int][]sweep.Duration `yaml:"lose_machine"` // by number of the machine
	Shortage []batchemu.Shortage      `yaml:"no_capacity"`
	CPUs     int                      `yaml:"cpus_all_regions"`

	Refuse    []gcsemu.Fault `yaml:"refuse_write"`
	LoseReply []gcsemu.Fault `yaml:"lose_answer"`
	Read      []gcsemu.Fault `yaml:"read_fault"`

	AtWrite []atWrite `yaml:"at_write"`
}

// ParseFaults reads a file of faults; file is its name for messages. Every error is a *strictyaml.Error that names line
// and column.
func ParseFaults(file string, data []byte) (*FaultSpec, error) {
	var f FaultSpec
	doc, err := strictyaml.Decode(file, data, &f)
	if err != nil {
		return nil, err
	}
	switch {
	case !(f.Drop >= 0 && f.Drop <= 1):
		return nil, doc.Errorf("drop_messages", "drop_messages is %v: use a share from 0 to 1", f.Drop)
	case !(f.LoseAcks >= 0 && f.LoseAcks <= 1):
		return nil, doc.Errorf("lose_acks", "lose_acks is %v: use a share from 0 to 1", f.LoseAcks)
	case doc.Has("cpus_all_regions") && f.CPUs < 1:
		return nil, doc.Errorf("cpus_all_regions", "cpus_all_regions is %d: use 1 or more", f.CPUs)
	}
	if err := batchemu.CheckLosses(f.Lose); err != nil {
		return nil, doc.Errorf("lose_machine", "%v", err)
	}
	for _, mistake := range []error{
		checkFaults(doc, "no_capacity", f.Shortage),
		checkFaults(doc, "refuse_write", f.Refuse), checkFaults(doc, "lose_answer", f.LoseReply),
		checkFaults(doc, "read_fault", f.Read),
		checkFaults(doc, "at_write", f.AtWrite),
	} {
		if mistake != nil {
			return nil, mistake
		}
	}
	return &f, nil
}

// checkFaults returns the first mistake in a list of faults, with its place in the file.
func checkFaults[F interface{ Check() error }](doc *strictyaml.Document, key string, faults []F) error {
	for i, f := range faults {
		if err := f.Check(); err != nil {
			return doc.Errorf(fmt.Sprintf("%s[%d]", key, i), "%v", err)
		}
	}
	return nil
}

// atWrite strikes when the Nth object whose name matches has been written, before its writer gets the answer. So the
// amount of work done decides when, not the speed of the machine.
type atWrite struct {
	Match string `yaml:"match"`
	Nth   int    `yaml:"nth"` // 0 is the first
	Does  string `yaml:"does"`

	VM     int            `yaml:"vm"`
	Task   int            `yaml:"task"`
	Code   int            `yaml:"code"`
	Notice sweep.Duration `yaml:"notice"`
}

// The actions of atWrite.
const (
	loseMachine     = "lose_machine"
	killTask        = "kill_task"
	killAggregators = "kill_aggregators"
)

// Check returns what is wrong with a fault at a write, or nil. code and notice go only with the loss of a machine.
func (a atWrite) Check() error {
	switch {
	case !slices.Contains([]string{loseMachine, killTask, killAggregators}, a.Does):
		return fmt.Errorf("does is %.40q: use one of %s, %s, %s", a.Does, loseMachine, killTask, killAggregators)
	case a.Nth < 0 || a.VM < 0 || a.Task < 0:
		return fmt.Errorf("nth, vm and task cannot be negative")
	case a.Code != 0 && (a.Does != loseMachine || !slices.Contains(batchemu.LossCodes, a.Code)):
		return fmt.Errorf("code is %d: use one of %v, with %s", a.Code, batchemu.LossCodes, loseMachine)
	case a.Notice < 0 || time.Duration(a.Notice) > batchemu.MaxNotice || a.Notice > 0 && a.Does != loseMachine:
		return fmt.Errorf("notice is %s: use 0s to %s, with %s", a.Notice, batchemu.MaxNotice, loseMachine)
	}
	return gcsemu.CheckPattern(a.Match)
}

// script strikes with faults when objects are written, and counts the strikes.
type script struct {
	w *World

	mu     sync.Mutex
	left   []atWrite      // that have not struck yet; Nth counts down
	counts map[string]int // by class
}

// struck counts a fault.
func (s *script) struck(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[class]++
}

// written carries out the faults that are due at the write of an object, each once. Storage calls it after every write,
// before the writer gets the answer.
func (s *script) written(_, object string) {
	// Count the write down in each fault that matches it, and take out those that are due.
	s.mu.Lock()
	var due, left []atWrite
	for _, a := range s.left {
		if gcsemu.Matches(a.Match, object) {
			if a.Nth--; a.Nth <= 0 {
				due = append(due, a)
				continue
			}
		}
		left = append(left, a)
	}
	s.left = left
	s.mu.Unlock()

	// Without the lock, because what follows reports its strikes to struck, which takes it.
	for _, a := range due {
		switch a.Does {
		case loseMachine:
			s.w.batch.LoseMachine(a.VM, cmp.Or(a.Code, 50002), time.Duration(a.Notice))
		case killTask:
			s.w.batch.KillTask(a.Task)
		case killAggregators:
			s.w.aggregators.killAll()
		}
	}
}

// FaultsFile in the data folder says how often each class of faults struck; it is written when the local cloud ends.
const FaultsFile = "faults.json"

// report writes FaultsFile, if any fault has struck.
func (s *script) report() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.counts) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(s.counts, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.w.data, FaultsFile), append(text, '\n'), 0o644)
}
