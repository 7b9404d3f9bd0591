// Package segment counts a table's rows, and how many of their labels are positive, by value of each column and by what
// earlier nights expected of them. Counts are of all rows, cost little, and do not depend on threads.
package segment

import (
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"coppice/internal/dataset"
)

// Scorer says what earlier nights know about a row's label. It is asked before the second pass over the table.
type Scorer interface {
	// Levels returns levels of a column, at most MaxLevels, and what each adds to the log odds of a positive label:
	// odds[CodeMissing], odds[CodeOther] for other levels, odds[CodeLevels+i] for levels[i]. It is nil for a column
	// that is not known by its levels. Rows for which an entry is NaN are not judged.
	Levels(column string) (levels []string, odds []float32)
	// Odds is the same for the bins of a numeric feature; nil if it is not known.
	Odds(f *dataset.Feature) []float32
	// Middle is the label above which one is positive.
	Middle() float64
	// Base is the log odds of a row whose score is 0.
	Base() float64
}

// Codes of the values of a column that is known by its levels.
const (
	CodeMissing = iota
	CodeOther
	CodeLevels // of the first level
)

// MaxLevels bounds the levels of Scorer.Levels.
const MaxLevels = 250

// Steps of a row's score, its log odds relative to those of all rows.
const (
	ScoreSteps = 32
	ScoreStep  = 0.25
)

// ScoreAt is the middle of a step.
func ScoreAt(step int) float64 { return (float64(step) - ScoreSteps/2 + 0.5) * ScoreStep }

// Cell counts rows: all in the lower half, positive ones in the upper half.
type Cell uint64

// Rows is the number of rows.
func (c Cell) Rows() float64 { return float64(uint32(c)) }

// Positive is the number of rows with a positive label.
func (c Cell) Positive() float64 { return float64(c >> 32) }

// TableParts is the number of equal parts of a table, in row order.
const TableParts = 12

// Counts are of every row of a table by its value in each column, its part of the table and its score. The counts are
// integers, so that they do not depend on threads.
type Counts struct {
	Base    float64 // Scorer.Base
	Columns []Axis
	Parts   [TableParts][ScoreSteps]Cell
}

// Axis has the counts of a column: Cells[code*ScoreSteps+step], where codes are bins of a numeric feature or, with
// Levels, those of Scorer.Levels.
type Axis struct {
	Name    string
	Feature *dataset.Feature // nil with Levels
	Levels  []string
	Cells   []Cell
}

// mostColumns bounds the columns: each takes 64 kB.
const mostColumns = 256

// counted is an Axis in the making.
type counted struct {
	odds   []float32 // by code; nil if nothing is known
	place  int       // the encoder with the bins, or the column of a batch with the levels
	levels []string  // nil for bins
	codes  *codeTable
	batch  []uint8 // codes of the current batch
}

// Counter counts the rows of a table, batch by batch.
type Counter struct {
	out     *Counts
	middle  float32
	missing []string
	columns []counted
	steps   []uint8 // of the current batch
	hits    []Cell  // what each row of the batch adds to a count
	score   []float32
	rows    int64 // of the table
	seen    int64
}

// NewCounter returns nil, on which every method may be called, if there is no scorer. names are the table's columns,
// label is the index of the label's, features those whose bins Add is given, rows the number of the table's rows. Of
// more than mostColumns columns that the scorer uses the first are counted.
func NewCounter(w Scorer, names []string, label int, features []dataset.Feature, missing []string,
	rows int64) *Counter {
	if w == nil {
		return nil
	}
	t := &Counter{out: &Counts{Base: w.Base()}, middle: float32(w.Middle()), missing: missing, rows: max(rows, 1)}
	add := func(a counted, name string, f *dataset.Feature) {
		if len(t.columns) < mostColumns {
			t.columns = append(t.columns, a)
			t.out.Columns = append(t.out.Columns, Axis{name, f, a.levels, make([]Cell, dataset.MaxBins*ScoreSteps)})
		}
	}
	for place, name := range names {
		if levels, odds := w.Levels(name); len(odds) > 0 && len(levels) <= MaxLevels && place != label {
			add(counted{odds: odds, place: place, levels: levels}, name, nil)
		}
	}
	for i := range features {
		f := &features[i]
		if levels, _ := w.Levels(f.Name); levels == nil && f.Kind != dataset.Categorical {
			add(counted{odds: w.Odds(f), place: i}, f.Name, f)
		}
	}
	return t
}

