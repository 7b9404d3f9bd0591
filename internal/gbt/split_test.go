package gbt

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNumericalIsTheBestThreshold: scoreThresholds finds the best of all thresholds, with missing values on either
// side, as trying every one of them in floating point does.
func TestNumericalIsTheBestThreshold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	pack := packing{hessianBits: bitsVaryingHessian, g1: 0.01, h1: 0.001}
	for round := range 400 {
		// A histogram in which a quarter of the bins of values are empty. The last bin is for missing values; without
		// them it is empty.
		values, missing := 2+rng.IntN(12), -1
		if rng.IntN(2) == 0 {
			missing = values
		}
		h := histogram{packed: make([]int64, values+1)}
		var total sums
		for b := range h.packed {
			if b == missing || b < values && rng.IntN(4) > 0 {
				g, hs := int64(rng.IntN(2001)-1000), int64(1+rng.IntN(3000))
				if b == missing && round%5 == 0 {
					hs = 0 // rounded to zero: only the gradient shows that values are missing
				}
				h.packed[b] = g<<bitsVaryingHessian + hs
				total = total.plus(sums{float64(g), float64(hs)})
			}
		}
		if round%2 == 0 { // the same as a wide histogram
			h.wide = make([]wide, len(h.packed))
			for b, w := range h.packed {
				h.wide[b].g, h.wide[b].h = pack.sums(w)
			}
			h.packed = nil
		}

		// The best split of a leaf of 60 rows, with or without penalties and a bound on outputs.
		p := Defaults()
		p.MinSumHessian, p.MinDataInLeaf, p.LambdaL2 = 0.5, 3, float64(rng.IntN(3))
		p.LambdaL1 = float64(rng.IntN(2)) * 2
		if rng.IntN(3) == 0 {
			p.MaxDeltaStep = 0.4
		}
		s := newSplitScorer(&p, pack)
		rows := 60
		target := s.target(total, rows)
		var scan scan
		best := split{}
		feature := Feature{Bins: values, Missing: missing}
		if missing >= 0 {
			feature.Bins++
		}
		s.scoreThresholds(h, scoredFeature{Feature: &feature, number: 4}, &scan, &target, &best)

		// It has the gain of the best of all thresholds, and the sums of the bins that it sends left.
		want := 0.0
		for at := range values {
			for _, withMissing := range []bool{false, true} {
				if gain := realGain(h, pack, &p, total, rows, at, withMissing, missing); gain > want {
					want = gain
				}
			}
		}
		if got := best.gain * s.gainUnit(); math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("round %d: gain %v, want %v, the best of all thresholds", round, got, want)
		}
		if best.gain > 0 {
			var left sums
			for b := range values + 1 {
				if best.left.has(b) && (b < values || b == missing) {
					g, hs := h.binSums(b, pack)
					left = left.plus(sums{float64(g), float64(hs)})
				}
			}
			if left != best.sums {
				t.Fatalf("round %d: the split says that its left sums are %v, want %v, those of its bins", round,
					best.sums,
					left)
			}
		}
	}
}

// realGain is the gain, by LightGBM's formulas and in real units, of the split that sends the bins up to at left, and
// the missing ones if withMissing; 0 if it is not allowed. missing is the bin of missing values, -1 if there is none.
func realGain(h histogram, pack packing, p *Params, total sums, rows, at int, withMissing bool, missing int) float64 {
	var left sums
	for b := 0; b <= at; b++ {
		g, hs := h.binSums(b, pack)
		left = left.plus(sums{float64(g), float64(hs)})
	}
	if withMissing {
		if missing < 0 {
			return 0
		}
		g, hs := h.binSums(missing, pack)
		left = left.plus(sums{float64(g), float64(hs)})
	}
	right := total.minus(left)
	leaf := func(s sums) float64 {
		g, hs := s.g*pack.g1, s.h*pack.h1
		soft := math.Copysign(math.Max(math.Abs(g)-p.LambdaL1, 0), g)
		o := -soft / (hs + p.LambdaL2)
		if p.MaxDeltaStep > 0 {
			o = math.Max(math.Min(o, p.MaxDeltaStep), -p.MaxDeltaStep)
		}
		return -(2*soft*o + (hs+p.LambdaL2)*o*o)
	}
	for _, s := range []sums{left, right} {
		count := math.Floor(s.h*float64(rows)/total.h + 0.5)
		if s.h <= 0 || s.h*pack.h1 < p.MinSumHessian || count < float64(p.MinDataInLeaf) {
			return 0
		}
	}
	return leaf(left) + leaf(right) - leaf(total) - p.MinGainToSplit
}

