package gbt

import (
	"bytes"
	"fmt"
	"testing"
)

// lookAhead is the reference's: every pair of splits is rated by adding up the rows of its four leaves.
func (r *reference) lookAhead(root *refLeaf) {
	p, bag := r.p, root.rows
	n := min(lookRows+checkRows, len(bag)) / 3
	if p.LookaheadFreq == 0 || r.round%p.LookaheadFreq != p.LookaheadFreq-1 || p.NumLeaves < 4 || p.MaxDepth == 1 ||
		p.FeatureFractionByNode < 1 || root.best.gain <= 0 || n < minLookRows {
		return
	}
	draw := newKey(p.Seed, forLookahead, r.round)
	features := r.looked(draw, n, len(bag))
	var sample, others []uint32
	for i := range 3 * n {
		from, to := i*len(bag)/(3*n), (i+1)*len(bag)/(3*n)
		row := bag[from+int(draw.at(uint64(i))%uint64(to-from))]
		if i%3 == 0 {
			sample = append(sample, row)
		} else {
			others = append(others, row)
		}
	}
	best := refPair{}
	for i := range features {
		for j := range i {
			for _, pair := range []refPair{{first: features[j], second: features[i]}, {first: features[i], second: features[j]}} {
				if found := r.bestPair(root, pair, sample); found.gain > best.gain {
					best = found
				}
			}
		}
	}
	if best.gain*float64(len(bag))/float64(n)/3 <= root.best.gain {
		return
	}
	squares, hessians := 0.0, 0.0
	for _, row := range others {
		squares += float64(r.gh[row].g * r.gh[row].g)
		hessians += float64(r.gh[row].h)
	}
	chance := squares / max(hessians, 1)
	gain := r.pairGain(root, best, others) - float64(3*chance)
	if gain*float64(len(bag))/float64(2*n)/3 > root.best.gain && gain > evidence*chance {
		r.splitRoot(root, best)
	}
}

type refPair struct {
	gain          float64
	first, second int
	cut           int
	cuts          [2]int
}

func (r *reference) looked(draw key, sample, bag int) []int {
	var numerical, features []int
	for _, f := range r.features {
		if !r.d.Features[f].Categorical {
			numerical = append(numerical, f)
		}
	}
	n := 1
	for n < min(len(numerical), lookFeatures) && n*(n+1)/2 <= max(bag*len(r.features)/lookShare, lookLeast)/sample {
		n++
	}
	for _, i := range draw.choose(nil, len(numerical), n) {
		features = append(features, numerical[i])
	}
	return features
}

// coarse is the coarse bin of each bin of a feature.
func (r *reference) coarse(root *refLeaf, f int) []int {
	q := r.question(root, f)
	counts := make([]int, q.feature.valueBins())
	for b := range counts {
		counts[b] = int(q.bins[b].h)
	}
	n := coarseBins
	if q.feature.Missing >= 0 {
		n--
	}
	var coarse []int
	for b, c := range evenGroups(counts, n) {
		if b > 0 && r.groups[f] != nil && r.groups[f][b] == r.groups[f][b-1] {
			coarse = append(coarse, coarse[b-1])
		} else {
			coarse = append(coarse, int(c))
		}
	}
	if q.feature.Missing >= 0 {
		coarse = append(coarse, coarseBins-1)
	}
	return coarse
}

func (r *reference) bestPair(root *refLeaf, p refPair, rows []uint32) refPair {
	first, second := r.coarse(root, p.first), r.coarse(root, p.second)
	total := r.worth(r.sum(rows))
	for cut := range coarseBins - 1 {
		gain, cuts := 0.0, [2]int{}
		for side := range 2 {
			var sums [coarseBins]wide
			var all wide
			for _, row := range rows {
				if (first[r.d.Columns[p.first][row]] > cut) == (side == 1) {
					c := second[r.d.Columns[p.second][row]]
					sums[c], all = sums[c].and(r.gh[row]), all.and(r.gh[row])
				}
			}
			best, at := r.worth(all), coarseBins-1
			var below wide
			for c := range coarseBins - 1 {
				below = below.and(sums[c])
				if v := r.worth(below) + r.worth(all.except(below)); v > best {
					best, at = v, c
				}
			}
			gain, cuts[side] = gain+best, at
		}
		if gain -= total; gain > p.gain {
			p.gain, p.cut, p.cuts = gain, cut, cuts
		}
	}
	return p
}

// pairGain is what a pair's splits take off the loss of other rows.
func (r *reference) pairGain(root *refLeaf, p refPair, rows []uint32) float64 {
	first, second := r.coarse(root, p.first), r.coarse(root, p.second)
	var leaves [2][2]wide
	for _, row := range rows {
		side, leaf := 0, 0
		if first[r.d.Columns[p.first][row]] > p.cut {
			side = 1
		}
		if second[r.d.Columns[p.second][row]] > p.cuts[side] {
			leaf = 1
		}
		leaves[side][leaf] = leaves[side][leaf].and(r.gh[row])
	}
	worth := func(side int) float64 { return r.worth(leaves[side][0]) + r.worth(leaves[side][1]) }
	return worth(0) + worth(1) - r.worth(r.sum(rows))
}

