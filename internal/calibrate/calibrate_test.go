package calibrate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"coppice/internal/calibrate"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// seeded returns a generator with a random seed, which it logs: these tests must hold for any rows.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// rows returns n random rows whose scores are twice their true log odds, so that a calibrator should halve them. With
// digits > 0 scores are rounded to so many digits, so that some are equal. Labels of both kinds occur.
func rows(r *rand.Rand, n, digits int) (raw []float64, label, weight []float32) {
	for range n {
		x := -2 + 1.5*r.NormFloat64()
		score := 2 * x
		if digits > 0 {
			scale := math.Pow10(digits)
			score = math.Round(score*scale) / scale
		}
		y := float32(0)
		if r.Float64() < 1/(1+math.Exp(-x)) {
			y = 1
		}
		raw, label, weight = append(raw, score), append(label, y), append(weight, r.Float32()*3)
	}
	label[0], label[1] = 0, 1
	return raw, label, weight
}

func fit(t *testing.T, m calibrate.Method, raw []float64, label, weight []float32) *calibrate.Calibrator {
	t.Helper()
	return must.Get(calibrate.Fit(m, raw, label, weight))(t)
}

// TestNeverDescendsAndNeverTouchesTheEnds: every method gives probabilities that do not fall as scores rise, and are
// neither 0 nor 1, for any score.
func TestNeverDescendsAndNeverTouchesTheEnds(t *testing.T) {
	r := seeded(t)
	for _, n := range []int{2, 3, 50, 3000} {
		for _, digits := range []int{0, 1} {
			raw, label, weight := rows(r, n, digits)
			// The sigmoid of 40 rounds to 1, and exp(750) is beyond the largest float64.
			probes := []float64{math.Inf(-1), -math.MaxFloat64, -750, -40, -1e-300, math.Copysign(0, -1), 0, 40, 750,
				1e100, math.MaxFloat64, math.Inf(1)}
			for _, x := range raw {
				probes = append(probes, x, math.Nextafter(x, 99), math.Nextafter(x, -99), x+r.NormFloat64())
			}
			slices.Sort(probes)
			for _, m := range calibrate.Methods() {
				c := fit(t, m, raw, label, weight)
				last := 0.0
				for _, x := range probes {
					p := c.Predict(x)
					if !(p >= last*(1-1e-15) && p >= 1e-15 && p <= 1-1e-15) { // an exponential may err in its last bit
						t.Fatalf("%s of %d rows: %v at %v after %v; want it to ascend, and to be a "+
							"probability", c, n, p, x, last)
					}
					last = p
				}
				if !math.IsNaN(c.Predict(math.NaN())) {
					t.Errorf("%s: NaN has the probability %v, want NaN", m, c.Predict(math.NaN()))
				}
			}
		}
	}
}

// TestPredictAll: PredictAll appends what Predict gives for each score, also in place.
func TestPredictAll(t *testing.T) {
	raw, label, _ := rows(seeded(t), 500, 0)
	for _, m := range calibrate.Methods() {
		c := fit(t, m, raw, label, nil)
		got := c.PredictAll([]float64{7}, raw)
		for i, x := range raw {
			if got[0] != 7 || len(got) != 501 || got[i+1] != c.Predict(x) {
				t.Fatalf("%s: appending 500 predictions to [7] gives %d numbers, the first %v, row %d %v; want 501, 7 "+
					"and %v as Predict", m, len(got), got[0], i, got[i+1], c.Predict(x))
			}
		}
		inPlace := slices.Clone(raw)
		if !slices.Equal(c.PredictAll(inPlace[:0], inPlace), got[1:]) {
			t.Errorf("%s: PredictAll in place gives other probabilities, want the same", m)
		}
	}
}

// TestCalibratesTheMean: if the labels add up to something else than the uncalibrated probabilities, beyond chance, the
// calibrated probabilities add up to the labels. Otherwise they add up to what they did before. The scores are the true
// log odds, or 1.5 above them, which among 20,000 rows is far beyond chance.
func TestCalibratesTheMean(t *testing.T) {
	raw, label, _ := rows(rand.New(rand.NewPCG(3, 0)), 20_000, 0)
	for name, shift := range map[string]float64{"another": 1.5, "the same": 0} {
		was, is, labels := 0.0, 0.0, 0.0
		moved := slices.Clone(raw)
		for i := range raw {
			moved[i] = raw[i]/2 + shift
		}
		c := must.Get(calibrate.Choose(moved, label, nil, false))(t) // false: the rows are in no order of time
		for i, p := range c.Calibrator.PredictAll(nil, moved) {
			was, is, labels = was+1/(1+math.Exp(-moved[i])), is+p, labels+float64(label[i])
		}
		want := was
		if shift != 0 {
			want = labels
		}
		if !(math.Abs(is/want-1) < 2e-3) || strings.Contains(c.Reason, "off beyond chance") != (shift != 0) {
			t.Errorf("%s level: predictions add up to %v, want %v within 0.2 %%, and the reason to say whether it "+
				"moved: %s", name, is, want, c.Reason)
		}
	}
}

