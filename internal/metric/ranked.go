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

// twicePairs counts the pairs of a row with label 1 and a row with label 0: twice if the 1 is predicted higher, once if
// both have the same prediction. keys are those of a packed ranking, sorted: the lowest bit is the label, and keys that
// are equal but for this bit are equal predictions. The count is at most twice (rows / 2)^2, which with fewer than 2^32
// rows is below 2^63.
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

// averagePrecision goes through the distinct predictions from the highest down, and adds up precision times the
// increase of recall. As in LightGBM and scikit-learn, nothing is interpolated.
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

// topRows returns the weight of the top rows that the metric looks at (m.k), and the weight of the positives among
// them. If only some of the rows with the same prediction are among the top rows, the positives among these count in
// proportion, which is the mean over all orders. A count of rows means as much weight, so that a row with weight 2
// counts as two rows. needsPositive makes it an error if there is no positive row at all.
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

// precisionAt is the share of positives among the top rows.
func precisionAt(e *Evaluator, m Metric) (float64, error) {
	weight, pos, err := e.topRows(m, false)
	return pos / weight, err
}

// recallAt is the share of all positives that is among the top rows.
func recallAt(e *Evaluator, m Metric) (float64, error) {
	_, pos, err := e.topRows(m, true)
	return pos / e.binary.pos, err
}

// liftAt is the share of positives among the top rows, divided by that among all rows.
func liftAt(e *Evaluator, m Metric) (float64, error) {
	weight, pos, err := e.topRows(m, true)
	return pos / weight / (e.binary.pos / e.binary.total()), err
}

// calibrationError is the expected calibration error (Naeini et al. 2015) over bins of equal weight. The rows are
// sorted by prediction and cut into bins. The result is the mean over bins, by weight, of the difference between mean
// prediction and mean label. Rows with the same prediction stay together, in the bin in which their middle falls; a bin
// may then be empty.
func calibrationError(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkProbabilities(m); err != nil {
		return 0, err
	}

	e.rankRows()
	parts := cmp.Or(m.k.count, defaultBins) // the number of bins

	total := e.binary.total()
	var gap, all sum         // predictions less labels in this bin; absolute gaps of the bins before it
	current, above := 0, 0.0 // number of this bin; weight of the rows so far
	flush := func() {        // ends this bin
		d := gap.value()
		all.add(max(d, -d))
		gap = sum{}
	}

	for i := 0; i < len(e.rank.keys); {
		var s step
		s, i = e.rank.nextStep(i)
		// The bin in which the middle of the step lies; rounding could give one too many.
		part := min(int(float64(parts)*((above+s.weight()/2)/total)), parts-1)
		if part != current {
			flush()
			current = part
		}

		gap.add(float64(s.pred*s.weight()) - s.pos)
		above += s.weight()
	}

	flush() // the last bin
	return all.value() / total, nil
}

// maxGrade is the highest label of a ranking metric, as in LightGBM: gains are 2^label - 1.
const maxGrade = 30

// groups is the working memory of ranking metrics: the rows by group, and the group that is being evaluated.
type groups struct {
	rows      ranking // sorted by group; the tags are row numbers
	scored    []scored
	gains     []float64
	discounts []float64 // of the places computed so far
}

// scored is a row of the current group: its prediction and the gain of its label, 2^label - 1.
type scored struct {
	pred float64
	gain float64
}

// meanOfGroups returns the weighted mean over groups of m.group, which depends on one group's rows only. A group's
// weight is the mean weight of its rows, as in LightGBM. If predictions of a group are equal, its value is the mean
// over all orders of these rows (McSherry and Najork 2008).
func meanOfGroups(e *Evaluator, m Metric) (float64, error) {
	var all, weight sum
	err := e.eachGroup(m, func(value, w float64) {
		all.add(w * value)
		weight.add(w)
	})
	return all.value() / weight.value(), err
}

// ndcg is DCG divided by the best possible DCG, both of the first places (Burges et al. 2005, as in LightGBM). A row
// adds its gain, 2^label - 1, times the discount of its place, 1 / log2(place + 1) with places counted from 1. A group
// without any gain counts 1, as in LightGBM.
func (g *groups) ndcg(places int) float64 {
	slices.Sort(g.gains)
	slices.Reverse(g.gains)

	// The best possible value: all gains in descending order.
	best := 0.0
	for i, gain := range g.gains[:min(places, len(g.gains))] {
		best += float64(gain * g.discount(i))
	}
	if best == 0 {
		return 1
	}
	return g.dcg(places) / best
}

// averagePrecision is the mean of the precisions at those of the first places that hold a relevant row, one with a
// label above 0. It is their sum divided by how many there could be: the number of places or, if that is less, of
// relevant rows. A group without a relevant row counts 1, as in LightGBM.
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

		// hits of the rows begin to end, which have the same prediction, are relevant. Averaged over all their orders,
		// each of these places holds one with the same chance, and each of the other places then with the chance
		// others.
		chance, others := float64(hits)/float64(end-begin), 0.0
		if end-begin > 1 {
			others = float64(hits-1) / float64(end-begin-1)
		}
		for place := begin; place < min(end, places) && hits > 0; place++ {
			// The expected number of relevant rows down to this place, if it holds one itself.
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

// eachGroup calls use with the value (m.group) and the weight of every group, in the order of Input.Group's numbers. It
// is an error if the rows are not valid (checkNumbers), have no groups, or have labels that are not whole grades.
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

	// Sort the rows by group, a number of 64 bits. Without an argument, a metric looks at all places.
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

// takeGroup makes these rows the current group, sorted by descending prediction, and returns its weight, which is the
// mean weight of the rows.
func (g *groups) takeGroup(in Input, rows []uint32) (weight float64) {
	g.scored = g.scored[:0]
	g.gains = g.gains[:0]

	weight = float64(len(rows)) // their sum until the mean is made; without weights, each row counts 1
	if in.Weight != nil {
		weight = 0
	}

	for _, row := range rows {
		gain := float64(uint64(1)<<uint(in.Label[row]) - 1)
		g.scored = append(g.scored, scored{in.Pred[row], gain})
		g.gains = append(g.gains, gain)
		if in.Weight != nil {
			weight += float64(in.Weight[row])
		}
	}
	weight /= float64(len(rows))

	// Equal predictions are in the order of their gains, so that the order of the table does not affect any rounding.
	slices.SortFunc(g.scored, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.pred, a.pred), cmp.Compare(b.gain, a.gain))
	})
	return weight
}

// dcg is the discounted cumulative gain of the current group's first places. Rows with the same prediction each count
// with their mean gain, which is the mean over all their orders.
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
	for len(g.discounts) <= place {
		g.discounts = append(g.discounts, 1/math.Log2(float64(len(g.discounts))+2))
	}
	return g.discounts[place]
}