// Add counts a batch: the values of its columns, the bins of its features, and its labels.
func (t *Counter) Add(columns []dataset.Values, bins [][]uint8, labels []float32, threads int) {
	if t == nil {
		return
	}
	n := len(labels)

	// The code of each value: of a column of levels by its text, of a feature its bin.
	t.steps, t.hits, t.score = dataset.Resize(t.steps, n), dataset.Resize(t.hits, n), dataset.Resize(t.score, n)
	dataset.Parallel(threads, len(t.columns), func(i int) {
		a := &t.columns[i]
		if a.levels == nil {
			a.batch = bins[a.place]
			return
		}
		v := &columns[a.place]
		if a.codes == nil || a.codes.kind != v.Type {
			a.codes = newCodeTable(v.Type, a.levels, t.missing)
		}
		a.batch = dataset.Resize(a.batch, n)
		for k := range n {
			a.batch[k] = a.codes.codeOf(v, k)
		}
	})

	// Each row's score, as a step, and its hit: a row, and in the upper half whether its label is high. A row whose
	// score is NaN is not counted.
	dataset.Parallel(threads, (n+chunkRows-1)/chunkRows, func(chunk int) {
		from, to := chunk*chunkRows, min((chunk+1)*chunkRows, n)
		score := t.score[from:to]
		clear(score)
		for i := range t.columns {
			odds := t.columns[i].odds
			if odds == nil {
				continue
			}
			for k, code := range t.columns[i].batch[from:to] {
				score[k] += odds[code]
			}
		}
		for k, z := range score {
			if z != z {
				t.steps[from+k], t.hits[from+k] = 0, 0
				continue
			}
			t.steps[from+k] = uint8(max(0, min(ScoreSteps-1, math.Floor(float64(z)/ScoreStep)+ScoreSteps/2)))
			t.hits[from+k] = 1
			if labels[from+k] > t.middle {
				t.hits[from+k] = 1<<32 + 1
			}
		}
	})

	// The counts, by column in parallel, since columns share no cells, and by part of the table.
	dataset.Parallel(threads, len(t.columns), func(i int) {
		cells, steps, hits := t.out.Columns[i].Cells, t.steps[:n], t.hits[:n]
		for k, code := range t.columns[i].batch[:n] {
			cells[int(code)*ScoreSteps+int(steps[k])] += hits[k]
		}
	})
	for k, step := range t.steps[:n] {
		t.out.Parts[min(TableParts-1, (t.seen+int64(k))*TableParts/t.rows)][step] += t.hits[k]
	}
	t.seen += int64(n)
}

// Counts returns the counts; nil without a scorer.
func (t *Counter) Counts() *Counts {
	if t == nil {
		return nil
	}
	return t.out
}

// chunkRows is how many rows a goroutine scores at a time.
const chunkRows = 2048

// maxMissing bounds the texts for a missing value that are looked for: the table has to stay sparse.
const maxMissing = 500

// codeTable finds the code of a value by its hash, with linear probing.
type codeTable struct {
	kind  dataset.Type
	keys  [1024]uint64
	codes [1024]uint8 // 0: the slot is empty; otherwise the code and 1
}

// newCodeTable makes the table of a column whose values have that type. A text that no such value has is left out; one
// that is both a level and a missing marker is the level.
func newCodeTable(kind dataset.Type, levels, missing []string) *codeTable {
	t := &codeTable{kind: kind}
	put := func(text string, code int) {
		h, ok := hashOfText(kind, text)
		if !ok {
			return
		}
		at := slot0(h)
		for ; t.codes[at] != 0; at = (at + 1) % uint64(len(t.codes)) {
			if t.keys[at] == h {
				return
			}
		}
		t.keys[at], t.codes[at] = h, uint8(code+1)
	}
	for i, text := range levels {
		put(text, CodeLevels+i)
	}
	for _, text := range missing[:min(len(missing), maxMissing)] {
		put(text, CodeMissing)
	}
	return t
}

func slot0(h uint64) uint64 { return h * 0x9e3779b97f4a7c15 >> 54 }

// codeOf returns the code of a value: CodeOther if it is not in the table.
func (t *codeTable) codeOf(v *dataset.Values, i int) uint8 {
	if v.IsNull(i) {
		return CodeMissing
	}
	h := Hash(v, i)
	for at := slot0(h); t.codes[at] != 0; at = (at + 1) % uint64(len(t.codes)) {
		if t.keys[at] == h {
			return t.codes[at] - 1
		}
	}
	return CodeOther
}

// Hash hashes a value, which is not null, as written in the table.
func Hash(v *dataset.Values, i int) uint64 {
	switch v.Type {
	case dataset.Text:
		return xxhash.Sum64String(v.Text[i])
	case dataset.Float:
		return math.Float64bits(v.Float[i])
	}
	return uint64(v.Int[i])
}

// hashOfText is Hash of the value of that type which the text stands for; false if it stands for none.
func hashOfText(kind dataset.Type, text string) (uint64, bool) {
	switch kind {
	case dataset.Text:
		return xxhash.Sum64String(text), true
	case dataset.Float:
		x, err := strconv.ParseFloat(text, 64)
		return math.Float64bits(x), err == nil
	case dataset.Bool:
		x, err := strconv.ParseBool(text)
		if x {
			return 1, err == nil
		}
		return 0, err == nil
	}
	x, err := strconv.ParseInt(text, 10, 64)
	return uint64(x), err == nil
}