// TestOrderAndUnitOfWeightsDoNotMatter: the same rows in another order, with all weights multiplied by 1,024, give the
// same calibrator, and so do weights of 7, or of 1, as none. Those of 1 give the same bytes.
func TestOrderAndUnitOfWeightsDoNotMatter(t *testing.T) {
	r := seeded(t)
	raw, label, weight := rows(r, 2000, 1)
	var raw2 []float64
	var label2, weight2 []float32
	for _, i := range r.Perm(len(raw)) {
		raw2, label2, weight2 = append(raw2, raw[i]), append(label2, label[i]), append(weight2, weight[i]*1024)
	}
	sevens, ones := make([]float32, len(raw)), make([]float32, len(raw))
	for i := range sevens {
		sevens[i], ones[i] = 7, 1
	}
	for _, m := range calibrate.Methods() {
		same(t, string(m)+" permuted", fit(t, m, raw, label, weight), fit(t, m, raw2, label2, weight2))
		same(t, string(m)+" sevens", fit(t, m, raw, label, nil), fit(t, m, raw, label, sevens))
		if a, b := encode(t, fit(t, m, raw, label, nil)), encode(t, fit(t, m, raw, label, ones)); a != b {
			t.Errorf("%s: weights of 1 give %s, want %s as without weights", m, b, a)
		}
	}
}

