package nights

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/ingest"
	"coppice/internal/metric"
)

// ColumnKind is what a column's values look like.
type ColumnKind string

// The kinds of columns.
const (
	Number ColumnKind = "number"
	Text   ColumnKind = "text"
	Time   ColumnKind = "time"
	None   ColumnKind = "none" // no value at all
)

// Column is the stored summary of a column.
type Column struct {
	Name     string     `json:"name"`
	Kind     ColumnKind `json:"kind"`
	Whole    bool       `json:"whole,omitempty"` // numbers without fractions
	Missing  float64    `json:"missing"`         // share of the rows
	Distinct int        `json:"distinct"`        // distinct values among the sampled rows
	// AUC is how well the column alone ranks the label: its ranges or levels by their label rates, on rows not used to
	// compute these.
	AUC float64 `json:"auc"`
	// Info is the share of the labels' entropy that these rates explain, on the same rows.
	Info float64 `json:"info,omitempty"`
	// InfoError is the standard error of Info, over rows: large where few labels are positive.
	InfoError float64 `json:"info_error,omitempty"`

	// For numbers, quantiles at equal steps from minimum to maximum, and the mean label in each range between two; for
	// times, neither.
	Quantiles []float64 `json:"quantiles,omitempty"`
	Rates     []float64 `json:"rates,omitempty"`
	Shares    []float64 `json:"shares,omitempty"` // of the rows, by range
	Peaks     []Peak    `json:"peaks,omitempty"`  // numbers that many rows have
	Top       Peak      `json:"top,omitzero"`     // the number that most rows have

	// For texts and whole numbers, the most frequent levels; Rest is the share of rows with other levels, RestRate
	// their mean label, and MissingRate that of rows without a value.
	Levels      []ColumnLevel `json:"levels,omitempty"`
	Rest        float64       `json:"rest,omitempty"`
	RestRate    float64       `json:"rest_rate,omitempty"`
	MissingRate float64       `json:"missing_rate,omitempty"`
	// the lowest hashes of distinct values, in the format of Profile.Prints
	Prints []byte `json:"prints,omitempty"`

	// IDs says that whole numbers are ids: their levels matter, not their ranges.
	IDs bool `json:"ids,omitempty"`
	// Odds is what each code of newColumnEncoder adds to the log odds of a positive label; nil if it was not fitted.
	Odds []float64 `json:"odds,omitempty"`
	// Of is a column each of whose levels has one value of this one, as with an aggregate; empty for none.
	Of string `json:"of,omitempty"`

	// For numbers, their median by level of the categorical column to which they are tied most: it does not depend on
	// the mix of levels. Factor is the ratio of these medians to those of the night before.
	Beside  string   `json:"beside,omitempty"`
	Middles []Middle `json:"middles,omitempty"`
	Factor  float64  `json:"factor,omitempty"`
	// Within compares the numbers in the rows with one level of another column with those in all other rows; see
	// measureWithin for keys and values.
	Within map[string]string `json:"within,omitempty"`
}

// Middle is the median of a column's numbers in rows with one level of another column.
type Middle struct {
	Text   string  `json:"text"`
	Median float64 `json:"median"`
}

// Peak is a number, and the share of the rows that have it.
type Peak struct {
	Number float64 `json:"number"`
	Share  float64 `json:"share"`
}

// ColumnLevel is one value of a column.
type ColumnLevel struct {
	Text  string  `json:"text"`
	Share float64 `json:"share"` // of all rows
	Rate  float64 `json:"rate"`  // mean of the label
}

const (
	steps        = 20            // ranges of numbers
	keptLevels   = 100           // of a column
	maxLevelText = 120           // bytes; of longer texts the beginning and a hash are kept
	valuePrints  = 256           // of a column
	peakShare    = 0.02          // share of the rows from which a number is a peak
	maxPeaks     = 1 / peakShare // there cannot be more of them
	leastLevels  = 5             // levels, and peaks, that are kept even of a column of the widest table
	leastPrints  = 32            // the same, of hashes of values
	numeric      = 0.98          // share of numbers from which a column is numeric; of times, too
)

