package metric

import (
	"cmp"
	"math"
	"slices"
)

// auc is the probability that a row with label 1 is predicted above a row with label 0, ties counting half (Hanley and
// McNeil 1982). Without weights it is computed in whole numbers and rounded once.
func auc(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkRanked(m, true, true); err != nil {
		return 0, err
	}
	if e.rank.packed {
		return float64(twicePairs(e.rank.keys)) / (2 * e.binary.pos * e.binary.neg), nil
	}

	var area sum
	above := 0.0
	for i := 0; i < len(e.rank.keys); {
		var s step
		s, i = e.rank.nextStep(i)
		area.add(s.neg * (above + s.pos/2))
		above += s.pos
	}
	return area.value() / (e.binary.pos * e.binary.neg), nil
}

// twicePairs counts pairs of a 1 above a 0 twice and pairs of a 1 tied with a 0 once. keys are of a packed ranking: the
// label is the lowest bit, equal others are equal predictions, the highest first. With fewer than 2^32 rows the count
// stays below 2^63.
func twicePairs(keys []uint64) uint64 {
	var area, above, pos, neg uint64
	value := keys[0] >> 1
	for _, k := range keys {
		if k>>1 != value {
			area += neg * (2*above + pos)
			above += pos
			pos, neg, value = 0, 0, k>>1
		}
		pos += k & 1
		neg += k&1 ^ 1
	}
	return area + neg*(2*above+pos)
}

// averagePrecision is the sum of precision x gain in recall over the distinct predictions from the top; no
// interpolation (as in LightGBM and scikit-learn).
func averagePrecision(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkRanked(m, true, false); err != nil {
		return 0, err
	}

	var area sum
	pos, all := 0.0, 0.0
	for i := 0; i < len(e.rank.keys); {
		var s step
		s, i = e.rank.nextStep(i)
		pos += s.pos
		all += s.weight()
		if s.pos > 0 {
			area.add(s.pos * (pos / all))
		}
	}
	return area.value() / e.binary.pos, nil
}

// topRows returns the weight of the top rows and of the positives among them, averaged over all orders of rows with
// equal predictions: if the cut goes through a step, the step counts with its share above the cut. A number of rows
// means that much weight, so that a row with weight 2 counts as two rows.
func (e *Evaluator) topRows(m Metric, needsPositive bool) (weight, pos float64, err error) {
	if err := e.checkRanked(m, needsPositive, false); err != nil {
		return 0, 0, err
	}

	total := e.binary.total()
	weight = m.k.share * total
	if m.k.count > 0 {
		weight = float64(m.k.count)
		if weight > total {
			return 0, 0, fault(m, -1, "there are fewer rows than the metric looks at: the rows' weight is %v; use a "+
				"lower count or a share, such as 1%%", total)
		}
	}

	left := weight
	for i := 0; i < len(e.rank.keys) && left > 0; {
		var s step
		s, i = e.rank.nextStep(i)
		if s.weight() <= left {
			pos += s.pos
		} else {
			pos += float64(s.pos * (left / s.weight()))
		}
		left -= s.weight()
	}
	return weight, pos, nil
}

func precisionAt(e *Evaluator, m Metric) (float64, error) {
	weight, pos, err := e.topRows(m, false)
	return pos / weight, err
}

func recallAt(e *Evaluator, m Metric) (float64, error) {
	_, pos, err := e.topRows(m, true)
	return pos / e.binary.pos, err
}

func liftAt(e *Evaluator, m Metric) (float64, error) {
	weight, pos, err := e.topRows(m, true)
	return pos / weight / (e.binary.pos / e.binary.total()), err
}

// calibrationError is the expected calibration error (Naeini et al. 2015) over bins of equal weight: the rows by
// prediction are cut into parts of equal weight, and the differences between the mean prediction and the mean label of
// each part are averaged by weight. Rows with equal predictions stay together, in the part where their middle falls, so
// that a calibrator's constant stretches are measured whole; a part may then be empty.
func calibrationError(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkProbabilities(m); err != nil {
		return 0, err
	}

	e.rankRows()
	parts := cmp.Or(m.k.count, defaultBins)

	total := e.binary.total()
	var gap, all sum
	current, above := 0, 0.0

	flush := func() {
		d := gap.value()
		all.add(max(d, -d))
		gap = sum{}
	}

	for i := 0; i < len(e.rank.keys); {
		var s step
		s, i = e.rank.nextStep(i)
		// The part in which the middle of the step lies; rounding could give one too many.
		part := min(int(float64(parts)*((above+s.weight()/2)/total)), parts-1)
		if part != current {
			flush()
			current = part
		}

		gap.add(float64(s.pred*s.weight()) - s.pos)
		above += s.weight()
	}

	flush()
	return all.value() / total, nil
}

// maxGrade is the highest label of a ranking metric, as in LightGBM: gains are 2^label - 1.
const maxGrade = 30

// groups is the working memory of ranking metrics.
type groups struct {
	rows   ranking // by group; the tag is the row's index
	scored []scored
	grades []float64
	weighs []float64 // discounts of the places computed so far
}

type scored struct {
	pred float64
	gain float64
}