// same fails the test unless both calibrators predict the same within 1e-9: sums of rows in another order may round
// differently.
func same(t *testing.T, what string, a, b *calibrate.Calibrator) {
	t.Helper()
	for x := -12.0; x < 12; x += 0.01 {
		if p, q := a.Predict(x), b.Predict(x); !(math.Abs(p-q) < 1e-9) {
			t.Fatalf("%s: at %v %v and %v; want the same", what, x, p, q)
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	return string(data)
}

// TestRowsOfWeightZeroDoNotCount: rows of weight 0, whatever their scores and labels, do not change a calibrator.
func TestRowsOfWeightZeroDoNotCount(t *testing.T) {
	raw, label, weight := rows(seeded(t), 300, 0)
	more := append(slices.Clone(raw), 55, -55, 0.1)
	for _, m := range calibrate.Methods() {
		a := fit(t, m, raw, label, weight)
		b := fit(t, m, more, append(slices.Clone(label), 0, 1, 1), append(slices.Clone(weight), 0, 0, 0))
		must.Equal(t, encode(t, a), encode(t, b), "%s without rows of weight 0, and with them", m)
	}
}

// TestSameBytesWhateverTheProcessors: calibrators have the same bytes for any number of processors. The rows are three
// blocks (blockRows), which as many goroutines add up.
func TestSameBytesWhateverTheProcessors(t *testing.T) {
	raw, label, weight := rows(seeded(t), 70_000, 0)
	run := func(processors int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		var out strings.Builder
		for _, w := range [][]float32{nil, weight} {
			c := must.Get(calibrate.Choose(raw, label, w, false))(t)
			out.WriteString(encode(t, c))
			out.WriteString(encode(t, fit(t, calibrate.Platt, raw, label, w)))
		}
		return out.String()
	}
	one := run(1)
	for _, p := range []int{2, 8} {
		if run(p) != one {
			t.Errorf("%d processors give the calibrators %s; want those of one: %s", p, run(p), one)
		}
	}
}

// TestChoose: scores that are twice too steep are halved within 4 %, given 40,000 rows. Right scores are left alone.
// With only 60 rows, the slope stays between that of the regression (alone) and 1.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	raw, label, weight := rows(r, 40_000, 0)
	right := make([]float64, len(raw))
	for i := range raw {
		right[i] = raw[i] / 2
	}
	few := fit(t, calibrate.Platt, raw[:60], label[:60], weight[:60])
	// The slope is by how much the log odds of the scores 1 and 0 differ. Scores that are halved have one half.
	logit := func(p float64) float64 { return math.Log(p) - math.Log1p(-p) }
	alone := logit(few.Predict(1)) - logit(few.Predict(0)) + 0.01 // a little more: the slope must not be that itself
	for name, tc := range map[string]struct {
		raw       []float64
		n         int
		low, high float64 // of the slope
		reason    string
	}{
		"too steep": {raw, len(raw), 0.48, 0.52, "they are multiplied by"},
		"right":     {right, len(raw), 1, 1, "which chance explains"},
		"few rows":  {raw, 60, alone, 1, "the rest may be chance"},
	} {
		c := must.Get(calibrate.Choose(tc.raw[:tc.n], label[:tc.n], weight[:tc.n], false))(t)
		slope := logit(c.Calibrator.Predict(1)) - logit(c.Calibrator.Predict(0))
		if slope < tc.low-1e-12 || slope > tc.high+1e-12 || !strings.Contains(c.Reason, tc.reason) {
			t.Errorf("%s: the slope is %v, want %v to %v; the reason is %q, want it to say %q", name, slope, tc.low,
				tc.high, c.Reason, tc.reason)
		}
	}
}

// TestUncalibratedCompetes: of 200 tables of 1,000 rows, about fifty of them positive, whose scores are right as they
// are, at least 110 stay so. For the first row of each table, what is chosen gives a probability nearer to the right
// one than a logistic regression (Platt) does: the sum of squared errors is at most 0.6 of the regressions'.
func TestUncalibratedCompetes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	chosenError, plattError, none := 0.0, 0.0, 0
	for range 200 {
		raw, label := make([]float64, 1000), make([]float32, 1000)
		for i := range raw {
			raw[i] = -3 + r.NormFloat64()/2
			if r.Float64() < 1/(1+math.Exp(-raw[i])) {
				label[i] = 1
			}
		}
		c := must.Get(calibrate.Choose(raw, label, nil, false))(t)
		if c.Method == calibrate.None {
			none++
		}
		x := raw[0]
		p := 1 / (1 + math.Exp(-x))
		chosenError += math.Pow(c.Calibrator.Predict(x)-p, 2)
		plattError += math.Pow(fit(t, calibrate.Platt, raw, label, nil).Predict(x)-p, 2)
	}
	if none < 110 || chosenError > 0.6*plattError {
		t.Errorf("of 200 tables whose scores are right %d stay as they are, want at least 110; squared errors are %v, "+
			"want at most 0.6 of the regressions' %v", none, chosenError, plattError)
	}
}

// TestDegenerateRows: rows that say little of a slope give sensible probabilities. Rows whose scores are all equal get
// about the share of positives, and rows that the score separates by label get those on the right sides of one half.
// Of rows with a single positive, that one gets a probability above 0.
func TestDegenerateRows(t *testing.T) {
	// All scores equal: nothing is known of the slope, and the level is that of the labels.
	raw, label := slices.Repeat([]float64{1.5}, 400), make([]float32, 400)
	for i := range raw {
		label[i] = float32(i % 2)
	}
	c, err := calibrate.Choose(raw, label, nil, false)
	if err != nil || !(math.Abs(c.Calibrator.Predict(1.5)-0.5) < 0.02) {
		t.Errorf("of equal scores %v, %v; want about one half: %s", c.Calibrator, err, c.Reason)
	}

	// Separable: finite and on the right sides.
	for _, m := range []calibrate.Method{calibrate.None, calibrate.Platt} {
		c := fit(t, m, []float64{-3, -2, -1, 1, 2, 3}, []float32{0, 0, 0, 1, 1, 1}, nil)
		if p, q := c.Predict(-3), c.Predict(3); !(p < 0.3 && q > 0.7) {
			t.Errorf("%s: %v and %v; want less than .3 and more than .7", c, p, q)
		}
	}

	// One positive among few.
	few := make([]float64, 20)
	one := make([]float32, 20)
	for i := range few {
		few[i] = float64(i)
	}
	one[13] = 1
	if c, err = calibrate.Choose(few, one, nil, false); err != nil || !(c.Calibrator.Predict(13) > 0) {
		t.Errorf("one positive of twenty: %v, %v; want a probability above 0", c.Calibrator, err)
	}
}