// measure fills in the column from its values in the sampled rows, and returns the values' codes (columnEncoder),
// which other measurements need. Name and IDs must be set. labels are 0 or 1 for each row. share, above 0 and at most
// 1, is the part of the usual number of levels, peaks and hashes to keep; it is below 1 for wide tables.
func (c *Column) measure(n *ingest.Night, values *dataset.Values, labels []float32, share float64) []uint8 {
	there := 0 // rows with a value
	for i := range values.Len() {
		if !n.Missing(values, i) {
			there++
		}
	}
	c.Missing = 1 - float64(there)/float64(max(values.Len(), 1))
	if there == 0 {
		c.AUC = 0.5
		return make([]uint8, values.Len())
	}

	// isNumber and isTime are the shares of the values that can be read as one.
	numbers, isNumber := n.Numbers(values)
	_, isTime := n.Times(values, numeric)
	switch {
	case isTime >= numeric:
		c.Kind = Time
	case isNumber >= numeric:
		c.Kind = Number
		c.measureNumbers(numbers, labels, share)
	default:
		c.Kind = Text
	}

	if c.Kind == Text || c.Whole {
		c.measureLevels(n, values, labels, share)
	}
	codes := newColumnEncoder(c).codes(n, values, numbers)
	c.AUC, c.Info, c.InfoError = c.predictAlone(codes, labels)
	return codes
}

var counters = sync.Pool{New: func() any { return &cell.Counter{} }}

// measureNumbers fills in the statistics of a numeric column: quantiles, the mean label and the share of the rows
// between two of them, peaks, the number of distinct values and whether all are whole. numbers are those of all rows,
// NaN where there is none; at least one must be a number. share is as for measure.
func (c *Column) measureNumbers(numbers []float64, labels []float32, share float64) {
	all := slices.DeleteFunc(slices.Clone(numbers), math.IsNaN)
	counter := counters.Get().(*cell.Counter)
	counter.Sort(all)
	counters.Put(counter)

	c.Whole = true
	c.Distinct = 1
	for i, v := range all {
		c.Whole = c.Whole && v == math.Trunc(v)
		if i > 0 && v != all[i-1] {
			c.Distinct++
		}
	}
	if share == 1 && c.Distinct <= fewNumbers {
		c.printNumbers(all, valuePrints) // of whole numbers, measureLevels replaces them by hashes of levels
	}
	c.measurePeaks(all, float64(len(numbers)), max(leastLevels, int(share*maxPeaks)))
	for s := range steps + 1 {
		c.Quantiles = append(c.Quantiles, all[s*(len(all)-1)/steps])
	}

	// By range, the share of the rows and the mean label. Profiles of wide tables have these rounded, to be shorter.
	rates, counts := make([]float64, steps), make([]float64, steps)
	for i, v := range numbers {
		if r := c.rangeOf(v); r >= 0 {
			rates[r] += float64(labels[i])
			counts[r]++
		}
	}
	c.Rates, c.Shares = rates, make([]float64, steps)
	for r := range rates {
		c.Shares[r] = counts[r] / float64(len(numbers))
		rates[r] = rates[r] / max(counts[r], 1)
	}
	if share < 1 {
		for r := range rates {
			c.Rates[r], c.Shares[r] = round5(rates[r]), round5(c.Shares[r])
		}
	}
}

// newIDShare returns the share of tomorrow's rows that may have numbers beyond all earlier ones: a fifth if the numbers
// look like ids that are given one after the other, else 0. Such numbers are whole, with at least 50 different ones.
// They fill half of their range or more, and the range begins farther from 0 than it is wide. All parts of it have
// about as many rows, so that the middle half of the rows spans about half of it. A quantity, in contrast, has few rows
// at the ends of its range.
func (c *Column) newIDShare() float64 {
	width, half := c.quantile(steps)-c.quantile(0)+1, c.quantile(3*steps/4)-c.quantile(steps/4)
	if !c.Whole || c.Distinct < 50 || 2*float64(c.Distinct) < width || c.quantile(0) < width ||
		math.Abs(half/width-0.5) > 0.15 {
		return 0
	}
	return 0.2
}

