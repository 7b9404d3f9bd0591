package quote

import (
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// What several machines add to a final training, beside their share of its work. bench/machines.py --extrapolate has
// the same numbers, and docs/cost.md their source.
const (
	exchanges = 1.5  // for each split, beside gbt.Params.Exchanges: three for those that are prepared together
	exchange  = 1e-3 // of few words, in seconds: 0.1 to 1.1 ms between two processes (docs/machines.md)
	network   = 10e9 // bits a second that a machine sends
	binBytes  = 16   // bytes of a bin, where a leaf is large
)

// sent is how many bytes each of several machines sends for a tree, at most.
func sent(m *dataset.Manifest, leaves float64, machines int) float64 {
	bins := 0
	for i := range m.Features {
		bins += m.Features[i].Bins
	}
	return leaves * float64(bins) * binBytes * float64(machines-1) / float64(machines)
}

// together is how long several machines take for a training that takes one that many seconds.
func together(m *dataset.Manifest, p gbt.Params, seconds float64, machines int) float64 {
	if machines < 2 {
		return seconds
	}
	n := (leaves(p)-1)*exchanges + float64(p.Exchanges(machines))
	perTree := n*exchange + sent(m, leaves(p), machines)*8/network
	return seconds/float64(machines) + float64(p.NumIterations*p.NumClass)*perTree
}

// sharing counts what machines that train a trial together gain: by how many of them, how many times as fast as alone.
type sharing struct{ alone, together []float64 } // seconds of all trials so far

func (s *sharing) add(m *dataset.Manifest, p gbt.Params, seconds float64) {
	for i := range s.together {
		s.alone[i] += seconds
		s.together[i] += together(m, p, seconds, i+1)
	}
}

// makespan is that of package function makespan, where a task that finds no trial takes part in one of another, until
// that has as many as it may have.
func (s *sharing) makespan(seconds []float64, tasks int) float64 {
	most := len(s.together)
	if most < 2 {
		return makespan(seconds, tasks)
	}
	type held struct {
		left float64 // seconds, alone
		by   int
	}
	speed := func(h held) float64 { return s.alone[h.by-1] / s.together[h.by-1] }

	var all []held
	at, free := 0.0, tasks
	for len(all)+len(seconds) > 0 {
		for ; free > 0 && len(seconds) > 0; free-- {
			all, seconds = append(all, held{seconds[0], 1}), seconds[1:]
		}
		for ; free > 0; free-- {
			least := 0
			for i := range all {
				if all[i].by < all[least].by {
					least = i
				}
			}
			if all[least].by == most {
				break
			}
			all[least].by++
		}

		took := math.Inf(1)
		for _, h := range all {
			took = min(took, h.left/speed(h))
		}
		at += took
		rest := all[:0]
		for _, h := range all {
			if h.left/speed(h) <= took {
				free += h.by
				continue
			}
			rest = append(rest, held{h.left - took*speed(h), h.by})
		}
		all = rest
	}
	return at
}

// trialsNote says what it brings that machines share trials; empty where none do.
func (q *Estimator) trialsNote(w *work, o *Offer) string {
	n := q.Plan.Spec.TrialMachines()
	if n < 2 {
		return ""
	}
	few, many := 0.0, 0.0
	for _, part := range w.parts {
		few += makespan(part, o.Tasks)
		many += w.sharing.makespan(part, o.Tasks)
	}
	text := fmt.Sprintf("trial: {machines: %d}", n)
	if many >= (1-shortened)*few {
		text = "leave out " + text + ", which saves less than a tenth of the trials' time: with it"
	}
	return fmt.Sprintf("%s: %s take %s instead of %s with one machine each", text,
		english.Plural(len(w.seconds), "trial", ""), seconds(many), seconds(few))
}

// shortened is the share of a sweep's hours from which it is worth a word that other machines would save them.
const shortened = 0.1

// machinesNotes says what several machines for a training bring, in trials and in the final one.
func (q *Estimator) machinesNotes(w *work, o *Offer) []string {
	return slices.DeleteFunc([]string{q.trialsNote(w, o), q.finalNote(w, o)}, func(s string) bool { return s == "" })
}

// finalNote says what the final training's machines bring beside one, or what all of the sweep's would; empty if
// that is little.
func (q *Estimator) finalNote(w *work, o *Offer) string {
	n := q.Plan.Spec.FinalMachines()
	if _, ok := q.Plan.Final(); !ok || o.VMs < 2 || w.final == nil {
		return ""
	}
	asked := n > 1
	if n = min(n, o.VMs); !asked {
		n = min(o.VMs, sweep.MaxFinalMachines)
	}
	few, many := o.with(1), o.with(n)
	spot := q.spot(o)
	a, b := few.Side(spot), many.Side(spot)
	pays := b.Hours.Expected < (1-shortened)*a.Hours.Expected

	text := fmt.Sprintf("final: {machines: %d}", n)
	switch {
	case !asked && !pays:
		return ""
	case !pays:
		text = fmt.Sprintf("leave out %s, which saves less than a tenth of the sweep's time: it", text)
	case !asked:
		text = "add " + text + ", which"
	}
	trees := float64(w.final.NumIterations * w.final.NumClass)
	text += fmt.Sprintf(" trains the last model in %s instead of %s (%.0f %% efficiency); "+
		"each machine sends up to %s for it; the sweep takes %s hours instead of %s",
		seconds(many.Refit.Expected), seconds(few.Refit.Expected),
		100*few.Refit.Expected/many.Refit.Expected/float64(n),
		humanize.Bytes(uint64(trees*sent(q.Manifest, leaves(*w.final), n))),
		hoursText(b.Hours.Expected), hoursText(a.Hours.Expected))
	if a.Cost != nil && b.Cost != nil {
		text += fmt.Sprintf(" and %.2f USD instead of %.2f", b.Cost.Expected, a.Cost.Expected)
	}
	return text
}