// TestErrors: Fit and Choose refuse columns that cannot be calibrated. The error names the row, the value and what to
// use instead, and wraps the fault.
func TestErrors(t *testing.T) {
	nan := float32(math.NaN())
	ok, two := []float32{0, 1}, []float64{1, 2}
	for name, tc := range map[string]struct {
		raw           []float64
		label, weight []float32
		is            error
		want          string
	}{
		"labels": {two, ok[:1], nil, calibrate.ErrLength,
			"calibrate: the columns have different lengths: 1 labels for 2 raw scores"},
		"weights": {two, ok, ok[:1], calibrate.ErrLength,
			"calibrate: the columns have different lengths: 1 weights for 2 raw scores"},
		"nan": {[]float64{1, math.NaN()}, ok, nil, calibrate.ErrScore,
			"calibrate: row 1: the raw score cannot be used: NaN; use finite log odds"},
		"huge": {[]float64{1e101, 1}, ok, nil, calibrate.ErrScore,
			"calibrate: row 0: the raw score cannot be used: 1e+101; use finite log odds"},
		"label": {two, []float32{0, 0.5}, nil, calibrate.ErrLabel,
			"calibrate: row 1: the label cannot be used: 0.5; use 0 and 1"},
		"nan label": {two, []float32{nan, 0}, nil, calibrate.ErrLabel,
			"calibrate: row 0: the label cannot be used: NaN; use 0 and 1"},
		"weight": {two, ok, []float32{1, -1}, calibrate.ErrWeight,
			"calibrate: row 1: the weight cannot be used: -1; use finite weights of 0 or more"},
		"nan weight": {two, ok, []float32{nan, 1}, calibrate.ErrWeight,
			"calibrate: row 0: the weight cannot be used: NaN; use finite weights of 0 or more"},
		"one class": {make([]float64, 10), slices.Repeat([]float32{1}, 10), nil, calibrate.ErrOneClass,
			"calibrate: all labels are the same: none is 0; a calibration needs positives and negatives"},
		"weightless": {make([]float64, 11), append(make([]float32, 10), 1), append(slices.Repeat([]float32{1}, 10), 0),
			calibrate.ErrOneClass,
			"calibrate: all labels are the same: none is 1; a calibration needs positives and negatives"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := calibrate.Fit(calibrate.Platt, tc.raw, tc.label, tc.weight)
			if !errors.Is(err, tc.is) || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if _, err := calibrate.Choose(tc.raw, tc.label, tc.weight, false); !errors.Is(err, tc.is) {
				t.Errorf("Choose: got %v, want an error that wraps %v", err, tc.is)
			}
		})
	}
}

// TestFewRows: Choose leaves scores uncalibrated if there are fewer than two rows, or fewer than ten of a single class,
// so that the probability of a score is its sigmoid. Fit refuses fewer than two rows with a weight above 0.
func TestFewRows(t *testing.T) {
	for name, rows := range map[string]int{"none": 0, "one": 1, "nine of one class": 9} {
		raw, label := make([]float64, rows), make([]float32, rows)
		for i := range rows {
			raw[i], label[i] = float64(i), 1
		}
		c, err := calibrate.Choose(raw, label, nil, false)
		if err != nil || c.Method != calibrate.None || !strings.Contains(c.Reason, "too few labels") {
			t.Errorf("%s: got %v and %v; want no calibration, because the rows are too few", name, c.Method, err)
			continue
		}
		if got, want := c.Calibrator.Predict(1), 1/(1+math.Exp(-1)); math.Abs(got-want) > 1e-15 {
			t.Errorf("%s: a score of 1 becomes %v; want %v", name, got, want)
		}
	}
	one := []float32{1, 0}
	if _, err := calibrate.Fit(calibrate.Platt, []float64{1, 2}, []float32{0, 1}, one); !errors.Is(err,
		calibrate.ErrTooFew) {
		t.Errorf("Fit of one row with a weight: got %v; want %v", err, calibrate.ErrTooFew)
	}
}

// TestJSONBringsBackTheSame: a calibrator that was written and read predicts the same bits.
func TestJSONBringsBackTheSame(t *testing.T) {
	raw, label, weight := rows(seeded(t), 5000, 0)
	for _, m := range calibrate.Methods() {
		c := fit(t, m, raw, label, weight)
		text := encode(t, c)
		var back calibrate.Calibrator
		must.Do(t, json.Unmarshal([]byte(text), &back))
		if encode(t, &back) != text || back.Method() != m || back.String() != c.String() {
			t.Errorf("%s came back as %s, want the same", c, &back)
		}
		for _, x := range raw {
			if back.Predict(x) != c.Predict(x) {
				t.Fatalf("%s: after writing and reading the probability at %v is %v, want %v", m, x, back.Predict(x),
					c.Predict(x))
			}
		}
	}
}