// fewNumbers is how many distinct numbers a column has at most if it is an aggregate by levels of another.
const fewNumbers = 2000

// printNumbers sets Prints to the lowest hashes of the distinct numbers, at most limit of them. Two columns with the
// same numbers keep the same hashes, so that the share of common numbers can be estimated (sharedPrints).
func (c *Column) printNumbers(sorted []float64, limit int) {
	var hashes []uint64
	for i, x := range sorted {
		if i == 0 || x != sorted[i-1] {
			hashes = append(hashes, xxhash.Sum64(binary.BigEndian.AppendUint64(nil, math.Float64bits(x))))
		}
	}
	slices.Sort(hashes)
	for _, h := range hashes[:min(len(hashes), limit)] {
		c.Prints = binary.BigEndian.AppendUint64(c.Prints, h)
	}
}

// measurePeaks sets Top, the most frequent of the sorted numbers, and Peaks, those with a share of peakShare or more,
// in ascending order. If there are more than limit, the most frequent are kept. Shares are of rows, the number of all
// rows, including those without a number.
func (c *Column) measurePeaks(sorted []float64, rows float64, limit int) {
	for from := 0; from < len(sorted); {
		to := from + 1
		for to < len(sorted) && sorted[to] == sorted[from] {
			to++
		}
		share := float64(to-from) / rows
		if share >= peakShare {
			c.Peaks = append(c.Peaks, Peak{Number: sorted[from], Share: share})
		}
		if share > c.Top.Share {
			c.Top = Peak{Number: sorted[from], Share: round5(share)}
		}
		from = to
	}
	if len(c.Peaks) > limit {
		slices.SortStableFunc(c.Peaks, func(a, b Peak) int { return cmp.Compare(b.Share, a.Share) })
		c.Peaks = c.Peaks[:limit]
		slices.SortFunc(c.Peaks, func(a, b Peak) int { return cmp.Compare(a.Number, b.Number) })
	}
}

// rangeOf returns the index of the range between two quantiles that contains a number. Numbers beyond all quantiles are
// in the first or the last range. It is -1 for NaN, and for a column without quantiles.
func (c *Column) rangeOf(value float64) int {
	if value != value || len(c.Quantiles) < 2 {
		return -1
	}
	r := 0
	for _, bound := range c.Quantiles[1 : len(c.Quantiles)-1] { // counting 19 is faster than a binary search
		if bound < value {
			r++
		}
	}
	return r
}

// measureLevels sets the most frequent levels and the mean label of each, what is known of all other levels together
// (Rest) and of missing values, the number of distinct levels and the lowest of their hashes (Prints). Of equally
// frequent levels, those first in order are kept. share is as for measure.
func (c *Column) measureLevels(n *ingest.Night, values *dataset.Values, labels []float32, share float64) {
	levels := max(leastLevels, int(share*keptLevels))
	prints := max(leastPrints, int(share*valuePrints))
	type count struct {
		text string
		rows int
		sum  float64
	}
	byText := map[string]*count{}
	missing, missingSum := 0, 0.0

	// Count the rows and their positive labels by level.
	for i := range values.Len() {
		if n.Missing(values, i) {
			missing++
			missingSum += float64(labels[i])
			continue
		}
		text := levelText(values, i)
		one := byText[text]
		if one == nil {
			one = &count{text: text}
			byText[text] = one
		}
		one.rows++
		one.sum += float64(labels[i])
	}

	all := make([]*count, 0, len(byText))
	hashes := make([]uint64, 0, len(byText))
	for text, one := range byText {
		all = append(all, one)
		hashes = append(hashes, xxhash.Sum64String(text))
	}
	slices.SortFunc(all,
		func(a, b *count) int { return cmp.Or(cmp.Compare(b.rows, a.rows), cmp.Compare(a.text, b.text)) })
	slices.Sort(hashes)

	c.Distinct, c.Prints = len(all), nil
	for _, h := range hashes[:min(len(hashes), prints)] {
		c.Prints = binary.BigEndian.AppendUint64(c.Prints, h)
	}

	// Keep the first levels, and sum the others.
	rest, restSum := 0, 0.0
	for i, one := range all {
		if i >= levels {
			rest += one.rows
			restSum += one.sum
			continue
		}
		c.Levels = append(c.Levels, ColumnLevel{Text: one.text, Share: float64(one.rows) / float64(values.Len()),
			Rate: one.sum / float64(one.rows)})
	}
	c.Rest = float64(rest) / float64(values.Len())
	c.RestRate = restSum / float64(max(rest, 1))
	c.MissingRate = missingSum / float64(max(missing, 1))
}

