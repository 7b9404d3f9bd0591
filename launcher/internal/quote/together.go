package quote

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// What several machines add to a final training, beside their share of its work. bench/machines.py --extrapolate has
// the same numbers, and docs/LAB.md their source.
const (
	exchanges = 1.5  // for each split, beside gbt.Params.Exchanges: three for those that are prepared together
	exchange  = 1e-3 // of few words, in seconds: 0.1 to 1.1 ms between two processes (docs/LAB.md)
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

// shortened is the share of a sweep's hours from which it is worth a word that other machines would save them.
const shortened = 0.1

// finalNotes says what the final training's machines bring beside one, or what all of the sweep's would, unless that is
// little.
func (q *Estimator) finalNotes(w *work, o *Offer) []string {
	n := q.Plan.Spec.FinalMachines()
	if _, ok := q.Plan.Final(); !ok || o.VMs < 2 || w.final == nil {
		return nil
	}
	asked := n > 1
	if n = min(n, o.VMs); !asked {
		n = min(o.VMs, sweep.MaxFinalMachines)
	}
	few, many := o.with(1), o.with(n)
	spot := *q.Plan.Spec.Machine.Spot
	a, b := few.Side(spot), many.Side(spot)
	pays := b.Hours.Expected < (1-shortened)*a.Hours.Expected

	text := fmt.Sprintf("final: {machines: %d}", n)
	switch {
	case !asked && !pays:
		return nil
	case !pays:
		text = fmt.Sprintf("leave out %s, which saves less than a tenth of the sweep's time: it", text)
	case !asked:
		text = "add " + text + ", which"
	}
	trees := float64(w.final.NumIterations * w.final.NumClass)
	text += fmt.Sprintf(" trains the last model in %s instead of %s (%.0f %% efficiency); "+
		"each machine sends up to %s for it; the sweep takes %s instead of %s",
		Time(many.Refit.Expected), Time(few.Refit.Expected),
		100*few.Refit.Expected/many.Refit.Expected/float64(n),
		humanize.Bytes(uint64(trees*sent(q.Manifest, leaves(*w.final), n))),
		Time(3600*b.Hours.Expected), Time(3600*a.Hours.Expected))
	if a.Cost != nil && b.Cost != nil {
		text += fmt.Sprintf(" and costs %s instead of %s", USD(b.Cost.Expected), USD(a.Cost.Expected))
	}
	return []string{text}
}
