package gbt

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// refLook is the reference's looking ahead: every pair of splits is rated by adding up the rows of its four leaves.
type refLook struct {
	*reference
	root   *refLeaf
	rows   []uint32
	coarse map[int][]int // of a feature, the coarse bin of each bin
}

type refPair struct {
	gain          float64
	first, second int
	cut           int
	cuts          [2]int
}

func (r *reference) lookAhead(root *refLeaf) {
	p, bag := r.p, root.rows
	per := min(lookRows, len(bag)/3) / lookBlocks // rows for looking in a block
	if p.LookaheadFreq == 0 || r.round%p.LookaheadFreq != p.LookaheadFreq-1 || p.NumLeaves < 4 || p.MaxDepth == 1 ||
		p.FeatureFractionByNode < 1 || p.ExtraTrees || p.MonotoneConstraints != "" || p.InteractionConstraints != "" || root.best.gain <= 0 || per < 2 {
		return
	}
	draw, pieces := newKey(p.Seed, forLookedRows, r.round), 3*lookBlocks*per
	look, check := refLook{reference: r, root: root, coarse: map[int][]int{}}, refLook{reference: r, root: root, coarse: map[int][]int{}}
	for i := range pieces {
		from, to := i*len(bag)/pieces, (i+1)*len(bag)/pieces
		row := bag[from+int(draw.at(uint64(i))%uint64(to-from))]
		if i/per%3 == 0 {
			look.rows = append(look.rows, row)
		} else {
			check.rows = append(check.rows, row)
		}
	}
	best, features := refPair{}, r.looked(len(look.rows), len(bag))
	for i := range features {
		for j := range i {
			for _, pair := range []refPair{{first: features[j], second: features[i]}, {first: features[i], second: features[j]}} {
				if found := look.best(pair); found.gain > best.gain {
					best = found
				}
			}
		}
	}
	if !look.beatsRoot(best.gain) {
		return
	}
	squares, hessians := 0.0, 0.0
	for _, row := range check.rows {
		squares += float64(r.gh[row].g * r.gh[row].g)
		hessians += float64(r.gh[row].h)
	}
	chance := squares / max(hessians, 1)
	gain := check.gain(best) - float64(3*chance)
	gain -= float64(2 * math.Sqrt(max(gain, 0)*chance))
	if check.beatsRoot(gain) && gain > evidence*chance {
		look.splitRoot(best)
	}
}

func (r *reference) looked(rows, bag int) []int {
	var numerical, features []int
	for _, f := range r.features {
		if !r.d.Features[f].Categorical {
			numerical = append(numerical, f)
		}
	}
	n, pairs := 1, max(bag*len(r.features)/lookShare, lookLeast)/(rows+ratePair)
	for n < min(len(numerical), lookFeatures) && n*(n+1)/2 <= pairs {
		n++
	}
	for _, i := range newKey(r.p.Seed, forLookedFeatures, r.round).choose(nil, len(numerical), n) {
		features = append(features, numerical[i])
	}
	return features
}

func (l *refLook) share() float64 { return float64(len(l.rows)) / float64(len(l.root.rows)) }

func (l *refLook) beatsRoot(gain float64) bool {
	unit := l.pack.g1 * l.pack.g1 / l.pack.h1
	return gain*float64(len(l.root.rows))/float64(len(l.rows))/3-l.p.MinGainToSplit/unit > l.root.best.gain
}

// bins are the coarse bins of a feature's bins.
func (l *refLook) bins(f int) []int {
	if l.coarse[f] != nil {
		return l.coarse[f]
	}
	q := l.question(l.root, f)
	weights := make([]int, q.feature.valueBins())
	for b := range weights {
		weights[b] = int(q.bins[b].h)
	}
	n := coarseBins
	if q.feature.Missing >= 0 {
		n--
	}
	var bins []int
	for b, c := range evenGroups(weights, n) {
		if b > 0 && l.groups[f] != nil && l.groups[f][b] == l.groups[f][b-1] {
			bins = append(bins, bins[b-1])
		} else {
			bins = append(bins, int(c))
		}
	}
	if q.feature.Missing >= 0 {
		bins = append(bins, coarseBins-1)
	}
	l.coarse[f] = bins
	return bins
}

