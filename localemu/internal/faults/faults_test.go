//go:build unix

package faults

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
	"coppice/localemu/pubsubemu"
)

const all = `seed: 7
duplicate_messages: true
shuffle_messages: true
drop_messages: 0.5
preempt:
  - {task: 0, attempt: 1, after: 2s}
  - {vm: 1, after: 3s, notice: 20s}
lose_machine: [{vm: 1, after: 0s}]
no_capacity: [{type: n2-highmem-2, zone: us-central1-a, spot: false, fail: true}]
refuse_write: [{match: "sweeps/*/trials/0003/**", times: 2, status: 500}]
lose_answer: [{match: "**", times: 1}]
read_fault: [{match: "datasets/**", does: slow, times: 2, rate: 0.5, delay: 1s}, {match: "*", does: refuse, status: 429}]
kill_aggregator: [{after_messages: 10}, {after_messages: 20, restart: false}]
lose_acks: 0.25
retry_pause: 2s
full_disk: [{vm: 1, for: 3s}]
`

func TestParse(t *testing.T) {
	s, err := Parse("faults.yaml", []byte(all))
	if err != nil {
		t.Fatal(err)
	}
	one, spot := 1, false
	if d := cmp.Diff(batchemu.Faults{
		Preempt: []batchemu.Preemption{{Task: 0, Attempt: 1, After: 2 * time.Second},
			{VM: &one, After: 3 * time.Second, Notice: 20 * time.Second}},
		LoseMachine: []batchemu.MachineLoss{{VM: 1}},
		NoCapacity:  []batchemu.Shortage{{MachineType: "n2-highmem-2", Zone: "us-central1-a", Spot: &spot, Fail: true}},
		FullDisk:    []batchemu.FullDisk{{VM: 1, For: 3 * time.Second}},
		RetryPause:  2 * time.Second,
	}, s.Batch()); d != "" {
		t.Errorf(`cmp.Diff(...): got %v; want d = ""`, d)
	}
	if d := cmp.Diff(gcsemu.Faults{
		RefuseWrite: []gcsemu.Refusal{{Match: "sweeps/*/trials/0003/**", Times: 2, Status: 500}},
		LoseAnswer:  []gcsemu.Refusal{{Match: "**", Times: 1}},
		Read: []gcsemu.ReadFault{{Match: "datasets/**", Does: "slow", Times: 2, Rate: 0.5, Delay: sweep.Duration(time.Second)},
			{Match: "*", Does: "refuse", Status: 429}},
		Seed: 7,
	}, s.Storage()); d != "" {
		t.Errorf(`cmp.Diff(...): got %v; want d = ""`, d)
	}
	if d := cmp.Diff(pubsubemu.Faults{Duplicate: true, Shuffle: true, Drop: 0.5, LoseAcks: 0.25, Seed: 7},
		s.PubSub()); d != "" {
		t.Errorf(`cmp.Diff(...): got %v; want d = ""`, d)
	}
	if len(s.Kill) != 2 || !s.Kill[0].Restarts() || s.Kill[1].Restarts() || s.Kill[1].AfterMessages != 20 {
		t.Errorf("got %+v; want len(s.Kill) = 2, s.Kill[0].Restarts(), not s.Kill[1].Restarts(), "+
			"s.Kill[1].AfterMessages = 20", s.Kill)
	}
}

func TestExampleIsValidAndComplete(t *testing.T) {
	s, err := Parse("example", []byte(Example))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := 0, reflect.ValueOf(*s); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the example does not show %s", v.Type().Field(i).Tag.Get("yaml"))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(Example))
	f.Add([]byte("preempt: [{vm: 0}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f", data)
		var at *strictyaml.Error
		if err != nil {
			if !errors.As(err, &at) {
				t.Fatalf("got %T: %v; want err of the type of at", err, err)
			}
			return
		}
		if b := s.Batch(); len(b.Preempt) != len(s.Preempt) || s.PubSub().Check() != nil {
			t.Fatalf("s.Batch(): got %+v; want len(b.Preempt) = len(s.Preempt), s.PubSub().Check() = nil", s)
		}
	})
}

func TestRefuses(t *testing.T) {
	for text, where := range map[string]string{
		"drop_message: 1":                                       "f:1:1: unknown key",
		"drop_messages: 2":                                      "f:1:16: drop_messages",
		"preempt: [{task: 1, vm: 1}]":                           "f:1:12: give either",
		"preempt: [{after: 1s}]":                                "f:1:12: give either",
		"no_capacity: [{zone: us-central1}]":                    "f:1:22: zone \"us-central1\"",
		"no_capacity: [{kind: spot}]":                           "kind",
		"preempt: [{task: -1}]":                                 "f:1:12: task, attempt and vm",
		"preempt: [{task: 1, after: -1s}]":                      "after is -1s",
		"preempt: [{task: 1, after: 2}]":                        "duration",
		"preempt: [{task: 1, after_messages: -1}]":              "after_messages is -1",
		"lose_machine: [{vm: 1, after: 1s, after_messages: 2}]": "give either after or after_messages",
		"lose_machine: [{vm: -1}]":                              "vm counts from 0",
		"refuse_write: [{match: x}]":                            "times is 0",
		"refuse_write: [{match: x, times: 1, status: 200}]":     "status is 200",
		"lose_answer: [{match: x, times: 1, client: task-x}]":   "client is",
		"read_fault: [{match: x, does: cut, client: tasks}]":    "client is",
		"memory_limit: [{task: 1}]":                             "mib is 0",
		"memory_limit: [{mib: 5}]":                              "either task or vm",
		"memory_limit: [{task: -1, mib: 5}]":                    "count from 0",
		"lose_answer: [{times: 1}]":                             "match",
		"kill_aggregator: [{}]":                                 "after_messages is 0",
		"kill_aggregator: {after_messages: 1}":                  "f:1:",
	} {
		_, err := Parse("f", []byte(text))
		var at *strictyaml.Error
		if !errors.As(err, &at) || at.Line != 1 || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: %v, want %q", text, err, where)
		}
	}
}
