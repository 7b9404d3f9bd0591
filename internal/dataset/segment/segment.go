// Package segment counts a table's rows, and how many of their labels are positive, by value of each column and by what
// earlier versions of the table let expect of the row. A Counter gets the table batch by batch: it turns each value
// into a code, adds up what a Scorer knows of a row's codes as the row's score, and counts the row in a cell for each
// column, by code and score. Package nights compares the counts with earlier ones. They are of all rows, cost little,
// and do not depend on threads.
package segment

import (
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"coppice/internal/dataset"
)

// Scorer says what earlier versions of the table ("nights") tell about a row's label: a sum, over columns, of log odds
// for the column's value. Its methods are called before the second pass over the table, by one goroutine.
type Scorer interface {
	// Levels returns levels of a column, at most MaxLevels, and what each adds to the log odds of a positive label:
	// odds[CodeMissing], odds[CodeOther] for other levels, odds[CodeLevels+i] for levels[i]. Both are nil for a column
	// that is not known by its levels. Rows for which an entry is NaN are not counted.
	Levels(column string) (levels []string, odds []float32)
	// Odds is the same for the bins of a numeric feature; nil if it is not known.
	Odds(f *dataset.Feature) []float32
	// Positive says which labels are positive: those above one number and up to another. Of several classes, whose
	// names are given, a label is an index of them; known is false if the positive class is none of these.
	Positive(classes []string) (above, upTo float64, known bool)
	// Base is the log odds of a row whose score is 0.
	Base() float64
}

// Codes of the values of a column that is known by its levels.
const (
	CodeMissing = iota
	CodeOther
	CodeLevels // of the first level
)

// MaxLevels bounds the levels of Scorer.Levels, so that a code fits a byte.
const MaxLevels = 250

// Steps of a row's score, its log odds relative to those of all rows.
const (
	ScoreSteps = 32
	ScoreStep  = 0.25
)

// ScoreAt returns the score in the middle of a step.
func ScoreAt(step int) float64 { return (float64(step) - ScoreSteps/2 + 0.5) * ScoreStep }

// Cell counts rows: all of them in its lower 32 bits, and those with a positive label in its upper 32 bits.
type Cell uint64

// Rows returns the number of rows.
func (c Cell) Rows() float64 { return float64(uint32(c)) }

// Positive returns the number of rows with a positive label.
func (c Cell) Positive() float64 { return float64(c >> 32) }

// TableParts is the number of equal parts of a table, in row order.
const TableParts = 12

// Counts is how many rows a table has, and how many positive ones, by the value of each column and by score, and by
// part of the table and by score. They are integers, so that they do not depend on threads.
type Counts struct {
	Base    float64 // Scorer.Base
	Columns []Axis
	Parts   [TableParts][ScoreSteps]Cell
}

// Axis has the counts of one column: Cells[code*ScoreSteps+step] for the code of a value and the step of a row's score.
// A code is the bin of a numeric feature or, if Levels is set, one of the codes above.
type Axis struct {
	Name    string
	Feature *dataset.Feature // nil with Levels
	Levels  []string
	Cells   []Cell
}

// mostColumns bounds the columns: each takes 64 kB.
const mostColumns = 256

// counted is a column that is counted.
type counted struct {
	odds   []float32  // by code, what it adds to a row's score; nil if nothing is known
	place  int        // index of the feature, or with levels of the column
	levels []string   // nil if codes are bins
	codes  *codeTable // for levels, made for the type of the column's values
	batch  []uint8    // codes of the current batch, by row
}

// Counter counts the rows of a table, batch by batch. A nil Counter counts nothing.
type Counter struct {
	out     *Counts
	above   float32 // labels above it, up to upTo, are positive
	upTo    float32
	missing []string
	columns []counted // as out.Columns
	rows    int64     // of the table
	seen    int64     // rows of earlier batches

	// Of the current batch, by row.
	score []float32
	steps []uint8 // of the score
	hits  []Cell  // what the row adds to a count
}