// meanOfGroups returns the mean over groups of a value that each group has by its own rows. A group's weight is the
// mean weight of its rows, as in LightGBM. The values of groups depend on the order of predictions only; where some are
// equal, they are averages over all orders of these (McSherry and Najork 2008).
func meanOfGroups(e *Evaluator, m Metric) (float64, error) {
	var all, weight sum
	err := e.eachGroup(m, func(value, w float64) {
		all.add(w * value)
		weight.add(w)
	})
	return all.value() / weight.value(), err
}

// ndcg is DCG / best possible DCG among the first k places, with gain 2^label - 1 and discount
// 1 / log2(place + 1) (Burges et al. 2005, as in LightGBM). Rows with equal predictions share the discounts of the
// places that they take together. A group without any gain counts 1, as in LightGBM.
func (g *groups) ndcg(places int) float64 {
	slices.Sort(g.grades)
	slices.Reverse(g.grades)

	// The best possible value: all gains in descending order.
	best := 0.0
	for i, gain := range g.grades[:min(places, len(g.grades))] {
		best += float64(gain * g.discount(i))
	}
	if best == 0 {
		return 1
	}
	return g.dcg(places) / best
}

// averagePrecision is the sum of the precisions at those of the first k places that hold a grade above 0, divided by
// how many there could be: k, or all such rows. A group without one counts 1, as in LightGBM.
func (g *groups) averagePrecision(places int) float64 {
	places = min(places, len(g.scored))
	relevant, total := 0, 0.0
	for begin := 0; begin < len(g.scored); {
		end, hits := begin, 0
		for ; end < len(g.scored) && g.scored[end].pred == g.scored[begin].pred; end++ {
			if g.scored[end].gain > 0 {
				hits++
			}
		}

		// Each place of a run holds a hit with the same probability, and then as many of the others are before it.
		chance, others := float64(hits)/float64(end-begin), 0.0
		if end-begin > 1 {
			others = float64(hits-1) / float64(end-begin-1)
		}
		for place := begin; place < min(end, places) && hits > 0; place++ {
			above := float64(relevant+1) + float64(others*float64(place-begin))
			total += float64(chance * (above / float64(place+1)))
		}
		relevant += hits
		begin = end
	}
	if relevant == 0 {
		return 1
	}
	return total / float64(min(relevant, places))
}

// eachGroup calls use with the value and weight of every group, in the order of group numbers.
func (e *Evaluator) eachGroup(m Metric, use func(value, weight float64)) error {
	if _, err := e.checkNumbers(m); err != nil {
		return err
	}
	if e.in.Group == nil {
		return fault(m, -1, "the rows have no groups: name the dataset's group column")
	}
	for i, l := range e.in.Label {
		if l < 0 || l > maxGrade || l != float32(int(l)) {
			return fault(m, i, "the label cannot be used: %v, and %s is for whole grades 0 to %d", l, m.Name, maxGrade)
		}
	}

	places := cmp.Or(m.k.count, len(e.in.Pred))
	g := &e.groups
	g.rows.sortNumbers(len(e.in.Group), 64, func(i int) uint64 { return e.in.Group[i] })

	// After the sort, a group is a run of equal keys.
	for begin := 0; begin < len(g.rows.keys); {
		end := begin + 1
		for end < len(g.rows.keys) && g.rows.keys[end] == g.rows.keys[begin] {
			end++
		}

		weight := g.takeGroup(e.in, g.rows.tags[begin:end])
		use(m.group(g, places), weight)
		begin = end
	}
	return nil
}

// takeGroup makes these rows the group that is measured, and returns its weight.
func (g *groups) takeGroup(in Input, rows []uint32) (weight float64) {
	g.scored = g.scored[:0]
	g.grades = g.grades[:0]

	weight = float64(len(rows))
	if in.Weight != nil {
		weight = 0
	}

	for _, row := range rows {
		gain := float64(uint64(1)<<uint(in.Label[row]) - 1)
		g.scored = append(g.scored, scored{in.Pred[row], gain})
		g.grades = append(g.grades, gain)
		if in.Weight != nil {
			weight += float64(in.Weight[row])
		}
	}
	weight /= float64(len(rows))

	slices.SortFunc(g.scored, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.pred, a.pred), cmp.Compare(b.gain, a.gain))
	})
	return weight
}

// dcg is the discounted cumulative gain of the group's first places, by descending prediction. The order of equal
// predictions means nothing, so each row of such a run counts with the mean gain of the run.
func (g *groups) dcg(places int) float64 {
	total := 0.0
	for begin := 0; begin < min(places, len(g.scored)); {
		end := begin
		gains, discounts := 0.0, 0.0
		for ; end < len(g.scored) && g.scored[end].pred == g.scored[begin].pred; end++ {
			gains += g.scored[end].gain
			if end < places {
				discounts += g.discount(end)
			}
		}

		total += float64(gains / float64(end-begin) * discounts)
		begin = end
	}
	return total
}

// discount returns the discount of a place, counted from 0.
func (g *groups) discount(place int) float64 {
	for len(g.weighs) <= place {
		g.weighs = append(g.weighs, 1/math.Log2(float64(len(g.weighs))+2))
	}
	return g.weighs[place]
}
