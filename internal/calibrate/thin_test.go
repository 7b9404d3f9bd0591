package calibrate

import "testing"

func TestThinKeepsSumsAndOrder(t *testing.T) {
	var blocks []block
	for i := range 1001 {
		blocks = append(blocks, block{first: float64(2 * i), last: float64(2*i + 1), weight: 10, pos: float64(i) / 101})
	}
	thinned := thin(blocks, 100)
	if len(thinned) > 100 || len(thinned) < 50 {
		t.Fatalf("%d blocks", len(thinned))
	}
	var weight, pos float64
	for i, b := range thinned {
		weight += b.weight
		pos += b.pos
		if i > 0 && (b.mean() < thinned[i-1].mean() || b.first <= thinned[i-1].last) {
			t.Errorf("block %d does not ascend", i)
		}
	}
	if weight != 10010 || pos < 4955 || pos > 4956 || thinned[0].first != 0 || thinned[len(thinned)-1].last != 2001 {
		t.Errorf("weight %v, positives %v, from %v to %v", weight, pos, thinned[0].first, thinned[len(thinned)-1].last)
	}
}

// TestManyBlocksStayWithinTheLimit: rows in perfect pairs, each pair a little higher than the last, make a block each.
func TestManyBlocksStayWithinTheLimit(t *testing.T) {
	const pairs = 3 * maxBlocks
	var raw []float64
	var label, weight []float32
	for i := range pairs {
		share := float32(i+1) / (pairs + 1)
		raw = append(raw, float64(2*i), float64(2*i+1))
		label = append(label, 1, 0)
		weight = append(weight, share, 1-share)
	}
	c, err := Fit(Isotonic, raw, label, weight)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.x) > maxKnots || len(c.x) < maxBlocks/2 {
		t.Errorf("%d knots", len(c.x))
	}
	text, err := c.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(text); err != nil {
		t.Errorf("what Fit made cannot be read: %v", err)
	}
}
