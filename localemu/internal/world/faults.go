package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
	"coppice/localemu/internal/proc"
	"coppice/localemu/pubsubemu"
)

// FaultsExample is a file with every key, as a starting point.
const FaultsExample = `seed: 7                        # of everything random
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
at_write:              # when the nth such object has been written, before the writer gets the response (nth: 1)
  - {match: "sweeps/*/trials/*/claims/*", nth: 3, does: lose_machine, vm: 1, code: 50004}   # 50001, 50002, 50003, 50004 or 50006
  - {match: "sweeps/*/trials/*/checkpoints/**", does: lose_machine, vm: 0, notice: 5s}
  - {match: "sweeps/*/trials/*/checkpoints/**", does: lose_machine, vm: 0, lingers: 20s}    # its tasks keep running next to their replacements
  - {match: "sweeps/*/trials/*/result.json", nth: 2, does: kill_task, task: 0}              # SIGKILL: 137
  - {match: "sweeps/*/trials/*/claims/*", nth: 5, does: pause_task, task: 3, for: 20s}
  - {match: "sweeps/*/trials/*/claims/*", nth: 6, does: slow_machine, vm: 0, for: 20s}      # its tasks stand still four fifths of the time
  - {match: "sweeps/*/trials/*/claims/*", nth: 7, does: restart_batch}                      # as --keep-jobs: all machines are lost, jobs go on
  - {match: "sweeps/*/ending.json", does: kill_aggregators}                                 # all, by SIGKILL; they start again
  - {match: "sweeps/*/ending.json", does: pause_aggregators, for: 3s}
  - {match: "sweeps/*/trials/*/result.json", does: damage_object, target: "sweeps/*/trials/*/heartbeats/*", how: flip}   # or zero, cut, empty
  - {match: "sweeps/*/trials/*/result.json", does: damage_disk, vm: 0, target: "**/train/targets.arrow", how: zero}
`

// FaultSpec are the contents of a file of failures to inject into the local cloud. The zero FaultSpec inject none.
type FaultSpec struct {
	Seed      uint64  `yaml:"seed"`
	Duplicate bool    `yaml:"duplicate_messages"`
	Shuffle   bool    `yaml:"shuffle_messages"`
	Drop      float64 `yaml:"drop_messages"`
	LoseAcks  float64 `yaml:"lose_acks"`
	Foreign   int     `yaml:"foreign_messages"`

	Preempt    []batchemu.Preemption  `yaml:"preempt"`
	Lose       []batchemu.MachineLoss `yaml:"lose_machine"`
	Shortage   []batchemu.Shortage    `yaml:"no_capacity"`
	FullDisk   []batchemu.FullDisk    `yaml:"full_disk"`
	Memory     []batchemu.MemoryLimit `yaml:"memory_limit"`
	RetryPause sweep.Duration         `yaml:"retry_pause"`

	Refuse    []gcsemu.Refusal   `yaml:"refuse_write"`
	LoseReply []gcsemu.Refusal   `yaml:"lose_answer"`
	Read      []gcsemu.ReadFault `yaml:"read_fault"`
	Clocks    []gcsemu.Clock     `yaml:"clock_offset"`

	AtWrite []atWrite `yaml:"at_write"`
}

// maxForeign bounds the number of messages that none of our programs sends.
const maxForeign = 10_000

// ParseFaults reads the file. Every error is a *strictyaml.Error that names line and column.
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
	case f.Foreign < 0 || f.Foreign > maxForeign:
		return nil, doc.Errorf("foreign_messages", "foreign_messages is %d: use 0 to %d", f.Foreign, maxForeign)
	case f.RetryPause < 0 || time.Duration(f.RetryPause) > batchemu.MaxNotice:
		return nil, doc.Errorf("retry_pause", "retry_pause is %s: use 0s to %s", f.RetryPause, batchemu.MaxNotice)
	}
	for _, err := range []error{
		check(doc, "preempt", f.Preempt), check(doc, "lose_machine", f.Lose), check(doc, "no_capacity", f.Shortage),
		check(doc, "full_disk", f.FullDisk), check(doc, "memory_limit", f.Memory),
		check(doc, "refuse_write", f.Refuse), check(doc, "lose_answer", f.LoseReply), check(doc, "read_fault", f.Read),
		check(doc, "clock_offset", f.Clocks), check(doc, "at_write", f.AtWrite),
	} {
		if err != nil {
			return nil, err
		}
	}
	return &f, nil
}

// check returns the first mistake in a list of faults, with its place in the file.
func check[F interface{ Check() error }](doc *strictyaml.Document, key string, faults []F) error {
	for i, f := range faults {
		if err := f.Check(); err != nil {
			return doc.Errorf(fmt.Sprintf("%s[%d]", key, i), "%v", err)
		}
	}
	return nil
}

