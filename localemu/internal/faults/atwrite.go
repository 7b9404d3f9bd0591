//go:build unix

package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"coppice/internal/sweep"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
)

// AtWrite strikes when the Nth object whose name matches has been written, before its writer gets the answer. So the
// amount of work done decides when, not the speed of the machine.
type AtWrite struct {
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

// The actions of AtWrite.
const (
	LoseMachine      = "lose_machine"
	KillTask         = "kill_task"
	PauseTask        = "pause_task"
	KillAggregators  = "kill_aggregators"
	SlowMachine      = "slow_machine"
	RestartBatch     = "restart_batch"
	PauseAggregators = "pause_aggregators"
	DamageObject     = "damage_object"
	DamageDisk       = "damage_disk"
)

var deeds = []string{LoseMachine, KillTask, PauseTask, SlowMachine, RestartBatch, KillAggregators, PauseAggregators,
	DamageObject, DamageDisk}

// Blow returns what happens to the machine.
func (a AtWrite) Blow() batchemu.Blow {
	return batchemu.Blow{Code: int32(a.Code), Notice: time.Duration(a.Notice),
		Lingers: time.Duration(a.Lingers)} //nolint:gosec // checked
}

func (a AtWrite) check() error {
	if err := gcsemu.CheckPattern(a.Match); err != nil {
		return err
	}

	lasts, damages := slices.Contains([]string{PauseTask, PauseAggregators, SlowMachine}, a.Does),
		a.Does == DamageObject || a.Does == DamageDisk
	switch {
	case !slices.Contains(deeds, a.Does):
		return fmt.Errorf("does is %.40q: use one of %s", a.Does, strings.Join(deeds, ", "))
	case a.Nth < 0 || a.VM < 0 || a.Task < 0:
		return fmt.Errorf("nth, vm and task are not negative")
	case a.Code != 0 && (a.Does != LoseMachine || !slices.ContainsFunc(batchemu.BlowCodes(), func(c int32) bool { return int(c) == a.Code })):
		return fmt.Errorf("code is %d: use one of %v, with %s", a.Code, batchemu.BlowCodes(), LoseMachine)
	case min(a.Notice, a.Lingers, a.For) < 0 || time.Duration(max(a.Notice, a.Lingers, a.For)) > maxNotice:
		return fmt.Errorf("notice, lingers and for are 0s to %s", maxNotice)
	case a.Notice > 0 && a.Lingers > 0 || max(a.Notice, a.Lingers) > 0 && a.Does != LoseMachine:
		return fmt.Errorf("notice or lingers goes with %s, and not both", LoseMachine)
	case lasts != (a.For > 0):
		return fmt.Errorf("for goes with %s, %s and %s, and with nothing else", PauseTask, PauseAggregators,
			SlowMachine)
	case damages != (a.Target != "") || damages != slices.Contains(gcsemu.Damages, a.How):
		return fmt.Errorf("target, and how as one of %s, go with %s and %s, and with nothing else",
			strings.Join(gcsemu.Damages, ", "), DamageObject, DamageDisk)
	case damages:
		return gcsemu.CheckPattern(a.Target)
	}
	return nil
}