// side are the sums of the rows on one side of a pair's first cut, by the coarse bins of its second feature.
func (l *refLook) side(p refPair, behind bool) (bins [coarseBins]wide) {
	first, second := l.bins(p.first), l.bins(p.second)
	for _, row := range l.rows {
		if (first[l.d.Columns[p.first][row]] > p.cut) == behind {
			c := second[l.d.Columns[p.second][row]]
			bins[c] = bins[c].and(l.gh[row])
		}
	}
	return bins
}

// leaves are the gain of a side whose bins are divided, or not where a part would be too small.
func (l *refLook) leaves(bins [coarseBins]wide, cut int) (gain, hessian float64) {
	var left, right wide
	for c, s := range bins {
		if c <= cut {
			left = left.and(s)
		} else {
			right = right.and(s)
		}
	}
	all := left.and(right)
	if least := l.leastH(); float64(left.h) < least || float64(right.h) < least {
		return l.worth(all), float64(all.h)
	}
	return l.worth(left) + l.worth(right), float64(all.h)
}

func (l *refLook) leastH() float64 {
	return max(l.question(l.root, l.features[0]).leastH*l.share(), math.SmallestNonzeroFloat64)
}

func (l *refLook) best(p refPair) refPair {
	for cut := range coarseBins - 1 {
		try := refPair{first: p.first, second: p.second, cut: cut}
		small := false
		for i, behind := range []bool{false, true} {
			bins := l.side(try, behind)
			best, hessian := l.leaves(bins, coarseBins-1)
			small = small || hessian < l.leastH()
			try.cuts[i] = coarseBins - 1
			for at := range coarseBins - 1 {
				if gain, _ := l.leaves(bins, at); gain > best {
					best, try.cuts[i] = gain, at
				}
			}
			try.gain += best
		}
		try.gain -= l.worth(l.sum(l.rows))
		if !small && try.gain > p.gain {
			p = try
		}
	}
	return p
}

// gain is what a pair's splits take off the loss of the rows, wherever they were found.
func (l *refLook) gain(p refPair) float64 {
	below, _ := l.leaves(l.side(p, false), p.cuts[0])
	behind, _ := l.leaves(l.side(p, true), p.cuts[1])
	return below + behind - l.worth(l.sum(l.rows))
}

// worth is the gain of a leaf, with regularisation for so few rows.
func (l *refLook) worth(s wide) float64 {
	if s.h <= 0 {
		return 0
	}
	few := *l.reference
	few.l1 *= l.share()
	return few.gain(s, l.l2()*l.share())
}

func (l *refLook) splitRoot(p refPair) {
	q, coarse := l.question(l.root, p.first), l.bins(p.first)
	last, next := 0, -1
	var left wide
	for b, s := range q.bins[:q.feature.valueBins()] {
		switch {
		case s == wide{}:
		case coarse[b] <= p.cut:
			last, left = b, left.and(s)
		case next < 0:
			next = b
		}
	}
	split := refSplit{feature: p.first, l2: l.l2(), last: q.feature.valueBins() - 1}
	if next >= 0 {
		split.last = (last + next - 1) / 2
	}
	for b := range split.last + 1 {
		split.left[b] = true
	}
	if missing := q.feature.Missing; missing < 0 || q.bins[missing] == (wide{}) {
		split.missing = float64(2*left.h) >= float64(l.root.sum.h)
		if missing >= 0 {
			split.left[missing] = split.missing
		}
	}
	gain, ok := q.allowed(left, l.l2())
	if split.gain = gain - q.unsplit; ok && gain > q.unsplit {
		l.root.best = split
	}
}

