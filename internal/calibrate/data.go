package calibrate

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
)

// data holds the rows with a weight above 0, ascending by raw score. It takes 9 bytes per row, 8 more with weights, 1
// more with the order of time, and 16 more while sorting.
type data struct {
	raw     []float64
	label   []uint8
	weight  []float64 // scaled to the effective number of rows; nil if all are 1
	stretch []uint8   // number of the row's stretch of time, below stretches; nil if rows are in no order of time
}

// stretches is how many stretches of equally many rows the rows are divided into, in the order of time. The rows of a
// day share its luck, so a stretch counts as one observation where a row would not be independent of its neighbours.
const stretches = 5

func (d *data) len() int { return len(d.raw) }

func (d *data) weightOf(i int) float64 { return weightAt(d.weight, i) }

func weightAt(weight []float64, i int) float64 {
	if weight == nil {
		return 1
	}
	return weight[i]
}

// prepare checks the rows and returns them sorted by raw score, without those of weight 0. With byTime, the rows are in
// the order of time, and a row's stretch follows from its place among all of them. Errors wrap one of the package's
// faults.
func prepare(raw []float64, label, weight []float32, byTime bool) (*data, error) {
	if err := checkRows(raw, label, weight); err != nil {
		return nil, err
	}

	type entry struct {
		raw float64
		row uint32
	}
	entries := make([]entry, 0, len(raw))
	for i, r := range raw {
		if weight == nil || weight[i] > 0 {
			entries = append(entries, entry{r + 0, uint32(i)}) // -0 becomes 0
		}
	}

	// By score and then by row, which makes the order unique.
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case a.raw < b.raw:
			return -1
		case a.raw > b.raw:
			return 1
		}
		return cmp.Compare(a.row, b.row)
	})

	// Copy the columns in this order.
	n := len(entries)
	d := &data{raw: make([]float64, n), label: make([]uint8, n)}
	for i, e := range entries {
		d.raw[i] = e.raw
		d.label[i] = uint8(label[e.row])
	}
	if byTime {
		d.stretch = make([]uint8, n)
		for i, e := range entries {
			d.stretch[i] = uint8(uint64(e.row) * stretches / uint64(len(raw)))
		}
	}
	if weight == nil {
		return d, nil
	}

	d.weight = scaleWeights(n, func(i int) float64 { return float64(weight[entries[i].row]) })
	return d, nil
}

// scaleWeights returns the weights of n rows, scaled so that they add up to the effective number of rows: the square of
// their sum divided by the sum of their squares.
func scaleWeights(n int, weight func(i int) float64) []float64 {
	var sum, squares float64
	for i := range n {
		w := weight(i)
		sum += w
		squares += float64(w * w)
	}

	scaled := make([]float64, n)
	for i := range scaled {
		scaled[i] = weight(i) * (sum / squares)
	}
	return scaled
}

// checkRows returns an error unless scores, labels and weights are valid, and each of the two classes has a row of
// weight above 0. Errors name the row.
func checkRows(raw []float64, label, weight []float32) error {
	n := len(raw)
	switch {
	case len(label) != n:
		return fault(-1, ErrLength, "%d labels for %d raw scores", len(label), n)
	case weight != nil && len(weight) != n:
		return fault(-1, ErrLength, "%d weights for %d raw scores", len(weight), n)
	case uint64(n) > math.MaxUint32:
		return fault(-1, ErrLength, "%d rows, more than the %d that can be sorted", n, uint64(math.MaxUint32))
	}

	// Rows of weight 0 are checked but do not count: a class may consist of them alone.
	var count [2]int
	for i, r := range raw {
		if !(math.Abs(r) <= maxRaw) {
			return fault(i, ErrScore, "%v; use finite log odds", r)
		}
		if l := label[i]; l != 0 && l != 1 {
			return fault(i, ErrLabel, "%v; use 0 and 1", l)
		}
		if weight != nil {
			if w := weight[i]; !(w >= 0) || math.IsInf(float64(w), 0) {
				return fault(i, ErrWeight, "%v; use finite weights of 0 or more", w)
			}
			if weight[i] == 0 {
				continue
			}
		}
		count[int(label[i])]++
	}

	if count[0]+count[1] < 2 {
		return fault(-1, ErrTooFew, "%d with a weight above 0; use at least one positive and one negative",
			count[0]+count[1])
	}
	for class, c := range count {
		if c == 0 {
			return fault(-1, ErrOneClass, "none is %d; a calibration needs positives and negatives", class)
		}
	}
	return nil
}

// blockRows is how many rows one goroutine adds up at a time. The sums of blocks are added in order, so the result does
// not depend on the number of goroutines.
const blockRows = 1 << 15

// sumBlocks divides the rows into blocks, calls part for each, in several goroutines at once, and adds up the results
// with add, in the order of the blocks.
func sumBlocks[T any](rows int, part func(begin, end int) T, add func(total *T, part T)) T {
	blocks := (rows + blockRows - 1) / blockRows
	parts := make([]T, blocks)

	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), blocks)
	for first := range workers {
		wg.Go(func() {
			for b := first; b < blocks; b += workers {
				parts[b] = part(b*blockRows, min((b+1)*blockRows, rows))
			}
		})
	}
	wg.Wait()

	var total T
	for _, p := range parts {
		add(&total, p)
	}
	return total
}
