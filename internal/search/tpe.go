package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"coppice/internal/sweep"
)

// Constants of the tree-structured Parzen estimator (Bergstra et al. 2011, in its multivariate form: Falkner et al.
// 2018).
const (
	goodShare     = 0.15 // of the results count as good
	maxGood       = 25
	maxOthers     = 1000 // of the other results in the density
	tpeCandidates = 64
)

// parzen is a density over the space: a mixture of one product of kernels per configuration and a uniform one.
type parzen struct {
	d      *domain
	places [][]float64
	flat   []float64 // by configuration: the logarithm of the kernels' common normalisation
	width  float64   // of the kernels on ordered axes
}

func newParzen(d *domain, points []point) *parzen {
	p := &parzen{d: d}
	for _, one := range points {
		p.places = append(p.places, one.at)
	}
	dims := float64(len(d.axes))
	p.width = max(0.03, 0.35*math.Pow(float64(len(points)+1), -1/(dims+4)))

	// A kernel near a bound is truncated, and so is higher.
	for _, at := range p.places {
		sum := 0.0
		for j, x := range at {
			if d.axes[j].ordered {
				room := (math.Erf((1-x)/p.width/math.Sqrt2) - math.Erf(-x/p.width/math.Sqrt2)) / 2
				sum -= math.Log(p.width * math.Sqrt(2*math.Pi) * max(room, 1e-6))
			}
		}
		p.flat = append(p.flat, sum)
	}
	return p
}

// draw draws a position from the density.
func (p *parzen) draw(rng *rand.Rand) []float64 {
	u := make([]float64, len(p.d.axes))
	i := rng.IntN(len(p.places) + 1)
	for j := range u {
		axis := &p.d.axes[j]
		switch {
		case i == len(p.places), !axis.ordered && rng.Float64() < p.mixing():
			u[j] = rng.Float64()
		case !axis.ordered:
			u[j] = p.places[i][j]
		default:
			for {
				if u[j] = p.places[i][j] + p.width*rng.NormFloat64(); u[j] >= 0 && u[j] < 1 {
					break
				}
				if p.places[i][j] < 0 || p.places[i][j] > 1 {
					u[j] = rng.Float64()
					break
				}
			}
		}
	}
	return u
}

// mixing is the probability of all other levels in the kernel of a level.
func (p *parzen) mixing() float64 { return 1 / (1 + math.Sqrt(float64(len(p.places)))) }

// log is the logarithm of the density at a position.
func (p *parzen) log(u []float64) float64 {
	terms := make([]float64, 0, len(p.places)+1)
	for i, at := range p.places {
		sum := p.flat[i]
		for j := range u {
			sum += p.kernel(j, at[j], u[j])
		}
		terms = append(terms, sum)
	}
	terms = append(terms, 0)
	return floats.LogSumExp(terms) - math.Log(float64(len(terms)))
}

// kernel is the logarithm of one configuration's density on one axis, without its share in flat.
func (p *parzen) kernel(j int, at, u float64) float64 {
	axis := &p.d.axes[j]
	if axis.ordered {
		g := (u - at) / p.width
		return -g * g / 2
	}

	levels, share := float64(len(axis.levels)), p.mixing()
	if int(at*levels) == int(u*levels) {
		return math.Log(share + (1-share)*levels)
	}
	return math.Log(share)
}

// fromTPE proposes what is likely under the good results and unlikely under the others. Running trials count as others,
// so that tasks spread out.
func (a *asker) fromTPE() *Suggestion {
	h := &a.history
	if len(h.finished) < 2 || a.next < tpeInitial {
		return a.fromHalton(initialDesign(a.next+1, tpeInitial))
	}

	if a.good == nil {
		a.rank()
	}
	rest := slices.Clone(a.others)
	for _, i := range latest(len(h.pending), maxRunning) {
		rest = append(rest, h.pending[i])
	}
	likely, unlikely := a.good, newParzen(a.domain, rest)

	rng := rand.New(rand.NewPCG(a.Seed, uint64(a.next)))
	var best *candidate
	for range tpeCandidates {
		at := likely.draw(rng)
		for j := range at {
			at[j] = a.axes[j].snap(at[j])
		}
		if gain := likely.log(at) - unlikely.log(at); best == nil || gain > best.gain {
			if params := a.config(at); a.usable(params) {
				best = &candidate{at: at, params: params, gain: gain}
			}
		}
	}
	if best == nil {
		return a.fromRandom()
	}
	return suggest(sweep.MethodTPE, best.params,
		"%.3g times as likely among the best %d of %d results as among the others and %d running", math.Exp(best.gain),
		len(a.good.places), len(h.finished), len(h.pending))
}

// rank tells the good results from the others.
func (a *asker) rank() {
	h := &a.history
	sorted := slices.SortedStableFunc(slices.Values(h.finished),
		func(x, y observation) int { return cmp.Compare(y.score, x.score) })
	n := min(maxGood, int(math.Ceil(goodShare*float64(len(sorted)))))
	good, rest := make([]point, n), sorted[n:]
	for i := range good {
		good[i] = sorted[i].point
	}
	a.good = newParzen(a.domain, good)

	others := min(len(rest), maxOthers)
	for i := range others {
		a.others = append(a.others, rest[i*len(rest)/others].point)
	}
	for _, i := range latest(len(h.failed), maxOthers/2) {
		a.others = append(a.others, h.failed[i])
	}
}

const tpeInitial = 10
