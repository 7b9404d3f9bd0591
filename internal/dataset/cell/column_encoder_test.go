package cell

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/exact"
	"coppice/internal/must"
)

// randomFeature returns a numeric feature with so many random bounds, at most 254, half of the time with a bin of
// missing values if a byte has room for it.
func randomFeature(rng *rand.Rand, bounds int) *dataset.Feature {
	f := &dataset.Feature{Name: "x", Kind: dataset.Numeric, MissingBin: -1, OtherBin: -1}
	for len(f.Bounds) < bounds {
		f.Bounds = append(f.Bounds, math.Round(rng.NormFloat64()*1e4)/16)
		slices.Sort(f.Bounds)
		f.Bounds = slices.Compact(f.Bounds)
	}
	f.Bins = bounds + 1
	if f.Bins < dataset.MaxBins && rng.IntN(2) == 0 {
		f.MissingBin, f.Bins = f.Bins, f.Bins+1
	}
	return f
}

// TestSearchFindsTheBin compares ColumnEncoder.Bins with Feature.BinOfNumber, for every number of bounds (0 to 255) and
// for numbers at, directly beside, between and beyond them. Each number of bounds is tried three times: once as
// randomFeature makes them, and twice spread over many magnitudes.
func TestSearchFindsTheBin(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := range 3 * dataset.MaxBins {
		bounds := n % dataset.MaxBins
		f := randomFeature(rng, bounds)
		if n >= dataset.MaxBins {
			// Spread the bounds over many magnitudes, so that some cells of a Searcher have many or all of them. Bounds
			// are some thousands at most: divided by 744 down to 233, their exponentials stay finite.
			for i := range f.Bounds {
				f.Bounds[i] = math.Copysign(math.Exp(math.Abs(f.Bounds[i])/float64(1000-n)), f.Bounds[i])
			}
			slices.Sort(f.Bounds)
			f.Bounds = slices.Compact(f.Bounds)
			bounds = len(f.Bounds)
			f.Bins = bounds + 1
			if f.MissingBin >= 0 {
				f.MissingBin, f.Bins = f.Bins, f.Bins+1
			}
		}
		c := NewColumnEncoder(f, NewMarkers(nil))
		v := dataset.Values{Type: dataset.Float, Float: []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0,
			math.Copysign(0, -1)}}
		for _, b := range f.Bounds {
			v.Float = append(v.Float, b, math.Nextafter(b, math.Inf(1)), math.Nextafter(b, math.Inf(-1)))
		}
		for range 500 {
			v.Float = append(v.Float, rng.NormFloat64()*1e3)
		}
		out := make([]uint8, len(v.Float))
		must.Get(c.Bins(&v, out, nil))(t)
		for i, x := range v.Float {
			if want := f.BinOfNumber(x); out[i] != want {
				t.Fatalf("%d bounds: %v is in bin %d, want %d", bounds, x, out[i], want)
			}
		}
	}
}

// TestGuidesFind compares a guide with Levels.Find, for hashes that a table has, for those directly beside them and for
// both ends, in small and large tables. Hashes shifted by 44 bits are far from evenly distributed: the first bits, by
// which a guide looks, are 0 in all of them. The tables begin at level 5, as later ones of a model do.
func TestGuidesFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{0, 1, 2, 3, 7, 64, 1000} {
		for _, shift := range []int{0, 44} {
			table := dataset.LevelTable{First: 5, Levels: n}
			levels := &dataset.Levels{Hash: make([]uint64, table.First)}
			for range n {
				levels.Hash = append(levels.Hash, rng.Uint64()>>shift)
			}
			slices.Sort(levels.Hash[table.First:])

			// Look up both ends, and each hash with those directly beside it.
			hashes := []uint64{0, 1, 1<<64 - 1}
			for _, hash := range levels.Hash[table.First:] {
				hashes = append(hashes, hash-1, hash, hash+1)
			}
			slots := make([]int32, len(hashes))
			g := newGuide(&table, levels)
			g.findSlots(levels, &table, hashes, slots)
			for i, hash := range hashes {
				want := int32(-1)
				if at, ok := levels.Find(&table, max(hash, 1)); ok { // tables have 1 in place of 0
					want = int32(at)
				}
				if slots[i] != want {
					t.Fatalf("%d levels of %d bits: %x found at %d, want %d", n, 64-shift, hash, slots[i], want)
				}
			}
		}
	}
}

