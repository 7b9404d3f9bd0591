package encode

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// byRate scores a row with the log odds of the rows that learn whose first statistic, a rate, is in the same bin.
func byRate(_ context.Context, l *Lesson) ([]float64, error) {
	rate := l.Columns[0]
	rows, positive := make([]float64, rate.Bins), make([]float64, rate.Bins)
	for _, row := range l.Train {
		b := rate.Data[row]
		rows[b], positive[b] = rows[b]+1, positive[b]+float64(l.Label[row])
	}
	scores := make([]float64, len(l.Label))
	for row := range scores {
		b := rate.Data[row]
		p := (positive[b] + 1) / (rows[b] + 2)
		scores[row] = math.Log(p / (1 - p))
	}
	return scores, nil
}

// moods is a search among rows of 500 levels, each of which is in one mood for a while, and then for as long in the
// other. Without whiles each is so for ever.
func moods(while float64) *Search {
	const rows, levels = 24_000, 500
	rng := rand.New(rand.NewPCG(11, 11))
	s := &Search{Binary: true, Threads: 2, Learner: byRate, Keys: [][]int{{0}}, Atoms: []Atom{{}}}
	for i := range rows {
		level, t := rng.IntN(levels), float64(i)
		p := 0.1 + 0.8*float64(level%2)
		if while > 0 && int((t+while*float64(level)/7)/while)%2 == 1 {
			p = 1 - p
		}
		s.Time = append(s.Time, t)
		s.Atoms[0].Hash = append(s.Atoms[0].Hash, Range(level))
		s.Label = append(s.Label, 0)
		if rng.Float64() < p {
			s.Label[i] = 1
		}
	}
	return s
}

// Where what is known of a level is soon of no use, rows that learn had better see what is as old as it will be. Where
// a level stays what it is, and where nothing comes after train, they see all.
func TestStaleness(t *testing.T) {
	for name, tc := range map[string]struct {
		while, horizon float64
		want           bool
	}{
		"moods":                      {6000, 8000, true},
		"for ever":                   {0, 8000, false},
		"nothing comes after train":  {6000, 0, false},
		"too little of the future":   {6000, 100, false},
		"the future is without time": {6000, math.NaN(), false},
	} {
		s := moods(tc.while)
		delay, gain, err := s.Staleness(t.Context(), tc.horizon)
		if err != nil || (delay > 0) != tc.want || (gain >= staleGain) != tc.want || delay > tc.horizon/2 {
			t.Errorf("%s: a delay of %v gains %v, %v; want one: %t, up to half of %v", name, delay, gain, err, tc.want,
				tc.horizon)
		}
	}
}

// A row that learns sees the labels of those rows that are old enough, and no others.
func TestDelayedStatistics(t *testing.T) {
	s := moods(0)
	for i := range s.Atoms[0].Hash {
		s.Atoms[0].Hash[i] = Range(0) // one level, so that counts are of all rows
	}
	s.Delay = 2000
	r := newRun(s)
	rate, count := r.statistics(&r.folds[0], r.encode([]int{0}, &scratch{}))
	prior := r.folds[0].prior
	learn := float64(slices.Index(r.folds[0].hold, true))
	for row, seen := range map[int]int{0: 0, 1999: 0, 2000: 1, 2001: 2, 9000: 7001} {
		sum := 0.0
		for _, y := range s.Label[:seen] {
			sum += float64(y)
		}
		if want := (sum + prior) / float64(seen+1); math.Abs(rate[row]-want) > 1e-12 || seen > 0 &&
			count[row] != learn {
			t.Errorf("row %d: rate %v, count %v; want those of the first %d rows, %v and %v", row, rate[row],
				count[row], seen, want, learn)
		}
	}
}

// Days differ by chance, in weather say, and a pair of columns tells them apart: that is nothing to know about later
// days. What a pair tells about every day is.
func TestSearchByTimeIgnoresSurprises(t *testing.T) {
	learner := func(ctx context.Context, l *Lesson) ([]float64, error) {
		if len(l.Columns) == 0 {
			return constant(ctx, l)
		}
		return byRate(ctx, l)
	}
	for name, lasting := range map[string]bool{"surprises": false, "a pair that tells": true} {
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, 4))
			s := &Search{Binary: true, Budget: 8, Threads: 2, Learner: learner, Atoms: make([]Atom, 4)}
			mood, rows := 0.0, 6000
			if lasting {
				rows = 12_000
			}
			for i := range rows {
				day := i / 50
				if i%50 == 0 {
					mood = 2 * rng.NormFloat64()
				}
				levels := []int{day % 7, day % 5, rng.IntN(6), rng.IntN(6)}
				for a, level := range levels {
					s.Atoms[a].Column = a
					s.Atoms[a].Hash = append(s.Atoms[a].Hash, Range(level))
				}
				odds := mood
				if lasting {
					odds = float64((levels[2] + levels[3]) % 2 * 3)
				}
				s.Time, s.Label = append(s.Time, float64(day)), append(s.Label, 0)
				if rng.Float64() < 1/(1+math.Exp(-odds)) {
					s.Label[i] = 1
				}
			}
			found, err := s.Run(t.Context())
			if err != nil || (len(found) > 0) != lasting {
				t.Errorf("%s, seed %d: found %v, %v; want something only if it lasts", name, seed, found, err)
			}
		}
	}
}