func (r *reference) worth(s wide) float64 {
	if s.h <= 0 {
		return 0
	}
	return r.gain(s, r.l2())
}

func (r *reference) splitRoot(root *refLeaf, p refPair) {
	q, coarse := r.question(root, p.first), r.coarse(root, p.first)
	split := refSplit{feature: p.first, l2: r.l2()}
	var left wide
	for b := range q.feature.valueBins() {
		if coarse[b] <= p.cut {
			split.left[b], split.last, left = true, b, left.and(q.bins[b])
		}
	}
	if missing := q.feature.Missing; missing < 0 || q.bins[missing] == (wide{}) {
		split.missing = float64(2*left.h) >= float64(root.sum.h)
		if missing >= 0 {
			split.left[missing] = split.missing
		}
	}
	gain, ok := q.allowed(left, r.l2())
	if split.gain = gain - q.unsplit; ok && split.gain > 0 {
		root.best = split
	}
}

// TestFindsWhatMattersTogether: two features of which neither says anything alone, among six others.
func TestFindsWhatMattersTogether(t *testing.T) {
	for _, regression := range []bool{false, true} {
		t.Run(fmt.Sprintf("regression=%v", regression), func(t *testing.T) {
			d := randomTable(tableSpec{rows: 20000, numerical: 8, bins: 64, regression: regression, together: true, seed: 5})
			p, rate := Defaults(), logLoss(d.Label)
			p.NumIterations, p.NumLeaves, p.LearningRate = 8, 4, 0.5
			if regression {
				p.Objective, rate = "regression", squaredError(d.Label)
			}
			loss := func(freq int) float64 {
				p.LookaheadFreq = freq
				return mustTrain(t, &d.Data, p, Options{Threads: 2, Valid: &d.Data, Eval: rate}).Score
			}
			never, always, sometimes := loss(0), loss(1), loss(4)
			t.Logf("loss %.4f without looking ahead, %.4f in every tree, %.4f in one of four", never, always, sometimes)
			if always > 0.8*never || sometimes > 0.85*never {
				t.Errorf("what matters together was not found: loss %.4f without looking ahead, %.4f in every tree, %.4f in one of four", never, always, sometimes)
			}
		})
	}
}

// TestNothingTogetherNothingChanged: where effects add up, a tree that looks ahead is the greedy one.
func TestNothingTogetherNothingChanged(t *testing.T) {
	for seed := range uint64(5) {
		d := randomTable(tableSpec{rows: 20000, numerical: 8, bins: 64, missing: 0.1, seed: seed})
		p := Defaults()
		p.NumIterations, p.LookaheadFreq = 20, 1
		ahead := text(t, mustTrain(t, &d.Data, p, Options{Threads: 2}).Model)
		p.LookaheadFreq = 0
		if greedy := text(t, mustTrain(t, &d.Data, p, Options{Threads: 2}).Model); !bytes.Equal(ahead, greedy) {
			t.Errorf("seed %d: %s", seed, firstDifference(ahead, greedy))
		}
	}
}

func squaredError(label []float32) func(raw []float64) (float64, error) {
	return func(raw []float64) (float64, error) {
		sum := 0.0
		for i, x := range raw {
			sum += (x - float64(label[i])) * (x - float64(label[i]))
		}
		return sum / float64(len(raw)), nil
	}
}

// TestLooksAheadOnlyWhereThereIsRoom: where a pair's splits could not all follow, or features are drawn anew, trees are greedy.
func TestLooksAheadOnlyWhereThereIsRoom(t *testing.T) {
	d := randomTable(tableSpec{rows: 20000, numerical: 4, bins: 64, together: true, seed: 5})
	for name, tc := range map[string]struct {
		change  func(*Params)
		changed bool
	}{
		"as it is":                {func(*Params) {}, true},
		"three leaves":            {func(p *Params) { p.NumLeaves = 3 }, false},
		"four leaves":             {func(p *Params) { p.NumLeaves = 4 }, true},
		"stumps":                  {func(p *Params) { p.MaxDepth = 1 }, false},
		"two levels":              {func(p *Params) { p.MaxDepth = 2 }, true},
		"features drawn by node":  {func(p *Params) { p.FeatureFractionByNode = 0.9 }, false},
		"no split of small gain":  {func(p *Params) { p.MinGainToSplit = 20 }, false},
		"one of the two ignored":  {func(p *Params) { p.IgnoreColumn = "0" }, false},
		"too few trees to look":   {func(p *Params) { p.NumIterations, p.LookaheadFreq = 3, 4 }, false},
		"the last one looks":      {func(p *Params) { p.NumIterations, p.LookaheadFreq = 4, 4 }, true},
		"only halves and no less": {func(p *Params) { p.MinDataInLeaf = 9999 }, false},
	} {
		p := Defaults()
		p.NumIterations, p.LookaheadFreq = 4, 1
		tc.change(&p)
		ahead := text(t, mustTrain(t, &d.Data, p, Options{Threads: 2}).Model)
		p.LookaheadFreq = 0
		if changed := !bytes.Equal(ahead, text(t, mustTrain(t, &d.Data, p, Options{Threads: 2}).Model)); changed != tc.changed {
			t.Errorf("%s: changed = %v", name, changed)
		}
	}
}
