package nights

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
)

// Profile is the stored summary of a night's table: a few hundred kilobytes for any size of table.
type Profile struct {
	Rows     int64   `json:"rows"` // with a label
	Label    Label   `json:"label"`
	Repeated float64 `json:"repeated"`        // share of the rows that occurred before
	Again    float64 `json:"again,omitempty"` // the same by contents: rows without their times and ids
	Shared   float64 `json:"shared"`          // share of test's distinct rows that are also in train
	Prints   []byte  `json:"prints"`          // the lowest hashes of distinct rows, 8 bytes each, big-endian, ascending
	Bare     []byte  `json:"bare,omitempty"`  // the same of contents

	TimeColumn string    `json:"time_column,omitempty"`
	Oldest     time.Time `json:"oldest,omitzero"`
	Newest     time.Time `json:"newest,omitzero"`
	// Odd is the share of sampled rows whose time is far from all others' (usualTimes), and OddAt such a time. Oldest,
	// Newest and Buckets leave them out.
	Odd     float64   `json:"odd,omitempty"`
	OddAt   time.Time `json:"odd_at,omitzero"`
	Buckets Buckets   `json:"buckets"`

	Columns []Column    `json:"columns"`
	Ties    [][]float64 `json:"ties"` // of the first columns, each with all earlier ones: Cramer's V

	// Base is the log odds of a positive label in rows of which the columns' Odds say nothing.
	Base float64 `json:"base,omitempty"`
	// Ratio is the mean label relative to that expected of tonight's rows by the nights before; 0 on the first night.
	Ratio float64 `json:"ratio,omitempty"`
	// Segments of all rows, judged by the nights before; nil on the first night.
	Segments []SegmentCounts `json:"segments,omitempty"`
	// Split says how rows are assigned to splits, on which Shared depends, and Outside which columns Bare leaves out.
	Split   string   `json:"split,omitempty"`
	Outside []string `json:"outside,omitempty"`
	// Unlabelled is the share of the table's rows that were left out because they have no label.
	Unlabelled float64 `json:"unlabelled,omitempty"`

	places map[string]int // by name, the index in Columns; nil before the first look-up
}

// Label summarises the labels.
type Label struct {
	Kind dataset.LabelKind `json:"kind"`
	Mean float64           `json:"mean"` // of several classes, the share of Positive
	// for a regression, the median: labels above it count as positive when ranked
	Middle float64 `json:"middle"`
	Spread float64 `json:"spread,omitempty"` // standard deviation, of a regression
	// The smallest and the largest, and which shares of the rows have exactly these; of a regression.
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"`
	AtLow  float64 `json:"at_low,omitempty"`
	AtHigh float64 `json:"at_high,omitempty"`
	// Of several classes: their shares by name, and the most frequent one, whose rows count as positive.
	Classes  map[string]float64 `json:"classes,omitempty"`
	Positive string             `json:"positive,omitempty"`
}

// Buckets count rows by time, or by position in the table if it has no times.
type Buckets struct {
	From  int64     `json:"from"`  // start of the first, in seconds since 1970
	Width int64     `json:"width"` // in seconds; 0 if buckets are equal parts of the table
	Rows  []int     `json:"rows"`  // sampled
	Label []float64 `json:"label"` // sum
}

// Limits on the contents of a profile.
const (
	maxBuckets = 400
	untimed    = 24   // buckets of a table without times
	keptPrints = 2048 // of ingest.Prints
	// The ties of pairs are measured among the first columns only: 780 pairs, however wide the table is.
	tied = 40
	// With more columns than this, less is kept of each, so that the record of the widest table stays below MaxRecord:
	// fewer levels, peaks and prints, down to leastLevels and leastPrints, and five decimals of rates and shares.
	wideColumns = 500.0
)

