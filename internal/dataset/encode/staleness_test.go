package encode

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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
				t.Errorf("%s, seed %d: found %v, %v", name, seed, found, err)
			}
		}
	}
}
