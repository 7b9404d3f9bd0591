//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/search"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// With COPPICE_CHAOS_LIMITS, such as "patience: {trials: 3}", the sweeps of a chaos run have these limits, and a rule
// among them may end them. How many trials are trained depends on the order of arrival then. Whatever strikes, these
// hold:
//
//   - the registry has exactly one version or, if there is no winner, none, and the conclusion says why;
//   - every trial is done, or not trained with the reason that was decided;
//   - what was decided follows from what it has seen, by the rule as it is written here, by package search, and by
//     `launcher why`; and it has seen what the store had then;
//   - no trial was trained by a claim that was made after the decision had been written, by the store's clock.
//
// Only a limit of time that strikes breaks the second.

// chaosLimits returns what the sweeps' limits are, as the value of limits in sweep.yaml, and whether a rule among them
// may end a sweep. A mistake in them ends the test before anything runs.
func chaosLimits(t *testing.T) (text string, byRule bool) {
	t.Helper()
	given := strings.TrimSpace(os.Getenv("COPPICE_CHAOS_LIMITS"))
	var spec struct {
		Limits sweep.Limits `yaml:"limits"`
	}
	doc, err := strictyaml.Decode("LIMITS", []byte("limits: {"+given+"}\n"), &spec)
	if err != nil {
		t.Fatalf("COPPICE_CHAOS_LIMITS is %q: use keys of limits in sweep.yaml, such as patience: {trials: 3}, "+
			"target: 0.8\n%v", given, err)
	}

	entries := []string{}
	for _, usual := range [][2]string{{"trial", "2m"}, {"sweep", "5m"}} {
		if !doc.Has("limits." + usual[0]) {
			entries = append(entries, usual[0]+": "+usual[1])
		}
	}
	if given != "" {
		entries = append(entries, given)
	}
	return "limits: {" + strings.Join(entries, ", ") + "}", spec.Limits.Patience != nil || spec.Limits.Target != nil
}

// concludedAs reports whether a sweep may end so: with a winner of all trials, of those that were not stopped, or for a
// reason without one.
func concludedAs(c *sweep.Conclusion, byRule bool) bool {
	if c.Failed != 0 {
		return false
	}
	if byRule && c.Outcome != sweep.OutcomeWinner {
		return c.Reason != "" && c.Version == 0
	}
	return c.Outcome == sweep.OutcomeWinner && c.Version == 1 &&
		(c.Done == chaosTrials || c.Done > 0 && (byRule || chaosStop() != ""))
}

// addLimitFaults adds what strikes the decision to end, where a rule may end the sweep, which it returns. They are
// drawn apart, so that a seed without limits keeps what it had.
func (s *chaosScript) addLimitFaults(t *testing.T, seed uint64) (byRule bool) {
	t.Helper()
	if _, byRule = chaosLimits(t); !byRule {
		return false
	}
	r := rand.New(rand.NewPCG(seed, 0xe40))
	strikes := []func(){
		func() { s.add("refuse_write", `match: "sweeps/*/enough.json", times: %d, status: 503`, 1+r.IntN(3)) },
		func() { s.add("lose_answer", `match: "sweeps/*/enough.json", times: %d`, 1+r.IntN(2)) },
		func() {
			s.add("read_fault", `match: "sweeps/*/enough.json", times: %d, %s`, 1+r.IntN(4),
				[]string{"status: 503", "delay: 2s"}[r.IntN(2)])
		},
		func() { s.add("at_write", `match: "sweeps/*/enough.json", does: kill_task, task: %d`, r.IntN(4)) },
		func() {
			s.add("at_write", `match: "sweeps/*/enough.json", does: lose_machine, vm: %d, code: 50001`, r.IntN(2))
		},
		func() { s.add("at_write", `match: "sweeps/*/enough.json", does: kill_aggregators`) },
	}
	for _, add := range strikes {
		if r.Float64() < 0.5 {
			add()
		}
	}
	return true
}

