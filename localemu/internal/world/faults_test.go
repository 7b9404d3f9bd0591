//go:build unix

package world

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
)

const all = `seed: 7
duplicate_messages: true
shuffle_messages: true
drop_messages: 0.5
lose_acks: 0.25
lose_machine: {1: [3s]}
no_capacity: [{type: n2-highmem-2, zone: us-central1-a, spot: false, fail: true}]
cpus_all_regions: 12
refuse_write: [{match: "sweeps/*/trials/0003/**", times: 2, status: 500}]
lose_answer: [{match: "**", times: 1}]
read_fault: [{match: "datasets/**", times: 2, delay: 1s}, {match: "*", status: 429}]
at_write: [{match: "a", nth: 2, does: lose_machine, vm: 1, code: 50001, notice: 5s}, {match: "b", does: kill_task, task: 3}]
`

func TestParse(t *testing.T) {
	s := must.Get(ParseFaults("faults.yaml", []byte(all)))(t)
	if d := cmp.Diff(&FaultSpec{
		Seed: 7, Duplicate: true, Shuffle: true, Drop: 0.5, LoseAcks: 0.25,
		Lose: map[int][]sweep.Duration{1: {sweep.Duration(3 * time.Second)}},
		Shortage: []batchemu.Shortage{{MachineType: "n2-highmem-2", Zone: "us-central1-a", Spot: new(false),
			Fail: true}}, CPUs: 12,
		Refuse:    []gcsemu.Fault{{Match: "sweeps/*/trials/0003/**", Times: 2, Status: 500}},
		LoseReply: []gcsemu.Fault{{Match: "**", Times: 1}},
		Read: []gcsemu.Fault{{Match: "datasets/**", Times: 2, Delay: sweep.Duration(time.Second)},
			{Match: "*", Status: 429}},
		AtWrite: []atWrite{{Match: "a", Nth: 2, Does: loseMachine, VM: 1, Code: 50001,
			Notice: sweep.Duration(5 * time.Second)}, {Match: "b", Does: killTask, Task: 3}},
	}, s); d != "" {
		t.Errorf("parsed with differences (-expected +parsed):\n%s", d)
	}
}

func TestExampleIsValidAndComplete(t *testing.T) {
	s := must.Get(ParseFaults("example", []byte(FaultsExample)))(t)
	for i, v := 0, reflect.ValueOf(*s); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the example does not show %s", v.Type().Field(i).Tag.Get("yaml"))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(FaultsExample))
	f.Add([]byte("lose_machine: {0: [1s]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseFaults("f", data)
		var at *strictyaml.Error
		if err != nil {
			if !errors.As(err, &at) {
				t.Fatalf("%q is refused with a %T: %v; expected one with line and column", data, err, err)
			}
			return
		}
		for _, a := range s.AtWrite {
			if a.Match == "" || a.VM < 0 || a.Notice > 0 && a.Does != loseMachine {
				t.Fatalf("%q is accepted with %+v", data, a)
			}
		}
	})
}

// TestRefuses: each mistake is named with its line.
func TestRefuses(t *testing.T) {
	for text, where := range map[string]string{
		"drop_message: 1":                                         "f:1:1: unknown key",
		"drop_messages: 2":                                        "f:1:16: drop_messages",
		"lose_acks: -0.5":                                         "f:1:12: lose_acks",
		"no_capacity: [{zone: us-central1}]":                      "f:1:16: zone \"us-central1\"",
		"no_capacity: [{kind: spot}]":                             "kind",
		"cpus_all_regions: -1":                                    "f:1:19: cpus_all_regions",
		"lose_machine: {1: [-1s]}":                                "after -1s",
		"lose_machine: {1: [2]}":                                  "duration",
		"lose_machine: {-1: [1s]}":                                "machine -1",
		"lose_machine: {one: [1s]}":                               "one",
		"refuse_write: [{match: x, times: -1}]":                   "times is -1",
		"refuse_write: [{match: x, status: 200}]":                 "status is 200",
		"read_fault: [{match: x, delay: -1s}]":                    "delay is -1s",
		"lose_answer: [{times: 1}]":                               "match",
		"at_write: [{match: a, does: lose_machine}]":              "",
		"at_write: [{does: kill_task}]":                           "pattern",
		`at_write: [{match: "[", does: kill_task}]`:               "pattern",
		"at_write: [{match: a, does: dance}]":                     "lose_machine, kill_task",
		"at_write: [{match: a, does: kill_task, nth: -1}]":        "cannot be negative",
		"at_write: [{match: a, does: lose_machine, code: 50005}]": "50001 50002 50003 50004 50006",
		"at_write: [{match: a, does: kill_task, code: 50004}]":    "with lose_machine",
		"at_write: [{match: a, does: kill_task, notice: 2s}]":     "with lose_machine",
		"at_write: [{match: a, does: lose_machine, notice: 9h}]":  "5m",
	} {
		_, err := ParseFaults("f", []byte(text))
		var at *strictyaml.Error
		switch {
		case where == "" && err != nil:
			t.Errorf("%s: %v, want it accepted", text, err)
		case where != "" && (!errors.As(err, &at) || at.Line != 1 || !strings.Contains(err.Error(), where)):
			t.Errorf("%s: %v, want %q", text, err, where)
		}
	}
}

// TestAtTheSecondWrite: the aggregator is killed when the second plan is written, once, and starts again; the report at
// the end counts that.
func TestAtTheSecondWrite(t *testing.T) {
	program := filepath.Join(t.TempDir(), "aggregator")
	must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 100\n"), 0o700))
	spec := must.Get(ParseFaults("f", []byte("at_write: [{match: \"plans/*\", nth: 2, does: kill_aggregators}]\n")))(t)
	w, err := Start(t.Context(), Options{Data: t.TempDir(), Aggregator: program, Environ: os.Environ(), Faults: spec,
		Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	first := w.aggregators.running[0].proc
	for i, name := range []string{"plans/a", "other", "plans/b", "plans/c"} {
		answer, err := http.Post("http://"+w.storage.Addr()+"/upload/storage/v1/b/coppice-sweeps/o?uploadType=media&name="+
			name, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		w.script.mu.Lock()
		if got, want := w.script.counts["aggregator killed"], min(i/2, 1); got != want {
			t.Errorf("after writing %s the aggregator was killed %d times; want %d", name, got, want)
		}
		w.script.mu.Unlock()
	}
	<-first.Done()
	w.Close()

	var counts map[string]int
	text, err := os.ReadFile(filepath.Join(w.Data(), FaultsFile))
	if err == nil {
		err = json.Unmarshal(text, &counts)
	}
	if err != nil || counts["aggregator killed"] != 1 || len(counts) != 1 {
		t.Errorf("%s says %v, %v; want one aggregator killed", FaultsFile, counts, err)
	}
}
