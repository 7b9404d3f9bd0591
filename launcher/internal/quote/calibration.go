package quote

import (
	"math"

	"coppice/gbt"
)

// Calibration is how long training takes, as measured. The unit is a nanosecond per row, feature and tree. Measured has all numbers of
// this project that a quote is made of, each with the command that measured it; docs/cost.md has the tables.
type Calibration struct {
	Base       []Point // ns of a candidate of 31 leaves, all features, all rows, one thread, beside another one: by rows
	Leaves     []Point // factor by the number of leaves
	Features   []Point // factor by feature_fraction
	Bagging    []Point // factor by bagging_fraction
	TwoThreads []Point // how many times faster two threads are than one: by rows

	Route  float64 // ns for a held-out row through a tree
	Rate   float64 // ns for a valid row, of measuring a ranking metric after a tree
	Resume float64 // share of what growing its trees took that resuming a trial takes

	// Low and High are the range about what is expected: the spread of the measurements, and that the same command took up to twice
	// as long at another hour, which is also to cover vCPUs that are slower than the cores measured on.
	Low, High float64
}

// Point is a measured value at X; between points it is interpolated, beyond them the nearest holds.
type Point struct{ X, Y float64 }

// Measured are the constants, all from one machine (2 cores of an AMD EPYC of family 26, "Turin", November 2026).
func Measured() Calibration {
	return Calibration{
		// make bench-scale ROWS=1000000,5000000,20000000, and ROWS=130000000: "two at once".
		Base: []Point{{1e6, 1.207}, {5e6, 1.241}, {20e6, 1.282}, {130e6, 1.597}},
		// make bench-calibrate, at 5,000,000 rows.
		Leaves:   []Point{{15, 0.76}, {31, 1}, {63, 1.23}, {127, 1.58}, {255, 1.91}, {1023, 2.57}}, // the last continues the line
		Features: []Point{{0.3, 1.07}, {0.5, 1.19}, {0.8, 1.01}, {1, 1}},
		Bagging:  []Point{{0.5, 0.62}, {0.8, 0.87}, {1, 1}},
		// make bench-calibrate, at 1,000,000 and 5,000,000 rows.
		TwoThreads: []Point{{1e6, 1.88}, {5e6, 1.78}},
		Route:      1.5,  // go test -run '^$' -bench Replay ./gbt, 31 leaves
		Rate:       19,   // go test -run '^$' -bench MillionRows/auc/plain ./metric
		Resume:     0.05, // docs/measured.md, Checkpoints: 2.7 to 5.9 %, and 4 to 9.5 % of the trees that Base was measured with
		Low:        0.85, // assumed: sizes up to 20,000,000 rows differ by 6 %, and so do two at once from one alone (docs/benchmarks.md, Scale)
		High:       2,    // docs/measured.md
	}
}

// Smallest is the number of rows below which nothing was measured.
func (c Calibration) Smallest() int { return int(c.Base[0].X) }

// table is what the time of a trial depends on beside its parameters.
type table struct {
	rows, features, valid, heldOut int // held out: valid among them
	threads                        int
}

// seconds is how long a trial takes, all its trees grown: early stopping may end it sooner.
func (c Calibration) seconds(t table, p gbt.Params) float64 {
	trees := float64(p.NumIterations)
	grow := float64(t.rows) * float64(t.features) * trees * c.nanoseconds(t, p) * 1e-9
	route := c.Route * float64(t.heldOut) / c.speedup(t)
	if p.EarlyStoppingRound > 0 {
		route += (c.Route/c.speedup(t) + c.Rate) * float64(t.valid)
	}
	return grow + route*trees*1e-9
}

// nanoseconds are per row, feature and tree of growing, with the table's threads.
func (c Calibration) nanoseconds(t table, p gbt.Params) float64 {
	ns := at(c.Base, float64(t.rows), math.Log) * at(c.Leaves, leaves(p), math.Log) * at(c.Features, p.FeatureFraction, same)
	if p.BaggingFreq > 0 {
		ns *= at(c.Bagging, p.BaggingFraction, same)
	}
	return ns / c.speedup(t)
}

// speedup extrapolates two threads to more: what two lose to each other, every further thread loses to each of the others.
func (c Calibration) speedup(t table) float64 {
	lost := 2/at(c.TwoThreads, float64(t.rows), math.Log) - 1
	n := float64(max(t.threads, 1))
	return n / (1 + lost*(n-1))
}

// leaves is how many a tree can have.
func leaves(p gbt.Params) float64 {
	n := float64(p.NumLeaves)
	if p.MaxDepth > 0 && p.MaxDepth < 30 {
		n = min(n, float64(int(1)<<p.MaxDepth))
	}
	return n
}

func same(x float64) float64 { return x }

// at interpolates between points, linear in scale(x).
func at(points []Point, x float64, scale func(float64) float64) float64 {
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
