package nights

import (
	"cmp"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/segment"
)

// A night's profile holds a simple model of its labels: for each range or level of its most informative columns, what
// it adds to the log odds of a positive label (a generalized additive model). It ranks less well than a champion, but
// needs none, and tonight's labels have no influence on it.
const (
	fitted    = 40 // columns of it
	fitPasses = 6
	fitPrior  = 20 // weight of the prior that a level adds nothing, in information
	oddsLimit = 4
)

// fitOdds fits that model by Newton steps, a column at a time. codes are those of the columns' values.
func (p *Profile) fitOdds(w *worker, codes [][]uint8, labels []float32) {
	mean := 0.0
	for _, v := range labels {
		mean += float64(v)
	}
	if mean /= float64(max(len(labels), 1)); mean <= 0 || mean >= 1 {
		return
	}

	var chosen []int
	for i := range p.Columns {
		k := &p.Columns[i]
		if of := p.column(k.Of); of != nil && of.byLevels() && of.Rest < restKnown {
			// It follows from the levels of another column, and would share what those add: differently each night.
			continue
		}
		if k.Kind == Number || k.Kind == Text {
			chosen = append(chosen, i)
		}
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(p.Columns[b].AUC, p.Columns[a].AUC) })
	chosen = chosen[:min(len(chosen), fitted)]

	for _, i := range chosen {
		p.Columns[i].Odds = make([]float64, newColumnEncoder(&p.Columns[i]).size)
	}

	z := make([]float64, len(labels))
	base := math.Log(mean / (1 - mean))
	for i := range z {
		z[i] = base
	}
	for range fitPasses {
		for _, i := range chosen {
			if w.ctx.Err() != nil {
				return
			}
			odds := p.Columns[i].Odds
			gradient, information := make([]float64, len(odds)), make([]float64, len(odds))
			for row, code := range codes[i] {
				q := sigmoid(z[row])
				gradient[code] += float64(labels[row]) - q
				information[code] += q * (1 - q)
			}
			step := gradient
			for code := range odds {
				s := (gradient[code] - fitPrior*odds[code]) / (information[code] + fitPrior)
				step[code] = max(-oddsLimit, min(oddsLimit, odds[code]+max(-1, min(1, s)))) - odds[code]
				odds[code] += step[code]
			}
			for row, code := range codes[i] {
				z[row] += step[code]
			}
		}
	}
	p.Base = math.Round(1e4*base) / 1e4
	for _, i := range chosen {
		for code, x := range p.Columns[i].Odds {
			p.Columns[i].Odds[code] = math.Round(1e4*x) / 1e4
		}
	}
}

func sigmoid(logit float64) float64 { return 1 / (1 + math.Exp(-logit)) }

// restKnown is up to which share of other levels the levels of a column count as known.
const restKnown = 0.2

// levelKnown is how many positive rows the nights must have had, at their mean rates, for a level to be known.
const levelKnown = 30

// witnesses is how many nights' models are averaged.
const witnesses = 4

// Witness is the average of the models of the last accepted nights. It implements segment.Scorer.
type Witness struct {
	nights []*Profile // newest first
	levels map[string]known
}

type known struct {
	levels []string
	odds   []float32
}

// NewWitness returns nil if no night has a model. before are the accepted nights, oldest first; if the last one is
// doubted (Request.Doubted), it is no witness.
func NewWitness(before []*Profile, doubted bool) *Witness {
	if doubted && len(before) > 1 {
		before = before[:len(before)-1]
	}
	w := &Witness{levels: map[string]known{}}
	for _, p := range slices.Backward(before) {
		modelled := slices.ContainsFunc(p.Columns, func(c Column) bool { return c.Odds != nil })
		if modelled && len(w.nights) < witnesses {
			w.nights = append(w.nights, p)
		}
	}
	if len(w.nights) == 0 {
		return nil
	}
	return w
}

// Middle is the label above which one is positive.
func (w *Witness) Middle() float64 { return w.nights[0].Label.middle() }

