package gbt

import (
	"math"
	"math/rand/v2"
	"testing"

	"coppice/internal/must"
)

// table is a random table with the raw values behind its bins.
type table struct {
	Data
	raw []float64 // row-major model values; NaN where missing
}

// tableSpec says what a random table contains.
type tableSpec struct {
	rows, numerical, categorical int
	bins                         int // of each numerical feature, without the missing one
	missing                      float64
	duplicates                   float64 // probability that a row repeats the bins of the previous one
	// Strength of an interaction of the first two features, which then have no effect by themselves; 0: no interaction.
	together   float64
	weights    bool
	regression bool
	seed       uint64
}

func randomTable(s tableSpec) *table {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	t := &table{Data: Data{Rows: s.rows}}
	f := s.numerical + s.categorical
	for i := range f {
		t.Features = append(t.Features, randomFeature(rng, s, i))
		t.Columns = append(t.Columns, make([]byte, s.rows))
	}
	t.RowMajor = make([]byte, s.rows*f)
	t.raw = make([]float64, s.rows*f)
	t.Label = make([]float32, s.rows)
	if s.weights {
		t.Weight = make([]float32, s.rows)
	}
	again := rand.New(rand.NewPCG(s.seed, 2))
	effects := make([]float64, f) // of the row's cells
	for r := range s.rows {
		signal := 0.0
		repeat := r > 0 && again.Float64() < s.duplicates
		for i := range f {
			bin, raw, effect := randomCell(rng, &t.Features[i], s.missing)
			if repeat {
				bin, raw, effect = t.Columns[i][r-1], t.raw[(r-1)*f+i], effects[i]
			}
			effects[i] = effect
			t.Columns[i][r], t.RowMajor[r*f+i], t.raw[r*f+i] = bin, bin, raw
			if i%3 != 1 { // a third of the features is noise
				signal += effect
			}
		}
		signal += float64(float64(t.Columns[0][r]%7)*0.2) - 0.6
		if s.together > 0 {
			half := byte(s.bins / 2)
			signal -= effects[0] + float64(float64(t.Columns[0][r]%7)*0.2) - 0.6
			signal += s.together
			if (t.Columns[0][r] < half) == (t.Columns[1][r] < half) {
				signal -= 2 * s.together
			}
		}
		t.Label[r] = float32(signal + rng.NormFloat64())
		if !s.regression {
			t.Label[r] = 0
			if rng.Float64() < Probability(signal) {
				t.Label[r] = 1
			}
		}
		if s.weights {
			t.Weight[r] = float32(rng.IntN(4)) / 2
		}
	}
	return t
}

func randomFeature(rng *rand.Rand, s tableSpec, i int) Feature {
	if i >= s.numerical {
		return Feature{Name: "cat " + string(rune('a'+i)), Bins: 3 + rng.IntN(60), Categorical: true, Missing: -1}
	}
	feature := Feature{Name: "num" + string(rune('a'+i)), Bins: s.bins, Missing: -1, Min: 0, Max: float64(s.bins)}
	for b := 1; b < s.bins; b++ {
		feature.Bounds = append(feature.Bounds, float64(b)-0.5+float64(rng.Float64()*0.4))
	}
	if s.missing > 0 {
		feature.Missing = feature.Bins
		feature.Bins++
	}
	return feature
}

// randomCell returns a bin, a raw value in it, and its contribution to the label's log odds. Its conversions, like
// those above, prevent fused operations: the tables are the same on every processor.
func randomCell(rng *rand.Rand, f *Feature, missing float64) (bin byte, raw, effect float64) {
	if f.Categorical {
		b := min(int(rng.ExpFloat64()*float64(f.Bins)/4), f.Bins-1)
		return byte(b), float64(b), float64(math.Sin(float64(b*b)) * 0.7)
	}
	if rng.Float64() < missing {
		return byte(f.Missing), math.NaN(), 0.5
	}
	b := rng.IntN(f.valueBins())
	return byte(b), float64(b), float64(0.8 * math.Sin(6*float64(b)/float64(f.valueBins())))
}

// row returns one row's raw values.
func (t *table) row(r int) []float64 { return t.raw[r*len(t.Features):][:len(t.Features)] }

// logLoss is the mean loss of raw scores, computed here so that the trainer's tests need no other package.
func logLoss(label []float32) func(raw []float64) (float64, error) {
	return func(raw []float64) (float64, error) {
		sum := 0.0
		for i, s := range raw {
			p := Probability(s)
			if label[i] == 0 {
				p = 1 - p
			}
			sum -= math.Log(max(p, 1e-15))
		}
		return sum / float64(len(raw)), nil
	}
}

// gradientOf returns the exact gradient and hessian of a row with a raw score.
func gradientOf(o objective, r uint32, raw float64) (g, h float64) {
	gs, hs := []float64{raw}, []float64{0}
	o.gradients([]uint32{r}, gs, hs)
	return gs[0], hs[0]
}

func mustTrain(t testing.TB, d *Data, p Params, opt Options) *Result {
	t.Helper()
	return must.Get(Train(t.Context(), d, p, opt))(t)
}