// Measure makes the profile of a night, on up to threads goroutines. manifest is that of the dataset staged from it.
// progress, which may be nil, is called after each column, from any goroutine. Its total counts all columns of the
// sample, done only those that are measured: not the label and the weight. The cost is proportional to the number of
// columns. The only error is ctx's; the profile is then incomplete.
func Measure(ctx context.Context, n *ingest.Night, manifest *dataset.Manifest, threads int,
	progress func(done, total int64)) (*Profile, error) {
	total := int64(len(n.Sample.Names))
	var done atomic.Int64
	w := &worker{ctx: ctx, threads: threads, did: func() {
		if now := done.Add(1); progress != nil {
			progress(now, total)
		}
	}}

	return w.measure(n, manifest), ctx.Err()
}

// worker runs loops over columns on several goroutines, until its context ends.
type worker struct {
	ctx     context.Context
	threads int
	did     func() // called after each column, from any goroutine
}

// eachColumn calls fn with each column, several at a time. Once the context has ended, the rest are left out.
func (w *worker) eachColumn(columns int, fn func(i int)) {
	dataset.Parallel(w.threads, columns, func(i int) {
		if w.ctx.Err() == nil {
			fn(i)
			w.did()
		}
	})
}

// measure makes the profile of a night: its labels, rows, times, columns and the relations between columns. When the
// context ends, the rest is left out.
func (w *worker) measure(n *ingest.Night, manifest *dataset.Manifest) *Profile {
	p := &Profile{Rows: n.Table, TimeColumn: n.TimeColumn, Label: Label{Kind: manifest.Label.Kind},
		Split: manifest.Split.By + " " + manifest.Split.Column, Outside: n.Outside, Segments: segmentsOf(n.Segments)}
	p.Ratio = ratioOf(n.Segments)
	p.Unlabelled = float64(manifest.LeftOut) / float64(max(1, manifest.LeftOut+n.Table))

	// Labels, rows and times.
	p.measureLabel(n, manifest.Label.Classes)
	p.measurePrints(n)
	p.measureTimes(n)
	if u := manifest.About.Unripe; u != nil && u.Column == p.TimeColumn && u.Newest.After(p.Newest) {
		p.Newest = u.Newest // the table is as fresh as its newest row, even if that row's label is not final
	}

	// Which columns are categorical, themselves or as part of a derived feature: their levels matter, not their ranges.
	ids, encoding := map[string]bool{}, manifest.Encoding()
	for i := range manifest.Features {
		f := &manifest.Features[i]
		if f.IsDerived() {
			for _, part := range encoding.PartsOf(f) {
				ids[part.Column] = ids[part.Column] || part.Kind == dataset.Categorical
			}
		} else if f.Kind == dataset.Categorical {
			ids[f.Name] = true
		}
	}

	// Each column by itself. The label and the weight are no columns of the profile.
	var values []*dataset.Values // by column of the profile
	for i, name := range n.Sample.Names {
		if name != manifest.Label.Column && name != manifest.Weight {
			p.Columns = append(p.Columns, Column{Name: name, Kind: None, IDs: ids[name]})
			values = append(values, &n.Sample.Columns[i])
		}
	}

	y, share := positives(n, p.Label, manifest.Label.Classes), min(1, wideColumns/float64(max(len(values), 1)))
	codes := make([][]uint8, len(values))          // by column and row
	few := make([][]uint8, min(len(values), tied)) // the same, reduced to tieCodes
	w.eachColumn(len(values), func(i int) {
		codes[i] = p.Columns[i].measure(n, values[i], y, share)
		if i < tied {
			few[i] = p.Columns[i].reduceCodes(codes[i])
		}
	})

	// Relations between columns. They need all columns, so none is measured if the context has ended.
	if w.ctx.Err() == nil {
		p.Ties = associate(few)
		p.findAggregates(n, values)
		p.fitOdds(w, codes, y)
		p.measureMiddles(n, values)
		p.measureWithin(w, n, values, codes)
	}
	return p
}

