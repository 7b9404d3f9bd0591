package quote

import (
	"math"

	"coppice/internal/gbt"
)

// Speeds holds measured training times. The unit is a nanosecond per row, feature and tree. Measured returns all
// numbers of this project that quotes are based on, each with the command that measured it; docs/LAB.md has the
// tables.
type Speeds struct {
	// ns by rows, for 31 leaves, all features, all rows, one thread, while another training runs on the same machine
	Base       []Knot
	Leaves     []Knot // factor on Base by number of leaves
	Features   []Knot // factor by feature_fraction
	Bagging    []Knot // factor by bagging_fraction
	TwoThreads []Knot // speedup of two threads over one, by rows

	Scan   float64 // ns per bin to find a leaf's best split, which few rows do not make shorter
	Route  float64 // ns to route a held-out row through a tree
	Rate   float64 // ns per valid row to compute a ranking metric after a tree
	Resume float64 // time to resume a trial, as a share of the time to grow its trees

	// Low and High are factors around the expected value: the spread of the measurements, and that the same command
	// took up to twice as long at another hour; this also covers vCPUs slower than the measured cores.
	Low, High float64
}

// Knot is a measured value at X; values in between are interpolated, and beyond the ends the nearest applies.
type Knot struct{ X, Y float64 }

// Measured returns the constants, all from one machine (2 cores of an AMD EPYC of family 26, "Turin", November 2026).
func Measured() Speeds {
	return Speeds{
		// make bench-scale ROWS=1000000,5000000,20000000, and ROWS=130000000: "two at once".
		Base: []Knot{{1e6, 1.207}, {5e6, 1.241}, {20e6, 1.282}, {130e6, 1.597}},
		// make bench-calibrate, at 5,000,000 rows.
		// the last one is extrapolated
		Leaves:   []Knot{{15, 0.76}, {31, 1}, {63, 1.23}, {127, 1.58}, {255, 1.91}, {1023, 2.57}},
		Features: []Knot{{0.3, 1.07}, {0.5, 1.19}, {0.8, 1.01}, {1, 1}},
		Bagging:  []Knot{{0.5, 0.62}, {0.8, 0.87}, {1, 1}},
		// make bench-calibrate, at 1,000,000 and 5,000,000 rows.
		TwoThreads: []Knot{{1e6, 1.88}, {5e6, 1.78}},
		Scan:       2,   // docs/LAB.md, What a tree of few rows costs
		Route:      1.5, // go test -run '^$' -bench Replay ./internal/gbt, 31 leaves
		Rate:       19,  // go test -run '^$' -bench MillionRows/auc/plain ./internal/metric
		// docs/LAB.md, Checkpoints: 2.7 to 5.9 %, and 4 to 9.5 % of the trees that Base was measured with
		Resume: 0.05,
		// assumed: sizes up to 20,000,000 rows differ by 6 %, and so do two at once from one alone (docs/LAB.md, Scale)
		Low:  0.85,
		High: 2, // docs/LAB.md
	}
}

// Smallest is the number of rows from which the speed of another trial says how fast one is here.
func (c Speeds) Smallest() int { return int(c.Base[0].X) }

// table is what a trial's time depends on other than its parameters.
type table struct {
	rows, features, valid, heldOut int // rows are those of train; heldOut includes valid
	bins                           int // of all features
	threads                        int
}

// values is how many values of its rows a trial's trees are grown on.
func (t table) values(params gbt.Params) float64 {
	return float64(t.rows) * float64(t.features) * float64(params.NumIterations*params.NumClass)
}

// trialSeconds is how many seconds a trial takes on t if it trains all its trees: early stopping may end it sooner. It
// grows each tree, and routes the held-out rows through it. With early stopping it also routes and evaluates the valid
// rows after every tree. An iteration has a tree for each class.
func (c Speeds) trialSeconds(t table, params gbt.Params) float64 {
	trees := float64(params.NumIterations * params.NumClass)
	grow := t.values(params)*c.growNanoseconds(t, params)*1e-9 + c.scan(t, params)*trees*1e-9
	route := c.Route * float64(t.heldOut) / c.speedup(t)
	if params.EarlyStoppingRound > 0 {
		route += (c.Route/c.speedup(t) + c.Rate) * float64(t.valid)
	}
	return grow + route*trees*1e-9
}

// scan is how long finding a tree's splits takes, in ns: each leaf looks through all bins. Few rows do not fill all
// leaves, since each has at least min_data_in_leaf of them; the root counts in any case.
func (c Speeds) scan(t table, params gbt.Params) float64 {
	leaves := min(maxLeaves(params), 1+float64(t.rows)/float64(max(params.MinDataInLeaf, 1)))
	return c.Scan * leaves * float64(t.bins) * params.FeatureFraction / c.speedup(t)
}

// growNanoseconds is how long growing takes per row, feature and tree, in ns: Base at this number of rows, times what
// the leaves, the share of features and bagging change, divided by the threads' speedup.
func (c Speeds) growNanoseconds(t table, params gbt.Params) float64 {
	ns := interpolate(c.Base, float64(t.rows), math.Log) * interpolate(c.Leaves, maxLeaves(params), math.Log) *
		interpolate(c.Features, params.FeatureFraction, same)
	if params.BaggingFreq > 0 {
		ns *= interpolate(c.Bagging, params.BaggingFraction, same)
	}
	return ns / c.speedup(t)
}

// speedup is how many times as fast t's threads are as one. It extrapolates from two measured threads: each thread is
// assumed to slow each other one by as much as those two did. So n threads are n / (1 + lost (n-1)) times as fast, and
// lost is what makes that the measured speedup for n = 2.
func (c Speeds) speedup(t table) float64 {
	lost := 2/interpolate(c.TwoThreads, float64(t.rows), math.Log) - 1
	n := float64(max(t.threads, 1))
	return n / (1 + lost*(n-1))
}

// maxLeaves is the most leaves that a tree can have: num_leaves, or fewer if max_depth does not allow so many.
func maxLeaves(params gbt.Params) float64 {
	n := float64(params.NumLeaves)
	if params.MaxDepth > 0 && params.MaxDepth < 30 { // 2^30 leaves are more than num_leaves may be
		n = min(n, float64(int(1)<<params.MaxDepth))
	}
	return n
}

// same is the scale of a linear interpolation.
func same(x float64) float64 { return x }

// interpolate returns the value at x between the points, which have ascending X: linear in scale(x), such as math.Log
// or, for X itself, same. Outside of the points it is the nearest one's.
func interpolate(points []Knot, x float64, scale func(float64) float64) float64 {
	if x <= points[0].X {
		return points[0].Y
	}
	for i, p := range points[1:] {
		if before := points[i]; x <= p.X {
			share := (scale(x) - scale(before.X)) / (scale(p.X) - scale(before.X))
			return before.Y + share*(p.Y-before.Y)
		}
	}
	return points[len(points)-1].Y
}