// TestDecodeRefuses: JSON that is no calibrator of this build is refused with an error of kind Input that says what is
// wrong with it. The long one has 29 bytes and 5 KiB of blanks.
func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                                  "byte 0: unexpected end of JSON input",
		`{"format":1,"method":"none"} {}`:                   "byte 30: invalid character '{' after top-level value",
		`{"format":3,"method":"none"}`:                      "format 3; this build reads 1",
		`{"format":1,"method":"spline"}`:                    `unknown method "spline" (known: [none platt])`,
		`{"format":1,"method":"none","d":1}`:                `unknown key "d"`,
		`{"format":1,"method":"none","a":1}`:                "none: only platt has a and c",
		`{"format":1,"method":"platt","a":1}`:               "platt: a or c is missing",
		`{"format":1,"method":"platt","a":-1,"c":0}`:        "platt: a is -1, and a calibrator must not descend",
		`{"format":1,"method":"platt","a":1,"c":0,"x":[1]}`: `unknown key "x"`,
		`{"format":1,"method":"isotonic","a":1,"c":0}`:      `unknown method "isotonic" (known: [none platt])`,
		`{"format":1,"method":"platt","a":1e999,"c":0}`: "json: cannot unmarshal number 1e999 into " +
			"Go struct field encoded.a of type float64",
		`{"format":1,"method":"platt",` +
			strings.Repeat(" ", 5<<10): "5149 bytes, more than the 4096 that a calibrator may have",
		`{"format":2,"method":"none","by":["site"],"segments":["00000000000000ff"],"shifts":[0.5]}`: `unknown key "by"`,
	} {
		_, err := calibrate.Decode([]byte(text))
		if !problem.Is(err, problem.Input) || err.Error() != "not a calibrator of Coppice: "+want {
			t.Errorf("%.80s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// FuzzDecode: any text is either refused as bad input or gives a calibrator that ascends, stays below 1, and is the
// same after writing and reading it once more.
func FuzzDecode(f *testing.F) {
	raw, label, weight := rows(rand.New(rand.NewPCG(1, 1)), 200, 1)
	for _, m := range calibrate.Methods() {
		c := must.Get(calibrate.Fit(m, raw, label, weight))(f)
		text := must.Get(json.Marshal(c))(f)
		f.Add(text)
	}
	f.Add([]byte(`{"format":1,"method":"platt","a":1.7e308,"c":-1.7e308}`))
	f.Add([]byte(`{"format":1,"method":"platt","a":0,"c":1e-15}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := calibrate.Decode(text)
		if err != nil {
			if !problem.Is(err, problem.Input) {
				t.Fatalf("decoding %q: got error %v, want one of kind Input", text, err)
			}
			return
		}
		last := 0.0
		for _, x := range []float64{math.Inf(-1), -1e100, -800, -1, -1e-9, 0, 1e-9, 1, 37, 800, 1e100, math.Inf(1)} {
			p := c.Predict(x)
			if !(p >= last*(1-1e-15) && p <= 1-1e-15) {
				t.Fatalf("%s: %v at %v after %v; want it to ascend, up to 1", text, p, x, last)
			}
			last = p
		}
		again := must.Get(json.Marshal(c))(t)
		back := must.Get(calibrate.Decode(again))(t)
		if text2, err := json.Marshal(back); err != nil || !bytes.Equal(text2, again) {
			t.Fatalf("%s became %s, error %v; want it unchanged", again, text2, err)
		}
	})
}

// TestLevel: Level with all, on rows whose level has changed throughout, gives a calibrator whose predictions add up to
// the labels. Nothing but the level changes: log odds move by one constant. The result can be written and read. Rows of
// one class are an error.
func TestLevel(t *testing.T) {
	// The true log odds are 2 raw + shift.
	r := rand.New(rand.NewPCG(29, 1))
	rows := func(n int, shift float64) (raw []float64, label, weight []float32) {
		for range n {
			z := r.NormFloat64()
			raw, label, weight = append(raw, z), append(label, 0), append(weight, float32(r.IntN(3)))
			if r.Float64() < 1/(1+math.Exp(-2*z-shift)) {
				label[len(label)-1] = 1
			}
		}
		return raw, label, weight
	}
	logit := func(p float64) float64 { return math.Log(p) - math.Log1p(-p) }
	raw, label, weight := rows(4000, -1)
	newRaw, newLabel, newWeight := rows(40_000, 0.7)
	for _, m := range calibrate.Methods() {
		judged := fit(t, m, raw, label, weight)
		c := must.Get(judged.Level(newRaw, newLabel, newWeight, true))(t) // true: move by all of the difference
		sum, want := 0.0, 0.0
		for i, z := range newRaw {
			sum, want = sum+float64(newWeight[i])*c.Predict(z), want+float64(newWeight[i]*newLabel[i])
		}
		if !(math.Abs(sum/want-1) < 2e-3) {
			t.Errorf("%s: predictions add up to %v, want %v as the labels, within 0.2 %%", m, sum, want)
		}
		by := logit(c.Predict(0)) - logit(judged.Predict(0))
		for _, z := range []float64{-0.5, 0.5, 1} {
			if d := logit(c.Predict(z)) - logit(judged.Predict(z)); math.Abs(d-by) > 0.02 {
				t.Errorf("%s: the log odds at %v moved by %v, want %v as at 0, within 0.02", m, z, d, by)
			}
		}
		text := must.Get(c.MarshalJSON())(t)
		if _, err := calibrate.Decode(text); err != nil {
			t.Errorf("%s: its text %s is refused with %v, want it to be read", m, text, err)
		}
	}
	if _, err := fit(t, calibrate.None, raw, label, nil).Level(raw[:2], []float32{1, 1}, nil, true); err == nil {
		t.Error("rows of one class: got no error, want one")
	}
}

// TestDaysHaveLuck: the luck of single days does not move a level, but what all days have in common does.
//
// There are 40 tables of 20 days with 1,000 rows each. First, each day's log odds are off by luck of its own (standard
// deviation .5), while the scores are right on average. Taken row by row, Choose moves at least half of the tables,
// since so many rows are beyond chance. In order of time, Choose and Level move at most a quarter of them. Then all
// days are off by .5, with little luck (.1): Choose moves by about .5. Level, without all, moves by about half of that,
// as it is made to. A table counts as moved if its log odds are moved by more than .02.
func TestDaysHaveLuck(t *testing.T) {
	const seeds, days, each = 40, 20, 1000
	draw := func(seed uint64, luck, shift float64) (raw []float64, label []float32) {
		r := rand.New(rand.NewPCG(seed, 3))
		for range days {
			today := shift + luck*r.NormFloat64()
			for range each {
				z := r.NormFloat64() - 1
				raw, label = append(raw, z), append(label, 0)
				if r.Float64() < 1/(1+math.Exp(-z-today)) {
					label[len(label)-1] = 1
				}
			}
		}
		return raw, label
	}
	// moved is how far the log odds of the score -1 have moved.
	moved := func(c *calibrate.Calibrator) float64 {
		p := c.Predict(-1)
		return math.Abs(math.Log(p) - math.Log1p(-p) + 1)
	}
	var one, choice, final int // tables moved: by Choose row by row, by Choose in order of time, by Level
	for seed := range uint64(seeds) {
		raw, label := draw(seed, .5, 0)
		if moved(must.Get(calibrate.Choose(raw, label, nil, false))(t).Calibrator) > .02 {
			one++
		}
		if moved(must.Get(calibrate.Choose(raw, label, nil, true))(t).Calibrator) > .02 {
			choice++
		}
		none := fit(t, calibrate.None, raw, label, nil)
		c := must.Get(none.Level(raw, label, nil, false))(t) // false: move by half of the difference
		if moved(c) > .02 {
			final++
		}

		raw, label = draw(seed, .1, .5)
		chosen := must.Get(calibrate.Choose(raw, label, nil, true))(t)
		c = must.Get(none.Level(raw, label, nil, false))(t)
		if m := moved(chosen.Calibrator); m < .3 || m > .7 {
			t.Errorf("seed %d: Choose moved by %.3f, want .3 to .7 where all days are off by .5", seed, m)
		}
		if m := moved(c); m < .15 || m > .35 {
			t.Errorf("seed %d: Level moved by %.3f, want .15 to .35, half of the .5 by which all days are off", seed, m)
		}
	}
	if one < seeds/2 || choice > seeds/4 || final > seeds/4 {
		t.Errorf("of %d tables Choose moved %d row by row and %d in order of time, and Level %d; want at least %d, at "+
			"most %d, at most %[5]d", seeds, one, choice, final, seeds/2, seeds/4)
	}
}
