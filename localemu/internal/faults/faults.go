//go:build unix

// Package faults reads the file of failures to inject into the local cloud. Example shows every key; all are optional.
package faults

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
	"coppice/localemu/pubsubemu"
)

// Example is a file with every key, as a starting point.
const Example = `seed: 7                        # of everything random
duplicate_messages: true       # every message is delivered twice, with two ids
shuffle_messages: true         # messages change places
drop_messages: 0.5             # this share of messages is never delivered
foreign_messages: 5            # this many messages arrive that no program of Coppice has sent
lose_acks: 0.3                 # this share of acknowledgements is lost
retry_pause: 2s                # from the end of a task's attempt to the next
full_disk:
  - {vm: 0, for: 3s}                   # this machine's local SSD is full at first
memory_limit:
  - {task: 2, mib: 400, times: 1}        # this task is killed when its private memory exceeds this, as by the kernel (code 137); default: always (times)
  - {vm: 0, mib: 1500, times: 1}         # this machine is lost when its tasks together exceed this (code 50002)
preempt:
  - {task: 0, attempt: 0, after: 2s}   # this attempt of a task on Spot machines ends 2s after its start (code 50001)
  - {vm: 1, after: 3s}                 # this Spot machine is preempted 3s after the job began to run, with its local SSD
  - {vm: 1, after_messages: 5}         # the same, when 5 messages have been published
  - {task: 2, after: 2s, notice: 20s}  # SIGTERM this long before its end; without notice it is just killed
lose_machine:
  - {vm: 1, after: 3s}                 # this machine is lost, with its local SSD (code 50002)
no_capacity:
  - {type: n2-highmem-16, zone: us-central1-a, spot: true}      # no such machines there: a job allowed nowhere else waits
  - {type: n2-highmem-32, fail: true}                           # nowhere in the region, and the job fails at once
refuse_write:
  - {match: "sweeps/*/trials/0003/**", times: 2, status: 503}   # the write fails; nothing is written
lose_answer:
  - {match: "sweeps/*/trials/*/result.json", times: 1}          # it is written, but the client gets 503
read_fault:                             # reads of objects' contents; default: always (times), every read (rate)
  - {match: "datasets/**", does: flip, rate: 0.01}              # one bit
  - {match: "datasets/**", does: cut, times: 3}                 # half of it, then the connection breaks
  - {match: "sweeps/*/trials/**", does: refuse, times: 5, status: 429}
  - {match: "plans/*", does: slow, delay: 2s, rate: 0.5}
  - {match: "registry/**", does: hang, times: 1}                # until the client gives up; with delay, until the connection breaks
  - {match: "datasets/**", does: slow, delay: 1s, client: task-1}    # only of launcher (the command), aggregator, task, or the task of an index
clock_offset:                           # objects' times, as this client sees them, are moved the other way
  - {client: task-1, ahead: 400s}          # or -400s; launcher, aggregator, task or the task of an index
kill_aggregator:
  - {after_messages: 10, restart: true}   # all aggregators, with SIGKILL
at_write:                               # when the nth such object has been written, before the writer gets the response (nth: 1)
  - {match: "sweeps/*/trials/*/claims/*", nth: 3, does: lose_machine, vm: 1, code: 50004}   # 50001, 50002, 50003, 50004 or 50006
  - {match: "sweeps/*/trials/*/checkpoints/**", does: lose_machine, vm: 0, notice: 5s}
  - {match: "sweeps/*/trials/*/checkpoints/**", does: lose_machine, vm: 0, lingers: 20s}    # its tasks keep running next to their replacements
  - {match: "sweeps/*/trials/*/result.json", nth: 2, does: kill_task, task: 0}              # SIGKILL: 137
  - {match: "sweeps/*/trials/*/claims/*", nth: 5, does: pause_task, task: 3, for: 20s}
  - {match: "sweeps/*/trials/*/claims/*", nth: 6, does: slow_machine, vm: 0, for: 20s}      # its tasks stand still four fifths of the time
  - {match: "sweeps/*/trials/*/claims/*", nth: 7, does: restart_batch}                      # as --keep-jobs: all machines are lost, jobs go on
  - {match: "sweeps/*/ending.json", does: kill_aggregators}                                 # and starts them again
  - {match: "sweeps/*/ending.json", does: pause_aggregators, for: 3s}
  - {match: "sweeps/*/trials/*/result.json", does: damage_object, target: "sweeps/*/trials/*/heartbeats/*", how: flip}   # or zero, cut, empty
  - {match: "sweeps/*/trials/*/result.json", does: damage_disk, vm: 0, target: "**/train/targets.arrow", how: zero}
`

