package random

import "testing"

// TestMix: Mix gives the first five numbers that the reference implementation, splitmix64.c by Vigna, gives after
// starting with the seed 1234567. That adds Step before each number, hence i+1.
func TestMix(t *testing.T) {
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423,
		4593380528125082431, 16408922859458223821} {
		if got := Mix(1234567 + uint64(i+1)*Step); got != want {
			t.Errorf("output %d: got %d, want %d", i, got, want)
		}
	}
}