// TestLooksAheadAsTheReferenceDoes has tables in which what matters together is just about to be found, features that are the same twice,
// and parameters that forbid some splits.
func TestLooksAheadAsTheReferenceDoes(t *testing.T) {
	changed := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 11))
		spec := tableSpec{
			rows: 300 + rng.IntN(4000), numerical: 3 + rng.IntN(4), bins: 2 + rng.IntN(60), missing: float64(rng.IntN(2)) / 10,
			weights: rng.IntN(2) == 0, regression: rng.IntN(2) == 0, together: 0.2 + rng.Float64(), seed: seed,
		}
		d := randomTable(spec)
		if rng.IntN(2) == 0 {
			d.Columns[2] = d.Columns[rng.IntN(2)]
			d.RowMajor = rowMajor(d.Columns)
		}
		trial := &trial{table: d, p: randomParams(rng, spec.regression)}
		trial.makeTrainable()
		trial.p.NumIterations, trial.p.LookaheadFreq, trial.p.FeatureFractionByNode, trial.p.MaxDepth = 1, 1, 1, 0
		trial.p.NumLeaves = max(trial.p.NumLeaves, 4)
		got, want := trial.train(t, Options{Threads: 1 + int(seed%3)}), text(t, newReference(&trial.Data, trial.p).train())
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d, %v: %s", seed, trial, firstDifference(got, want))
		}
		trial.p.LookaheadFreq = 0
		if !bytes.Equal(got, trial.train(t, Options{Threads: 1})) {
			changed++
		}
	}
	t.Logf("%d of 300 roots are not the greedy ones", changed)
	if changed < 20 || changed > 200 {
		t.Errorf("%d of 300 roots are not the greedy ones: too far from what decides", changed)
	}
}

// TestFindsWhatMattersTogether: two features of which neither says anything alone, among six others.
func TestFindsWhatMattersTogether(t *testing.T) {
	for _, regression := range []bool{false, true} {
		t.Run(fmt.Sprintf("regression=%v", regression), func(t *testing.T) {
			d := randomTable(tableSpec{rows: 20000, numerical: 8, bins: 64, regression: regression, together: 1.5, seed: 5})
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
	d := randomTable(tableSpec{rows: 20000, numerical: 4, bins: 64, together: 1.5, seed: 5})
	for name, tc := range map[string]struct {
		change  func(*Params)
		changed bool
	}{
		"as it is":               {func(*Params) {}, true},
		"three leaves":           {func(p *Params) { p.NumLeaves = 3 }, false},
		"four leaves":            {func(p *Params) { p.NumLeaves = 4 }, true},
		"stumps":                 {func(p *Params) { p.MaxDepth = 1 }, false},
		"two levels":             {func(p *Params) { p.MaxDepth = 2 }, true},
		"features drawn by node": {func(p *Params) { p.FeatureFractionByNode = 0.9 }, false},
		"no split of small gain": {func(p *Params) { p.MinGainToSplit = 20 }, false},
		"one of the two ignored": {func(p *Params) { p.IgnoreColumn = "0" }, false},
		"too few trees to look":  {func(p *Params) { p.NumIterations, p.LookaheadFreq = 3, 4 }, false},
		"the last one looks":     {func(p *Params) { p.NumIterations, p.LookaheadFreq = 4, 4 }, true},
		"quarters are allowed":   {func(p *Params) { p.MinDataInLeaf = 4000 }, true},
		"quarters are too small": {func(p *Params) { p.MinDataInLeaf = 8000 }, false},
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

// TestCopiesProveNothing: where rows are many times in the table, one behind the other, chance is not confirmed by its own copies.
func TestCopiesProveNothing(t *testing.T) {
	const copies, tables = 16, 40
	changed := 0
	for seed := range uint64(tables) {
		few := randomTable(tableSpec{rows: 1500, numerical: 12, bins: 64, seed: seed})
		rng := rand.New(rand.NewPCG(seed, 3))
		d := Data{Rows: few.Rows * copies, Features: few.Features, Columns: make([][]byte, len(few.Features))}
		for r := range few.Rows {
			y := float32(rng.IntN(2))
			for range copies {
				for f := range d.Columns {
					d.Columns[f] = append(d.Columns[f], few.Columns[f][r])
				}
				d.Label = append(d.Label, y)
			}
		}
		d.RowMajor = rowMajor(d.Columns)
		p := Defaults()
		p.NumIterations, p.LookaheadFreq = 1, 1
		ahead := text(t, mustTrain(t, &d, p, Options{Threads: 1}).Model)
		p.LookaheadFreq = 0
		if !bytes.Equal(ahead, text(t, mustTrain(t, &d, p, Options{Threads: 1}).Model)) {
			changed++
		}
	}
	t.Logf("%d of %d roots are not the greedy ones", changed, tables)
	if changed > 2 {
		t.Errorf("chance was taken for more in %d of %d tables", changed, tables)
	}
}