// measureLabel fills in Label, whose Kind must be set. It measures the weighted mean of the labels. Of several
// classes, it measures the weighted share of each, and Mean is that of the most frequent one. Of a regression, it
// also measures the median, the standard deviation from Mean, and the smallest and the largest label with their
// shares, without weights. classes are the names of the classes, nil if the label has none; a row's label is then an
// index in it.
func (p *Profile) measureLabel(n *ingest.Night, classes []string) {
	sum, weight := 0.0, 0.0
	shares := make([]float64, len(classes))
	for i, y := range n.Label {
		w := weightOf(n, i)
		sum += w * float64(y)
		weight += w
		if classes != nil {
			shares[int(y)] += w
		}
	}
	if weight > 0 {
		p.Label.Mean = sum / weight
	}

	if classes != nil && weight > 0 {
		p.Label.Classes = map[string]float64{}
		for k, name := range classes {
			p.Label.Classes[name] = round5(shares[k] / weight)
			if shares[k] > 0 {
				p.Label.Classes[name] = max(1e-5, p.Label.Classes[name]) // rounding must not make it 0: that is no row
			}
		}
		most := slices.Index(shares, slices.Max(shares))
		p.Label.Positive, p.Label.Mean = classes[most], shares[most]/weight
	}

	if p.Label.Kind == dataset.Regression && len(n.Label) > 0 {
		all := slices.Sorted(slices.Values(n.Label))
		rows, last := float64(len(all)), all[len(all)-1]
		below, _ := slices.BinarySearch(all, last)                                 // labels below the largest
		equal := slices.IndexFunc(all, func(y float32) bool { return y > all[0] }) // labels equal to the smallest
		if equal < 0 {
			equal = len(all)
		}
		p.Label.Middle, p.Label.Low, p.Label.High = float64(all[len(all)/2]), float64(all[0]), float64(last)
		squares := 0.0
		for _, y := range all {
			squares += (float64(y) - p.Label.Mean) * (float64(y) - p.Label.Mean)
		}
		p.Label.Spread = math.Sqrt(squares / rows)
		p.Label.AtLow, p.Label.AtHigh = float64(equal)/rows, (rows-float64(below))/rows
	}
}

// weightOf returns the weight of sampled row i; 1 if rows have none.
func weightOf(n *ingest.Night, i int) float64 {
	if n.Weight == nil {
		return 1
	}
	return float64(n.Weight[i])
}

// positives returns the labels as 0 or 1, by which columns are judged. Of a regression, labels above the median are 1.
// Of several classes, rows of the most frequent one are. Binary labels are returned as they are, not copied.
func positives(n *ingest.Night, label Label, classes []string) []float32 {
	if label.Kind != dataset.Regression && label.Kind != dataset.Classes {
		return n.Label
	}
	positive := slices.Index(classes, label.Positive)
	out := make([]float32, len(n.Label))
	for i, y := range n.Label {
		if classes == nil && float64(y) > label.Middle || classes != nil && int(y) == positive {
			out[i] = 1
		}
	}
	return out
}

// measurePrints estimates the shares of repeated rows, and of test rows that are also in train, and keeps the lowest
// hashes of rows. n.Prints are a sample of the distinct rows by hash, each counted in every split; n.Bare is the same
// for rows without times and ids.
func (p *Profile) measurePrints(n *ingest.Night) {
	// again returns the share of the rows that are not the first with their hash.
	again := func(prints ingest.Prints) float64 {
		rows, again := 0, 0
		for _, one := range prints {
			count := 0
			for _, c := range one.Count {
				count += int(c)
			}
			rows += count
			again += count - 1
		}
		return float64(again) / float64(max(rows, 1))
	}

	// Counts are in the order of dataset.SplitNames: 0 is train, 3 is test.
	test, shared := 0, 0 // distinct rows
	for _, one := range n.Bare {
		if one.Count[3] > 0 {
			test++
			if one.Count[0] > 0 {
				shared++
			}
		}
	}

	p.Repeated, p.Again = again(n.Prints), again(n.Bare)
	p.Shared = float64(shared) / float64(max(test, 1))
	for i, one := range n.Prints[:min(len(n.Prints), keptPrints)] {
		p.Prints = binary.BigEndian.AppendUint64(p.Prints, one.Hash)
		if i < len(n.Bare) { // there are no more distinct contents than distinct rows
			p.Bare = binary.BigEndian.AppendUint64(p.Bare, n.Bare[i].Hash)
		}
	}
}

