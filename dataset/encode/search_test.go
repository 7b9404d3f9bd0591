package encode

import (
	"context"
	"errors"
	"math/rand/v2"
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
			t.Errorf("%s: %v, %v", name, found, err)
		}
		for a, worth := range s.Worth() {
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
