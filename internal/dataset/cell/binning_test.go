package cell

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

func boundsOf(bins int, zeroApart bool, values ...float64) []float64 {
	all, _ := new(Counter).Count(values)
	return FindBounds(all, bins, zeroApart)
}

// times repeats values.
func times(n int, values ...float64) []float64 {
	var out []float64
	for _, v := range values {
		for range n {
			out = append(out, v)
		}
	}
	return out
}

func TestFindBounds(t *testing.T) {
	mixed := slices.Concat(times(4, -2, -1), times(9, 0), times(5, 3))
	for name, tc := range map[string]struct {
		values    []float64
		bins      int
		zeroApart bool
		want      []float64
	}{
		"nothing":               {nil, 10, true, nil},
		"one value":             {times(9, 5), 10, true, nil},
		"only zero":             {times(9, 0), 10, true, nil},
		"few values":            {times(3, 1, 2, 4), 10, true, []float64{1.5, 3}},
		"rare value joins":      {slices.Concat(times(3, 1), times(1, 2), times(3, 4)), 10, true, []float64{1.5}},
		"rare value at the end": {slices.Concat(times(3, 1), times(2, 2)), 10, true, []float64{1.5}},
		"zero apart":            {mixed, 10, true, []float64{-1.5, -zero, zero}},
		"zero not apart":        {mixed, 10, false, []float64{-1.5, -0.5, 1.5}},
		"zero and positive":     {slices.Concat(times(3, 0), times(3, 1, 2)), 10, true, []float64{zero, 1.5}},
		"zero and negative":     {slices.Concat(times(3, -2, -1), times(3, 0)), 10, true, []float64{-1.5, -zero}},
		"no room for zero":      {mixed, 2, true, []float64{1.5}},
		"just room for zero":    {mixed, 3, true, []float64{-zero, zero}},
		"tiny numbers are zero": {slices.Concat(times(3, 0, 1e-36, -1e-40), times(3, 1)), 10, true, []float64{zero}},
		"one bin":               {times(3, 1, 2, 3), 1, true, nil},
		"two bins":              {times(3, 1, 2, 3, 4), 2, true, []float64{2.5}},
		"heavy value apart": {slices.Concat(times(3, 1, 2, 3), times(300, 4), times(3, 5, 6, 7)), 4, true,
			[]float64{2.5, 3.5, 4.5}},
		"infinities": {slices.Concat(times(3, math.Inf(-1)), times(3, 1), times(3, math.Inf(1))), 10, true,
			[]float64{-math.MaxFloat64/2 + 0.5, math.MaxFloat64/2 + 0.5}},
		"neighbours": {times(3, 1, math.Nextafter(1, 2)), 10, true, []float64{1}},
	} {
		if got := boundsOf(tc.bins, tc.zeroApart, tc.values...); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// checkBounds says what must hold for any numbers.
func checkBounds(t *testing.T, values []float64, bins int, zeroApart bool) {
	t.Helper()
	all, _ := new(Counter).Count(values)
	var sorted []float64
	for _, d := range all {
		sorted = append(sorted, times(d.N, d.X)...)
	}
	bounds := FindBounds(all, bins, zeroApart)
	if len(bounds) > max(0, bins-1) ||
		!slices.IsSortedFunc(bounds, func(a, b float64) int { return cmp.Or(cmp.Compare(a, b), 1) }) {
		t.Fatalf("%d bounds for %d bins: %v", len(bounds), bins, bounds)
	}
	f := dataset.Feature{Kind: dataset.Numeric, Bounds: bounds, MissingBin: -1}
	rows := make([]int, len(bounds)+1)
	for _, x := range sorted {
		rows[f.BinOfNumber(x)]++
	}
	zeros := 0
	for _, x := range sorted {
		if math.Abs(x) <= zero {
			zeros++
		}
	}
	for i, n := range rows {
		low := len(bounds) > 0 && (n == 0 || n < minPerBin && len(all) <= bins/2)
		isZero := zeroApart && zeros > 0 && f.BinOfNumber(0) == uint8(i)
		last := i == len(bounds) || zeroApart && zeros > 0 && i+1 == int(f.BinOfNumber(0))
		if low && !isZero && !last {
			t.Fatalf("bin %d of %d has %d rows", i, len(rows), n)
		}
	}
	if b := f.BinOfNumber(0); zeroApart && zeros > 0 && bins >= 3 && rows[b] != zeros {
		t.Fatalf("the bin of zero has %d rows, %d of them zero", rows[b], zeros)
	}
}

func TestBoundsHold(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		n := 1 + rng.IntN(4000)
		step := math.Exp(rng.NormFloat64() * 4)
		values := make([]float64, n)
		for i := range values {
			values[i] = rng.NormFloat64()
			if step > 1 {
				values[i] = math.Round(values[i]*step) / 8
			}
			if rng.IntN(10) == 0 {
				values[i] = float64(rng.IntN(3) - 1)
			}
		}
		checkBounds(t, values, 1+rng.IntN(255), rng.IntN(2) == 0)
	}
}

// Of numbers that are all different, every bin gets about as many.
func TestEqualCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	values := make([]float64, 100_000)
	for i := range values {
		values[i] = math.Exp(rng.NormFloat64() * 3)
	}
	bounds := boundsOf(254, true, values...)
	if len(bounds) != 253 {
		t.Fatalf("%d bounds", len(bounds))
	}
	f := dataset.Feature{Kind: dataset.Numeric, Bounds: bounds, MissingBin: -1}
	rows := make([]int, 254)
	for _, x := range values {
		rows[f.BinOfNumber(x)]++
	}
	if lo, hi := slices.Min(rows), slices.Max(rows); lo < 380 || hi > 400 {
		t.Errorf("bins of %d to %d rows where 394 would be fair", lo, hi)
	}
}