// lonely is a search whose labels are all 0 but the first few.
func lonely(rows, positives int, times func(i int) float64) *Search {
	rng := rand.New(rand.NewPCG(1, 3))
	s := &Search{Binary: true, Budget: 8, Threads: 2, Learner: func(context.Context, *Lesson) ([]float64, error) {
		return nil, errors.New("there is nothing to learn")
	}}
	for a := range 3 {
		atom := Atom{Column: a}
		for range rows {
			atom.Hash = append(atom.Hash, Range(rng.IntN(20)))
		}
		s.Atoms = append(s.Atoms, atom)
	}
	for i := range rows {
		y := float32(0)
		if i < positives {
			y = 1
		}
		s.Label = append(s.Label, y)
		if times != nil {
			s.Time = append(s.Time, times(i))
		}
	}
	return s
}

// Where a fold has labels of one kind only, no key is found and nothing is worth anything; it is no error, and no NaN.
func TestSearchWithoutLabelsToLearn(t *testing.T) {
	for name, s := range map[string]*Search{
		"no positive":           lonely(3000, 0, nil),
		"one":                   lonely(3000, 1, nil),
		"none in earlier times": lonely(3000, 500, func(i int) float64 { return float64(-i) }),
	} {
		found, err := s.Run(context.Background())
		if err != nil || len(found) != 0 {
			t.Errorf("%s: the search found %v, error %v; expected nothing", name, found, err)
		}
		for a, worth := range s.Worth(t.Context(), [][]int{{0}}) {
			if worth != 0 {
				t.Errorf("%s: atom %d is worth %v, want nothing", name, a, worth)
			}
		}
	}
}

// However times are shared out, rows learn from others than those that rate, and there are some of both.
func TestLaterRows(t *testing.T) {
	for name, times := range map[string]func(i int) float64{
		"even":            func(i int) float64 { return float64(i) },
		"most on one day": func(i int) float64 { return float64(max(0, i-2400)) },
		"two days":        func(i int) float64 { return float64(i / 2900) },
	} {
		r := newRun(lonely(3000, 1500, times))
		if len(r.folds) != 1 {
			t.Fatalf("%s: %d folds, want one", name, len(r.folds))
		}
		held, least, most := 0, 1e9, -1e9
		for i, hold := range r.folds[0].hold {
			if hold {
				held++
				least = min(least, times(i))
			} else {
				most = max(most, times(i))
			}
		}
		if held == 0 || held == 3000 || most >= least {
			t.Errorf("%s: %d rows held out, from %v on; the others up to %v", name, held, least, most)
		}
	}
	if r := newRun(lonely(3000, 1500, func(int) float64 { return 7 })); len(r.folds) < 2 {
		t.Errorf("one time for all rows: %d folds, want more than one", len(r.folds))
	}
}

// constant scores every row with the log odds of the rows that it learns from.
func constant(_ context.Context, l *Lesson) ([]float64, error) {
	positive := 0.0
	for _, row := range l.Train {
		positive += float64(l.Label[row])
	}
	p := positive / float64(len(l.Train))
	scores := make([]float64, len(l.Label))
	for i := range scores {
		scores[i] = math.Log(p / (1 - p))
	}
	return scores, nil
}

// coins is a search among atoms that say nothing of the labels.
func coins(rows, atoms, levels int, learner Learner) *Search {
	rng := rand.New(rand.NewPCG(5, 7))
	s := &Search{Binary: true, Budget: 24, Threads: 2, Learner: learner}
	for range rows {
		s.Label = append(s.Label, float32(rng.IntN(2)))
	}
	for a := range atoms {
		atom := Atom{Column: a}
		for range rows {
			atom.Hash = append(atom.Hash, Range(rng.IntN(levels)))
		}
		s.Atoms = append(s.Atoms, atom)
	}
	return s
}

