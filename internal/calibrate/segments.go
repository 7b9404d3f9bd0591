package calibrate

import (
	"cmp"
	"math"
	"slices"
)

// Segments adjust a calibrator for groups of rows (a campaign, a placement) that deviate from the whole: each segment
// has a shift of the log odds. The prior for the shifts is estimated from the segments themselves (empirical Bayes,
// Morris 1983): if chance explains their differences, nothing is shifted, and a segment of few rows is shrunk towards
// the whole.
type Segments struct {
	By     []string // columns whose values define the segments
	Keys   []uint64 // hashes of the segments, ascending
	Shifts []float64
}

const (
	// maxShift bounds a shift: e^4 changes the odds more than fiftyfold.
	maxShift = 4
	// maxSegments bounds a calibrator's size: only the segments with the most rows have a shift.
	maxSegments = 1 << 17
	maxBy       = 4
)

// shift returns the shift of a segment; 0 if it has none.
func (s *Segments) shift(key uint64) float64 {
	if at, ok := slices.BinarySearch(s.Keys, key); ok {
		return s.Shifts[at]
	}
	return 0
}

// By returns the columns whose values define a row's segment; nil for a calibrator without segments.
func (c *Calibrator) By() []string {
	if c.segments == nil {
		return nil
	}
	return c.segments.By
}

// SegmentCount is the number of segments with a shift.
func (c *Calibrator) SegmentCount() int {
	if c.segments == nil {
		return 0
	}
	return len(c.segments.Keys)
}

// PredictSegments appends the probability of every raw score, in its row's segment, to dst, which may be nil or
// raw[:0].
func (c *Calibrator) PredictSegments(dst, raw []float64, key []uint64) []float64 {
	dst = slices.Grow(dst, len(raw))
	for i, r := range raw {
		p := c.Predict(r)
		if c.segments != nil {
			if d := c.segments.shift(key[i]); d != 0 {
				p = sigmoid(math.Log(p) - math.Log1p(-p) + d)
			}
		}
		dst = append(dst, p)
	}
	return dst
}

// segment sums up its rows.
type segment struct {
	key      uint64
	rows     []int
	gradient float64 // of the likelihood by the shift, at 0: labels less predictions
	variance float64 // of the gradient
}

// FitSegments returns a calibrator that adjusts c by segment. key is the segment of each row. Weights and errors are as
// in Choose.
func FitSegments(c *Calibrator, by []string, raw []float64, label, weight []float32, key []uint64) (*Calibrator,
	error) {
	if err := check(raw, label, weight); err != nil {
		return nil, err
	}
	if len(key) != len(raw) {
		return nil, fault(-1, ErrLength, "%d segments for %d raw scores", len(key), len(raw))
	}
	if len(by) == 0 || len(by) > maxBy {
		return nil, fault(-1, ErrLength, "segments by %d columns; use 1 to %d", len(by), maxBy)
	}

	z := make([]float64, len(raw))
	for i, r := range raw {
		p := c.Predict(r)
		z[i] = math.Log(p) - math.Log1p(-p)
	}
	var scaled []float64
	if weight != nil {
		scaled = effective(len(weight), func(i int) float64 { return float64(weight[i]) })
	}
	all := split(z, label, scaled, key)

	spread := between(all)
	s := &Segments{By: slices.Clone(by)}
	for _, g := range all {
		if d := g.shift(z, label, scaled, spread); d != 0 {
			s.Keys, s.Shifts = append(s.Keys, g.key), append(s.Shifts, d)
		}
	}
	out := *c
	out.segments = s
	return &out, nil
}

// split sums up the rows of each segment, by key; if there are too many, only the segments with the most rows.
func split(z []float64, label []float32, weight []float64, key []uint64) []*segment {
	found := map[uint64]*segment{}
	for i, k := range key {
		g := found[k]
		if g == nil {
			g = &segment{key: k}
			found[k] = g
		}
		p, w := sigmoid(z[i]), weightAt(weight, i)
		g.rows = append(g.rows, i)
		g.gradient += float64(w * (float64(label[i]) - p))
		g.variance += float64(w * float64(p*(1-p)))
	}

	all := make([]*segment, 0, len(found))
	for _, g := range found {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(len(b.rows), len(a.rows)), cmp.Compare(a.key, b.key))
	})
	all = all[:min(len(all), maxSegments)]
	slices.SortFunc(all, func(a, b *segment) int { return cmp.Compare(a.key, b.key) })
	return all
}

// between estimates the variance of the segments' true shifts by moments: the excess of their gradients' variation over
// chance. A shift d changes a gradient by d x variance, so the expected square is variance + spread x variance^2;
// summing the excess weights segments by their information, so that thousands of rare ones do not hide a few large
// ones. It is 0 if there is no excess.
func between(all []*segment) float64 {
	var beyond, squares float64
	for _, g := range all {
		beyond += float64(g.gradient*g.gradient) - g.variance
		squares += float64(g.variance * g.variance)
	}
	if len(all) < 2 || !(squares > 0) {
		return 0
	}
	return max(beyond, 0) / squares
}

// shift is the most likely shift of a segment, with a normal prior around 0: Newton's method in one dimension on a
// concave function.
func (g *segment) shift(z []float64, label []float32, weight []float64, spread float64) float64 {
	const steps, precise = 50, 1e-13
	if spread == 0 {
		return 0
	}
	d := 0.0
	for range steps {
		gradient, curvature := -d/spread, 1/spread
		for _, i := range g.rows {
			p, w := sigmoid(z[i]+d), weightAt(weight, i)
			gradient += float64(w * (float64(label[i]) - p))
			curvature += float64(w * float64(p*(1-p)))
		}
		step := min(max(gradient/curvature, -1), 1)
		if d = min(max(d+step, -maxShift), maxShift); math.Abs(step) < precise {
			break
		}
	}

	return d
}
