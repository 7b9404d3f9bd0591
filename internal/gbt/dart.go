package gbt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// The kinds of boosting.
const (
	gbdt          = "gbdt"
	droppedTrees  = "dart" // some trees are left out while the next is grown
	averagedTrees = "rf"   // trees do not see each other, and are averaged
)

func canonicalBoosting(name string) (string, error) {
	switch name {
	case gbdt, "gbrt":
		return gbdt, nil
	case averagedTrees, "random_forest":
		return averagedTrees, nil
	case droppedTrees:
		return droppedTrees, nil
	case "goss":
		return "", errors.New("it is a way of drawing rows here, as in LightGBM 4: data_sample_strategy: goss")
	}
	return "", fmt.Errorf("there is no boosting %.40q; use gbdt, dart or rf", name)
}

// dart drops some trees before each new one, which learns what the others leave; then they share the place of those
// that were dropped (Rashmi and Gilad-Bachrach, AISTATS 2015). How likely a tree is dropped, and by how much it and the
// new ones shrink, is LightGBM's (src/boosting/dart.hpp).
//
// A finished tree is never changed. What has become of it is a factor, and all factors follow from the parameters and
// the number of iterations, so that the trees as they were grown are all that a checkpoint has to hold.
//
// Leaf values are whole multiples of unit and small enough for sums of them to be exact. So a raw score is the same
// bits after dropping and adding as the sum of the finished model's trees.
type dart struct {
	p       *Params
	unit    float64
	factor  []float64 // by iteration
	dropped []int     // the iterations that are dropped at present
}

// dartBits is how many bits a leaf's value has below the largest label, or below 1 where scores are logarithms. Beyond
// 2^(53 - dartBits) times that, sums would not be exact; a training whose scores come to half of it diverges.
const dartBits = 40

// newDART returns nil for other kinds of boosting.
func newDART(p *Params, d *Data) *dart {
	if p.Boosting != droppedTrees {
		return nil
	}
	largest := 1.0
	if o := findObjective(p.Objective); o.output == asIs && !o.ranks {
		largest = 0
		_ = d.eachOwn(func(r uint32, _ float64) error {
			largest = max(largest, math.Abs(float64(d.Label[r])))
			return nil
		})
		d.link.most(&largest)
	}
	_, exponent := math.Frexp(largest)
	return &dart{p: p, unit: math.Ldexp(1, exponent-dartBits)}
}

// whole returns x as a multiple of unit.
func (d *dart) whole(x float64) float64 { return math.RoundToEven(x/d.unit) * d.unit }

// drop chooses the iterations to drop for the next one.
func (d *dart) drop() {
	d.dropped = d.dropped[:0]
	n := len(d.factor)
	k := newKey(d.p.Seed, forDrops, n)
	if n == 0 || k.uniform(0) < d.p.SkipDrop {
		return
	}

	// A tree's weight is what is left of its learning rate. A sum of rates has LightGBM's limit at max_drop.
	rate, perWeight, limit := d.p.DropRate, 0.0, float64(d.p.MaxDrop)/float64(n)
	if !d.p.UniformDrop {
		sum := 0.0
		for _, f := range d.factor {
			sum += float64(f * d.p.LearningRate)
		}
		perWeight = float64(n) / sum
		limit = float64(d.p.MaxDrop) * perWeight / sum
	}
	if d.p.MaxDrop > 0 {
		rate = min(rate, limit)
	}
	for i, f := range d.factor {
		chance := rate
		if !d.p.UniformDrop {
			chance = float64(rate*float64(f*d.p.LearningRate)) * perWeight
		}
		if k.uniform(uint64(i+1)) < chance {
			d.dropped = append(d.dropped, i)
		}
		if d.p.MaxDrop > 0 && len(d.dropped) >= d.p.MaxDrop {
			return
		}
	}
}

// shares returns what the next iteration's trees are multiplied by, and those that are dropped.
func (d *dart) shares() (next, dropped float64) {
	k := float64(len(d.dropped))
	switch {
	case k == 0:
		return 1, 1
	case d.p.XGBoostDARTMode:
		return 1 / (k + d.p.LearningRate), k / (k + d.p.LearningRate)
	}
	return 1 / (k + 1), k / (k + 1)
}

