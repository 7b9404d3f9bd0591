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

// scoreByRate is a Learner. It scores a row with the log odds of the training rows whose first statistic, a rate, is in
// the same bin.
func scoreByRate(_ context.Context, l *TrainingSet) ([]float64, error) {
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

// switchingLevels returns a search with one key of 500 levels, on 24,000 rows with times 0, 1, 2 and so on. The label
// of a level is 1 with probability .1 or .9; each level switches from one to the other every period, at one of seven
// times within it. With period 0 no level ever switches.
func switchingLevels(period float64) *Search {
	const rows, levels = 24_000, 500
	rng := rand.New(rand.NewPCG(11, 11))
	s := &Search{Binary: true, Threads: 2, Learner: scoreByRate, Keys: [][]int{{0}}, Atoms: []Atom{{}}}
	for i := range rows {
		level, t := rng.IntN(levels), float64(i)
		p := 0.1 + 0.8*float64(level%2)
		if period > 0 && int((t+period*float64(level)/7)/period)%2 == 1 {
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

// TestStaleness expects a delay where levels switch within the horizon, so that old statistics mislead: training rows
// should then see only old labels, too. It expects none where levels never switch, or if there is no usable horizon.
//
// The rows to judge by are the last 8,000, of the times 16,000 to 24,000, as far as the horizon reaches. With one of
// 8,000, delays of 2,000 and 4,000 are tried, in which a third and two thirds of the levels switch.
func TestStaleness(t *testing.T) {
	for name, tc := range map[string]struct {
		period, horizon float64
		want            bool // a delay
	}{
		"levels switch":                    {6000, 8000, true},
		"levels never switch":              {0, 8000, false},
		"nothing comes after train":        {6000, 0, false},
		"fewer than minHold rows to judge": {6000, 100, false},
		"the horizon is unknown":           {6000, math.NaN(), false},
	} {
		s := switchingLevels(tc.period)
		delay, gain, err := s.Staleness(t.Context(), tc.horizon)
		if err != nil || (delay > 0) != tc.want || (gain >= staleGain) != tc.want || delay > tc.horizon/2 {
			t.Errorf("%s: got delay %v, gain %v, error %v; want a delay: %t, of at most half of %v", name, delay, gain,
				err, tc.want, tc.horizon)
		}
	}
}

// TestDelayedStatistics checks that a training row sees the labels of exactly those rows that are older by the delay.
func TestDelayedStatistics(t *testing.T) {
	s := switchingLevels(0)
	for i := range s.Atoms[0].Hash {
		s.Atoms[0].Hash[i] = Range(0) // one level: a row that sees others extrapolates its count to all training rows
	}
	s.Delay = 2000
	r := newRun(s)
	rate, count := r.statistics(&r.folds[0], r.encode([]int{0}, &scratch{}))
	prior := r.folds[0].prior
	trainingRows := float64(slices.Index(r.folds[0].hold, true)) // those before the first held-out row

	// Row i has time i, so row 2000 is the first that sees another: row 0. The rate has one more row with the prior.
	for row, seen := range map[int]int{0: 0, 1999: 0, 2000: 1, 2001: 2, 9000: 7001} {
		sum := 0.0
		for _, y := range s.Label[:seen] {
			sum += float64(y)
		}
		if want := (sum + prior) / float64(seen+1); math.Abs(rate[row]-want) > 1e-12 || seen > 0 &&
			count[row] != trainingRows {
			t.Errorf("row %d: rate %v, count %v; want those of the first %d rows, %v and %v", row, rate[row],
				count[row], seen, want, trainingRows)
		}
	}
}

// TestSearchByTimeIgnoresSurprises gives all rows of a day the same random odds. A pair of columns that together tell
// days apart explains past days and nothing of later ones, so the search must not find it. A pair on which the label
// depends on every day must be found.
func TestSearchByTimeIgnoresSurprises(t *testing.T) {
	learner := func(ctx context.Context, l *TrainingSet) ([]float64, error) {
		if len(l.Columns) == 0 {
			return scoreConstant(ctx, l)
		}
		return scoreByRate(ctx, l)
	}
	for name, lasting := range map[string]bool{"odds of the day": false, "odds of a pair": true} {
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, 4))
			s := &Search{Binary: true, Budget: 8, Threads: 2, Learner: learner, Atoms: make([]Atom, 4)}
			dayOdds, rows := 0.0, 6000
			if lasting {
				rows = 12_000 // enough for the pair to be found with each seed
			}
			for i := range rows {
				day := i / 50
				if i%50 == 0 {
					dayOdds = 2 * rng.NormFloat64()
				}

				// The first two atoms tell 35 days apart.
				levels := []int{day % 7, day % 5, rng.IntN(6), rng.IntN(6)}
				for a, level := range levels {
					s.Atoms[a].Column = a
					s.Atoms[a].Hash = append(s.Atoms[a].Hash, Range(level))
				}
				odds := dayOdds
				if lasting { // they depend on the last two atoms instead
					odds = float64((levels[2] + levels[3]) % 2 * 3)
				}
				s.Time, s.Label = append(s.Time, float64(day)), append(s.Label, 0)
				if rng.Float64() < 1/(1+math.Exp(-odds)) {
					s.Label[i] = 1
				}
			}
			found, err := s.Run(t.Context())
			if err != nil || (len(found) > 0) != lasting {
				t.Errorf("%s, seed %d: found %v, error %v; want a key: %t", name, seed, found, err, lasting)
			}
		}
	}
}

// rareLabels returns a search with random atoms, on rows of which the first positives have label 1 and all others 0. If
// times is not nil, it gives the time of row i. Its Learner fails, as it must not be called.
func rareLabels(rows, positives int, times func(i int) float64) *Search {
	rng := rand.New(rand.NewPCG(1, 3))
	s := &Search{Binary: true, Budget: 8, Threads: 2, Learner: func(context.Context, *TrainingSet) ([]float64, error) {
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

// TestSearchWithoutLabelsToLearn expects no key, no worth above 0 and no error where the training rows of some fold all
// have the same label.
func TestSearchWithoutLabelsToLearn(t *testing.T) {
	for name, s := range map[string]*Search{
		"no positive row":  rareLabels(3000, 0, nil),
		"one positive row": rareLabels(3000, 1, nil),
		// The first 500 rows are the latest, and so held out.
		"only late rows are 1": rareLabels(3000, 500, func(i int) float64 { return float64(-i) }),
	} {
		found, err := s.Run(context.Background())
		if err != nil || len(found) != 0 {
			t.Errorf("%s: the search found %v, error %v; want no key and no error", name, found, err)
		}
		for _, worth := range s.Worth(t.Context(), [][]int{{0}}) {
			must.Equal(t, worth, 0, "%s: the key of atom 0 has worth", name)
		}
	}
}

// TestLaterRows checks for several distributions of times that some rows are held out, some are not, and all held-out
// rows are later than the others. If all times are equal, there must be random folds instead.
func TestLaterRows(t *testing.T) {
	for name, times := range map[string]func(i int) float64{ // of row i of 3,000
		"even":            func(i int) float64 { return float64(i) },
		"most on one day": func(i int) float64 { return float64(max(0, i-2400)) },
		"two days":        func(i int) float64 { return float64(i / 2900) },
	} {
		r := newRun(rareLabels(3000, 1500, times))
		if len(r.folds) != 1 {
			t.Fatalf("%s: %d folds, want one", name, len(r.folds))
		}
		held, least, most := 0, 1e9, -1e9 // held-out rows, their earliest time, and the latest time of the others
		for i, hold := range r.folds[0].hold {
			if hold {
				held++
				least = min(least, times(i))
			} else {
				most = max(most, times(i))
			}
		}
		if held == 0 || held == 3000 || most >= least {
			t.Errorf("%s: %d of 3000 rows are held out, from time %v on, and the others reach time %v; want some of "+
				"both, and the others earlier", name, held, least, most)
		}
	}
	if r := newRun(rareLabels(3000, 1500, func(int) float64 { return 7 })); len(r.folds) < 2 {
		t.Errorf("one time for all rows: %d folds, want more than one", len(r.folds))
	}
}

// scoreConstant is a Learner. It scores every row with the log odds of all training rows.
func scoreConstant(_ context.Context, l *TrainingSet) ([]float64, error) {
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

// randomSearch returns a search whose atoms have random levels and whose labels are random, so that there is nothing to
// find. Tests add something to it.
func randomSearch(rows, atoms, levels int, learner Learner) *Search {
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

// TestSearchTakesNoChance searches among 276 pairs and 6,000 random labels. Some pairs explain labels by chance; none
// may be found. Then one pair tells the label of some rows, and it must be found.
func TestSearchTakesNoChance(t *testing.T) {
	s := randomSearch(6000, 24, 6, scoreConstant)
	found, err := s.Run(context.Background())
	if err != nil || len(found) != 0 {
		t.Errorf("labels that depend on nothing: found %v, error %v; want no key", found, err)
	}

	// Of the rows in one of 36 cells of the pair 3, 8 all get label 1.
	for i := range s.Label {
		if s.Atoms[3].Hash[i] == Range(0) && s.Atoms[8].Hash[i] == Range(1) {
			s.Label[i] = 1
		}
	}
	s.Budget = 1
	found, err = s.Run(context.Background())
	if err != nil || len(found) != 1 || !slices.Equal(found[0].Atoms, []int{3, 8}) {
		t.Errorf("one of 276 pairs tells the label: found %v, error %v; want atoms 3 and 8", found, err)
	}
}

// TestSearchHoldsGroupsTogether makes an id whose levels are the groups, and gives all rows of a group the same label.
// The id predicts rows of a group that was trained on, and nothing of other groups: the search must find it only if the
// groups are not declared.
func TestSearchHoldsGroupsTogether(t *testing.T) {
	const rows, groups = 6000, 600
	s := randomSearch(rows, 1, 2, scoreConstant)
	s.Atoms[0].Alone = true
	rng := rand.New(rand.NewPCG(2, 9))
	labels := make([]float32, groups)
	for g := range labels {
		labels[g] = float32(rng.IntN(2))
	}
	group := make([]uint64, rows)
	for i := range rows { // the id's level is the group, by another hash
		g := rng.IntN(groups)
		group[i] = Range(g)
		s.Label[i] = labels[g]
		s.Atoms[0].Hash[i] = Join(Level(), Range(g))
	}

	for _, c := range []struct {
		name  string
		group []uint64
		worth bool
	}{{"groups not declared", nil, true}, {"groups declared", group, false}} {
		s.Group = c.group
		found, err := s.Run(context.Background())
		if worth := s.Worth(t.Context(), [][]int{{0}})[0]; err != nil || (len(found) > 0) != c.worth ||
			(worth > 0.01) != c.worth {
			t.Errorf("%s: found %v, worth %v, error %v; want a key with a worth above 0.01: %v", c.name, found, worth,
				err, c.worth)
		}
	}
}

// TestSearchTriesFewer has a model that fails as soon as it has more than three keys. The first batch of eight keys
// makes it worse, so the search must try smaller ones.
func TestSearchTriesFewer(t *testing.T) {
	const most = 3
	s := randomSearch(6000, 8, 6, func(ctx context.Context, l *TrainingSet) ([]float64, error) {
		scores, err := scoreConstant(ctx, l)
		if len(l.Columns) > 2*most { // each key has two columns
			for i := range scores {
				scores[i] += float64(i%2*10 - 5) // wrong by five for every row
			}
		}
		return scores, err
	})
	for a := range s.Atoms {
		s.Atoms[a].Alone = true
		for i := range s.Label { // each atom tells the label of some rows of its own, so that all eight are candidates
			if i%len(s.Atoms) == a && s.Label[i] == 1 {
				s.Atoms[a].Hash[i] = Range(0)
			}
		}
	}
	found, err := s.Run(context.Background())
	if err != nil || len(found) == 0 || len(found) > most {
		t.Errorf("a model that fails with more than %d keys: found %v, error %v; want one to %d keys", most, found, err,
			most)
	}
}

// TestSearchCountsByTime checks the counts of training rows by time. Each is extrapolated from the earlier rows, so
// that a level is rare when it has just come into use.
func TestSearchCountsByTime(t *testing.T) {
	const rows = 3000
	s := randomSearch(rows, 1, 2, scoreConstant)
	for i := range rows { // ten levels with a tenth of the rows each, and one level with rows 900 and 1500 alone
		s.Time = append(s.Time, float64(i))
		s.Atoms[0].Hash[i] = Range(i % 10)
		if i == 900 || i == 1500 {
			s.Atoms[0].Hash[i] = Range(99)
		}
	}
	r := newRun(s)
	_, count := r.statistics(&r.folds[0], r.encode([]int{0}, &scratch{}))
	held := slices.DeleteFunc(slices.Clone(r.folds[0].hold), func(hold bool) bool { return !hold })
	trainingRows := rows - len(held)

	// Row 1201 has a level of a tenth of the rows. Row 900 sees no row of its level. Row 1500 sees one among 1,500
	// rows, which is extrapolated to the training rows. Counts are rounded, hence up to 1 of difference.
	for row, want := range map[int]float64{
		1201: float64(trainingRows / 10),
		900:  0,
		1500: math.Round(float64(trainingRows) / 1500),
	} {
		if math.Abs(count[row]-want) > 1 {
			t.Errorf("row %d, with %d training rows: count %v, want %v", row, trainingRows, count[row], want)
		}
	}
}

// TestSearchOfASettledLabel checks that no key is looked for if the model predicts nearly perfectly without one, even
// though a key alone would tell the label. With a constant model, that key is found.
func TestSearchOfASettledLabel(t *testing.T) {
	s := randomSearch(3000, 2, 2, scoreConstant)
	for i := range s.Label { // a key of both atoms gives the label
		s.Label[i] = 0
		if s.Atoms[0].Hash[i] == s.Atoms[1].Hash[i] {
			s.Label[i] = 1
		}
	}
	if found, err := s.Run(t.Context()); err != nil || len(found) != 1 {
		t.Fatalf("with a constant model: found %v, error %v, want the key of both atoms", found, err)
	}

	// This model gives a row's label the log odds 6. Its loss, log(1 + exp(-6)) = .0025, is .4 % of a constant model's,
	// log(2), and so below settledShare.
	s.Learner = func(_ context.Context, l *TrainingSet) ([]float64, error) {
		scores := make([]float64, len(l.Label))
		for i, y := range l.Label {
			scores[i] = 12 * (float64(y) - 0.5)
		}
		return scores, nil
	}
	must.Equal(t, len(must.Get(s.Run(t.Context()))(t)), 0, "keys found with a model that has .4 %% of the loss")
}

// BenchmarkStatistics makes the statistics of 4,000,000 rows for twelve keys of one to three id columns, which have
// from 24 to 200,000 levels, and reports the time per row and key.
func BenchmarkStatistics(b *testing.B) {
	const rows = 4_000_000
	sizes := []int{200_000, 50_000, 5_000, 200, 24}
	rng := rand.New(rand.NewPCG(1, 2))
	r := LabelledRows{Label: make([]float32, rows)}
	for _, n := range sizes {
		part := make([]uint64, rows)
		for i := range part {
			u := rng.Float64()
			part[i] = Range(int(float64(n) * u * u * u)) // cubed, so that few levels have most of the rows
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

// TestBinned compares the bins of values with a binary search among the quantiles of all values.
func TestBinned(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := &scratch{}
	for _, kinds := range []int{1, 2, 50, 64, 65, 900, 1 << 40} { // different values, below and above statisticBins
		for _, rows := range []int{1, 63, 64, 65, 700, 5000} {
			values := make([]float64, rows)
			for i := range values {
				values[i] = float64(rng.IntN(kinds)-kinds/2) / 3
			}
			got, bounds := w.binned(values), quantiles(slices.Sorted(slices.Values(values)), statisticBins)
			if got.Bins != len(bounds)+1 {
				t.Fatalf("%d rows of up to %d different values: got %d bins, want %d", rows, kinds, got.Bins,
					len(bounds)+1)
			}
			for i, x := range values {
				if want := sort.SearchFloat64s(bounds, x); int(got.Data[i]) != want {
					t.Fatalf("%d rows of up to %d different values: %v is in bin %d, want %d", rows, kinds, x,
						got.Data[i], want)
				}
			}
		}
	}
}

// TestSearchJudgesTheLastBatchByOneFold counts the trainings of a search with one key and five folds. Before the batch
// it trains five times. If the key helps, the first fold shows it and the other four are skipped; otherwise all are
// trained. A key that changes no score is kept, too, since the loss does not rise.
func TestSearchJudgesTheLastBatchByOneFold(t *testing.T) {
	for _, c := range []struct{ helps, trainings int }{{helps: 1, trainings: 5 + 1}, {helps: 0, trainings: 5 + 5}} {
		trainings := 0
		s := randomSearch(6000, 1, 3, nil)
		s.Atoms[0].Alone, s.Budget = true, 1
		for i := range s.Label {
			if s.Label[i] == 1 && i%4 == 0 { // a level that only rows with label 1 have, so that the key is a candidate
				s.Atoms[0].Hash[i] = Range(9)
			}
		}
		s.Learner = func(ctx context.Context, l *TrainingSet) ([]float64, error) {
			trainings++
			scores, err := scoreConstant(ctx, l)
			for i := range scores {
				if len(l.Columns) > 0 { // with the key, better by as much as helps says
					scores[i] += float64(c.helps) * (float64(l.Label[i]) - 0.5)
				}
			}
			return scores, err
		}
		found, err := s.Run(t.Context())
		if err != nil || len(found) != 1 || trainings != c.trainings {
			t.Errorf("helps %d: found %v after %d trainings, error %v; want one key after %d", c.helps, found,
				trainings, err, c.trainings)
		}
	}
}

// TestLaterLosses: each of the last four of eight periods is predicted from all rows before it, here by their mean
// label, and half the squared errors are added up, of every label. Rows of one time are in one period, and a period
// with no rows, or no different labels, before it adds no loss.
func TestLaterLosses(t *testing.T) {
	mean := func(_ context.Context, l *TrainingSet) ([]float64, error) {
		total := 0.0
		for _, row := range l.Train {
			total += float64(l.Label[row])
		}
		return slices.Repeat([]float64{total / float64(len(l.Train))}, len(l.Label)), nil
	}
	for name, tc := range map[string]struct {
		times  []float64
		labels [][]float32
		want   float64
	}{
		// By time, the labels are 0, 0, 2, 2, and then 9 four times.
		"eight rows, the last ones first": {[]float64{8, 7, 6, 5, 4, 3, 2, 1}, [][]float32{{9, 9, 9, 9, 2, 2, 0, 0}},
			(8*8 + 6.4*6.4 + 16/3.*16/3. + 32/7.*32/7.) / 2},
		"two labels": {[]float64{1, 2, 3, 4, 5, 6, 7, 8},
			[][]float32{{0, 0, 2, 2, 1, 1, 1, 1}, {2, 2, 0, 0, 1, 1, 1, 3}}, 2 * 2 / 2.},
		"two times":     {[]float64{1, 1, 1, 1, 2, 2, 2, 2}, [][]float32{{0, 2, 0, 2, 3, 3, 3, 3}}, 4 * 4 / 2.},
		"one time":      {[]float64{1, 1, 1, 1, 1, 1, 1, 1}, [][]float32{{0, 2, 0, 2, 3, 3, 3, 3}}, 0},
		"equal labels":  {[]float64{1, 2, 3, 4, 5, 6, 7, 8}, [][]float32{{1, 1, 1, 1, 1, 1, 1, 5}}, 0},
		"no rows":       {nil, [][]float32{{}}, 0},
		"fewer periods": {[]float64{1, 2}, [][]float32{{0, 1}}, 0},
	} {
		s := &Search{Time: tc.times, Learner: mean}
		got, err := s.LaterLosses(t.Context(), tc.labels)
		if err != nil || math.Abs(sum(got)-tc.want) > 1e-9 {
			t.Errorf("%s: got losses %v, error %v; want a sum of %v", name, got, err, tc.want)
		}
	}
}
