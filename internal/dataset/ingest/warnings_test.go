package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
)

// codes are the warnings of a dataset as "code column".
func codes(s *staged) []string {
	var out []string
	for _, w := range s.Manifest.About.Warnings {
		out = append(out, strings.TrimSpace(w.Code+" "+w.Column))
		if w.Text == "" {
			out = append(out, "a warning without a text")
		}
	}
	slices.Sort(out)
	return out
}

func TestWarnings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	b.WriteString("y,noise,same,sameText,sameOrNot,empty,key,number,real,code,leak,leakText,twin\n")
	for i := range 4000 {
		y := rng.IntN(2)
		leak := float64(y) + rng.Float64()*0.9
		if rng.IntN(500) == 0 {
			leak = rng.Float64() * 2
		}
		fmt.Fprintf(&b, "%d,%d,5,x,%s,,%016x,%d,%.12f,c%03d,%.3f,%s%d,%s\n", y, rng.IntN(10), []string{"", "1"}[i%2],
			rng.Uint64(), i*7+3, rng.Float64(), rng.IntN(600), leak, []string{"n", "p"}[y], rng.IntN(20),
			[]string{"n", "p"}[y])
	}
	s := mustStage(t, "label: y\n", b.String())
	want := []string{"all_missing empty", "constant same", "constant sameText", "dropped key", "id_like key",
		"id_like number", "leak leak", "leak leakText", "leak twin"}
	if got := codes(s); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s = mustStage(t, "label: y\nnumeric: [empty]\n", b.String())
	if f := s.feature(t, "empty"); f.Kind != dataset.Numeric || f.Bins != 2 || f.MissingBin != 1 || f.Range != nil {
		t.Errorf("all missing: %+v", f)
	}
}

// A column of 600 rare categories does not predict a random label, though it could remember it.
func TestNoLeakByMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	var b strings.Builder
	b.WriteString("y,rare,z\n")
	for range 700 {
		fmt.Fprintf(&b, "%d,%d,%d\n", rng.IntN(2), rng.IntN(250), rng.IntN(3))
	}
	if got := codes(mustStage(t, "label: y\ncategorical: [rare]\n", b.String())); !slices.Equal(got,
		[]string{"few_rows"}) {
		t.Errorf("a column of rare categories: warned of %q; want few_rows only", got)
	}
}

func TestLeakOfARegression(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	var b strings.Builder
	b.WriteString("y,copy,related\n")
	for range 3000 {
		y := rng.NormFloat64() * 50
		fmt.Fprintf(&b, "%.4f,%.4f,%.4f\n", y, 3*y+1, y+rng.NormFloat64()*20)
	}
	if got := codes(mustStage(t, "label: y\n", b.String())); !slices.Equal(got, []string{"leak copy"}) {
		t.Errorf("a copy of a numeric label: warned of %q; want leak only", got)
	}
}

func TestSplitWarnings(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,x,part\n")
	rng := rand.New(rand.NewPCG(4, 1))
	for i := range 12_000 {
		part, rate := "train", 0.1
		switch {
		case i%10 == 0:
			part, rate = "test", 0.3
		case i%100 == 1:
			part = "calib"
		case i%5 == 2:
			part, rate = "valid", 0.11
		}
		y := 0
		if rng.Float64() < rate {
			y = 1
		}
		fmt.Fprintf(&b, "%d,%d,%s\n", y, rng.IntN(5), part)
	}
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\n", b.String())
	if got := codes(s); !slices.Equal(got, []string{"few_rows", "rate_differs"}) ||
		!strings.HasPrefix(s.Manifest.About.Warnings[0].Text, "calib has only 120 rows") ||
		!strings.Contains(s.Manifest.About.Warnings[1].Text, "of test are positive") {
		t.Errorf("got the warnings %+v, want few_rows of calib and rate_differs", s.Manifest.About.Warnings)
	}
}

// auc and r2 over folds agree with their definitions, computed pair by pair.
func TestFolded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const n = 400
	train := &trainSample{}
	bins := make([]uint8, n)
	for i := range n {
		bins[i] = uint8(rng.IntN(6))
		y := float32(0)
		if rng.IntN(8) < int(bins[i]) {
			y = 1
		}
		train.labels, train.folds = append(train.labels, y), append(train.folds, leakFold(int64(i)))
	}
	predicted := make([]float64, n)
	for i := range n {
		sum, rows, all, allRows := 0.0, 0.0, 0.0, 0.0
		for j := range n {
			if train.folds[j] == train.folds[i] {
				continue
			}
			all, allRows = all+float64(train.labels[j]), allRows+1
			if bins[j] == bins[i] {
				sum, rows = sum+float64(train.labels[j]), rows+1
			}
		}
		predicted[i] = (sum + leakPrior*all/allRows) / (rows + leakPrior)
	}
	right, pairs, mean := 0.0, 0.0, 0.0
	for i := range n {
		mean += float64(train.labels[i]) / n
		for j := range n {
			if train.labels[i] == 1 && train.labels[j] == 0 {
				pairs++
				switch {
				case math.Abs(predicted[i]-predicted[j]) < 1e-12:
					right += 0.5
				case predicted[i] > predicted[j]:
					right++
				}
			}
		}
	}
	rest, variance := 0.0, 0.0
	for i := range n {
		rest += math.Pow(float64(train.labels[i])-predicted[i], 2)
		variance += math.Pow(float64(train.labels[i])-mean, 2)
	}
	if !reflect.DeepEqual(groupBinary(bins, train), groupLabels(bins, train)) {
		t.Error("counting labels of 0 and 1 differs from adding them up")
	}
	f := fold(bins, train)
	if got := f.auc(); math.Abs(got-right/pairs) > 1e-9 {
		t.Errorf("AUC %v, want %v", got, right/pairs)
	}
	if got := f.r2(); math.Abs(got-(1-rest/variance)) > 1e-9 {
		t.Errorf("R2 %v, want %v", got, 1-rest/variance)
	}
}

// By time, a number that goes on with it is no feature, whatever its name; one that comes back is, and in a random
// order both are.
func TestNumbersThatGoOnWithTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	rng := rand.New(rand.NewPCG(5, 1))
	var b strings.Builder
	b.WriteString("y,at,serial,month,weekday,id\n")
	for i := range 6000 {
		fmt.Fprintf(&b, "%d,%d,%d,%d,%d,k%d\n", rng.IntN(2), i, 10*i+rng.IntN(10), i/600, i/100%7, rng.IntN(50))
	}
	const byTime = "label: y\nsplit: {by: time, column: at, train: 0.7, test: 0.3}\n"
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"by time":      {byTime, []string{"dropped month", "dropped serial"}},
		"asked for":    {byTime + "encodings: {keys: [[id, month]]}\n", []string{"dropped serial"}},
		"at random":    {"label: y\ndrop: [at]\nsplit: {by: hash, key: at, train: 0.7, test: 0.3}\n", nil},
		"ranges":       {byTime + "encodings: {keys: [[id, month~]]}\n", []string{"dropped serial"}},
		"numeric":      {byTime + "numeric: [serial]\n", []string{"dropped month"}},
		"switched off": {byTime + "encodings: none\n", nil},
	} {
		s := mustStage(t, tc.spec, b.String())
		got := slices.DeleteFunc(codes(s), func(c string) bool { return !strings.HasPrefix(c, "dropped") })
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		s.feature(t, "weekday")
	}
}
