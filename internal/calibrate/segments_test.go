package calibrate_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/internal/calibrate"
	"coppice/internal/problem"
)

// campaigns are rows of twenty large segments and two thousand small ones; off says by how much a segment's log odds
// are above its scores.
func campaigns(r *rand.Rand, off func(key uint64) float64) (raw []float64, label []float32, key []uint64) {
	add := func(k uint64, rows int) {
		for range rows {
			z := -3 + r.NormFloat64()
			y := float32(0)
			if r.Float64() < 1/(1+math.Exp(-z-off(k))) {
				y = 1
			}
			raw, label, key = append(raw, z), append(label, y), append(key, k)
		}
	}
	for k := range uint64(20) {
		add(k, 4000)
	}
	for k := range uint64(2000) {
		add(1000+k, 4)
	}
	return raw, label, key
}

func segmentsOf(t *testing.T, off func(uint64) float64) (*calibrate.Calibrator, func(raw float64, key uint64) float64) {
	t.Helper()
	raw, label, key := campaigns(rand.New(rand.NewPCG(4, 2)), off)
	whole, err := calibrate.Fit(calibrate.Platt, raw, label, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := calibrate.FitSegments(whole, []string{"campaign_id"}, raw, label, nil, key)
	if err != nil {
		t.Fatal(err)
	}
	return c, func(raw float64, key uint64) float64 {
		p, q := whole.Predict(raw), c.PredictSegments(nil, []float64{raw}, []uint64{key})[0]
		return math.Log(q/(1-q)) - math.Log(p/(1-p))
	}
}

// Large segments get the shift that they need, small ones next to none, and unknown ones none.
func TestSegmentsAreShrunkToTheWhole(t *testing.T) {
	off := func(key uint64) float64 { return map[bool]float64{true: 0.8, false: -0.4}[key%3 == 0] }
	c, shift := segmentsOf(t, off)
	for key := range uint64(20) {
		want := off(key) // within what 4,000 rows tell, and the whole's own shift
		if got := shift(-3, key); math.Abs(got-want) > 0.45 || got*want <= 0 && math.Abs(got) > 0.1 {
			t.Errorf("segment %d is off by %.2f and shifted by %.2f", key, want, got)
		}
	}
	large := math.Abs(shift(-3, 0) - shift(-3, 1))
	small := 0.0
	for key := range uint64(2000) {
		small = max(small, math.Abs(shift(-3, 1000+key)))
	}
	if large < 0.9 || shift(-3, 99_999) != 0 {
		t.Errorf("large segments differ by %.2f, want 1.2; an unknown one is shifted by %v", large, shift(-3, 99_999))
	}
	if c.SegmentCount() == 0 || small > 1.2 {
		t.Errorf("%d segments have a shift; of four rows, one is shifted by %.2f", c.SegmentCount(), small)
	}
}

// Where the segments do not differ, they are hardly shifted.
func TestEqualSegmentsStayAsTheyAre(t *testing.T) {
	_, shift := segmentsOf(t, func(uint64) float64 { return 0 })
	for key := range uint64(20) {
		if got := shift(-3, key); math.Abs(got) > 0.05 {
			t.Errorf("segment %d is like all others and shifted by %.3f", key, got)
		}
	}
}

func TestSegmentsAsJSON(t *testing.T) {
	c, _ := segmentsOf(t, func(key uint64) float64 { return float64(key%5)/2 - 1 })
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := calibrate.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []uint64{0, 7, 1500, 9_999_999} {
		if a, b := c.PredictSegments(nil, []float64{-2}, []uint64{key})[0],
			d.PredictSegments(nil, []float64{-2}, []uint64{key})[0]; a != b {
			t.Errorf("segment %d: %v, and read back %v", key, a, b)
		}
	}
	if d.By()[0] != "campaign_id" || !strings.Contains(string(text), `"format":2`) {
		t.Errorf("by %v, %.80s", d.By(), text)
	}

	// Without segments nothing has changed, and predicting by segment is predicting.
	whole, err := calibrate.Decode([]byte(`{"format":1,"method":"platt","a":0.5,"c":-1}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := whole.PredictSegments(nil, []float64{0.3}, nil)[0]; got != whole.Predict(0.3) || whole.By() != nil {
		t.Errorf("%v, by %v", got, whole.By())
	}
	if again, _ := json.Marshal(whole); string(again) != `{"format":1,"method":"platt","a":0.5,"c":-1}` {
		t.Errorf("written without segments: got %s; want the same bytes as a calibrator that never had any", again)
	}
}

func TestSegmentsThatCannotBe(t *testing.T) {
	const head = `{"format":2,"method":"none",`
	for _, text := range []string{
		`{"format":1,"method":"none","by":["a"]}`,
		head + `"segments":[],"shifts":[]}`,
		head + `"by":["a","b","c","d","e"]}`,
		head + `"by":["a"],"segments":["00000000000000ff"]}`,
		head + `"by":["a"],"segments":["ff"],"shifts":[0.1]}`,
		head + `"by":["a"],"segments":["00000000000000FF"],"shifts":[0.1]}`,
		head + `"by":["a"],"segments":["00000000000000ff","00000000000000ff"],"shifts":[0.1,0.1]}`,
		head + `"by":["a"],"segments":["00000000000000ff"],"shifts":[5]}`,
	} {
		if _, err := calibrate.Decode([]byte(text)); !problem.Is(err, problem.Input) {
			t.Errorf("decoding %s: error %v, want one about the input", text, err)
		}
	}
	whole, err := calibrate.Decode([]byte(head + `"by":["a"]}`))
	if err != nil || whole.SegmentCount() != 0 {
		t.Errorf("no segment is shifted: %v", err)
	}
	if _, err := calibrate.FitSegments(whole, []string{"a"}, []float64{1, 2}, []float32{0, 1}, nil,
		[]uint64{1}); !errors.Is(err, calibrate.ErrLength) {
		t.Errorf("one segment for two rows: %v", err)
	}
	if _, err := calibrate.FitSegments(whole, nil, []float64{1, 2}, []float32{0, 1}, nil,
		[]uint64{1, 1}); !errors.Is(err, calibrate.ErrLength) {
		t.Errorf("no columns: %v", err)
	}
}

// TestRareSegmentsDoNotHideLargeOnes: of clicks, one in fifty rows, six campaigns of 600 rows are off by more than
// chance, among 4,000 of one row that are not. They are found in every table, however much chance there is in the rare
// ones.
func TestRareSegmentsDoNotHideLargeOnes(t *testing.T) {
	missed := 0
	const tables = 40
	for seed := range uint64(tables) {
		r := rand.New(rand.NewPCG(seed, 3))
		var raw []float64
		var label []float32
		var key []uint64
		add := func(k uint64, off float64) {
			z := -4 + r.NormFloat64()/2
			y := float32(0)
			if r.Float64() < 1/(1+math.Exp(-z-off)) {
				y = 1
			}
			raw, label, key = append(raw, z), append(label, y), append(key, k)
		}
		for i := range 3600 {
			add(uint64(i%6), []float64{1, -1}[i%2])
		}
		for i := range uint64(4000) {
			add(1000+i, 0)
		}

		whole, err := calibrate.Decode([]byte(`{"format":1,"method":"none"}`))
		if err != nil {
			t.Fatal(err)
		}
		c, err := calibrate.FitSegments(whole, []string{"site"}, raw, label, nil, key)
		if err != nil {
			t.Fatal(err)
		}
		if c.SegmentCount() == 0 {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("in %d of %d tables no segment is shifted, though six are far off", missed, tables)
	}
}
