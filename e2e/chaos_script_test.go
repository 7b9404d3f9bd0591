//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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

// early is a moment that comes soon, so that there is time left for what follows.
func early(r *rand.Rand) string {
	match := []string{"claims/*", "checkpoints/**", "heartbeats/*"}[r.IntN(3)]
	return fmt.Sprintf(`match: "sweeps/*/trials/*/%s", nth: %d`, match, 1+r.IntN(5))
}

// most is the share of the scripts that have a class; some of those entries come to nothing.
const most = 0.8

func chaosClasses() []chaosClass {
	machine := func(code int) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: lose_machine, vm: %d, code: %d", moment(r), r.IntN(2), code)
		}
	}
	read := func(does, more string) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			match := []string{"datasets/*/*/**", "sweeps/*/trials/**"}[r.IntN(2)]
			s.add("read_fault", `match: "%s", does: %s, times: %d%s`, match, does, 1+r.IntN(3), more)
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
		{"task doubled", most, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: lose_machine, vm: %d, lingers: %ds", moment(r), r.IntN(2), 3+r.IntN(20))
		}},
		{"task killed", most, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: kill_task, task: %d", moment(r), r.IntN(4))
		}},
		{"task paused", most, func(r *rand.Rand, s *chaosScript) {
			// takeover is 15 s
			s.add("at_write", "%s, does: pause_task, task: %d, for: %ds", early(r), r.IntN(4), 1+r.IntN(22))
		}},
		{"pause before a retry", 0.65,
			func(r *rand.Rand, s *chaosScript) { s.say("retry_pause: %dms", 200+r.IntN(2000)) }},
		{"disk full", 0.65, func(r *rand.Rand, s *chaosScript) {
			s.add("full_disk", "vm: %d, for: %ds", r.IntN(2),
				1+r.IntN(4))
		}},
		{"disk damaged", most, func(r *rand.Rand, s *chaosScript) {
			for range 2 {
				target := []string{"train/targets.arrow", "train/rows.arrow", "train/columns.arrow",
					"valid/targets.arrow", "*/*.arrow", "manifest.json"}[r.IntN(6)]
				how := []string{"flip", "zero", "cut"}[r.IntN(3)]
				s.add("at_write", `%s, does: damage_disk, vm: %d, target: "**/%s", how: %s`, early(r), r.IntN(2),
					target, how)
			}
		}},
		{"object damaged", most, func(r *rand.Rand, s *chaosScript) {
			for range 2 + r.IntN(3) {
				target := []string{"claims/*", "heartbeats/*", "checkpoints/**", "releases/*", "curves/*"}[r.IntN(5)]
				how := []string{"flip", "zero", "cut", "empty"}[r.IntN(4)]
				s.add("at_write", `%s, does: damage_object, target: "sweeps/*/trials/*/%s", how: %s`, moment(r), target,
					how)
			}
		}},
		{"aggregator killed", most, func(r *rand.Rand, s *chaosScript) {
			for range 1 + r.IntN(3) {
				match := []string{"sweeps/*/ending.json", "registry/**", "sweeps/*/trials/*/result.json"}[r.IntN(3)]
				s.add("at_write", `match: "%s", nth: %d, does: kill_aggregators`, match, 1+r.IntN(4)%chaosTrials)
			}
			s.add("at_write", `match: "sweeps/*/ending.json", does: kill_aggregators`)
		}},
		{"aggregator paused", most, func(r *rand.Rand, s *chaosScript) {
			match := []string{"sweeps/*/ending.json", "registry/**", "sweeps/*/trials/*/result.json"}[r.IntN(3)]
			s.add("at_write", `match: "%s", does: pause_aggregators, for: %ds`, match, 1+r.IntN(4))
		}},
		{"write refused", most, func(r *rand.Rand, s *chaosScript) {
			write("refuse_write", fmt.Sprintf(", status: %d", []int{429, 500, 503}[r.IntN(3)]))(r, s)
		}},
		{"answer lost", most, write("lose_answer", "")},
		{"read: refuse", most, func(r *rand.Rand, s *chaosScript) {
			read("refuse", fmt.Sprintf(", status: %d", []int{429, 503}[r.IntN(2)]))(r, s)
		}},
		{"read: cut", most, read("cut", "")},
		{"read: flip", most, read("flip", "")},
		{"read: slow", most, read("slow", ", delay: 700ms")},
		{"read: hang", most, read("hang", ", delay: 3s")},
		{"message dropped", most,
			func(r *rand.Rand, s *chaosScript) { s.say("drop_messages: %.1f", 0.2+0.8*r.Float64()) }},
		{"message doubled", most, func(_ *rand.Rand, s *chaosScript) { s.say("duplicate_messages: true") }},
		{"messages shuffled", most, func(_ *rand.Rand, s *chaosScript) { s.say("shuffle_messages: true") }},
		{"foreign message", most, func(r *rand.Rand, s *chaosScript) { s.say("foreign_messages: %d", 1+r.IntN(20)) }},
		{"acknowledgement lost", most,
			func(r *rand.Rand, s *chaosScript) { s.say("lose_acks: %.1f", 0.3+0.7*r.Float64()) }},
	}
}