// settle ends an iteration that has grown trees.
func (d *dart) settle() {
	next, dropped := d.shares()
	for _, i := range d.dropped {
		d.factor[i] = float64(d.factor[i] * dropped)
	}
	d.factor = append(d.factor, next)
}

// after returns the state after n iterations, from which the next trees are not dropped yet.
func (d *dart) after(n int) *dart {
	at := &dart{p: d.p, unit: d.unit, factor: make([]float64, 0, n)}
	for range n {
		at.drop()
		at.settle()
	}
	return at
}

// scaled returns a tree multiplied by f.
func (d *dart) scaled(t *Tree, f float64) *Tree {
	s := t.dividedBy(1)
	s.Shrinkage = float64(t.Shrinkage * f)
	for i, v := range t.LeafValue {
		s.LeafValue[i] = d.whole(float64(v * f))
	}
	for i, v := range t.InternalValue {
		s.InternalValue[i] = float64(v * f)
	}
	return s
}

// finished returns an output's trees, from the first iteration on, as they are now.
func (d *dart) finished(own []*Tree) []*Tree {
	trees := make([]*Tree, len(own))
	for i, t := range own {
		trees[i] = d.scaled(t, d.factor[i])
	}
	return trees
}

// beginDART makes all constants whole. The trees of iterations do not carry them; the finished model's do.
func (b *booster) beginDART() {
	if b.dart = newDART(&b.p, b.data); b.dart == nil {
		return
	}
	b.opt.Shift = b.dart.whole(b.opt.Shift)
	for k := range b.outputs {
		o := &b.outputs[k]
		o.bias = b.dart.whole(o.bias)
		for r := range o.raw {
			o.raw[r] = o.bias
		}
		for r := range o.validRaw {
			o.validRaw[r] = o.bias + b.opt.Shift
		}
	}
}

// dropTrees takes trees out of all scores, for the next iteration to learn what they leave.
func (b *booster) dropTrees(ctx context.Context) error {
	largest := make([]float64, b.pool.size)
	for k := range b.outputs {
		raw := b.outputs[k].raw
		b.pool.parallel(len(raw), grain, func(worker, lo, hi int) {
			for _, s := range raw[lo:hi] {
				largest[worker] = max(largest[worker], math.Abs(s))
			}
		})
	}
	most := slices.Max(largest)
	b.data.link.most(&most)
	if !(most < math.Ldexp(b.dart.unit, 52)) {
		return fmt.Errorf("%w at tree %d: raw scores are beyond what dart adds up exactly; use a smaller "+
			"learning_rate", errDiverged, len(b.trees)+1)
	}

	b.dart.drop()
	b.addDropped(context.WithoutCancel(ctx), -1)
	return ctx.Err()
}

// returnTrees adds the dropped trees again, with splits as what the iteration's own trees leave of them.
func (b *booster) returnTrees(splits bool) {
	if splits {
		b.dart.settle()
	}
	b.addDropped(context.Background(), 1)
}

// addDropped adds or subtracts the trees that are dropped.
func (b *booster) addDropped(ctx context.Context, sign float64) {
	if len(b.dart.dropped) == 0 {
		return
	}
	for k := range b.outputs {
		b.output = &b.outputs[k]
		trees := make([]*Tree, len(b.dart.dropped))
		for j, i := range b.dart.dropped {
			trees[j] = b.dart.scaled(b.trees[i*len(b.outputs)+k], float64(sign*b.dart.factor[i]))
		}
		addPredictions(ctx, trees, b.data.Columns, b.data.rows(), b.raw, b.walks)
		b.addToValid(ctx, trees...)
	}
}

// checkDART refuses its parameters without it.
func (p *Params) checkDART() error {
	defaults := Defaults()
	for _, name := range []string{dropRate, maxDrop, skipDrop, uniformDrop, xgboostDART} {
		field := findParam(name).field
		if p.Boosting != droppedTrees && !reflect.DeepEqual(field(p), field(&defaults)) {
			return &ParamError{name, "has no effect without boosting: dart"}
		}
	}
	return nil
}