// byClient reports whether any fault is limited to one client.
func (f *FaultSpec) byClient() bool {
	ofOne := func(r gcsemu.Refusal) bool { return r.Client != "" }
	return len(f.Clocks) > 0 || slices.ContainsFunc(f.Refuse, ofOne) || slices.ContainsFunc(f.LoseReply, ofOne) ||
		slices.ContainsFunc(f.Read, func(r gcsemu.ReadFault) bool { return r.Client != "" })
}

// restartsBatch reports whether a fault restarts Batch, which needs the jobs' files.
func (f *FaultSpec) restartsBatch() bool {
	return slices.ContainsFunc(f.AtWrite, func(a atWrite) bool { return a.Does == restartBatch })
}

func (f *FaultSpec) storage() gcsemu.Faults {
	return gcsemu.Faults{RefuseWrite: f.Refuse, LoseAnswer: f.LoseReply, Read: f.Read, Clocks: f.Clocks, Seed: f.Seed}
}

func (f *FaultSpec) messages() pubsubemu.Faults {
	return pubsubemu.Faults{Duplicate: f.Duplicate, Shuffle: f.Shuffle, Drop: f.Drop, LoseAcks: f.LoseAcks,
		Seed: f.Seed}
}

func (f *FaultSpec) machines() batchemu.Faults {
	return batchemu.Faults{Preempt: f.Preempt, LoseMachine: f.Lose, NoCapacity: f.Shortage, FullDisk: f.FullDisk,
		Memory: f.Memory, RetryPause: f.RetryPause}
}

// atWrite strikes when the Nth object whose name matches has been written, before its writer gets the answer. So the
// amount of work done decides when, not the speed of the machine.
type atWrite struct {
	Match string `yaml:"match"`
	Nth   int    `yaml:"nth"` // 0 is the first
	Does  string `yaml:"does"`

	VM      int            `yaml:"vm"`
	Task    int            `yaml:"task"`
	Code    int            `yaml:"code"`
	Notice  sweep.Duration `yaml:"notice"`
	Lingers sweep.Duration `yaml:"lingers"`
	For     sweep.Duration `yaml:"for"`
	Target  string         `yaml:"target"`
	How     string         `yaml:"how"`
}

// The actions of atWrite.
const (
	loseMachine      = "lose_machine"
	killTask         = "kill_task"
	pauseTask        = "pause_task"
	killAggregators  = "kill_aggregators"
	slowMachine      = "slow_machine"
	restartBatch     = "restart_batch"
	pauseAggregators = "pause_aggregators"
	damageObject     = "damage_object"
	damageDisk       = "damage_disk"
)

var deeds = []string{loseMachine, killTask, pauseTask, slowMachine, restartBatch, killAggregators, pauseAggregators,
	damageObject, damageDisk}

// Blow returns what happens to the machine.
func (a atWrite) blow() batchemu.Blow {
	return batchemu.Blow{Code: int32(a.Code), Notice: time.Duration(a.Notice),
		Lingers: time.Duration(a.Lingers)} //nolint:gosec // checked
}

func (a atWrite) Check() error {
	if err := gcsemu.CheckPattern(a.Match); err != nil {
		return err
	}

	lasts, damages := slices.Contains([]string{pauseTask, pauseAggregators, slowMachine}, a.Does),
		a.Does == damageObject || a.Does == damageDisk
	switch {
	case !slices.Contains(deeds, a.Does):
		return fmt.Errorf("does is %.40q: use one of %s", a.Does, strings.Join(deeds, ", "))
	case lasts && !proc.CanPause:
		return fmt.Errorf("does is %s: this system cannot stop a process for a while, as Linux and macOS can", a.Does)
	case a.Nth < 0 || a.VM < 0 || a.Task < 0:
		return fmt.Errorf("nth, vm and task cannot be negative")
	case a.Code != 0 && (a.Does != loseMachine || !slices.ContainsFunc(batchemu.BlowCodes(),
		func(c int32) bool { return int(c) == a.Code })):
		return fmt.Errorf("code is %d: use one of %v, with %s", a.Code, batchemu.BlowCodes(), loseMachine)
	case min(a.Notice, a.Lingers, a.For) < 0 || time.Duration(max(a.Notice, a.Lingers, a.For)) > batchemu.MaxNotice:
		return fmt.Errorf("notice, lingers and for: use 0s to %s", batchemu.MaxNotice)
	case a.Notice > 0 && a.Lingers > 0 || max(a.Notice, a.Lingers) > 0 && a.Does != loseMachine:
		return fmt.Errorf("notice or lingers goes with %s, and not both", loseMachine)
	case lasts != (a.For > 0):
		return fmt.Errorf("for goes with %s, %s and %s, and with nothing else", pauseTask, pauseAggregators,
			slowMachine)
	case damages != (a.Target != "") || damages != slices.Contains(gcsemu.Damages, a.How):
		return fmt.Errorf("target, and how as one of %s, go with %s and %s, and with nothing else",
			strings.Join(gcsemu.Damages, ", "), damageObject, damageDisk)
	case damages:
		return gcsemu.CheckPattern(a.Target)
	}
	return nil
}