// randomBounds returns up to 254 ascending bounds of one of seven shapes: normal, over many magnitudes, any bits, whole
// numbers, neighbouring floats, denormal, and normal with extreme numbers added.
func randomBounds(rng *rand.Rand) []float64 {
	var all []float64
	shape, scale := rng.IntN(7), math.Exp(rng.NormFloat64()*float64(rng.IntN(40)))
	for range 1 + rng.IntN(254) {
		x := rng.NormFloat64() * scale
		switch shape {
		case 1:
			x = math.Exp(rng.NormFloat64() * 20)
		case 2:
			x = math.Float64frombits(rng.Uint64()) // anything that there is
		case 3:
			x = math.Round(x / scale * 50)
		case 4:
			x = 1 + float64(rng.IntN(400))*0x1p-52 // neighbours
		case 5:
			x = float64(rng.IntN(400)) * 5e-324
		}
		if x-x == 0 { // finite
			all = append(all, x)
		}
	}
	for _, x := range []float64{-zero, zero, 0, math.Copysign(0, -1), -999, 1e9, -math.MaxFloat64, math.MaxFloat64} {
		if rng.IntN(6) == 0 {
			all = append(all, x)
		}
	}
	slices.Sort(all)
	all = slices.CompactFunc(all, func(a, b float64) bool { return a == b })
	return all[:min(254, len(all))]
}

// TestSearchIsExact compares a Searcher with a binary search, for bounds of all shapes. Each of the four ways to search
// must occur: without a guide, with cells in the bits of numbers, and with even cells of up to three bounds or of one.
func TestSearchIsExact(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ways := map[string]int{}
	for range 3000 {
		bounds := randomBounds(rng)
		s := NewSearcher(bounds)
		xs := []float64{math.NaN(), math.Copysign(math.NaN(), -1), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1),
			math.MaxFloat64, -math.MaxFloat64, 5e-324, -999}
		for _, b := range bounds {
			xs = append(xs, b, math.Nextafter(b, math.Inf(1)), math.Nextafter(b, math.Inf(-1)),
				b*(1+rng.NormFloat64()/100), b+rng.NormFloat64())
		}
		out := make([]uint8, len(xs))
		s.Find(xs, out, 255)
		for i, x := range xs {
			want := uint8(255)
			if x == x { // not NaN
				want = uint8(sort.SearchFloat64s(bounds, x))
			}
			if out[i] != want {
				t.Fatalf("%v is in bin %d, want %d, of bounds %v", x, out[i], want, bounds)
			}
		}
		switch {
		case s.guide == nil:
			ways["without a guide"]++
		case s.cells.byBits:
			ways["by bits"]++
		case s.inCell > 1:
			ways["up to three in a cell"]++
		default:
			ways["one in a cell"]++
		}
	}
	if len(ways) != 4 {
		t.Errorf("ways to search that were taken: %v; want all four", ways)
	}
}

// boundsOf returns FindBounds of the values.
func boundsOf(bins int, zeroApart bool, values ...float64) []float64 {
	all, _ := new(Counter).Count(values)
	return FindBounds(all, bins, zeroApart)
}

// times returns each of the values n times.
func times(n int, values ...float64) []float64 {
	var out []float64
	for _, v := range values {
		for range n {
			out = append(out, v)
		}
	}
	return out
}

// TestFindBounds checks where bounds are: halfway between neighbouring values, between bins of about equally many rows,
// and around 0 if it is to have a bin of its own and there is room.
func TestFindBounds(t *testing.T) {
	mixed := slices.Concat(times(4, -2, -1), times(9, 0), times(5, 3)) // 8 rows below 0, 9 at it and 5 above
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
		// 318 rows in 4 bins are 79.5 each, so 4 has a bin to itself. The other three have 18 rows to share, 6 each: 1
		// and 2; 3, as the heavy value comes next; and the rest.
		"heavy value apart": {slices.Concat(times(3, 1, 2, 3), times(300, 4), times(3, 5, 6, 7)), 4, true,
			[]float64{2.5, 3.5, 4.5}},
		"infinities": {slices.Concat(times(3, math.Inf(-1)), times(3, 1), times(3, math.Inf(1))), 10, true,
			[]float64{-math.MaxFloat64/2 + 0.5, math.MaxFloat64/2 + 0.5}},
		"neighbours": {times(3, 1, math.Nextafter(1, 2)), 10, true, []float64{1}},
	} {
		if got := boundsOf(tc.bins, tc.zeroApart, tc.values...); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got bounds %v, want %v", name, got, tc.want)
		}
	}
}

// checkBounds checks what holds for the bounds of any values: there are no more than bins allow, they ascend, bins are
// not empty and have minPerBin rows where there are few values, and the bin of 0 has nothing else if it is apart.
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
		t.Fatalf("%d bounds for %d bins: %v; want at most one less than bins, ascending", len(bounds), bins, bounds)
	}

	// Count the rows of each bin, and those that count as zero.
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

	// The bin of zero, and the last bin on each side of it, may have fewer rows.
	for i, n := range rows {
		low := len(bounds) > 0 && (n == 0 || n < minPerBin && len(all) <= bins/2)
		isZero := zeroApart && zeros > 0 && f.BinOfNumber(0) == uint8(i)
		last := i == len(bounds) || zeroApart && zeros > 0 && i+1 == int(f.BinOfNumber(0))
		if low && !isZero && !last {
			t.Fatalf("bin %d of %d has %d rows, want at least 1, or %d if there are few values", i, len(rows), n,
				minPerBin)
		}
	}
	if b := f.BinOfNumber(0); zeroApart && zeros > 0 && bins >= 3 && rows[b] != zeros {
		t.Fatalf("the bin of zero has %d rows, want the %d that are zero", rows[b], zeros)
	}
}

