package encode

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"coppice/internal/dataset"
)

// world is a small table with everything that a Maker is given about it.
type world struct {
	c      Config
	parts  [][]uint64 // of each part and row, one split behind the other
	label  []float32
	weight []float32
	time   []float64
	group  []uint64
}

// grid is bounds that tell rates and counts apart well enough to see a difference.
func grid() []float64 {
	var bounds []float64
	for i := range 150 {
		bounds = append(bounds, float64(i)/150)
	}
	for i := range 100 {
		bounds = append(bounds, float64(i)+1)
	}
	return bounds
}

func binOf(x float64, bounds []float64) uint8 {
	if x != x {
		return uint8(len(bounds) + 1)
	}
	return uint8(sort.SearchFloat64s(bounds, x))
}

func (w *world) first(split int) int {
	n := 0
	for _, rows := range w.c.Rows[:split] {
		n += rows
	}
	return n
}

// run makes the statistics and gives the bins of all features, by split, feature and row.
func (w *world) run(t *testing.T) (bins [][][]uint8, m *Maker) {
	t.Helper()
	w.c.Bounds = func([]float64) []float64 { return grid() }
	w.c.Assign = func(bounds []float64) func([]float64, []uint8, uint8) {
		return func(values []float64, bins []uint8, missing uint8) {
			for i, x := range values {
				if bins[i] = binOf(x, bounds); x != x {
					bins[i] = missing
				}
			}
		}
	}
	w.c.Dir = t.TempDir()
	m = NewMaker(w.c)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for split, rows := range w.c.Rows {
		for first := 0; first < rows; first += 7 {
			if err := m.Add(w.rows(split, first, min(7, rows-first))); err != nil {
				t.Fatalf("add rows %d... of split %d: %v", first, split, err)
			}
		}
	}
	bins = make([][][]uint8, len(w.c.Rows))
	err := m.Run(context.Background(), nil, func(split, first int, columns [][]uint8) error {
		if bins[split] == nil {
			bins[split] = make([][]uint8, len(columns))
		}
		for i, column := range columns {
			if got := len(bins[split][i]); got != first {
				t.Fatalf("split %d continues at row %d, after %d rows", split, first, got)
			}
			bins[split][i] = append(bins[split][i], column...)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return bins, m
}

func (w *world) rows(split, first, n int) LabelledRows {
	at := w.first(split) + first
	r := LabelledRows{Split: split, First: first, Label: w.label[at : at+n]}
	if w.c.Weighted {
		r.Weight = w.weight[at : at+n]
	}
	if w.time != nil {
		r.Time = w.time[at : at+n]
	}
	if w.group != nil {
		r.Group = w.group[at : at+n]
	}
	for _, p := range w.parts {
		r.Parts = append(r.Parts, p[at:at+n])
	}
	return r
}

// reference is what the statistics mean: for every row it looks at all rows of train.
func (w *world) reference() [][][]float64 {
	train := w.c.Rows[0]
	weight := func(i int) float64 {
		if w.c.Weighted {
			return float64(w.weight[i])
		}
		return 1
	}
	target := func(key *Key, i int) float64 {
		switch {
		case key.Class == 0:
			return float64(w.label[i])
		case int(w.label[i])+1 == key.Class:
			return 1
		}
		return 0
	}
	priors := make([]float64, len(w.c.Keys))
	for k := range priors {
		sum, all := 0.0, 0.0
		for i := range train {
			sum, all = sum+weight(i)*target(&w.c.Keys[k], i), all+weight(i)
		}
		priors[k] = sum / all
	}

	out := make([][][]float64, len(w.c.Rows))
	for split, rows := range w.c.Rows {
		copies := 1
		if split == 0 {
			copies = w.c.Order.Copies
		}
		for number := range copies {
			for row := range rows {
				i := w.first(split) + row
				sees := func(j int) bool {
					switch {
					case split > 0:
						return true
					case w.c.Order.By == dataset.OrderTime:
						return w.time[j] < w.time[i] && w.time[j]+w.c.Order.DelaySeconds <= w.time[i]
					}
					if w.group != nil {
						return orderOfGroup(w.group[j], number) < orderOfGroup(w.group[i], number)
					}
					return Order(uint32(j), number) < Order(uint32(i), number)
				}
				rates := make([]float64, len(w.c.Keys))
				feature := 0
				put := func(on bool, value float64) {
					if !on {
						return
					}
					if len(out[split]) <= feature {
						out[split] = append(out[split], nil)
					}
					out[split][feature] = append(out[split][feature], value)
					feature++
				}
				for k, key := range w.c.Keys {
					level := func(i int) (h [3]uint64) {
						for j, p := range key.Parts {
							h[j] = w.parts[p][i]
						}
						return h
					}
					n, s, rowsOf, seen, seenOf, last := 0.0, 0.0, 0, 0, 0, math.NaN()
					for j := range train {
						if sees(j) {
							seen++
						}
						if level(j) != level(i) {
							continue
						}
						if own := j == row || w.group != nil && w.group[j] == w.group[i]; split > 0 || !own {
							rowsOf++
						}
						if sees(j) {
							seenOf++
							n, s = n+weight(j), s+weight(j)*target(&key, j)
							if w.time != nil && !(w.time[j] <= last) {
								last = w.time[j]
							}
						}
					}
					prior := priors[k]
					if key.BackOff >= 0 {
						prior = rates[key.BackOff]
					}
					rates[k] = float64(float32((s + key.Strength*prior) / (n + key.Strength)))
					put(key.Rate, rates[k])
					if w.c.Order.By == dataset.OrderTime && split == 0 {
						rowsOf = int(math.Round(float64(seenOf*train) / float64(max(seen, 1))))
					}
					put(key.Count, float64(rowsOf))
					if key.Recency {
						put(true, w.time[i]-last)
					}
				}
			}
		}
	}
	return out
}

// draw makes a world. Levels are few, so that rows see others, and times repeat.
func draw(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{c: Config{
		Parts: 3, Weighted: rng.IntN(3) == 0, Splits: 3, Rows: []int{40 + rng.IntN(160), rng.IntN(30),
			1 + rng.IntN(30)}, Levels: 1 << 20,
		Memory: int64(rng.IntN(2) * 1 << 20), Threads: 1 + rng.IntN(4), Sample: 100, Piece: 64 + rng.IntN(4000),
		Order: dataset.Ordering{By: dataset.OrderRandom, Copies: 1 + rng.IntN(3)},
	}}
	timed := rng.IntN(2) == 0
	n := w.first(3)
	for range n {
		w.label = append(w.label, float32(rng.IntN(2)))
		w.weight = append(w.weight, float32(rng.IntN(8))/4+0.25)
		if timed {
			w.time = append(w.time, float64(rng.IntN(50))-20)
		}
	}
	for p := range w.c.Parts {
		part := make([]uint64, n)
		for i := range part {
			part[i] = Range(rng.IntN(2 + 6*p))
		}
		w.parts = append(w.parts, part)
		w.c.Few = append(w.c.Few, []int{0, 2 + 6*p, 300}[rng.IntN(3)])
	}
	w.c.Keys = []Key{
		{Parts: []int{0}, BackOff: -1, Strength: 1, Rate: true, Count: true},
		{Parts: []int{2}, BackOff: 0, Strength: 10, Rate: true, Recency: timed},
		{Parts: []int{0, 1}, BackOff: -1, Strength: 0.5, Rate: true, Count: true},
		{Parts: []int{0, 1, 2}, BackOff: 2, Strength: 3, Count: true, Rate: true},
		{Parts: []int{1}, BackOff: -1, Strength: 1, Class: 1, Count: true, Rate: true}, // of labels 0 and 1
		{Parts: []int{1}, BackOff: -1, Strength: 1, Class: 2, Rate: true},
	}
	if timed && rng.IntN(2) == 0 {
		w.c.Order = dataset.Ordering{By: dataset.OrderTime, Column: "t", Copies: 1,
			DelaySeconds: float64(rng.IntN(3) * rng.IntN(9))}
		if rng.IntN(2) == 0 { // a table by time is handed out while it is gone through
			slices.Sort(w.time[:w.c.Rows[0]])
		}
		for cut := -15.0; cut < 30; cut += float64(1 + rng.IntN(12)) {
			w.c.Cuts = append(w.c.Cuts, cut)
		}
	} else if seed%3 == 0 { // the rows of a group are anywhere in their split
		w.c.Order.By = dataset.OrderGroup
		groups := 1 + int(seed)%60
		for i := range n {
			w.group = append(w.group, Text(fmt.Sprint(rng.IntN(groups), i < w.c.Rows[0])))
		}
	}
	return w
}

// TestStatisticsAreWhatTheyMean: for random tables and settings each statistic is that of its definition, computed row
// by row.
func TestStatisticsAreWhatTheyMean(t *testing.T) {
	byTime, late, sorted, spooled, byGroup := 0, 0, 0, 0, 0
	for seed := range uint64(300) {
		w := draw(seed)
		got, m := w.run(t)
		want := w.reference()
		for split := range want {
			for feature := range want[split] {
				for row := range want[split][feature] {
					f := m.Features()[feature]
					if g, x := got[split][feature][row], want[split][feature][row]; g != binOf(x, f.Bounds) {
						t.Fatalf("seed %d, %+v: split %d, %s of key %d, row %d is in bin %d, want that of %v, %d", seed,
							w.c.Order, split, f.What, f.Key, row, g, x, binOf(x, f.Bounds))
					}
				}
			}
		}
		switch w.c.Order.By {
		case dataset.OrderGroup:
			byGroup++
		case dataset.OrderTime:
			byTime++
			if w.c.Order.DelaySeconds > 0 {
				late++
			}
			if m.sorted {
				sorted++
			}
		}
		if m.rows.file != nil {
			spooled++
		}
	}
	if byTime < 30 || late < 10 || sorted < 10 || byTime-sorted < 10 || spooled < 30 || byGroup < 30 {
		t.Errorf("of 300 tables %d were by time, %d with a delay, %d sorted by it, %d in a temporary file, %d by "+
			"group: too few to say anything", byTime, late, sorted, spooled, byGroup)
	}
}

// TestNoRowSeesItsQuery: other labels of a query, whichever it is, change no statistic of its own rows of train. In an
// order of single rows they do, which shows that the test would see it.
func TestNoRowSeesItsQuery(t *testing.T) {
	seen := func(w *world) (rows int) {
		other := slices.Clone(w.label)
		for i := range w.c.Rows[0] {
			if w.group[i] == w.group[0] {
				other[i] = 1 - other[i]
			}
		}
		for k := range w.c.Keys { // the mean of all of train is the prior of each row, and its labels are not to change
			w.c.Keys[k].Strength = 0
		}
		before, _ := w.run(t)
		w.label = other
		after, _ := w.run(t)
		for feature, bins := range before[0] {
			for place, bin := range bins { // of all copies of the rows of train, one copy after the other
				if w.group[place%w.c.Rows[0]] == w.group[0] && after[0][feature][place] != bin {
					rows++
				}
			}
		}
		return rows
	}
	queries, leaks := 0, 0
	for seed := uint64(0); seed < 60; seed += 3 {
		if w := draw(seed); w.group != nil {
			queries++
			if rows := seen(w); rows > 0 {
				t.Errorf("seed %d: %d statistics of a query's rows have seen its labels", seed, rows)
			}
			w = draw(seed)
			w.c.Order.By = dataset.OrderRandom
			leaks += seen(w)
		}
	}
	if queries < 5 || leaks == 0 {
		t.Errorf("%d tables of queries; in an order of rows %d statistics have seen their query: nothing is shown",
			queries, leaks)
	}
}

// TestValuesThatWereNotThere: a part that has more values than was said is an error.
func TestValuesThatWereNotThere(t *testing.T) {
	w := draw(1)
	w.c.Few = []int{1}
	m := NewMaker(w.c)
	defer m.Close()
	if err := m.Add(w.rows(0, 0, w.c.Rows[0])); err == nil {
		t.Error("a part that was said to have one value has had two: want an error")
	}
}

// TestTablesHoldAllRowsOfTrain: the tables of levels have every row of train once, with ascending hashes.
func TestTablesHoldAllRowsOfTrain(t *testing.T) {
	w := draw(3)
	_, m := w.run(t)
	levels, first, count := m.Tables()
	for k := range w.c.Keys {
		rows, sum := uint32(0), 0.0
		for i := first[k]; i < first[k]+count[k]; i++ {
			rows, sum = rows+levels.Rows[i], sum+levels.Sum[i]
			if i > first[k] && levels.Hash[i] <= levels.Hash[i-1] {
				t.Fatalf("key %d: hash %d is not above the one before", k, i)
			}
		}
		want := 0.0
		for i := range w.c.Rows[0] {
			weight := 1.0
			if w.c.Weighted {
				weight = float64(w.weight[i])
			}
			want += weight * w.c.Keys[k].target(float64(w.label[i]))
		}
		if int(rows) != w.c.Rows[0] || math.Abs(sum-want) > 1e-9 {
			t.Errorf("key %d: tables hold %d rows with labels of %v in all, want %d and %v", k, rows, sum, w.c.Rows[0],
				want)
		}
	}
}

// TestFloor plants many rare levels and some frequent ones: the tables may hold only the latter, and exactly.
func TestFloor(t *testing.T) {
	w := &world{c: Config{Parts: 1, Splits: 2, Rows: []int{60_000, 10}, Levels: 500, Memory: 1 << 30, Threads: 2,
		Sample: 1000,
		Order:  dataset.Ordering{By: dataset.OrderRandom, Copies: 1},
		Keys:   []Key{{Parts: []int{0}, BackOff: -1, Strength: 1, Rate: true, Count: true}}}}
	rows := map[uint64]int{}
	part := make([]uint64, 60_010)
	for i := range part {
		switch {
		case i%3 > 0:
			part[i] = Range(i % 200) // some 133 frequent levels
		default:
			part[i] = Range(1000 + i/6) // 10,000 levels of two rows
		}
		w.label = append(w.label, float32(i&1))
		if i < 60_000 {
			rows[Join(Level(), part[i])]++
		}
	}
	w.parts = [][]uint64{part}
	_, m := w.run(t)
	levels, _, count := m.Tables()
	if m.Floor() <= 2 || count[0] < 100 || count[0] > 500 {
		t.Fatalf("floor %d leaves %d levels, want a floor above 2 and 100 to 500 levels", m.Floor(), count[0])
	}
	for i, h := range levels.Hash {
		if int(levels.Rows[i]) != rows[h] {
			t.Errorf("level %x has %d rows, want %d", h, levels.Rows[i], rows[h])
		}
	}
}

// TestSameBinsForAnyThreadsAndMemory: bins do not depend on threads, memory or the size of pieces.
func TestSameBinsForAnyThreadsAndMemory(t *testing.T) {
	for seed := range uint64(40) {
		w := draw(seed)
		w.c.Threads, w.c.Memory, w.c.Piece = 1, 1<<30, 1<<20
		want, _ := w.run(t)
		w.c.Threads, w.c.Memory, w.c.Piece = 5, 0, 100
		got, _ := w.run(t)
		for split := range want {
			for feature := range want[split] {
				if !slices.Equal(got[split][feature], want[split][feature]) {
					t.Fatalf("seed %d: split %d, feature %d differs between one thread in memory and five threads "+
						"in a file", seed, split, feature)
				}
			}
		}
	}
}

// TestFloorOfManyRows has levels of more rows than a counter of two bytes: the floor is found there, too.
func TestFloorOfManyRows(t *testing.T) {
	few, many := 70_000, 80_000
	w := &world{c: Config{Keys: []Key{{Parts: []int{0}, BackOff: -1, Strength: 1, Count: true}}, Parts: 1, Splits: 1,
		Rows:  []int{few + many},
		Order: dataset.Ordering{By: dataset.OrderRandom, Copies: 1}, Levels: 1, Threads: 1, Sample: 100}}
	part := make([]uint64, few+many)
	for i := range part {
		part[i] = Text([]byte{'f'})
		if i >= few {
			part[i] = Text([]byte{'m'})
		}
	}
	w.parts, w.label = [][]uint64{part}, make([]float32, len(part))
	w.label[0] = 1
	m := NewMaker(w.c)
	defer m.Close()
	m.observe(&LabelledRows{Label: w.label, Parts: w.parts})
	m.chooseFloor()
	if m.Floor() != few+1 {
		t.Errorf("floor %d, want %d: above the %d rows of the lesser level", m.Floor(), few+1, few)
	}
}

// A part with more values than were counted says which part it is, so that the caller can name its column.
func TestMoreValuesThanCounted(t *testing.T) {
	c := Config{Keys: []Key{{Parts: []int{1}, BackOff: -1, Strength: 1, Count: true}}, Parts: 2, Few: []int{0, 2},
		Splits: 1, Rows: []int{3},
		Order: dataset.Ordering{By: dataset.OrderRandom, Copies: 1}, Levels: 10, Threads: 1, Sample: 3}
	m := NewMaker(c)
	defer m.Close()
	err := m.Add(LabelledRows{Label: make([]float32, 3), Parts: [][]uint64{{1, 2, 3}, {4, 5, 6}}})
	var many *TooManyValuesError
	if !errors.As(err, &many) || many.Part != 1 || many.Known != 2 {
		t.Errorf("got %v, want that part 1 has more than 2 values", err)
	}
}
