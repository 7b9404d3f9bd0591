package protocol

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"
)

// model is a world of machines and what lies between them, as a graph of states.
type model[S comparable] interface {
	start() S
	// next calls visit with every state that may follow s, and with a description of what is wrong with it, or an empty
	// string.
	next(s S, visit func(by step, then S, wrong string))
}

// step is one move in a world, for traces.
type step struct {
	who  int8
	what string
}

func (s step) String() string {
	if s.who < 0 {
		return s.what
	}
	return fmt.Sprintf("%d %s", s.who, s.what)
}

// found is the result of an exploration.
type found struct {
	states, steps int
	took          time.Duration
	wrong         string
	trace         []string // a shortest path to the error
}

// explore walks through all states of a world, breadth first, until it finds an error or has seen all states or limit
// of them. sample, which may be nil, checks every so-many-th state and describes what is wrong with it.
func explore[S comparable](m model[S], limit, every int, sample func(S) string) (f found) {
	begin := time.Now()
	defer func() { f.took = time.Since(begin) }()

	// Only 128 bits of a seen state are kept, with its predecessor.
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	type key [2]uint64
	keyOf := func(s S) key { return key{maphash.Comparable(seeds[0], s), maphash.Comparable(seeds[1], s)} }

	type reached struct {
		from int32
		by   step
	}
	start := m.start()
	seen := make(map[key]struct{}, limit/4)
	seen[keyOf(start)] = struct{}{}
	ways := append(make([]reached, 0, limit/4), reached{from: -1})
	trace := func(at int32, last step) []string {
		out := []string{last.String()}
		for ; ways[at].from >= 0; at = ways[at].from {
			out = append([]string{ways[at].by.String()}, out...)
		}
		return out
	}

	type open struct {
		state S
		index int32
	}
	frontier := []open{{start, 0}}
	for len(frontier) > 0 {
		var after []open
		for _, o := range frontier {
			m.next(o.state, func(by step, then S, wrong string) {
				f.steps++
				if f.wrong != "" {
					return
				}
				if wrong != "" {
					f.wrong, f.trace = wrong, trace(o.index, by)
					return
				}

				k := keyOf(then)
				if _, known := seen[k]; known {
					return
				}
				seen[k] = struct{}{}
				ways = append(ways, reached{o.index, by})
				after = append(after, open{then, int32(len(ways) - 1)})

				if sample != nil && len(ways)%every == 0 {
					if wrong := sample(then); wrong != "" {
						f.wrong, f.trace = wrong, trace(o.index, by)
					}
				}
			})
			f.states = len(ways)
			if f.wrong != "" || f.states >= limit {
				return f
			}
		}
		frontier = after
	}
	return f
}

func (f found) String() string {
	return fmt.Sprintf("%d states, %d steps, %s: %s\n\t%s", f.states, f.steps, f.took.Round(time.Millisecond), f.wrong,
		strings.Join(f.trace, "\n\t"))
}