// TestSortedSubsetFindsTheBestSubset: of categories sorted by gradient over hessian, the best of those at either end is
// the best of all subsets. Of seven categories up to four are taken from either end; so each first part of the sorted
// ones is scored, as the left side or as the right one.
func TestSortedSubsetFindsTheBestSubset(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	pack := packing{hessianBits: bitsVaryingHessian, g1: 1, h1: 1}
	for round := range 200 {
		const bins = 7
		h := histogram{packed: make([]int64, bins)}
		var total sums
		for b := range bins {
			g, hs := int64(rng.IntN(2001)-1000), int64(100+rng.IntN(300))
			h.packed[b] = g<<bitsVaryingHessian + hs
			total = total.plus(sums{float64(g), float64(hs)})
		}

		// No limit and no smoothing, and more categories than are scored one against the rest. The leaf has one row for
		// each unit of hessian.
		p := Defaults()
		p.MinDataInLeaf, p.MinSumHessian, p.MinDataPerGroup, p.CatSmooth, p.CatL2 = 1, 0, 1, 0, 0
		s := newSplitScorer(&p, pack)
		target := s.target(total, int(total.h))
		best := split{}
		const from, feature = 0, 0
		s.scoreCategorical(h, from, bins, bins, &target, feature, &best, nil) // all bins may go left

		// The gain of each subset as the left side, but for the empty one and all.
		want := 0.0
		for set := 1; set < 1<<bins-1; set++ {
			var left sums
			for b := range bins {
				if set>>b&1 == 1 {
					g, hs := h.binSums(b, pack)
					left = left.plus(sums{float64(g), float64(hs)})
				}
			}
			want = max(want, s.gain(left, 0)+s.gain(total.minus(left), 0)-target.minGain)
		}
		if math.Abs(best.gain-want) > 1e-9*(1+want) {
			t.Fatalf("round %d: gain %v, want %v, the best of all subsets", round, best.gain, want)
		}
	}
}

// TestEvenGroups: coarse bins are made of neighbours, and are no more than allowed. Where there are more than four
// times as many bins, they are of about equal sizes: at most 2.5 times an equal share of the rows, and a bin of up to
// 1,000 rows more, since none is divided.
func TestEvenGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		counts := make([]int64, 1+rng.IntN(255))
		total := int64(0)
		for i := range counts {
			counts[i] = rng.Int64N(1000)
			total += counts[i]
		}
		limit := 1 + rng.IntN(100)
		groups := evenCoarseBins(counts, limit)
		size := map[uint8]int64{}
		for i, g := range groups {
			if i > 0 && g != groups[i-1] && g != groups[i-1]+1 {
				t.Fatalf("coarse bins are %v, want each to be that of the bin before it or the next one", groups)
			}
			size[g] += counts[i]
		}
		if len(size) > limit {
			t.Fatalf("%d bins were joined to %d coarse bins, want at most %d", len(counts), len(size), limit)
		}
		if len(counts) > 4*limit {
			for g, n := range size {
				if float64(n) > 2.5*float64(total)/float64(limit)+1000 {
					t.Fatalf("coarse bin %d has %d of %d rows, want at most 2.5 / %d of them and 1,000", g, n, total,
						limit)
				}
			}
		}
	}
}

