package metric

import (
	"math"
	"math/rand/v2"
	"slices"
)

// bootstrap resamples rows and returns the quantiles and the deviation of a function of the values for several
// predictions of the same rows. The number of draws of a row is Poisson distributed with mean 1, independently, which
// for many rows approximates drawing as many rows as there are (Hanley and MacGibbon 2006). Resamples on which the
// metric is undefined are left out.
func bootstrap(m Metric, c Confidence, in Input, preds [][]float64, of func(values []float64) float64) (low, high,
	deviation float64, err error) {
	sides := make([]*resampler, len(preds))
	for s, pred := range preds {
		side := in
		side.Pred = pred
		sides[s] = newResampler(side)
	}

	times := make([]uint8, len(in.Pred))
	values := make([]float64, len(preds))
	all := make([]float64, 0, c.Samples)
	var last error
	for sample := range c.Samples {
		draw(times, rand.New(rand.NewPCG(c.Seed, uint64(sample))))
		ok := true
		for s, r := range sides {
			v, err := r.eval(m, times)
			if err != nil {
				last, ok = err, false
				break
			}
			values[s] = v
		}
		if ok {
			all = append(all, of(values))
		}
	}

	// If most resamples are undefined, the rest is not representative.
	if 2*len(all) < c.Samples {
		return 0, 0, 0, last
	}
	low, high = c.bounds(all)
	return low, high, spread(all), nil
}

// spread is the standard deviation.
func spread(values []float64) float64 {
	var total, squares sum
	for _, v := range values {
		total.add(v)
	}
	mean := total.value() / float64(len(values))
	for _, v := range values {
		squares.add((v - mean) * (v - mean))
	}
	return math.Sqrt(squares.value() / float64(len(values)-1))
}

// resampler evaluates the same predictions with changing weights: they are sorted once.
type resampler struct {
	e      Evaluator
	rows   []uint32  // by descending prediction
	label  []uint8   // in that order
	weight []float32 // in that order; nil if all are 1
}

// newResampler takes rows that the metric has evaluated, and that are therefore valid.
func newResampler(in Input) *resampler {
	r := &resampler{}
	k := &r.e.rank
	s, _ := summarize(in)
	k.sortRows(in.Pred, s.low, s.high)
	r.rows = slices.Clone(k.tags)
	r.label = make([]uint8, len(r.rows))
	for i, row := range r.rows {
		r.label[i] = uint8(in.Label[row])
	}

	if in.Weight != nil {
		r.weight = make([]float32, len(r.rows))
		for i, row := range r.rows {
			r.weight[i] = in.Weight[row]
		}
	}

	r.e.in, r.e.binary, r.e.sound, r.e.ranked = in, s, checked, true
	return r
}

// eval evaluates as if each row occurred times[i] times.
func (r *resampler) eval(m Metric, times []uint8) (float64, error) {
	var weights [2]float64
	tags := r.e.rank.tags[:len(r.rows)]
	for i, row := range r.rows {
		w := float32(times[row])
		if r.weight != nil {
			w *= r.weight[i]
		}
		label := r.label[i] & 1
		weights[label] += float64(w)
		// As fill makes tags: the weight, with the label in place of its sign.
		tags[i] = math.Float32bits(w)&^(1<<31) | uint32(label)<<31
	}

	r.e.binary.neg, r.e.binary.pos = weights[0], weights[1]
	if weights[0]+weights[1] == 0 {
		return 0, fault(m, -1, "all weights are 0")
	}
	return r.e.Eval(m)
}

// poisson has the cumulative probabilities of 0, 1, 2 ... draws of a row, in units of 2^-32.
var poisson = func() (upTo [16]uint32) {
	p, all := math.Exp(-1), 0.0
	for k := range upTo {
		all += p
		upTo[k] = uint32(min(all*(1<<32), math.MaxUint32))
		p /= float64(k + 1)
	}
	return upTo
}()

// draw draws how often each row is in a resample.
func draw(times []uint8, r *rand.Rand) {
	for i := 0; i < len(times); i += 2 {
		word := r.Uint64()
		times[i] = drawOne(uint32(word))
		if i+1 < len(times) {
			times[i+1] = drawOne(uint32(word >> 32))
		}
	}
}

func drawOne(x uint32) uint8 {
	k := uint8(0)
	for int(k) < len(poisson)-1 && x >= poisson[k] {
		k++
	}
	return k
}
