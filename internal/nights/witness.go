package nights

import (
	"cmp"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/segment"
)

// A night's profile holds a simple model of its labels: for each range or level of its most informative columns, what
// it adds to the log odds of a positive label (a generalized additive model). It ranks less well than a trained model,
// but no such model has to exist, and tonight's labels have no influence on it.
const (
	fitted    = 40 // columns of it
	fitPasses = 6  // over all of these; later ones would change little
	fitPrior  = 20 // weight of the prior that a level adds nothing, in information
	oddsLimit = 4  // largest absolute log odds that a level adds
)

// fitOdds fits that model to the night's rows by Newton steps, one column at a time, and sets Base and the columns'
// Odds. codes are those of columnEncoder, [columns][rows]; labels are 0 or 1. It sets nothing if all labels are the
// same. If the context ends, the odds of some columns are not final, and Base is not set.
func (p *Profile) fitOdds(w *worker, codes [][]uint8, labels []float32) {
	mean := 0.0
	for _, v := range labels {
		mean += float64(v)
	}
	mean /= float64(max(len(labels), 1))
	if mean <= 0 || mean >= 1 {
		return
	}

	// Choose the columns that predict labels best by themselves.
	var chosen []int
	for i := range p.Columns {
		k := &p.Columns[i]
		if of := p.column(k.Of); of != nil && of.byLevels() && of.Rest < restKnown {
			// An aggregate follows from the levels of the other column. The two would share the effect of these
			// levels, in other proportions each night.
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

	// Fit: z is each row's log odds so far. A step of a level is at most 1, so that early ones do not go too far.
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
			step := gradient // overwritten in place
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

	// Four decimals are enough, and keep the record short.
	p.Base = math.Round(1e4*base) / 1e4
	for _, i := range chosen {
		for code, x := range p.Columns[i].Odds {
			p.Columns[i].Odds[code] = math.Round(1e4*x) / 1e4
		}
	}
}

func sigmoid(logit float64) float64 { return 1 / (1 + math.Exp(-logit)) }

// restKnown is the share of rows with levels that were not kept, or are not known, below which the levels of a column
// count as known.
const restKnown = 0.2

// levelKnown is how many positive rows the nights must have had, at their mean rates, for a level to be known.
const levelKnown = 30

// witnesses is how many nights' models are averaged.
const witnesses = 4

// Witness is the average of the models of the last accepted nights, which tells what to expect of tonight's labels. It
// implements segment.Scorer. It is not safe for concurrent use.
type Witness struct {
	nights []*Profile       // newest first
	levels map[string]known // by column, what Levels has returned
}

// known is a result of Witness.Levels.
type known struct {
	levels []string
	odds   []float32
}

// NewWitness averages the models of the last few nights that have one. before are the accepted nights, oldest first. If
// the last one is doubted (Request.Doubted) and not the only one, it is left out. So are nights whose model is of
// another kind of label, or another class, than the newest one's. It returns nil if no night has a model.
func NewWitness(before []*Profile, doubted bool) *Witness {
	if doubted && len(before) > 1 {
		before = before[:len(before)-1]
	}
	w := &Witness{levels: map[string]known{}}
	for _, p := range slices.Backward(before) {
		modelled := slices.ContainsFunc(p.Columns, func(c Column) bool { return c.Odds != nil })
		same := len(w.nights) == 0 ||
			p.Label.Kind == w.nights[0].Label.Kind && p.Label.Positive == w.nights[0].Label.Positive
		if modelled && same && len(w.nights) < witnesses {
			w.nights = append(w.nights, p)
		}
	}
	if len(w.nights) == 0 {
		return nil
	}
	return w
}

// Positive implements segment.Scorer. Of a regression, labels above the median of the newest of its nights are
// positive; of several classes, those of the class that was the most frequent one then.
func (w *Witness) Positive(classes []string) (above, upTo float64, known bool) {
	switch l := w.nights[0].Label; l.Kind {
	case dataset.Regression:
		return l.Middle, math.Inf(1), true
	case dataset.Classes:
		class := slices.Index(classes, l.Positive)
		return float64(class) - 0.5, float64(class) + 0.5, class >= 0
	}
	return 0, math.Inf(1), true
}

// Base is the log odds of a row with a score of 0.
func (w *Witness) Base() float64 {
	return float64(w.meanOdds(func(p *Profile) (float64, bool) { return p.Base, true }))
}

// meanOdds returns the mean of a number of each night, such as the log odds that its model adds for a value. numberOf
// returns false for a night that does not have it, which is left out. It is 0 if no night has it.
func (w *Witness) meanOdds(numberOf func(p *Profile) (float64, bool)) float32 {
	sum, n := 0.0, 0
	for _, p := range w.nights {
		if x, ok := numberOf(p); ok {
			sum += x
			n++
		}
	}
	return float32(sum / float64(max(n, 1)))
}

// expectedPositives returns how many positive rows a level would have had, over the nights, at the mean rate of all
// rows. It says how much is known of the level, whatever its own rate is.
func (w *Witness) expectedPositives(column, text string) float64 {
	n := 0.0
	for _, p := range w.nights {
		if k := p.column(column); k != nil {
			positive := p.Label.Mean
			if p.Label.Kind == dataset.Regression {
				positive = 0.5 // those above the median
			}
			n += k.shareOf(text) * p.sampled() * positive
		}
	}
	return n
}

// unknownShare is the mean share of the nights' rows whose level of a column was not kept or is not known (levelKnown).
func (w *Witness) unknownShare(column string) float64 {
	share, nights := 0.0, 0
	for _, p := range w.nights {
		k := p.column(column)
		if k == nil {
			continue
		}
		nights++
		share += k.Rest
		for _, l := range k.Levels {
			if w.expectedPositives(column, l.Text) < levelKnown {
				share += l.Share
			}
		}
	}
	return share / float64(max(nights, 1))
}

// namesNights reports whether a column has one value in all rows of a night and another one on another night, such as
// the day of the month: tonight's value is new then, and those of earlier nights say nothing about it.
func (w *Witness) namesNights(column string) bool {
	values := map[string]bool{}
	for _, p := range w.nights {
		k := p.column(column)
		if k == nil || !k.constant() || len(k.Levels) == 0 {
			return false
		}
		values[k.Levels[0].Text] = true
	}
	return len(values) > 1
}

// Levels implements segment.Scorer. It returns a column's levels on the last nights, and log odds, averaged over the
// nights: first of a missing value, then of any other level, then of each of levels. NaN stands for those of which
// too little is known. Both are nil for a column that no night's model has by levels. Results are kept, and shared by
// calls.
func (w *Witness) Levels(column string) (levels []string, odds []float32) {
	if k, ok := w.levels[column]; ok {
		return k.levels, k.odds
	}

	// All levels of the nights' models, those of the newest night first.
	seen := map[string]bool{}
	for _, p := range w.nights {
		if k := p.column(column); k != nil && k.byLevels() && k.Odds != nil && !w.namesNights(column) {
			for _, l := range k.Levels {
				if !seen[l.Text] && len(levels) < segment.MaxLevels {
					seen[l.Text] = true
					levels = append(levels, l.Text)
				}
			}
		}
	}

	if levels != nil {
		// oddsOf averages the odds of one code (columnEncoder). codeOf returns it for a night's column, or -1: a
		// level has another code each night.
		oddsOf := func(codeOf func(k *Column) int) float32 {
			return w.meanOdds(func(p *Profile) (float64, bool) {
				k := p.column(column)
				if k == nil || !k.byLevels() {
					return 0, false
				}
				if code := codeOf(k); code >= 0 && code < len(k.Odds) {
					return k.Odds[code], true
				}
				return 0, false
			})
		}

		// Other levels: if nearly all rows have known ones, a new one, such as a new campaign, can have any rate. Where
		// many rows have rare levels, such as the airports of a small table, what these add is near 0, and without
		// their rows few would be left to judge the night by.
		others := oddsOf(func(*Column) int { return 1 })
		if w.unknownShare(column) < restKnown {
			others = float32(math.NaN())
		}
		odds = append(odds, oddsOf(func(*Column) int { return 0 }), others)

		// In such a column, a level of few rows is as little known as a new one.
		for _, text := range levels {
			if others != others && w.expectedPositives(column, text) < levelKnown {
				odds = append(odds, others)
				continue
			}
			odds = append(odds, oddsOf(func(k *Column) int {
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

// codeWithin returns the code (columnEncoder) that most numbers above low and up to high have, taken to be that of the
// most frequent peak among them or, without one, that of the range that contains the middle between the two. If closed,
// low itself belongs to the numbers, too.
func (c *Column) codeWithin(low, high float64, closed bool) int {
	code, share := 0, 0.0
	for i, p := range c.Peaks {
		inside := p.Number <= high && (p.Number > low || closed && p.Number == low)
		at := steps + 1 + i // as newColumnEncoder numbers peaks; older records have no odds of theirs
		if inside && p.Share > share && at < len(c.Odds) {
			code, share = at, p.Share
		}
	}
	if share > 0 {
		return code
	}
	middle := low + (high-low)/2
	if c.Whole {
		middle = math.Round(middle)
	}
	return c.rangeOf(middle) + 1
}

// Odds implements segment.Scorer. It returns, for each bin of a numeric feature, the log odds that the nights' models
// add for most of its numbers, averaged. Those models have ranges of their own, other ones each night. It is nil for
// other features, and if no model has the column.
func (w *Witness) Odds(feature *dataset.Feature) []float32 {
	if feature.Kind != dataset.Numeric || feature.From != nil || feature.Range == nil {
		return nil
	}
	found := false
	out := make([]float32, dataset.MaxBins)
	for bin := range feature.Bins {
		// The bin's bounds; the first and the last bin end with the numbers' range.
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
			return k.Odds[k.codeWithin(low, high, bin == 0)], true
		})
	}
	if !found {
		return nil
	}
	return out
}