func FuzzBounds(f *testing.F) {
	f.Add([]byte("some bytes that become numbers"), 10, true)
	f.Fuzz(func(t *testing.T, data []byte, bins int, zeroApart bool) {
		if bins < 1 || bins > 255 {
			return
		}
		var values []float64
		for i := 0; i+3 <= len(data); i += 3 {
			x := math.Float64frombits(uint64(data[i])<<56 | uint64(data[i+1])<<48 | uint64(data[i+2]&1)<<47)
			values = append(values, x, x, x)
		}
		checkBounds(t, values, bins, zeroApart)
	})
}

func TestCounterSorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, n := range []int{0, 1, 5, 1023, 1024, 5000} {
		for _, shift := range []int{0, 8, 24, 33, 44, 63} {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = rng.Uint64() >> shift << (shift / 2)
			}
			want := slices.Clone(keys)
			slices.Sort(want)
			new(Counter).sort(keys)
			if !slices.Equal(keys, want) {
				t.Fatalf("%d keys, shifted by %d", n, shift)
			}
		}
	}
}

func TestMostFrequent(t *testing.T) {
	counts := map[string]int64{"a": 5, "b": 9, "c": 5, "d": 2, "e": 3, "": 4}
	for limit, want := range map[int][]string{0: {}, 1: {"b"}, 3: {"b", "a", "c"}, 6: {"b", "a", "c", "", "e"},
		100: {"b", "a", "c", "", "e"}} {
		texts, numbers := MostFrequent(counts, limit)
		if !slices.Equal(texts, want) || len(numbers) != len(texts) {
			t.Errorf("the %d most frequent values: got %q, numbers of them %d; want %q, each with its number", limit,
				texts, numbers, want)
		}
	}
	texts, numbers := MostFrequent(map[string]int64{"x": 1, "y": 1, "z": 1}, 9)
	if !slices.Equal(texts, []string{"x", "y"}) || !slices.Equal(numbers, []int64{1, 1}) {
		t.Errorf("the first two stay whatever their rows: %q %d", texts, numbers)
	}
}

func TestOrdered(t *testing.T) {
	xs := []float64{math.Inf(-1), -math.MaxFloat64, -1, -5e-324, 0, 5e-324, 1, math.MaxFloat64, math.Inf(1)}
	for i, x := range xs {
		if FromOrdered(encode.Ordered(x)) != x || i > 0 && encode.Ordered(x) <= encode.Ordered(xs[i-1]) {
			t.Errorf("%v does not come back from its ordered integer, or is not above the value before", x)
		}
	}
	if encode.Ordered(math.Copysign(0, -1)) != encode.Ordered(0) {
		t.Error("-0 is not 0")
	}
}