// TestBoundsHold runs checkBounds on random values. Half of the time they are rounded, so that there are few different
// ones, and a tenth of them are -1, 0 or 1.
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

// TestEqualCounts divides 100,000 different numbers into 254 bins, and expects about 394 in each, 100,000 / 254.
func TestEqualCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	values := make([]float64, 100_000)
	for i := range values {
		values[i] = math.Exp(rng.NormFloat64() * 3)
	}
	bounds := boundsOf(254, true, values...)
	if len(bounds) != 253 {
		t.Fatalf("got %d bounds, want 253", len(bounds))
	}
	f := dataset.Feature{Kind: dataset.Numeric, Bounds: bounds, MissingBin: -1}
	rows := make([]int, 254)
	for _, x := range values {
		rows[f.BinOfNumber(x)]++
	}
	if lo, hi := slices.Min(rows), slices.Max(rows); lo < 380 || hi > 400 {
		t.Errorf("bins have from %d to %d rows, want from 380 to 400", lo, hi)
	}
}

// FuzzBounds runs checkBounds on numbers that are made of the input's bytes, each of them three times.
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

// TestCounterSorts compares the radix sort with slices.Sort, for numbers of keys around 1,024, from which on it is
// used, and for keys that differ in different bits.
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
				t.Fatalf("%d keys, shifted by %d: got %x, want %x", n, shift, keys, want)
			}
		}
	}
}

// TestMostFrequent checks that texts are listed with their numbers of rows, by these and then by name, up to the limit,
// and that texts with fewer than three rows are left out unless they are among the first two.
func TestMostFrequent(t *testing.T) {
	counts := map[string]int64{"a": 5, "b": 9, "c": 5, "d": 2, "e": 3, "": 4}
	// d has two rows only, so that limits above 5 give the same five.
	for limit, want := range map[int][]string{0: {}, 1: {"b"}, 3: {"b", "a", "c"}, 6: {"b", "a", "c", "", "e"},
		100: {"b", "a", "c", "", "e"}} {
		texts, numbers := MostFrequent(counts, limit)
		var rows []int64
		for _, text := range want {
			rows = append(rows, counts[text])
		}
		if !slices.Equal(texts, want) || !slices.Equal(numbers, rows) {
			t.Errorf("the %d most frequent values: got %q with %d rows, want %q with %d", limit, texts, numbers, want,
				rows)
		}
	}
	texts, numbers := MostFrequent(map[string]int64{"x": 1, "y": 1, "z": 1}, 9)
	if !slices.Equal(texts, []string{"x", "y"}) || !slices.Equal(numbers, []int64{1, 1}) {
		t.Errorf("three texts of one row: got %q with %d rows, want x and y with one each", texts, numbers)
	}
}

// TestOrdered checks that numbers become integers in the same order and can be turned back, and that -0 equals 0.
func TestOrdered(t *testing.T) {
	xs := []float64{math.Inf(-1), -math.MaxFloat64, -1, -5e-324, 0, 5e-324, 1, math.MaxFloat64, math.Inf(1)}
	for i, x := range xs {
		if exact.FromOrdered(exact.Ordered(x)) != x || i > 0 && exact.Ordered(x) <= exact.Ordered(xs[i-1]) {
			t.Errorf("%v becomes integer %d and then %v; want it back, and an integer above that of the number before",
				x, exact.Ordered(x), exact.FromOrdered(exact.Ordered(x)))
		}
	}
	must.Equal(t, exact.Ordered(math.Copysign(0, -1)), exact.Ordered(0), "-0 becomes integer")
}

// TestCountsOfSeveralThreads encodes three chunks on one goroutine and on three, and expects the same values and
// counts.
func TestCountsOfSeveralThreads(t *testing.T) {
	enc := must.Get(NewEncoder(&dataset.Encoding{Features: []dataset.Feature{{Name: "a",
		Kind: dataset.Numeric}}}, nil))(t)
	b := &table.Batch{Rows: 3 * chunkRows, Names: []string{"a"},
		Columns: []dataset.Values{{Type: dataset.Float, Float: make([]float64, 3*chunkRows)}}}
	b.Columns[0].Float[2*chunkRows] = math.NaN() // in the last chunk

	var one, several Inputs
	want := must.Get(enc.Encode(b, nil, &one, 1))(t)
	got := must.Get(enc.Encode(b, nil, &several, 3))(t)
	if !reflect.DeepEqual(several, one) || one.Columns[0] != (InputCount{Column: "a", Missing: 1}) {
		t.Errorf("three threads count %+v, one %+v; want one missing value of column a", several, one)
	}
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
		t.Errorf("three threads encode %v, want %v as one", got, want)
	}
}