// NewCounter returns a Counter for a table with so many rows, or nil if scorer is nil or its positive class is none of
// classes, the names of the label's classes. names are the table's columns, and label is the index of the label among
// them. features are those whose bins Add is given. missing lists the texts that stand for a missing value. It counts
// the columns that the scorer knows by their levels, except the label, and then all features of numbers and times that
// it does not know so, even those without odds; in all at most mostColumns, the first ones.
func NewCounter(scorer Scorer, names []string, label int, features []dataset.Feature, classes,
	missing []string, rows int64) *Counter {
	if scorer == nil {
		return nil
	}
	above, upTo, known := scorer.Positive(classes)
	if !known {
		return nil
	}
	t := &Counter{out: &Counts{Base: scorer.Base()}, above: float32(above), upTo: float32(upTo), missing: missing,
		rows: max(rows, 1)}

	// Columns that are known by their levels, and numeric features.
	add := func(a counted, name string, f *dataset.Feature) {
		if len(t.columns) < mostColumns {
			t.columns = append(t.columns, a)
			t.out.Columns = append(t.out.Columns, Axis{name, f, a.levels, make([]Cell, dataset.MaxBins*ScoreSteps)})
		}
	}
	for place, name := range names {
		if levels, odds := scorer.Levels(name); len(odds) > 0 && len(levels) <= MaxLevels && place != label {
			add(counted{odds: odds, place: place, levels: levels}, name, nil)
		}
	}
	for i := range features {
		f := &features[i]
		if levels, _ := scorer.Levels(f.Name); levels == nil && f.Kind != dataset.Categorical {
			add(counted{odds: scorer.Odds(f), place: i}, f.Name, f)
		}
	}
	return t
}

// Add counts the next batch of rows: columns[i] has the values of column i, bins[i] the bins of feature i, and labels
// the labels. Batches must come in the order of the table.
func (t *Counter) Add(columns []dataset.Values, bins [][]uint8, labels []float32, threads int) {
	if t == nil {
		return
	}
	n := len(labels)

	// Find the code of each value: the bin of a feature, else the code of its level.
	t.steps, t.hits, t.score = dataset.Resize(t.steps, n), dataset.Resize(t.hits, n), dataset.Resize(t.score, n)
	dataset.Parallel(threads, len(t.columns), func(i int) {
		a := &t.columns[i]
		if a.levels == nil {
			a.batch = bins[a.place]
			return
		}
		v := &columns[a.place]
		if a.codes == nil || a.codes.kind != v.Type { // the first batch, or one of another type than the last
			a.codes = newCodeTable(v.Type, a.levels, t.missing)
		}
		a.batch = dataset.Resize(a.batch, n)
		for k := range n {
			a.batch[k] = a.codes.codeOf(v, k)
		}
	})

	// Compute each row's score, its step, and its hit, which counts the row and whether its label is positive. A row
	// whose score is NaN adds nothing.
	dataset.Parallel(threads, (n+chunkRows-1)/chunkRows, func(chunk int) {
		from, to := chunk*chunkRows, min((chunk+1)*chunkRows, n)
		score := t.score[from:to]
		clear(score)
		for i := range t.columns {
			odds := t.columns[i].odds
			if odds == nil { // the column is counted, but is no part of the score
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
			if y := labels[from+k]; y > t.above && y <= t.upTo {
				t.hits[from+k] = 1<<32 + 1 // a row, and a positive one (Cell)
			}
		}
	})

	// Count by column, in parallel since columns share no cells, and by part of the table.
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

// Counts returns the counts so far, which belong to t; nil if t is nil.
func (t *Counter) Counts() *Counts {
	if t == nil {
		return nil
	}
	return t.out
}

// chunkRows is how many rows a goroutine scores at a time.
const chunkRows = 2048

// maxMissing bounds the texts for a missing value that are looked for. With the levels, they must leave the codeTable's
// 1,024 slots partly free, or a search for another text would not end.
const maxMissing = 500

// codeTable finds the code of a value by its hash. It is a hash table with linear probing.
type codeTable struct {
	kind  dataset.Type
	keys  [1024]uint64
	codes [1024]uint8 // 0: the slot is empty; otherwise the code and 1
}

// newCodeTable makes the table for a column with values of this type. A text that is no value of the type is left out.
// One that is both a level and in missing is the level.
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

// slot0 returns the slot, of 1,024, at which the search for a hash begins: the upper 10 bits of its product with 2^64
// divided by the golden ratio, which depend on all bits of the hash (Fibonacci hashing). It is needed since numbers are
// their own hash.
func slot0(h uint64) uint64 { return h * 0x9e3779b97f4a7c15 >> 54 }

// codeOf returns the code of value i: CodeMissing if it is null, and CodeOther if it is not in the table.
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

// Hash hashes value i of a column, which is not null. Floats and integers are their own hash.
func Hash(v *dataset.Values, i int) uint64 {
	switch v.Type {
	case dataset.Text:
		return xxhash.Sum64String(v.Text[i])
	case dataset.Float:
		return math.Float64bits(v.Float[i])
	}
	return uint64(v.Int[i])
}

// hashOfText returns the Hash of the value of this type that is written as text. It is false if no value is. A time is
// written as the whole number that a column has for it.
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