// measureMiddles sets Beside and Middles of the numeric columns among the first ones: the column with levels to which
// each is tied most, and its median in the rows with each of these levels. It needs Ties. values are by column.
func (p *Profile) measureMiddles(n *ingest.Night, values []*dataset.Values) {
	for i := range p.Ties {
		k := &p.Columns[i]
		if k.Kind != Number {
			continue
		}

		strongest, beside := 0.0, -1
		for j := range p.Ties {
			if j == i || len(p.Columns[j].Levels) < 2 {
				continue
			}
			if tie := p.Ties[max(i, j)][min(i, j)]; tie > strongest {
				strongest, beside = tie, j
			}
		}
		if beside >= 0 {
			k.Beside = p.Columns[beside].Name
			k.Middles = middles(n, values[i], values[beside], p.Columns[beside].Levels)
		}
	}
}

// findAggregates looks for columns with a single value for each level of another one, such as a city's country, and
// sets their Of to the first such other. It looks at the first tied columns only. Columns with many distinct values, or
// with fewer than ten rows for each on average, are left out: nearly every row has a level of its own there, which
// determines everything. Constants, times, and fractions as the other column are left out, too. A missing value is a
// level like any other. values are by column.
func (p *Profile) findAggregates(n *ingest.Night, values []*dataset.Values) {
	// code numbers the distinct values of column i in the order of rows, -1 for a missing one. It keeps the result.
	codes := map[int][]int32{}
	code := func(i int) []int32 {
		if out, ok := codes[i]; ok {
			return out
		}
		v, seen := values[i], map[string]int32{}
		out := make([]int32, v.Len())
		for row := range out {
			out[row] = -1
			if !n.Missing(v, row) {
				text := v.TextOf(row)
				k, ok := seen[text]
				if !ok {
					k = int32(len(seen))
					seen[text] = k
				}
				out[row] = k
			}
		}
		codes[i] = out
		return out
	}

	few := func(k *Column) bool {
		return k.Distinct > 1 && k.Distinct <= fewNumbers && float64(k.Distinct)*10 <= float64(len(n.Label))
	}
	last := min(len(values), tied)
	for i := range last {
		k := &p.Columns[i]
		if k.Kind != Number && k.Kind != Text || !few(k) {
			continue
		}
		for j := range last {
			// The other column has as many levels at least, or it could not determine this one.
			other := &p.Columns[j]
			if j != i && (other.Kind == Text || other.Whole) && few(other) && other.Distinct >= k.Distinct &&
				determines(code(j), code(i)) {
				k.Of = other.Name
				break
			}
		}
	}
}

// determines reports whether all rows with the same code in from have the same code in to. Both are by row.
func determines(from, to []int32) bool {
	image := map[int32]int32{}
	for i, x := range from {
		if y, ok := image[x]; ok && y != to[i] {
			return false
		}
		image[x] = to[i]
	}
	return true
}

// widths are the possible widths of a bucket.
var widths = []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour}

