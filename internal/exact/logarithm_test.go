package exact

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestLog: Log has the bits of math.Log on amd64. On other processors math.Log itself may differ in the last bit, so
// there a difference of one unit in the last place is allowed. The numbers are special ones and 400,000 random ones: of
// all magnitudes, and around 1.
func TestLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	numbers := []float64{0, 1, 2, 0.5, math.Sqrt2, math.Sqrt2 / 2, math.Nextafter(1, 0), math.Nextafter(1, 2),
		math.Inf(1), math.NaN(), -1, math.MaxFloat64, 0x1p-1022}
	for range 200_000 {
		// Bits from 1<<52 on, those of the smallest normal number, are all magnitudes; exp of a normal number is around
		// 1.
		numbers = append(numbers, math.Float64frombits(rng.Uint64N(0x7fe<<52-1<<52)+
			1<<52), math.Exp(rng.NormFloat64()))
	}

	for _, x := range numbers {
		got, want := Log(x), math.Log(x)
		last := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want) // a unit in the last place
		same := math.Float64bits(got) == math.Float64bits(want) || math.IsNaN(got) && math.IsNaN(want)
		if near := math.Abs(got-want) <= last; !same && (runtime.GOARCH == "amd64" || !near) {
			t.Fatalf("the logarithm of %v is %v, expected %v", x, got, want)
		}
	}

	// A result of amd64, wherever the test runs.
	if got := math.Float64bits(Log(3)); got != 0x3ff193ea7aad030a {
		t.Errorf("Log(3) has the bits %#x, expected 0x3ff193ea7aad030a on every processor", got)
	}
}

// TestExp: Exp differs from math.Exp by at most 1e-15 of the result, over the whole range up to ±700, and is NaN for
// NaN.
func TestExp(t *testing.T) {
	for _, x := range []float64{-700, -40.3, -1, -1e-9, 0, 1e-12, 0.3, 1, 2.5, 33.3, 700} {
		if got, want := Exp(x), math.Exp(x); math.Abs(got/want-1) > 1e-15 {
			t.Errorf("Exp(%v) is %v, want %v to 15 digits", x, got, want)
		}
	}
	if v := Exp(math.NaN()); v == v {
		t.Errorf("Exp(NaN) is %v, want NaN", v)
	}
}