// levelText returns value i as the text of a level. Numbers are in their shortest form, however the table spells them.
// Texts longer than maxLevelText are cut, between characters, and end with a hash of the whole text.
func levelText(values *dataset.Values, i int) string {
	text := values.TextOf(i)
	if len(text) <= maxLevelText {
		return text
	}
	cut := maxLevelText - 20 // room for three dots and 16 digits of a hash
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s...%016x", text[:cut], xxhash.Sum64String(text))
}

// middleRows is how many rows a level needs for its median.
const middleRows = 20

// middles returns the median of the column numbers in the rows with each of the given levels of the column other.
// Levels with fewer than middleRows numbers are left out.
func middles(n *ingest.Night, numbers, other *dataset.Values, levels []ColumnLevel) []Middle {
	x, _ := n.Numbers(numbers)
	byLevel := map[string][]float64{}
	for i := range x {
		if x[i] == x[i] && !n.Missing(other, i) {
			text := levelText(other, i)
			byLevel[text] = append(byLevel[text], x[i])
		}
	}

	var out []Middle
	for _, l := range levels {
		if all := byLevel[l.Text]; len(all) >= middleRows {
			slices.Sort(all)
			out = append(out, Middle{l.Text, all[len(all)/2]})
		}
	}
	return out
}

// quantile returns the quantile at a step: 0 is the minimum, steps the maximum. It is 0 for a column without numbers.
func (c *Column) quantile(step int) float64 {
	if step >= len(c.Quantiles) {
		return 0
	}
	return c.Quantiles[step]
}

// findLevel returns a level by its text; nil if it was not kept.
func (c *Column) findLevel(text string) *ColumnLevel {
	i := c.levelIndex(text)
	if i < 0 {
		return nil
	}
	return &c.Levels[i]
}

// levelIndex is -1 for a level that was not kept.
func (c *Column) levelIndex(text string) int {
	return slices.IndexFunc(c.Levels, func(l ColumnLevel) bool { return l.Text == text })
}

// byLevels reports whether the column is encoded by its levels rather than by ranges.
func (c *Column) byLevels() bool { return c.Kind == Text || c.IDs && c.Kind == Number && c.Whole }

// constant reports whether all rows have the same value.
func (c *Column) constant() bool { return c.Distinct == 1 && c.Missing == 0 }

// onlyValue is the value of a constant column, as text; empty for a time, of which none is kept.
func (c *Column) onlyValue() string {
	switch {
	case len(c.Levels) > 0:
		return c.Levels[0].Text
	case len(c.Quantiles) > 0:
		return strconv.FormatFloat(c.Quantiles[0], 'g', -1, 64)
	}
	return ""
}

// columnEncoder maps each value to one of few codes: 0 if it is missing.
type columnEncoder struct {
	column *Column
	levels map[string]int  // to codes
	peaks  map[float64]int // to codes
	size   int             // codes are less than it
}

// newColumnEncoder returns an encoder by the statistics of a column that has been measured. Numbers have the code of
// their range, from 1 to steps, but peaks have codes of their own behind these. In its range a peak would be together
// with other numbers, and with which of them depends on the value that a quantile happens to meet: the same column
// would say far more of the label on one night than on the next. Texts and ids have one for each level that was kept,
// from 2 on, and share code 1 otherwise. Times have code 1.
func newColumnEncoder(column *Column) *columnEncoder {
	k := &columnEncoder{column: column}
	switch {
	case column.byLevels():
		k.levels = map[string]int{}
		for i, l := range column.Levels[:min(len(column.Levels), keptLevels)] {
			k.levels[l.Text] = i + 2
		}
		k.size = len(k.levels) + 2
	case column.Kind == Number:
		k.peaks = map[float64]int{}
		for i, p := range column.Peaks {
			k.peaks[p.Number] = steps + 1 + i
		}
		k.size = steps + 1 + len(column.Peaks)
	default:
		k.size = 2
	}

	return k
}

