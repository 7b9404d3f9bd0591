package metric

import (
	"cmp"
	"math"
	"slices"
)

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

// ndcg is the mean over groups of DCG / best possible DCG among the first k places, with gain 2^label - 1 and discount
// 1 / log2(place + 1) (Burges et al. 2005, as in LightGBM). Rows with equal predictions share the discounts of the
// places that they take together, which is the average over all their orders (McSherry and Najork 2008). A group
// without any gain counts 1, as in LightGBM; a group's weight is the mean weight of its rows.
func ndcg(e *Evaluator, m Metric) (float64, error) {
	var all, weight sum
	err := e.eachGroup(m, func(value, w float64) {
		all.add(w * value)
		weight.add(w)
	})
	return all.value() / weight.value(), err
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

	places := m.k.count
	if places == 0 {
		places = len(e.in.Pred)
	}
	g := &e.groups
	g.rows.sortNumbers(len(e.in.Group), 64, func(i int) uint64 { return e.in.Group[i] })

	// After the sort, a group is a run of equal keys.
	for begin := 0; begin < len(g.rows.keys); {
		end := begin + 1
		for end < len(g.rows.keys) && g.rows.keys[end] == g.rows.keys[begin] {
			end++
		}

		use(g.measure(e.in, g.rows.tags[begin:end], places))
		begin = end
	}
	return nil
}

func (g *groups) measure(in Input, rows []uint32, places int) (value, weight float64) {
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
	slices.Sort(g.grades)
	slices.Reverse(g.grades)

	// The best possible value: all gains in descending order.
	best := 0.0
	for i, gain := range g.grades[:min(places, len(g.grades))] {
		best += float64(gain * g.discount(i))
	}
	if best == 0 {
		return 1, weight
	}
	return g.dcg(places) / best, weight
}

// dcg gives every row in a run of equal predictions the mean gain of the run.
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