// measureTimes sets Oldest, Newest and Buckets, and what usualTimes sets. Buckets have the smallest of widths of which
// maxBuckets cover all times. Without times, they are equal parts of the table. Rows whose time is missing or odd are
// in no bucket.
func (p *Profile) measureTimes(n *ingest.Night) {
	lo, hi := p.usualTimes(n.Time) // in seconds since 1970; lo > hi if there are none

	// bucketAt returns the bucket of a row, or -1: of a table without times, by the row's position.
	b := &p.Buckets
	bucketAt := func(i int) int { return i * untimed / len(n.Label) }
	count := untimed
	if lo <= hi {
		p.Oldest, p.Newest = timeAt(lo), timeAt(hi)
		for _, w := range widths {
			b.Width = int64(w / time.Second)
			b.From = int64(math.Floor(lo/float64(b.Width))) * b.Width
			count = int((hi-float64(b.From))/float64(b.Width)) + 1
			if count <= maxBuckets {
				break
			}
		}
		count = min(count, maxBuckets)
		bucketAt = func(i int) int { return bucketOf(n.Time[i], lo, hi, b.From, b.Width, count) }
	}

	b.Rows, b.Label = make([]int, count), make([]float64, count)
	for i, y := range n.Label {
		if k := bucketAt(i); k >= 0 {
			b.Rows[k]++
			if p.Label.Kind != dataset.Classes { // those are numbered, and a sum means nothing
				b.Label[k] += float64(y)
			}
		}
	}
}

// Limits of odd times, which are taken for mistakes in a few rows.
const (
	oddShare = 0.005 // largest share of the rows, at either end
	oddFar   = 3     // distance from all other rows, relative to the time that those span
)

// usualTimes returns the oldest and the newest time without odd ones, and sets Odd and OddAt by these. Times are in
// seconds since 1970, NaN if a row has none. If no row has one, lo is infinite and above hi.
func (p *Profile) usualTimes(times []float64) (lo, hi float64) {
	all := slices.DeleteFunc(slices.Clone(times), math.IsNaN)
	if len(all) == 0 {
		return math.Inf(1), math.Inf(-1)
	}
	slices.Sort(all)

	// The span of all rows but a few at either end, at least an hour, says how far from it a time is odd.
	few := int(oddShare * float64(len(all)))
	first, last := all[few], all[len(all)-1-few]
	far := oddFar * max(last-first, float64(time.Hour/time.Second))
	from, _ := slices.BinarySearch(all, first-far)
	to, _ := slices.BinarySearch(all, last+far)
	if odd := len(all) - (to - from); odd > 0 {
		p.Odd, p.OddAt = float64(odd)/float64(len(times)), timeAt(all[0])
		if from == 0 { // the oldest one is usual, so the odd ones are new
			p.OddAt = timeAt(all[len(all)-1])
		}
	}
	return all[from], all[to-1]
}

// bucketOf returns the index of the bucket of time t, in count buckets of width seconds each of which the first begins
// at from. It is -1 unless t is between lo and hi; NaN is not. Times after the last bucket are counted in it.
func bucketOf(t, lo, hi float64, from, width int64, count int) int {
	if !(t >= lo && t <= hi) {
		return -1
	}
	return min(count-1, int((t-float64(from))/float64(width)))
}

// timeAt returns the time so many seconds after 1970. Negative numbers become 1970, since no night is older. Those
// beyond the years that JSON can represent become the last of these.
func timeAt(seconds float64) time.Time {
	const last = 253_402_300_799 // the end of the year 9999
	return time.Unix(int64(max(0, min(last, seconds))), 0).UTC()
}

// sampled returns how many rows the profile was measured on: those in its buckets.
func (p *Profile) sampled() float64 {
	n := 0
	for _, rows := range p.Buckets.Rows {
		n += rows
	}
	return float64(n)
}

func round5(value float64) float64 { return math.Round(1e5*value) / 1e5 }

// column returns the column of that name; nil if there is none.
func (p *Profile) column(name string) *Column {
	if i, ok := p.columnIndex(name); ok {
		return &p.Columns[i]
	}
	return nil
}

// columnIndex returns the index of the column of that name; of two with one name, the first. The first call makes a map
// of all names, so calls must not run concurrently.
func (p *Profile) columnIndex(name string) (int, bool) {
	if p.places == nil {
		p.places = make(map[string]int, len(p.Columns))
		for i := range slices.Backward(p.Columns) {
			p.places[p.Columns[i].Name] = i
		}
	}
	i, ok := p.places[name]
	return i, ok
}