// codeOf returns the code of value i. numbers are the values as numbers, NaN where there is none; it is read only if
// the column is numeric. NaN is no peak and in range -1, so that its code is 0.
func (k *columnEncoder) codeOf(n *ingest.Night, values *dataset.Values, numbers []float64, i int) int {
	switch {
	case k.levels == nil && k.column.Kind == Number:
		if code, ok := k.peaks[numbers[i]]; ok {
			return code
		}
		return k.column.rangeOf(numbers[i]) + 1
	case n.Missing(values, i):
		return 0
	case k.levels != nil:
		if code, ok := k.levels[levelText(values, i)]; ok {
			return code
		}
	}
	return 1
}

// codes returns the codes of all values.
func (k *columnEncoder) codes(n *ingest.Night, values *dataset.Values, numbers []float64) []uint8 {
	out := make([]uint8, values.Len())
	for i := range out {
		out[i] = uint8(k.codeOf(n, values, numbers, i))
	}
	return out
}

// predictAlone measures how well the column predicts labels by itself: the AUC, and info, the share of the labels'
// entropy that it explains, with its standard error over rows. A row is predicted by the label rate of its code among
// the other half of the rows, so that no label predicts itself; rates of few rows are drawn to the mean. Times predict
// nothing.
func (c *Column) predictAlone(codes []uint8, labels []float32) (auc, info, infoError float64) {
	if c.Kind == Time {
		return 0.5, 0, 0
	}

	var sums, counts [2][keptLevels + 2]float64
	total := 0.0
	for i, code := range codes {
		sums[halfOf(i)][code] += float64(labels[i])
		counts[halfOf(i)][code]++
		total += float64(labels[i])
	}

	// Predict each half by the other.
	mean := total / float64(max(len(codes), 1))
	pred := make([]float64, len(codes))
	for i, code := range codes {
		other := 1 - halfOf(i)
		pred[i] = (sums[other][code] + prior*mean) / (counts[other][code] + prior)
	}

	// By how much the log loss is below that of predicting the mean, and the sum of the squares of its terms.
	gain, squares := 0.0, 0.0
	for i, p := range pred {
		better := math.Log(max(1-p, 1e-9) / max(1-mean, 1e-9))
		if labels[i] > 0 {
			better = math.Log(max(p, 1e-9) / max(mean, 1e-9))
		}
		gain += better
		squares += better * better
	}
	// The standard error of a sum of n terms is the root of the sum of their squared distances from the mean. Both are
	// given as shares of the entropy of all labels.
	if all := entropyOf(mean) * float64(len(labels)); all > 0 {
		variance := max(0, squares-gain*gain/float64(len(labels))) // of gain; rounding may bring it below 0
		info, infoError = max(0, round5(gain/all)), round5(math.Sqrt(variance)/all)
	}
	return aucOf(labels, pred), info, infoError
}

// halfOf assigns a row to one of two halves, 0 or 1. It is the highest bit of a multiplicative hash (2 to the power of
// 32 over the golden ratio), so that rows that alternate in the table are in both halves.
func halfOf(row int) int { return int(uint32(row) * 2654435769 >> 31) }

// prior is the weight, in rows, of the overall mean in the label rate of a level.
const prior = 20

var (
	auc        = sync.OnceValues(func() (metric.Metric, error) { return metric.Lookup("auc") })
	evaluators = sync.Pool{New: func() any { return &metric.Evaluator{} }}
)

// aucOf returns the AUC of predictions. It is .5 if the AUC is undefined, as for labels of a single class.
func aucOf(labels []float32, pred []float64) float64 {
	m, err := auc()
	if err != nil {
		return 0.5
	}
	e := evaluators.Get().(*metric.Evaluator)
	defer evaluators.Put(e)
	e.Reset(metric.Input{Label: labels, Pred: pred})
	v, err := e.Eval(m)
	if err != nil {
		return 0.5
	}
	return v
}