// Spec is the file's contents. The zero Spec injects no failure.
type Spec struct {
	Seed      uint64             `yaml:"seed"`
	Duplicate bool               `yaml:"duplicate_messages"`
	Shuffle   bool               `yaml:"shuffle_messages"`
	Drop      float64            `yaml:"drop_messages"`
	Preempt   []preemption       `yaml:"preempt"`
	Lose      []machineLoss      `yaml:"lose_machine"`
	Shortage  []shortage         `yaml:"no_capacity"`
	Refuse    []gcsemu.Refusal   `yaml:"refuse_write"`
	LoseReply []gcsemu.Refusal   `yaml:"lose_answer"`
	Read      []gcsemu.ReadFault `yaml:"read_fault"`
	Clocks    []gcsemu.Clock     `yaml:"clock_offset"`
	Kill      []Kill             `yaml:"kill_aggregator"`

	Foreign    int            `yaml:"foreign_messages"`
	LoseAcks   float64        `yaml:"lose_acks"`
	RetryPause sweep.Duration `yaml:"retry_pause"`
	FullDisk   []fullDisk     `yaml:"full_disk"`
	Memory     []memoryLimit  `yaml:"memory_limit"`
	AtWrite    []AtWrite      `yaml:"at_write"`
}

type fullDisk struct {
	VM  int            `yaml:"vm"`
	For sweep.Duration `yaml:"for"`
}

type memoryLimit struct {
	Task  *int `yaml:"task"`
	VM    *int `yaml:"vm"`
	MiB   int  `yaml:"mib"`
	Times int  `yaml:"times"`
}

type preemption struct {
	Task          *int           `yaml:"task"`
	Attempt       int            `yaml:"attempt"`
	VM            *int           `yaml:"vm"`
	After         sweep.Duration `yaml:"after"`
	AfterMessages int            `yaml:"after_messages"`
	Notice        sweep.Duration `yaml:"notice"`
}

type machineLoss struct {
	VM            int            `yaml:"vm"`
	After         sweep.Duration `yaml:"after"`
	AfterMessages int            `yaml:"after_messages"`
}

type shortage struct {
	Type string `yaml:"type"`
	Zone string `yaml:"zone"`
	Spot *bool  `yaml:"spot"`
	Fail bool   `yaml:"fail"`
}

// Kill ends all aggregators with SIGKILL when AfterMessages messages have been published.
type Kill struct {
	AfterMessages int   `yaml:"after_messages"`
	Restart       *bool `yaml:"restart"` // default true
}

// Restarts reports whether the aggregators are started again.
func (k Kill) Restarts() bool { return k.Restart == nil || *k.Restart }