// Among hundreds of pairs some tell something of a few thousand rows by chance: none is taken. One that does tell is.
func TestSearchTakesNoChance(t *testing.T) {
	s := coins(6000, 24, 6, constant)
	found, err := s.Run(context.Background())
	if err != nil || len(found) != 0 {
		t.Errorf("labels that depend on nothing: found %v, %v; want none", found, err)
	}

	for i := range s.Label {
		if s.Atoms[3].Hash[i] == Range(0) && s.Atoms[8].Hash[i] == Range(1) {
			s.Label[i] = 1
		}
	}
	s.Budget = 1
	found, err = s.Run(context.Background())
	if err != nil || len(found) != 1 || !slices.Equal(found[0].Atoms, []int{3, 8}) {
		t.Errorf("one of 276 pairs tells the label: found %v, %v; want atoms 3 and 8", found, err)
	}
}

// An id whose levels lie within the groups of a split tells a lot of rows of the same group, and nothing of others.
func TestSearchHoldsGroupsTogether(t *testing.T) {
	const rows, groups = 6000, 600
	s := coins(rows, 1, 2, constant)
	s.Atoms[0].Alone = true
	rng := rand.New(rand.NewPCG(2, 9))
	likes := make([]float32, groups)
	for g := range likes {
		likes[g] = float32(rng.IntN(2))
	}
	group := make([]uint64, rows)
	for i := range rows {
		g := rng.IntN(groups)
		group[i] = Range(g)
		s.Label[i] = likes[g]
		s.Atoms[0].Hash[i] = Join(Level(), Range(g))
	}

	for _, c := range []struct {
		name  string
		group []uint64
		worth bool
	}{{"rows apart", nil, true}, {"groups together", group, false}} {
		s.Group = c.group
		found, err := s.Run(context.Background())
		if worth := s.Worth(t.Context(), [][]int{{0}})[0]; err != nil || (len(found) > 0) != c.worth ||
			(worth > 0.01) != c.worth {
			t.Errorf("%s: found %v, worth %v, %v; want found and worth something: %v", c.name, found, worth, err,
				c.worth)
		}
	}
}

// Where eight keys together make the model worse, fewer may not.
func TestSearchTriesFewer(t *testing.T) {
	const most = 3
	s := coins(6000, 8, 6, func(ctx context.Context, l *Lesson) ([]float64, error) {
		scores, err := constant(ctx, l)
		if len(l.Columns) > 2*most {
			for i := range scores {
				scores[i] += float64(i%2*10 - 5)
			}
		}
		return scores, err
	})
	for a := range s.Atoms {
		s.Atoms[a].Alone = true
		for i := range s.Label {
			if i%len(s.Atoms) == a && s.Label[i] == 1 {
				s.Atoms[a].Hash[i] = Range(0)
			}
		}
	}
	found, err := s.Run(context.Background())
	if err != nil || len(found) == 0 || len(found) > most {
		t.Errorf("a model that bears %d keys: found %v, %v; want some, and no more", most, found, err)
	}
}

// By time, the count of a row that learns is what was known of its level then: a level that has just come into use is
// rare.
func TestSearchCountsByTime(t *testing.T) {
	const rows = 3000
	s := coins(rows, 1, 2, constant)
	for i := range rows {
		s.Time = append(s.Time, float64(i))
		s.Atoms[0].Hash[i] = Range(i % 10)
		if i == 900 || i == 1500 {
			s.Atoms[0].Hash[i] = Range(99)
		}
	}
	r := newRun(s)
	_, count := r.statistics(&r.folds[0], r.encode([]int{0}, &scratch{}))
	learn := rows - len(slices.DeleteFunc(slices.Clone(r.folds[0].hold), func(hold bool) bool { return !hold }))
	for row, want := range map[int]float64{1201: float64(learn / 10), 900: 0, 1500: math.Round(float64(learn) / 1500)} {
		if math.Abs(count[row]-want) > 1 {
			t.Errorf("row %d of %d that learn: count %v, want %v", row, learn, count[row], want)
		}
	}
}

// TestSearchOfASettledLabel: where the columns say everything, no key is looked for, however much it divides the
// labels.
func TestSearchOfASettledLabel(t *testing.T) {
	s := coins(3000, 2, 2, constant)
	for i := range s.Label { // a key of both atoms gives the label
		s.Label[i] = 0
		if s.Atoms[0].Hash[i] == s.Atoms[1].Hash[i] {
			s.Label[i] = 1
		}
	}
	if found, err := s.Run(t.Context()); err != nil || len(found) != 1 {
		t.Fatalf("beside a constant model: got %v, %v, want the key of both atoms", found, err)
	}
	s.Learner = func(_ context.Context, l *Lesson) ([]float64, error) {
		scores := make([]float64, len(l.Label))
		for i, y := range l.Label {
			scores[i] = 12 * (float64(y) - 0.5)
		}
		return scores, nil
	}
	if found, err := s.Run(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("beside a model with .4 %% of the loss: got %v, %v, want nothing", found, err)
	}
}

