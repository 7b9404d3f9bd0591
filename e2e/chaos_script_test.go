//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// chaosClass is a kind of faults: what localemu counts it as, and what a script says to have it.
type chaosClass struct {
	counted string
	share   float64 // of the scripts
	add     func(r *rand.Rand, s *chaosScript)
}

// chaosScript is what a run's file of faults says, by key.
type chaosScript struct {
	keys    []string
	entries map[string][]string
	plain   []string
	args    []string
	cancel  []string // empty, or after how many seconds the sweep is cancelled
}

func (s *chaosScript) say(format string, args ...any) {
	s.plain = append(s.plain, fmt.Sprintf(format, args...))
}

func (s *chaosScript) add(key, format string, args ...any) {
	if s.entries[key] == nil {
		s.keys = append(s.keys, key)
	}
	s.entries[key] = append(s.entries[key], fmt.Sprintf("  - {"+format+"}", args...))
}

func (s *chaosScript) text() string {
	lines := slices.Clone(s.plain)
	for _, key := range s.keys {
		lines = append(append(lines, key+":"), s.entries[key]...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// chaosTrials is how many trials the sweep has, on two machines with two tasks each.
const chaosTrials = 10

// moment is a write at which something may strike, while machines still have work.
func moment(r *rand.Rand) string {
	match := []string{"claims/*", "checkpoints/**", "heartbeats/*", "result.json", "attempts/**"}[r.IntN(5)]
	return fmt.Sprintf(`match: "sweeps/*/trials/*/%s", nth: %d`, match, 1+r.IntN(7))
}

// most is the share of the scripts that have a class; some of those entries come to nothing.
const most = 0.8

// sweepCancelled is what a person does, and counted by follow.
const sweepCancelled = "sweep cancelled"

func chaosClasses() []chaosClass {
	machine := func(code int) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: lose_machine, vm: %d, code: %d", moment(r), r.IntN(2), code)
		}
	}
	read := func(more string) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			match := []string{"datasets/*/*/**", "sweeps/*/trials/**"}[r.IntN(2)]
			s.add("read_fault", `match: "%s", times: %d, %s`, match, 1+r.IntN(3), more)
		}
	}
	write := func(key, more string) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			for range 1 + r.IntN(3) {
				match := []string{"claims/*", "checkpoints/**", "heartbeats/*", "result.json", "attempts/**",
					"releases/*"}[r.IntN(5)]
				s.add(key, `match: "sweeps/*/trials/*/%s", times: %d%s`, match, 1+r.IntN(3), more)
			}
			match := []string{"sweeps/*/ending.json", "sweeps/*/conclusion.json", "registry/**"}[r.IntN(3)]
			s.add(key, `match: "%s", times: 1%s`, match, more)
		}
	}
	return []chaosClass{
		{"machine preempted (50001)", most, machine(50001)},
		{"machine lost (50002)", most, machine(50002)},
		{"machine rebooted (50003)", most, machine(50003)},
		{"machine unresponsive (50004)", most, machine(50004)},
		{"machine recreated (50006)", most, machine(50006)},
		{"notice before the end", most, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: lose_machine, vm: %d, code: 50001, notice: 8s", moment(r), r.IntN(2))
		}},
		{"task killed", most, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: kill_task, task: %d", moment(r), r.IntN(4))
		}},
		{"aggregator killed", most, func(r *rand.Rand, s *chaosScript) {
			for range 1 + r.IntN(3) {
				match := []string{"sweeps/*/ending.json", "registry/**", "sweeps/*/trials/*/result.json"}[r.IntN(3)]
				s.add("at_write", `match: "%s", nth: %d, does: kill_aggregators`, match, 1+r.IntN(4)%chaosTrials)
			}
			s.add("at_write", `match: "sweeps/*/ending.json", does: kill_aggregators`)
		}},
		{"write refused", most, func(r *rand.Rand, s *chaosScript) {
			write("refuse_write", fmt.Sprintf(", status: %d", []int{429, 500, 503}[r.IntN(3)]))(r, s)
			s.add("refuse_write", `match: "**", status: 429`) // the service's limit
		}},
		{"answer lost", most, write("lose_answer", "")},
		{"read refused", most, func(r *rand.Rand, s *chaosScript) {
			read(fmt.Sprintf("status: %d", []int{429, 503}[r.IntN(2)]))(r, s)
		}},
		{"delay", most, read("delay: 700ms")},
		{"message dropped", most,
			func(r *rand.Rand, s *chaosScript) { s.say("drop_messages: %.1f", 0.2+0.8*r.Float64()) }},
		{"message doubled", most, func(_ *rand.Rand, s *chaosScript) { s.say("duplicate_messages: true") }},
		{"messages shuffled", most, func(_ *rand.Rand, s *chaosScript) { s.say("shuffle_messages: true") }},
		{"acknowledgement lost", most,
			func(r *rand.Rand, s *chaosScript) { s.say("lose_acks: %.1f", 0.3+0.7*r.Float64()) }},
		{sweepCancelled, 0.25, func(r *rand.Rand, s *chaosScript) {
			s.cancel = []string{fmt.Sprintf("%.1f", 4*r.Float64())}
		}},
	}
}

// newScript is the script of a seed.
func newScript(seed uint64) *chaosScript {
	r := rand.New(rand.NewPCG(seed, 0xc4a05))
	s := &chaosScript{entries: map[string][]string{}}
	s.say("seed: %d", seed)
	for _, c := range chaosClasses() {
		if r.Float64() < c.share {
			c.add(r, s)
		}
	}
	s.args = []string{"--aggregators", strconv.Itoa(1 + r.IntN(3))}
	return s
}

// fired is in how many runs a class has struck.
func fired(runs []chaosRun, class string) (n int) {
	for _, r := range runs {
		if r.struck[class] > 0 {
			n++
		}
	}
	return n
}

// chaosTable is what struck how often.
func chaosTable(runs []chaosRun) string {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"fault", "runs", "share", "times"})
	for _, c := range chaosClasses() {
		times, n := 0, fired(runs, c.counted)
		for _, r := range runs {
			times += r.struck[c.counted]
		}
		t.AppendRow(table.Row{c.counted, n, fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, len(runs)))), times})
	}

	var took time.Duration
	wrong, claims, cancelled := 0, 0, 0
	for _, r := range runs {
		took += r.took
		claims += r.claims
		if len(r.wrong) > 0 {
			wrong++
		}
		if r.cancelled {
			cancelled++
		}
	}
	return fmt.Sprintf("%s\n\n%d sweeps of %d trials, %d cancelled, %d claims, %d broke a promise; %.1f s a "+
		"sweep\n", t.RenderMarkdown(), len(runs), chaosTrials, cancelled, claims, wrong,
		took.Seconds()/float64(max(1, len(runs))))
}
