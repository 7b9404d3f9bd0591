package dataset

import (
	"math"
	"testing"
)

func TestBinsOfNumbers(t *testing.T) {
	f := Feature{Kind: Numeric, Bounds: []float64{-2, 0, 3.5}, Bins: 5, MissingBin: 4, OtherBin: -1}
	none := Feature{Kind: Numeric, Bounds: []float64{-2, 0, 3.5}, Bins: 4, MissingBin: -1, OtherBin: -1}
	for _, tc := range []struct {
		x         float64
		bin, none uint8
	}{
		{math.Inf(-1), 0, 0}, {-2, 0, 0}, {math.Nextafter(-2, 0), 1, 1}, {0, 1, 1}, {math.Copysign(0, -1), 1, 1},
		{1, 2, 2}, {3.5, 2, 2},
		{3.6, 3, 3}, {math.Inf(1), 3, 3}, {math.NaN(), 4, 1},
	} {
		if a, b := f.BinOfNumber(tc.x), none.BinOfNumber(tc.x); a != tc.bin || b != tc.none {
			t.Errorf("%v: bins %d and %d, want %d and %d", tc.x, a, b, tc.bin, tc.none)
		}
	}
}

func TestBinsOfCategories(t *testing.T) {
	f := Feature{Kind: Categorical, Categories: []string{"b", ""}, Bins: 4, OtherBin: 2, MissingBin: 3}
	none := Feature{Kind: Categorical, Categories: []string{"b", ""}, Bins: 3, OtherBin: 2, MissingBin: -1}
	for _, tc := range []struct {
		x         float64
		bin, none uint8
	}{{0, 0, 0}, {2, 2, 2}, {3, 3, 2}, {4, 2, 2}, {-1, 2, 2}, {0.5, 2, 2}, {1e30, 2, 2}, {math.NaN(), 3, 2}} {
		if a, b := f.BinOfNumber(tc.x), none.BinOfNumber(tc.x); a != tc.bin || b != tc.none {
			t.Errorf("%v: bins %d and %d, want %d and %d", tc.x, a, b, tc.bin, tc.none)
		}
	}
}

func TestTextOf(t *testing.T) {
	v := func(typ Type, unit Unit, x any) *Values {
		switch x := x.(type) {
		case string:
			return &Values{Type: typ, Text: []string{x}}
		case float64:
			return &Values{Type: typ, Float: []float64{x}}
		case int:
			return &Values{Type: typ, Unit: unit, Int: []int64{int64(x)}}
		}
		panic("no such value")
	}
	for _, tc := range []struct {
		v    *Values
		want string
	}{
		{v(Text, "", " 0052"), " 0052"},
		{v(Float, "", 1734.0), "1734"},
		{v(Float, "", -0.25), "-0.25"},
		{v(Float, "", 1e300), "1e+300"},
		{v(Int, "", math.MaxInt64), "9223372036854775807"},
		{v(Bool, "", 1), "true"},
		{v(Time, Day, 17349), "2017-07-02"},
		{v(Time, Milli, -1), "1969-12-31T23:59:59.999Z"},
		{v(Time, Micro, 1499039000000000), "2017-07-02T23:43:20Z"},
		{v(Time, Nano, 1499039000000000001), "2017-07-02T23:43:20.000000001Z"},
	} {
		if got := tc.v.TextOf(0); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestSplitAndSeconds(t *testing.T) {
	for _, tc := range []struct {
		unit      Unit
		n         int64
		sec, nsec int64
	}{{Day, -2, -172800, 0}, {Milli, 1500, 1, 5e8}, {Milli, -1, -1, 999e6}, {Nano, -1, -1, 999999999},
		{Micro, math.MinInt64, -9223372036855, 224192000}} {
		sec, nsec := tc.unit.Split(tc.n)
		if sec != tc.sec || nsec != tc.nsec {
			t.Errorf("%d %s: %d s and %d ns, want %d and %d", tc.n, tc.unit, sec, nsec, tc.sec, tc.nsec)
		}
	}
	if got := Seconds(1499039000, 250e6); got != 1499039000.25 {
		t.Errorf("1499039000 s and 250 ms: got %v, want 1499039000.25", got)
	}
}