// BenchmarkStatistics makes the statistics of 1,000,000 rows: three id columns of 1,000,000, 100,000 and 10,000 levels,
// and pairs of them with smaller columns.
func BenchmarkStatistics(b *testing.B) {
	const rows = 4_000_000
	sizes := []int{200_000, 50_000, 5_000, 200, 24}
	rng := rand.New(rand.NewPCG(1, 2))
	r := LabelledRows{Label: make([]float32, rows)}
	for _, n := range sizes {
		part := make([]uint64, rows)
		for i := range part {
			u := rng.Float64()
			part[i] = Range(int(float64(n) * u * u * u))
		}
		r.Parts = append(r.Parts, part)
	}
	for i := range r.Label {
		r.Label[i] = float32(rng.IntN(20) / 19)
	}
	var keys []Key
	for _, parts := range [][]int{{0}, {1}, {2}, {0, 3}, {0, 4}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}, {1, 2},
		{2, 3, 4}} {
		keys = append(keys, Key{Parts: parts, BackOff: -1, Strength: 1, Rate: true, Count: true})
	}
	for b.Loop() {
		m := NewMaker(Config{Parts: len(sizes), Splits: 1, Rows: []int{rows}, Levels: 8 << 20, Dir: b.TempDir(),
			Memory:  64 << 20,
			Threads: 1, Sample: 50_000,
			Order: dataset.Ordering{By: dataset.OrderRandom, Copies: 1}, Keys: keys,
			Bounds: func(values []float64) []float64 {
				sort.Float64s(values)
				var out []float64
				for i := 1; i < 255; i++ {
					if x := values[i*len(values)/255]; len(out) == 0 || x > out[len(out)-1] {
						out = append(out, x)
					}
				}
				return out
			},
			Assign: func(bounds []float64) func([]float64, []uint8, uint8) {
				return func(values []float64, bins []uint8, _ uint8) {
					for i, x := range values {
						bins[i] = uint8(sort.SearchFloat64s(bounds, x))
					}
				}
			}})
		for first := 0; first < rows; first += 50_000 {
			part := LabelledRows{First: first, Label: r.Label[first : first+50_000]}
			for _, p := range r.Parts {
				part.Parts = append(part.Parts, p[first:first+50_000])
			}
			must.Do(b, m.Add(part))
		}
		must.Do(b, m.Run(context.Background(), nil, func(int, int, [][]uint8) error { return nil }))
		_ = m.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows/float64(len(keys)), "ns/row/key")
}

// The bins of a statistic are those of a search among the quantiles of all values.
func TestBinned(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := &scratch{}
	for _, kinds := range []int{1, 2, 50, 64, 65, 900, 1 << 40} {
		for _, rows := range []int{1, 63, 64, 65, 700, 5000} {
			values := make([]float64, rows)
			for i := range values {
				values[i] = float64(rng.IntN(kinds)-kinds/2) / 3
			}
			got, bounds := w.binned(values), quantiles(slices.Sorted(slices.Values(values)), statisticBins)
			if got.Bins != len(bounds)+1 {
				t.Fatalf("%d rows of %d numbers: got %d bins, want %d", rows, kinds, got.Bins, len(bounds)+1)
			}
			for i, x := range values {
				if want := sort.SearchFloat64s(bounds, x); int(got.Data[i]) != want {
					t.Fatalf("%d rows of %d numbers: got bin %d of %v, want %d", rows, kinds, got.Data[i], x, want)
				}
			}
		}
	}
}

// After the last batch a fold that has clearly learnt spares the others; one that has not does not.
func TestSearchJudgesTheLastBatchByOneFold(t *testing.T) {
	for _, c := range []struct{ helps, lessons int }{{1, 6}, {0, 10}} { // five folds of 6,000 rows
		lessons := 0
		s := coins(6000, 1, 3, nil)
		s.Atoms[0].Alone, s.Budget = true, 1
		for i := range s.Label {
			if s.Label[i] == 1 && i%4 == 0 {
				s.Atoms[0].Hash[i] = Range(9)
			}
		}
		s.Learner = func(ctx context.Context, l *Lesson) ([]float64, error) {
			lessons++
			scores, err := constant(ctx, l)
			for i := range scores {
				if len(l.Columns) > 0 {
					scores[i] += float64(c.helps) * (float64(l.Label[i]) - 0.5)
				}
			}
			return scores, err
		}
		found, err := s.Run(t.Context())
		if err != nil || len(found) != 1 || lessons != c.lessons {
			t.Errorf("helps %d: found %v after %d lessons, %v; want one key after %d", c.helps, found, lessons,
				err, c.lessons)
		}
	}
}
