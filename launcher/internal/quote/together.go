package quote

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// What several machines add to the time of a final training, on top of their share of its work. docs/LAB.md has
// where the numbers are from.
const (
	// exchanges per split, in addition to gbt.Params.Exchanges: two splits that are prepared together share three.
	exchanges = 1.5
	// exchange is the seconds that one of a few words takes: 0.1 to 1.1 ms between two processes (docs/LAB.md).
	exchange = 1e-3
	network  = 10e9 // bits a second that a machine sends
	binBytes = 16   // bytes of a histogram's bin, of a leaf with many rows
)

// sentBytes is how many bytes each of the machines sends for a tree, at most: for each leaf the bins of all features,
// except for the share that it adds up itself.
func sentBytes(manifest *dataset.Manifest, leaves float64, machines int) float64 {
	bins := 0
	for i := range manifest.Features {
		bins += manifest.Features[i].Bins
	}
	return leaves * float64(bins) * binBytes * float64(machines-1) / float64(machines)
}

// teamSeconds is how many seconds a training takes on several machines together, if it takes one machine single
// seconds: its share of the work and, for each tree, the exchanges and the histograms that are sent.
func teamSeconds(manifest *dataset.Manifest, params gbt.Params, single float64, machines int) float64 {
	if machines < 2 {
		return single
	}
	n := (maxLeaves(params)-1)*exchanges + float64(params.Exchanges(machines)) // a tree has a split less than leaves
	perTree := n*exchange + sentBytes(manifest, maxLeaves(params), machines)*8/network
	return single/float64(machines) + float64(params.NumIterations*params.NumClass)*perTree
}

// shortened is the share of a sweep's hours that several machines in the final training must save to be worth a note.
const shortened = 0.1

// finalNotes returns at most one note about the machines of the final training. If the spec asks for several, it says
// what they save in comparison with one, or advises against them if that is less than shortened. If the spec asks for
// one, it says what all of the sweep's machines would save, if that is at least shortened. A final training by several
// machines needs an objective that does not rank.
func (q *Estimator) finalNotes(w *work, offer *Offer) []string {
	n := q.Plan.Spec.FinalMachines()
	if _, ok := q.Plan.Final(); !ok || offer.VMs < 2 || w.final == nil || gbt.Ranks(w.final.Objective) {
		return nil
	}
	asked := n > 1
	if n = min(n, offer.VMs); !asked {
		n = min(offer.VMs, sweep.MaxFinalMachines)
	}

	// Compare the sweep with one and with n machines in the final training.
	single, team := offer.with(1), offer.with(n)
	spot := *q.Plan.Spec.Machine.Spot
	alone, together := single.Side(spot), team.Side(spot)
	pays := together.Hours.Expected < (1-shortened)*alone.Hours.Expected

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
		Time(team.Refit.Expected), Time(single.Refit.Expected),
		100*single.Refit.Expected/team.Refit.Expected/float64(n),
		humanize.Bytes(uint64(trees*sentBytes(q.Manifest, maxLeaves(*w.final), n))),
		Time(3600*together.Hours.Expected), Time(3600*alone.Hours.Expected))
	if alone.Cost != nil && together.Cost != nil {
		text += fmt.Sprintf(" and costs %s instead of %s", USD(together.Cost.Expected), USD(alone.Cost.Expected))
	}
	return []string{text}
}