// laterClasses came when seeds had been written down: they are drawn apart, so that a seed keeps what it had.
func laterClasses() []chaosClass {
	return []chaosClass{
		{"one client alone", most, func(r *rand.Rand, s *chaosScript) {
			does := []string{"refuse", "cut", "flip", "slow, delay: 2s", "hang, delay: 3s"}[r.IntN(5)]
			s.add("read_fault", `match: "%s", does: %s, times: %d, client: task-%d`,
				[]string{"datasets/**", "sweeps/**"}[r.IntN(2)], does, 1+r.IntN(5), r.IntN(4))
			s.add("read_fault", `match: "sweeps/**", does: %s, times: %d, client: %s`, does, 1+r.IntN(3),
				[]string{"aggregator", "launcher"}[r.IntN(2)])
			s.add("refuse_write", `match: "sweeps/*/trials/**", times: %d, client: task-%d`, 1+r.IntN(4), r.IntN(4))
			s.add("lose_answer", `match: "%s", times: 1, client: aggregator`,
				[]string{"sweeps/*/ending.json", "registry/**"}[r.IntN(2)])
		}},
		{"memory limit", most, func(r *rand.Rand, s *chaosScript) {
			s.add("memory_limit", "task: %d, mib: %d, times: 1", r.IntN(4), 6+r.IntN(8))
			s.add("memory_limit", "vm: %d, mib: %d, times: 1", r.IntN(2), 10+r.IntN(16))
		}},
	}
}

// latestClasses came after those, and are drawn apart for the same reason.
func latestClasses() []chaosClass {
	return []chaosClass{
		{"machine slow", most, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: slow_machine, vm: %d, for: %ds", early(r), r.IntN(2), 2+r.IntN(10))
		}},
		{"clock wrong", 0.65, func(r *rand.Rand, s *chaosScript) {
			for _, task := range r.Perm(4)[:2] {
				s.add("clock_offset", "client: task-%d, ahead: %ds", task, []int{-400, 400, -7200, 7200, 30}[r.IntN(5)])
			}
			s.add("clock_offset", "client: aggregator, ahead: %ds", []int{-400, 400}[r.IntN(2)])
		}},
		{"Batch restarted", 0.65, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: restart_batch", early(r))
		}},
	}
}

// lastClasses came last, and are drawn apart for the same reason.
func lastClasses() []chaosClass {
	return []chaosClass{
		{"object damaged", most, func(r *rand.Rand, s *chaosScript) {
			for range 2 {
				s.add("at_write", `match: "sweeps/*/trials/*/checkpoints/**", nth: %d, does: damage_object, `+
					`target: "sweeps/*/trials/*/checkpoints/**", how: cut`, 1+r.IntN(12))
			}
		}},
		{"read: flip", most, func(r *rand.Rand, s *chaosScript) { // always: the checksum is never right
			s.add("read_fault", `match: "sweeps/*/trials/%04d/checkpoints/**", does: flip`, r.IntN(chaosTrials))
		}},
		{sweepCancelled, 0.25, func(r *rand.Rand, s *chaosScript) {
			s.cancel = []string{fmt.Sprintf("%.1f", 4*r.Float64())}
		}},
	}
}

// allClasses are those of the table.
func allClasses() []chaosClass {
	return slices.Concat(chaosClasses(), laterClasses(), latestClasses())
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

	for stream, classes := range [][]chaosClass{laterClasses(), latestClasses(), lastClasses()} {
		r = rand.New(rand.NewPCG(seed, []uint64{0x1a7e, 0x1a7e57, 0x2ace}[stream]))
		for _, c := range classes {
			if r.Float64() < c.share {
				c.add(r, s)
			}
		}
	}
	return s
}

// sweepCancelled is what a person does, and counted by follow.
const sweepCancelled = "sweep cancelled"
