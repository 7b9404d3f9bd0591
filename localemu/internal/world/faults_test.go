//go:build unix

package world

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
lose_acks: 0.25
retry_pause: 2s
full_disk: [{vm: 1, for: 3s}]
`

func TestParse(t *testing.T) {
	s, err := ParseFaults("faults.yaml", []byte(all))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&FaultSpec{
		Seed: 7, Duplicate: true, Shuffle: true, Drop: 0.5, LoseAcks: 0.25, RetryPause: sweep.Duration(2 * time.Second),
		Preempt: []batchemu.Preemption{{Task: new(0), Attempt: 1, After: sweep.Duration(2 * time.Second)},
			{VM: new(1), After: sweep.Duration(3 * time.Second), Notice: sweep.Duration(20 * time.Second)}},
		Lose: []batchemu.MachineLoss{{VM: 1}},
		Shortage: []batchemu.Shortage{{MachineType: "n2-highmem-2", Zone: "us-central1-a", Spot: new(false),
			Fail: true}},
		FullDisk:  []batchemu.FullDisk{{VM: 1, For: sweep.Duration(3 * time.Second)}},
		Refuse:    []gcsemu.Refusal{{Match: "sweeps/*/trials/0003/**", Times: 2, Status: 500}},
		LoseReply: []gcsemu.Refusal{{Match: "**", Times: 1}},
		Read: []gcsemu.ReadFault{{Match: "datasets/**", Does: "slow", Times: 2, Rate: 0.5,
			Delay: sweep.Duration(time.Second)},
			{Match: "*", Does: "refuse", Status: 429}},
	}, s); d != "" {
		t.Errorf("parsed with differences (-expected +parsed):\n%s", d)
	}
}

func TestExampleIsValidAndComplete(t *testing.T) {
	s, err := ParseFaults("example", []byte(FaultsExample))
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
	f.Add([]byte(FaultsExample))
	f.Add([]byte("preempt: [{vm: 0}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseFaults("f", data)
		var at *strictyaml.Error
		if err != nil {
			if !errors.As(err, &at) {
				t.Fatalf("%q is refused with a %T: %v; expected one with line and column", data, err, err)
			}
			return
		}
		for _, p := range s.Preempt {
			if (p.Task == nil) == (p.VM == nil) {
				t.Fatalf("%q is accepted with %+v, expected either a task or a machine", data, p)
			}
		}
	})
}

func TestRefuses(t *testing.T) {
	for text, where := range map[string]string{
		"drop_message: 1":                                       "f:1:1: unknown key",
		"drop_messages: 2":                                      "f:1:16: drop_messages",
		"lose_acks: -0.5":                                       "f:1:12: lose_acks",
		"preempt: [{task: 1, vm: 1}]":                           "f:1:12: give either",
		"preempt: [{after: 1s}]":                                "f:1:12: give either",
		"no_capacity: [{zone: us-central1}]":                    "f:1:16: zone \"us-central1\"",
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
	} {
		_, err := ParseFaults("f", []byte(text))
		var at *strictyaml.Error
		if !errors.As(err, &at) || at.Line != 1 || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: %v, want %q", text, err, where)
		}
	}
}