// TestChooseIsUniform: each number is chosen about as often as any other, within five standard errors, and those of one
// choice ascend. The standard error is taken as the square root of the expected number, which is a little more than it.
func TestChooseIsUniform(t *testing.T) {
	const n, count, rounds = 10, 3, 20_000
	seen := make([]int, n)
	for round := range rounds {
		got := newKey(9, forTreeFeatures, round).choose(nil, n, count)
		if len(got) != count {
			t.Fatalf("chose %v, want %d numbers", got, count)
		}
		for i, v := range got {
			if i > 0 && v <= got[i-1] {
				t.Fatalf("chosen numbers are %v, want them ascending", got)
			}
			seen[v]++
		}
	}
	want := float64(rounds*count) / n
	for v, c := range seen {
		if math.Abs(float64(c)-want) > 5*math.Sqrt(want) {
			t.Errorf("%d was chosen %d times, expected about %.0f", v, c, want)
		}
	}
}

// TestBagHasItsSizeAndChanges: a bag has exactly its share of the rows, in order, stays for bagging_freq trees, and
// then is another.
func TestBagHasItsSizeAndChanges(t *testing.T) {
	p := Defaults()
	p.BaggingFraction, p.BaggingFreq = 0.3, 2
	bag := func(tree int) []uint32 {
		rows := make([]uint32, 1000)
		rowSet{n: 1000}.copy(rows, 0)                           // 0 to 999
		n := drawBag(&p, tree, rows, make([]uint32, 1000), nil) // nil: no team
		if n != 300 {
			t.Fatalf("a bag of %d of 1,000 rows, want 300", n)
		}
		for i := range rows {
			if i > 0 && i != n && rows[i] <= rows[i-1] {
				t.Fatal("the bag's rows or those left out are not ascending, want both to be")
			}
		}
		return rows[:n]
	}
	a, b, c := bag(0), bag(1), bag(2)
	if !slices.Equal(a, b) {
		t.Error("the bag changed within bagging_freq trees, want the same one")
	}
	same := 0
	for i := range a {
		if a[i] == c[i] {
			same++
		}
	}
	if same > 50 { // a few rows are at the same place by chance
		t.Errorf("after bagging_freq trees %d of 300 places have the same row, want another bag", same)
	}
}

// bestSplit returns the best split of a leaf by trying all features that its node may use; a gain of 0 if there is
// none.
func (r *reference) bestSplit(l *refLeaf) refSplit {
	best := refSplit{}
	if len(l.rows) < max(2*r.p.MinDataInLeaf, 2) || r.p.MaxDepth > 0 && l.depth >= r.p.MaxDepth || l.sum.h == 0 {
		return best
	}
	for _, f := range nodeFeatures(r.p, r.round, l.node(), r.features) {
		q := r.splitSearch(l, f)
		var found refSplit
		switch {
		case !r.d.Features[f].Categorical && r.p.ExtraTrees:
			found = q.oneThreshold()
		case !r.d.Features[f].Categorical:
			found = q.numerical()
		case r.d.Features[f].Bins <= r.p.MaxCatToOnehot:
			found = q.oneAgainstRest()
		default:
			found = q.sortedSubset()
		}
		if found.gain > best.gain {
			best = found
			best.feature = f
		}
	}
	return best
}

// splitSearch is the search for the best split of a leaf on one feature.
type splitSearch struct {
	*reference
	leaf    *refLeaf
	feature *Feature
	number  int
	total   wide
	bins    [byteBins]wide
	unsplit float64 // gain that a split must exceed
	leastH  float64 // least hessian on both sides
	perH    float64 // rows per unit of hessian
}

// splitSearch adds up the bins of feature f over the rows of a leaf, and computes the limits that a split has to keep.
func (r *reference) splitSearch(l *refLeaf, f int) *splitSearch {
	q := &splitSearch{reference: r, leaf: l, feature: &r.d.Features[f], number: f, total: l.sum}
	for _, row := range l.rows {
		b := &q.bins[r.d.Columns[f][row]]
		b.g, b.h = b.g+r.gh[row].g, b.h+r.gh[row].h
	}
	q.unsplit = r.gain(l.sum, r.l2()) + r.p.MinGainToSplit/(r.pack.g1*r.pack.g1/r.pack.h1)
	q.perH = float64(len(l.rows)) / float64(l.sum.h)
	q.leastH = max(r.p.MinSumHessian/r.pack.h1, (float64(r.p.MinDataInLeaf)-0.5)/q.perH, math.SmallestNonzeroFloat64)
	return q
}

