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
	"coppice/internal/must"
)

// testTable is a small table and the Config of a Maker for it.
type testTable struct {
	c      Config
	parts  [][]uint64 // [parts][rows of all splits] of hashes; the splits come one after the other, here and below
	label  []float32
	weight []float32
	time   []float64
	group  []uint64
}

// grid returns bounds for both rates and counts: 150 between 0 and 1, and each whole number up to 100.
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

// binOf returns the bin of x by these bounds; NaN is in the bin after the last one.
func binOf(x float64, bounds []float64) uint8 {
	if x != x {
		return uint8(len(bounds) + 1)
	}
	return uint8(sort.SearchFloat64s(bounds, x))
}

// first returns the index of a split's first row in w's columns.
func (w *testTable) first(split int) int {
	n := 0
	for _, rows := range w.c.Rows[:split] {
		n += rows
	}
	return n
}

// run makes the statistics with a Maker, to which it adds seven rows at a time. It returns the bins of all features,
// [splits][features][rows], with the copies of train one after the other, and the Maker, which is closed when the test
// ends. It fails the test if rows don't come in order.
func (w *testTable) run(t *testing.T) (bins [][][]uint8, m *Maker) {
	t.Helper()
	w.c.Bounds = func([]float64) []float64 { return grid() }
	w.c.Assign = func(bounds []float64) func([]float64, []uint8, uint8) {
		return func(values []float64, bins []uint8, missing uint8) {
			for i, x := range values {
				bins[i] = binOf(x, bounds)
				if x != x {
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

// rows returns n rows of a split from number first on, as Add takes them.
func (w *testTable) rows(split, first, n int) LabelledRows {
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

// reference computes the statistics from their definition: for each row it goes through all rows of train. It returns
// the values as run returns the bins.
func (w *testTable) reference() [][][]float64 {
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

	// The prior of a key is the mean target of train.
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

				// sees reports whether the row sees row j of train.
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

				// put appends the value of the row's next feature, if the key has the feature.
				rates := make([]float64, len(w.c.Keys))
				feature := 0
				put := func(has bool, value float64) {
					if !has {
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

					// Of the rows of the row's level: n and s are weights and targets of those seen, seenOf their
					// number and last their latest time; rowsOf is the number of all but the row's own. seen counts all
					// rows seen.
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
					if w.c.Order.By == dataset.OrderTime && split == 0 { // extrapolated from the rows seen
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

// drawTable makes a random table, with weights, times, groups, delays and temporary files in some. It has few levels,
// so that rows see others of their level, and times repeat. Of a part with 2, 8 or 14 values, Few says nothing, that
// many, or 300, so that its numbers take two bytes.
func drawTable(seed uint64) *testTable {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &testTable{c: Config{
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
		if rng.IntN(2) == 0 { // the bins of sorted times are written at once, without a spool
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

// TestStatisticsAreWhatTheyMean compares each statistic of random tables and settings with its definition, computed row
// by row: both have to be in the same bin, of those that the maker has chosen.
func TestStatisticsAreWhatTheyMean(t *testing.T) {
	byTime, delayed, sorted, spooled, byGroup := 0, 0, 0, 0, 0
	for seed := range uint64(300) {
		w := drawTable(seed)
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
				delayed++
			}
			if m.sorted {
				sorted++
			}
		}
		if m.rows.file != nil {
			spooled++
		}
	}

	// Each kind of table has to occur often enough for the comparison to mean something.
	if byTime < 30 || delayed < 10 || sorted < 10 || byTime-sorted < 10 || spooled < 30 || byGroup < 30 {
		t.Errorf("of 300 tables %d were by time, %d of them with a delay and %d sorted, %d in a temporary file and %d "+
			"by group; want at least 30, 10, 10 (and 10 not sorted), 30 and 30", byTime, delayed, sorted, spooled,
			byGroup)
	}
}

// TestNoRowSeesItsQuery inverts the labels of one query, and expects the same statistics for the query's own rows of
// train. With the order of single rows, where rows do see others of their query, some statistics have to change:
// otherwise the test would not notice a leak.
func TestNoRowSeesItsQuery(t *testing.T) {
	// changed inverts the labels of the first row's query and returns how many bins of its own rows change.
	changed := func(w *testTable) (bins int) {
		inverted := slices.Clone(w.label)
		for i := range w.c.Rows[0] {
			if w.group[i] == w.group[0] {
				inverted[i] = 1 - inverted[i]
			}
		}
		for k := range w.c.Keys { // every row sees the mean of train as the prior, unless that has no weight
			w.c.Keys[k].Strength = 0
		}

		before, _ := w.run(t)
		w.label = inverted
		after, _ := w.run(t)
		for feature, column := range before[0] {
			for row, bin := range column { // of all copies of train, one copy after the other
				if w.group[row%w.c.Rows[0]] == w.group[0] && after[0][feature][row] != bin {
					bins++
				}
			}
		}
		return bins
	}

	tables, leaks := 0, 0
	for seed := uint64(0); seed < 60; seed += 3 { // drawTable makes groups with every third seed
		w := drawTable(seed)
		if w.group == nil {
			continue
		}
		tables++
		if bins := changed(w); bins > 0 {
			t.Errorf("seed %d: %d bins of a query's rows changed with its labels, want none", seed, bins)
		}

		w = drawTable(seed)
		w.c.Order.By = dataset.OrderRandom
		leaks += changed(w)
	}
	if tables < 5 || leaks == 0 {
		t.Errorf("%d tables with queries, and %d bins changed in an order of single rows; want at least 5 and 1",
			tables, leaks)
	}
}

// TestFloor makes a table with 10,000 levels of two rows and 200 levels of 200 rows, and room for 500 levels. The floor
// rests on estimates of how many levels have so many rows. These are far enough apart for it to be 3: the table must
// have exactly the 200 frequent levels, with their numbers of rows.
func TestFloor(t *testing.T) {
	w := &testTable{c: Config{Parts: 1, Splits: 2, Rows: []int{60_000, 10}, Levels: 500, Memory: 1 << 30, Threads: 2,
		Sample: 1000,
		Order:  dataset.Ordering{By: dataset.OrderRandom, Copies: 1},
		Keys:   []Key{{Parts: []int{0}, BackOff: -1, Strength: 1, Rate: true, Count: true}}}}
	rows := map[uint64]int{}
	part := make([]uint64, 60_010)
	for i := range part {
		switch {
		case i%3 > 0:
			part[i] = Range(i % 200) // 40,000 rows of train in 200 levels
		default: // rows 0, 3, 6 and so on: two of them have the same i/6
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
	if m.Floor() != 3 || count[0] != 200 {
		t.Fatalf("floor %d leaves %d levels, want a floor of 3 and 200 levels", m.Floor(), count[0])
	}
	for i, h := range levels.Hash {
		must.Equal(t, int(levels.Rows[i]), rows[h], "rows of level %x", h)
	}
}

// TestSameBinsForAnyThreadsAndMemory expects the same bins from one thread with all rows in memory in one piece, and
// from five threads with a temporary file and pieces of 100 bytes.
func TestSameBinsForAnyThreadsAndMemory(t *testing.T) {
	for seed := range uint64(40) {
		w := drawTable(seed)
		w.c.Threads, w.c.Memory, w.c.Piece = 1, 1<<30, 1<<20
		want, _ := w.run(t)
		w.c.Threads, w.c.Memory, w.c.Piece = 5, 0, 100
		got, _ := w.run(t)
		for split := range want {
			for feature := range want[split] {
				if !slices.Equal(got[split][feature], want[split][feature]) {
					t.Fatalf("seed %d: split %d, feature %d has bins %v from five threads and a file, want %v as from "+
						"one thread in memory", seed, split, feature, got[split][feature], want[split][feature])
				}
			}
		}
	}
}

// TestFloorOfManyRows has two levels of 70,000 and 80,000 rows, more than a counter of two bytes holds, and room for
// one of them. The floor must be just above the smaller.
func TestFloorOfManyRows(t *testing.T) {
	few, many := 70_000, 80_000
	w := &testTable{c: Config{Keys: []Key{{Parts: []int{0}, BackOff: -1, Strength: 1, Count: true}}, Parts: 1,
		Splits: 1,
		Rows:   []int{few + many},
		Order:  dataset.Ordering{By: dataset.OrderRandom, Copies: 1}, Levels: 1, Threads: 1, Sample: 100}}
	part := make([]uint64, few+many)
	for i := range part {
		part[i] = Text([]byte{'f'})
		if i >= few {
			part[i] = Text([]byte{'m'})
		}
	}
	w.parts, w.label = [][]uint64{part}, make([]float32, len(part))
	m := NewMaker(w.c)
	defer m.Close()
	m.observe(&LabelledRows{Label: w.label, Parts: w.parts})
	m.chooseFloor()
	must.Equal(t, m.Floor(), few+1, "the floor, above the %d rows of the lesser level", few)
}

// TestMoreValuesThanCounted checks that the error of a part with too many values says which part it is and how many
// values were expected, so that a caller can name its column.
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
