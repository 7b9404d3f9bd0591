package encode

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

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
				t.Errorf("%s: atom %d is worth %v", name, a, worth)
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
			t.Fatalf("%s: %d folds", name, len(r.folds))
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
		t.Errorf("one time for all rows: %d folds", len(r.folds))
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
		t.Errorf("a model that bears %d keys: found %v, %v", most, found, err)
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