func (a wide) and(b wide) wide    { return wide{a.g + b.g, a.h + b.h} }
func (a wide) except(b wide) wide { return wide{a.g - b.g, a.h - b.h} }

// allowed is the gain of both sides together; not ok if a side is too small.
func (q *splitSearch) allowed(left wide, l2 float64) (gain float64, ok bool) {
	right := q.total.except(left)
	if float64(left.h) < q.leastH || float64(right.h) < q.leastH {
		return 0, false
	}
	return q.gain(left, l2) + q.gain(right, l2), true
}

// stretch is a run of bins that no threshold separates.
type stretch struct {
	first, last int
	sum         wide
}

// stretches returns the non-empty bins of present values, joined if max_bin is coarser.
func (q *splitSearch) stretches() []stretch {
	var all []stretch
	group := q.groups[q.number]
	for b, s := range q.bins[:q.feature.valueBins()] {
		n := len(all) - 1
		switch {
		case s == wide{}:
		case n >= 0 && group != nil && group[all[n].last] == group[b]:
			all[n].last, all[n].sum = b, all[n].sum.and(s)
		default:
			all = append(all, stretch{b, b, s})
		}
	}
	return all
}

// numerical tries every threshold with missing values on the right, then every one with them on the left. On a tie the
// first wins. The split is in the middle of the empty bins at the threshold, and missing values that the leaf does not
// have go to the side with more hessian (splitScorer.splitAt).
func (q *splitSearch) numerical() refSplit {
	var missing wide
	if q.feature.Missing >= 0 {
		missing = q.bins[q.feature.Missing]
	}
	all := q.stretches()
	values := q.feature.valueBins()
	best, gain, left := refSplit{}, q.unsplit, wide{}
	for _, missingLeft := range []bool{false, true} {
		if missingLeft && missing == (wide{}) {
			break
		}
		var sum wide
		if missingLeft {
			sum = missing
		}
		for i, s := range all {
			sum = sum.and(s.sum)
			if i == len(all)-1 && (missingLeft || missing == wide{}) {
				break // nothing is left for the right side
			}
			v, ok := q.allowed(sum, q.l2())
			if !ok || v <= gain {
				continue
			}
			gain, left = v, sum
			best = refSplit{gain: v - q.unsplit, last: values - 1, missing: missingLeft, l2: q.l2()}
			if i < len(all)-1 {
				best.last = (s.last + all[i+1].first - 1) / 2
			}
		}
	}
	if best.gain == 0 {
		return refSplit{}
	}
	if missing == (wide{}) {
		best.missing = float64(2*left.h) >= float64(q.total.h)
	}
	for b := range best.last + 1 {
		best.left[b] = true
	}
	if best.missing && q.feature.Missing >= 0 {
		best.left[q.feature.Missing] = true
	}
	return best
}

// present returns the categories in the leaf that may go left.
func (q *splitSearch) present() []int {
	var all []int
	for b := range q.usable[q.number] {
		if q.bins[b].h > 0 {
			all = append(all, b)
		}
	}
	return all
}

// oneAgainstRest tries each category alone on the left, or with extra_trees the one that is drawn.
func (q *splitSearch) oneAgainstRest() refSplit {
	best, drawn := refSplit{}, -1
	if q.p.ExtraTrees {
		drawn = q.random(q.usable[q.number])
	}
	for _, b := range q.present() {
		if drawn >= 0 && b != drawn {
			continue
		}
		if v, ok := q.allowed(q.bins[b], q.l2()); ok && v-q.unsplit > best.gain {
			best = refSplit{gain: v - q.unsplit, l2: q.l2()}
			best.left[b] = true
		}
	}
	return best
}

