//go:build unix

package world

import (
	"strings"
	"testing"
)

// TestFaultsAtWritesAreChecked: each mistake is named with its line.
func TestFaultsAtWritesAreChecked(t *testing.T) {
	for entry, says := range map[string]string{
		`{match: "a", does: lose_machine, vm: 1, code: 50004}`:          "",
		`{match: "a", does: slow_machine, vm: 1, for: 3s}`:              "",
		`{match: "a", does: restart_batch}`:                             "",
		`{match: "a", does: slow_machine}`:                              "for goes with",
		`{match: "a", does: restart_batch, for: 3s}`:                    "for goes with",
		`{match: "a", does: lose_machine, notice: 3s}`:                  "",
		`{match: "a", does: lose_machine, lingers: 3s, nth: 4}`:         "",
		`{match: "a", does: pause_task, task: 2, for: 3s}`:              "",
		`{match: "a", does: damage_disk, target: "**/x", how: cut}`:     "",
		`{does: kill_task}`:                                             "pattern",
		`{match: "[", does: kill_task}`:                                 "pattern",
		`{match: "a", does: dance}`:                                     "lose_machine, kill_task",
		`{match: "a", does: kill_task, nth: -1}`:                        "cannot be negative",
		`{match: "a", does: lose_machine, code: 50005}`:                 "50001 50002 50003 50004 50006",
		`{match: "a", does: kill_task, code: 50004}`:                    "with lose_machine",
		`{match: "a", does: kill_task, notice: 2s}`:                     "lose_machine",
		`{match: "a", does: lose_machine, notice: 2s, lingers: 2s}`:     "not both",
		`{match: "a", does: pause_task}`:                                "for goes with",
		`{match: "a", does: kill_task, for: 2s}`:                        "for goes with",
		`{match: "a", does: pause_aggregators, for: 9h}`:                "5m",
		`{match: "a", does: damage_object, target: "b"}`:                "flip, zero, cut, empty",
		`{match: "a", does: damage_object, how: flip}`:                  "target",
		`{match: "a", does: damage_object, target: "[", how: flip}`:     "pattern",
		`{match: "a", does: kill_aggregators, target: "b", how: empty}`: "nothing else",
	} {
		_, err := ParseFaults("faults.yaml", []byte("at_write:\n  - "+entry+"\n"))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "faults.yaml:2")) {
			t.Errorf("%s: %v; want an error at faults.yaml:2 that says %q, or none where that is empty", entry, err,
				says)
		}
	}
}