// middle is the label above which one is positive.
func (l Label) middle() float64 {
	if l.Kind == dataset.Regression {
		return l.Middle
	}
	return 0
}

// Base is the log odds of a row with a score of 0.
func (w *Witness) Base() float64 {
	return float64(w.meanOdds(func(p *Profile) (float64, bool) { return p.Base, true }))
}

// meanOdds averages what the nights' models add for a value; add returns false if a night does not know it.
func (w *Witness) meanOdds(add func(p *Profile) (float64, bool)) float32 {
	sum, n := 0.0, 0
	for _, p := range w.nights {
		if x, ok := add(p); ok {
			sum += x
			n++
		}
	}
	return float32(sum / float64(max(n, 1)))
}

// expectedPositives is how many positive rows a level would have had with the mean rate of all rows.
func (w *Witness) expectedPositives(column, text string) float64 {
	n := 0.0
	for _, p := range w.nights {
		if k := p.column(column); k != nil {
			n += k.shareOf(text) * p.sampled() * p.Label.Mean
		}
	}
	return n
}

// Levels implements segment.Scorer: a column's levels of the last nights, and the mean log odds of a missing value, of
// any other level, and then of each. NaN are those of which too little is known.
func (w *Witness) Levels(column string) (levels []string, odds []float32) {
	if k, ok := w.levels[column]; ok {
		return k.levels, k.odds
	}
	seen := map[string]bool{}
	for _, p := range w.nights {
		if k := p.column(column); k != nil && k.byLevels() && k.Odds != nil {
			for _, l := range k.Levels {
				if !seen[l.Text] && len(levels) < segment.MaxLevels {
					seen[l.Text] = true
					levels = append(levels, l.Text)
				}
			}
		}
	}
	if levels != nil {
		at := func(code func(k *Column) int) float32 {
			return w.meanOdds(func(p *Profile) (float64, bool) {
				k := p.column(column)
				if k == nil || !k.byLevels() {
					return 0, false
				}
				if c := code(k); c >= 0 && c < len(k.Odds) {
					return k.Odds[c], true
				}
				return 0, false
			})
		}
		others := at(func(*Column) int { return 1 })
		if w.meanOdds(func(p *Profile) (float64, bool) {
			if k := p.column(column); k != nil {
				return k.Rest, true
			}
			return 0, false
		}) < restKnown {
			// Nearly all levels are known: a new one, such as a new campaign, can have any rate.
			others = float32(math.NaN())
		}
		odds = append(odds, at(func(*Column) int { return 0 }), others)
		for _, text := range levels {
			if others != others && w.expectedPositives(column, text) < levelKnown {
				odds = append(odds, others)
				continue
			}
			odds = append(odds, at(func(k *Column) int {
				i := k.levelIndex(text)
				if i < 0 {
					return -1
				}
				return i + 2
			}))
		}
	}
	w.levels[column] = known{levels, odds}
	return levels, odds
}

// Odds implements segment.Scorer: bins are looked up by their middles.
func (w *Witness) Odds(feature *dataset.Feature) []float32 {
	if feature.Kind != dataset.Numeric || feature.From != nil || feature.Range == nil {
		return nil
	}
	found := false
	out := make([]float32, dataset.MaxBins)
	for bin := range feature.Bins {
		low, high := feature.Range.Min, feature.Range.Max
		if bin > 0 && bin <= len(feature.Bounds) {
			low = feature.Bounds[bin-1]
		}
		if bin < len(feature.Bounds) {
			high = feature.Bounds[bin]
		}
		out[bin] = w.meanOdds(func(p *Profile) (float64, bool) {
			k := p.column(feature.Name)
			if k == nil || k.Kind != Number || k.Odds == nil || k.byLevels() {
				return 0, false
			}
			found = true
			if bin == feature.MissingBin {
				return k.Odds[0], true
			}
			middle := low + (high-low)/2
			if k.Whole {
				middle = math.Round(middle)
			}
			return k.Odds[k.rangeOf(middle)+1], true
		})
	}
	if !found {
		return nil
	}
	return out
}