var zonePattern = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+-[a-z]$`)

// maxNotice bounds the time between a machine's notice and its end.
const maxNotice = 5 * time.Minute

// maxAfter bounds how long a fault may wait: no Batch job runs longer.
const maxAfter = 14 * 24 * time.Hour

// Parse reads the file. Every error is a *strictyaml.Error that names line and column.
func Parse(file string, data []byte) (*Spec, error) {
	var s Spec
	doc, err := strictyaml.Decode(file, data, &s)
	if err != nil {
		return nil, err
	}
	if !(s.Drop >= 0 && s.Drop <= 1) {
		return nil, doc.Errorf("drop_messages", "drop_messages is %v: use a share from 0 to 1", s.Drop)
	}

	if err := s.checkPreempt(doc); err != nil {
		return nil, err
	}

	for i, l := range s.Lose {
		at := fmt.Sprintf("lose_machine[%d]", i)
		if l.VM < 0 {
			return nil, doc.Errorf(at+".vm", "vm counts from 0")
		}
		if err := checkMoment(doc, at, l.After, l.AfterMessages); err != nil {
			return nil, err
		}
	}

	for i, n := range s.Shortage {
		if n.Zone != "" && !zonePattern.MatchString(n.Zone) {
			return nil, doc.Errorf(fmt.Sprintf("no_capacity[%d].zone", i), "zone %.60q: use one such as us-central1-a",
				n.Zone)
		}
	}

	for name, entries := range map[string][]gcsemu.Refusal{"refuse_write": s.Refuse, "lose_answer": s.LoseReply} {
		for i, r := range entries {
			if err := errors.Join(r.Check(), checkClient(r.Client)); err != nil {
				return nil, doc.Errorf(fmt.Sprintf("%s[%d]", name, i), "%v", err)
			}
		}
	}

	for i, r := range s.Read {
		if err := errors.Join(r.Check(), checkClient(r.Client)); err != nil {
			return nil, doc.Errorf(fmt.Sprintf("read_fault[%d]", i), "%v", err)
		}
	}

	for i, c := range s.Clocks {
		if err := errors.Join(c.Check(), checkClient(c.Client)); err != nil {
			return nil, doc.Errorf(fmt.Sprintf("clock_offset[%d]", i), "%v", err)
		}
	}

	for i, k := range s.Kill {
		if k.AfterMessages < 1 || k.AfterMessages > math.MaxInt32 {
			return nil, doc.Errorf(fmt.Sprintf("kill_aggregator[%d]", i), "after_messages is %d: use 1 or more",
				k.AfterMessages)
		}
	}
	return &s, s.checkRest(doc)
}

// maxForeign bounds the number of messages that none of our programs sends.
const maxForeign = 10_000

// checkRest checks the keys that no other check covers.
func (s *Spec) checkRest(doc *strictyaml.Document) error {
	switch {
	case s.Foreign < 0 || s.Foreign > maxForeign:
		return doc.Errorf("foreign_messages", "foreign_messages is %d: use 0 to %d", s.Foreign, maxForeign)
	case !(s.LoseAcks >= 0 && s.LoseAcks <= 1):
		return doc.Errorf("lose_acks", "lose_acks is %v: use a share from 0 to 1", s.LoseAcks)
	case s.RetryPause < 0 || time.Duration(s.RetryPause) > maxNotice:
		return doc.Errorf("retry_pause", "retry_pause is %s: use 0s to %s", s.RetryPause, maxNotice)
	}

	for i, d := range s.FullDisk {
		if d.VM < 0 || d.For <= 0 || time.Duration(d.For) > maxAfter {
			return doc.Errorf(fmt.Sprintf("full_disk[%d]", i),
				"vm is %d and for %s: vm counts from 0, and for is 1s to %s", d.VM, d.For, maxAfter)
		}
	}
	for i, m := range s.Memory {
		at := fmt.Sprintf("memory_limit[%d]", i)
		switch {
		case (m.Task == nil) == (m.VM == nil):
			return doc.Errorf(at, "give either task or vm")
		case m.Task != nil && *m.Task < 0 || m.VM != nil && *m.VM < 0 || m.Times < 0:
			return doc.Errorf(at, "task and vm count from 0, and times is 1 or more")
		case m.MiB < 1 || m.MiB > math.MaxInt32:
			return doc.Errorf(at, "mib is %d: use 1 or more", m.MiB)
		}
	}
	for i, a := range s.AtWrite {
		if err := a.check(); err != nil {
			return doc.Errorf(fmt.Sprintf("at_write[%d]", i), "%v", err)
		}
	}
	return nil
}

// Clients that a fault can be limited to. The launcher is the command and everything it runs.
const (
	Launcher   = "launcher"
	Aggregator = "aggregator"
	Task       = "task" // or task-3
)

var clientPattern = regexp.MustCompile(`^(launcher|aggregator|task(-(0|[1-9][0-9]{0,5}))?)$`)

func checkClient(name string) error {
	if name == "" || clientPattern.MatchString(name) {
		return nil
	}
	return fmt.Errorf("client is %.40q: use launcher, aggregator, task, or task-3 for the task with that index", name)
}

// ByClient reports whether any fault is limited to one client.
func (s *Spec) ByClient() bool {
	for _, entries := range [][]gcsemu.Refusal{s.Refuse, s.LoseReply} {
		if slices.ContainsFunc(entries, func(r gcsemu.Refusal) bool { return r.Client != "" }) {
			return true
		}
	}
	return len(s.Clocks) > 0 || slices.ContainsFunc(s.Read, func(r gcsemu.ReadFault) bool { return r.Client != "" })
}

// RestartsBatch reports whether a fault restarts Batch, which needs the jobs' files.
func (s *Spec) RestartsBatch() bool {
	return slices.ContainsFunc(s.AtWrite, func(a AtWrite) bool { return a.Does == RestartBatch })
}

// checkPreempt checks which attempts and machines are preempted, and when.
func (s *Spec) checkPreempt(doc *strictyaml.Document) error {
	for i, p := range s.Preempt {
		at := fmt.Sprintf("preempt[%d]", i)
		if (p.Task == nil) == (p.VM == nil) {
			return doc.Errorf(at, "give either task (and attempt) or vm")
		}
		if p.Task != nil && *p.Task < 0 || p.VM != nil && *p.VM < 0 || p.Attempt < 0 {
			return doc.Errorf(at, "task, attempt and vm count from 0")
		}

		if err := checkMoment(doc, at, p.After, p.AfterMessages); err != nil {
			return err
		}

		if p.Notice < 0 || time.Duration(p.Notice) > maxNotice {
			return doc.Errorf(at+".notice", "notice is %s: use 0s to %s", p.Notice, maxNotice)
		}
	}

	return nil
}

// checkMoment checks when a fault strikes: after a time or after messages.
func checkMoment(doc *strictyaml.Document, at string, after sweep.Duration, messages int) error {
	switch {
	case after < 0 || time.Duration(after) > maxAfter:
		return doc.Errorf(at+".after", "after is %s: use 0s to %s", after, maxAfter)
	case messages < 0 || messages > math.MaxInt32:
		return doc.Errorf(at+".after_messages", "after_messages is %d: use 1 or more", messages)
	case after != 0 && messages != 0:
		return doc.Errorf(at, "give either after or after_messages")
	}
	return nil
}

// Storage returns the faults of writes and reads.
func (s *Spec) Storage() gcsemu.Faults {
	return gcsemu.Faults{RefuseWrite: s.Refuse, LoseAnswer: s.LoseReply, Read: s.Read, Clocks: s.Clocks, Seed: s.Seed}
}

// PubSub returns the faults of messages.
func (s *Spec) PubSub() pubsubemu.Faults {
	return pubsubemu.Faults{Duplicate: s.Duplicate, Shuffle: s.Shuffle, Drop: s.Drop, LoseAcks: s.LoseAcks,
		Seed: s.Seed}
}

// Batch returns the faults of machines and tasks.
func (s *Spec) Batch() batchemu.Faults {
	f := batchemu.Faults{RetryPause: time.Duration(s.RetryPause)}
	for _, d := range s.FullDisk {
		f.FullDisk = append(f.FullDisk, batchemu.FullDisk{VM: d.VM, For: time.Duration(d.For)})
	}
	for _, p := range s.Preempt {
		e := batchemu.Preemption{VM: p.VM, Attempt: p.Attempt, After: time.Duration(p.After),
			AfterMessages: p.AfterMessages, Notice: time.Duration(p.Notice)}
		if p.Task != nil {
			e.Task = *p.Task
		}
		f.Preempt = append(f.Preempt, e)
	}

	for _, m := range s.Memory {
		f.Memory = append(f.Memory, batchemu.MemoryLimit{Task: m.Task, VM: m.VM, Bytes: int64(m.MiB) << 20,
			Times: m.Times})
	}
	for _, l := range s.Lose {
		f.LoseMachine = append(f.LoseMachine, batchemu.MachineLoss{VM: l.VM, After: time.Duration(l.After),
			AfterMessages: l.AfterMessages})
	}
	for _, n := range s.Shortage {
		f.NoCapacity = append(f.NoCapacity, batchemu.Shortage{MachineType: n.Type, Zone: n.Zone, Spot: n.Spot,
			Fail: n.Fail})
	}
	return f
}