// rows is the estimated number of rows behind a sum of hessians.
func (q *splitSearch) rows(s wide) float64 { return float64(float64(s.h) * q.perH) }

// sortedSubset sorts categories by gradient over hessian and tries those from either end.
func (q *splitSearch) sortedSubset() refSplit {
	var sorted []int
	for _, b := range q.present() {
		if q.rows(q.bins[b])+0.5 >= q.p.CatSmooth {
			sorted = append(sorted, b)
		}
	}
	ratio := func(b int) float64 {
		return float64(q.bins[b].g) / (float64(q.bins[b].h) + q.p.CatSmooth/q.pack.h1)
	}
	slices.SortFunc(sorted, func(a, b int) int { return cmp.Or(cmp.Compare(ratio(a), ratio(b)), a-b) })
	best := refSplit{}
	for range 2 {
		q.fromOneEnd(sorted, &best)
		slices.Reverse(sorted)
	}
	return best
}

// fromOneEnd tries the first 1, 2, 3 ... of the sorted categories as the left side, and replaces best if one is better.
// It skips and ends by the rules that splitScorer.runFromEnd states.
func (q *splitSearch) fromOneEnd(sorted []int, best *refSplit) {
	group := float64(q.p.MinDataPerGroup)
	var left wide
	since := 0.0
	longest := min(q.p.MaxCatThreshold, (len(sorted)+1)/2)
	for i := range longest {
		left = left.and(q.bins[sorted[i]])
		since += q.rows(q.bins[sorted[i]])
		right := q.total.except(left)
		if float64(left.h) < q.leastH {
			continue
		}
		if float64(right.h) < q.leastH || q.rows(right)+0.5 < group {
			return
		}
		if since+0.5 < group {
			continue
		}
		since = 0
		if q.p.ExtraTrees && i != q.random(longest) {
			continue
		}
		if v, ok := q.allowed(left, q.catL2()); ok && v-q.unsplit > best.gain {
			*best = refSplit{gain: v - q.unsplit, l2: q.catL2()}
			for _, b := range sorted[:i+1] {
				best.left[b] = true
			}
		}
	}
}

// How the reference trainer draws thresholds.

// random returns one of n numbers, for this feature at this node.
func (q *splitSearch) random(n int) int {
	k := newKey(q.p.Seed, forThresholds, q.round)
	return pick(key(k.uniform(uint64(q.leaf.node()))).uniform(uint64(q.number)), n)
}

// oneThreshold is numerical with a single threshold, drawn among the ends of all bins but the last, or of coarse bins
// if max_bin asks for these. If there is no such end, all present values go left.
func (q *splitSearch) oneThreshold() refSplit {
	values, group := q.feature.valueBins(), q.groups[q.number]
	var ends []int // the last left bins of all thresholds
	for b := range values - 1 {
		if group == nil || group[b] != group[b+1] {
			ends = append(ends, b)
		}
	}
	if ends == nil {
		ends = []int{values - 1}
	}
	last := ends[q.random(len(ends))]
	var present, missing wide
	for b := range last + 1 {
		present = present.and(q.bins[b])
	}
	if q.feature.Missing >= 0 {
		missing = q.bins[q.feature.Missing]
	}
	best := refSplit{}
	gain, left := q.unsplit, present
	for _, missingLeft := range []bool{false, true} {
		sum := present
		if missingLeft {
			sum = sum.and(missing)
		}
		if v, ok := q.allowed(sum, q.l2()); ok && v > gain {
			gain, left = v, sum
			best = refSplit{gain: v - q.unsplit, last: last, missing: missingLeft, l2: q.l2()}
		}
	}
	if best.gain == 0 {
		return refSplit{}
	}
	if missing == (wide{}) {
		best.missing = float64(2*left.h) >= float64(q.total.h)
	}
	for b := range last + 1 {
		best.left[b] = true
	}
	if best.missing && q.feature.Missing >= 0 {
		best.left[q.feature.Missing] = true
	}
	return best
}