// storeTime is when an object was written by the store's clock, in microseconds: its generation, from the emulator's
// record of it.
func (l *local) storeTime(object string) (int64, error) {
	records, err := filepath.Glob(filepath.Join(l.data, "gcs", ".records", "*.json"))
	if err != nil {
		return 0, err
	}
	for _, path := range records {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		var r struct {
			Object struct {
				Bucket, Name string
				Generation   int64 `json:",string"`
			}
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		if r.Object.Bucket == "coppice-sweeps" && r.Object.Name == object {
			return r.Object.Generation, nil
		}
	}
	return 0, fmt.Errorf("%s: the emulator has no record of it", object)
}

// limited is the end of a sweep with limits, as the objects tell it.
type limited struct {
	*local
	objects map[string]string // all of them
	plan    *sweep.Plan
	enough  *sweep.Enough // nil if no rule has ended the sweep
	decided int64         // when that was written
	wrong   func(string, ...any)
}

// keptLimits checks what is promised of a sweep with limits, and returns how many trials were not trained.
func (l *local) keptLimits(objects map[string]string, wrong func(string, ...any)) int {
	names := sweep.Names("chaos")
	e := &limited{local: l, objects: objects, wrong: wrong}
	var err error
	if e.plan, err = sweep.DecodePlan([]byte(objects["coppice-sweeps/"+names.Plan()])); err != nil {
		wrong("the plan: %v", err)
		return 0
	}
	if text, has := objects["coppice-sweeps/"+names.Enough()]; has {
		if e.enough, err = sweep.DecodeEnough([]byte(text)); err == nil {
			e.decided, err = l.storeTime(names.Enough())
		}
		if err != nil {
			wrong("the decision to end: %v", err)
			return 0
		}
		e.checkDecision()
	}

	var untrained []string
	for trial := range chaosTrials {
		r, err := sweep.DecodeResult([]byte(objects["coppice-sweeps/"+names.Result(trial)]))
		if err != nil {
			wrong("the result of trial %d: %v", trial, err)
			continue
		}
		e.checkTrial(trial, r)
		if r.Untrained() {
			untrained = append(untrained, strconv.Itoa(trial))
		}
	}
	if e.enough != nil {
		e.checkWhy(untrained)
	}
	return len(untrained)
}

// checkDecision checks that the decision follows from what it has seen, and that it has seen what the store had.
func (e *limited) checkDecision() {
	names, d := sweep.Names("chaos"), e.enough
	if err := search.ReplayEnough(e.plan, d); err != nil {
		e.wrong("%v", err)
	}
	if !e.reached(d) {
		e.wrong("the sweep was ended by %s (%s), and what had been seen does not reach it: %+v", d.Rule, d.Reason,
			d.Seen)
	}

	var last int64
	for _, s := range d.Seen {
		if s.Status != sweep.StatusDone { // paused at a rung, and perhaps done since
			continue
		}
		r, err := sweep.DecodeResult([]byte(e.objects["coppice-sweeps/"+names.Result(s.Trial)]))
		if err != nil || r.Status != s.Status || r.Score != *s.Score {
			e.wrong("the decision to end has seen %+v; trial %d has %+v (%v)", s, s.Trial, r, err)
			continue
		}
		at, err := e.storeTime(names.Result(s.Trial))
		if err != nil || at >= e.decided || at <= last {
			e.wrong("the decision to end, of %d, has seen %+v of %d after a result of %d (%v)", e.decided, s, at, last,
				err)
		}
		last = at
	}
}

// reached says whether the rule applies to what the decision has seen. It is written apart from package search, whose
// rule it checks.
func (e *limited) reached(d *sweep.Enough) bool {
	limits, sign := e.plan.Spec.Limits, -1.0
	if e.plan.Maximize {
		sign = 1
	}
	if d.Rule == sweep.RuleTarget {
		return limits.Target != nil && slices.ContainsFunc(d.Seen, func(s sweep.Seen) bool {
			return s.Status == sweep.StatusDone && sign**s.Score >= sign**limits.Target
		})
	}

	record := -1 // index of the last trial that was better than all before it
	for i, s := range d.Seen {
		if s.Status == sweep.StatusDone &&
			(record < 0 || sign*(*s.Score-*d.Seen[record].Score) > 0) {
			record = i
		}
	}
	return limits.Patience != nil && record >= 0 && len(d.Seen)-1-record >= limits.Patience.Trials
}

// checkTrial checks how a trial has ended, and that no claim after the decision has trained it.
func (e *limited) checkTrial(trial int, r *sweep.Result) {
	names := sweep.Names("chaos")
	switch {
	case r.Untrained() && e.enough == nil:
		e.wrong("trial %d was not trained, and nothing has ended the sweep: %s", trial, r.Reason)
		return
	case r.Untrained():
		at, err := e.storeTime(names.Result(trial))
		if err != nil || at <= e.decided || !strings.HasSuffix(r.Reason, e.enough.Reason) {
			e.wrong("trial %d was not trained, at %d (%v), because %q; want it after the decision of %d, because %q",
				trial, at, err, r.Reason, e.decided, e.enough.Reason)
		}
		return
	case r.Status == sweep.StatusStopped && chaosStop() != "":
		return
	case r.Status != sweep.StatusDone:
		e.wrong("trial %d ended %s: %s; want it done or not trained", trial, r.Status, r.Reason)
		return
	case e.enough == nil:
		return
	}

	object := names.Claim(trial, r.Claim)
	made, err := e.storeTime(object)
	switch {
	case err != nil:
		e.wrong("trial %d is done, by claim %d: %v", trial, r.Claim, err)
	case made > e.decided:
		e.wrong("trial %d was trained by claim %d of %d, after the decision of %d that the sweep has enough", trial,
			r.Claim, made, e.decided)
	}
}

// checkWhy asks the launcher, without faults, why trials were not trained.
func (e *limited) checkWhy(trials []string) {
	calm := &local{t: e.t, dir: e.dir, data: e.data}
	asked := calm.script("launcher=$1; shift\nfor trial; do \"$launcher\" why chaos \"$trial\" --json "+
		">\"why-$trial.json\"; done\n", trials...)
	if asked.code != 0 {
		e.wrong("launcher why ended with %d: %.1000s", asked.code, asked.errOut)
		return
	}
	for _, trial := range trials {
		var said struct {
			Enough   *sweep.Enough `json:"enough"`
			Replayed string        `json:"replayed"`
		}
		text, err := os.ReadFile(filepath.Join(e.dir, "why-"+trial+".json"))
		if err == nil {
			err = json.Unmarshal(text, &said)
		}
		if err != nil || said.Enough == nil || said.Enough.Reason != e.enough.Reason ||
			!reflect.DeepEqual(said.Enough.Seen, e.enough.Seen) ||
			said.Replayed != "repeating the decision gives the same result" {
			e.wrong("launcher why chaos %s says %.1000s (%v); want the decision %q, and that repeating it gives the "+
				"same result", trial, text, err, e.enough.Reason)
		}
	}
}
