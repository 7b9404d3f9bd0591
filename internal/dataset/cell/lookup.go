package cell

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// lookup encodes one chunk of rows after another, reusing its memory. What several features of a chunk need, such as
// the numbers of a column or the levels of a table, is computed once. Only one goroutine may use it at a time.
type lookup struct {
	e       *Encoder
	rows    int               // of the chunk
	names   []string          // of the columns in the last batch
	places  []int             // by input, the index of its column in names; -1 if it is not there
	whole   []*dataset.Values // by input, all rows
	columns []dataset.Values  // by input, the chunk's rows

	numbers [2][]once[float64] // by kind (0 for numbers, 1 for times) and input
	readers []*PartReader      // by part
	parts   []once[uint64]     // by part, the rows' hashes
	slots   []once[int32]      // by table, the indices of the rows' levels; -1 if unknown
	rates   []once[float64]    // by table
	levels  []uint64           // memory for hashes of levels
	codes   []uint8            // memory for bins of categories
	texts   PartReader         // memory for spellings of categories

	counts []InputCount // by input
}

// once is something about a chunk's rows that is computed when it is first needed.
type once[T any] struct {
	known  bool
	values []T // by row of the chunk; memory, or a column's own values
	memory []T
}

// allocate returns memory for the values, which the caller fills in, and marks them as known.
func (o *once[T]) allocate(rows int) []T {
	o.memory = dataset.Resize(o.memory, rows)
	o.values, o.known = o.memory, true
	return o.values
}

// newLookup returns a lookup with memory of its own. What does not change is shared with e.
func newLookup(e *Encoder) *lookup {
	inputs, tables := len(e.inputs), len(e.encoding.Tables)
	l := &lookup{e: e, places: slices.Repeat([]int{-1}, inputs), whole: make([]*dataset.Values, inputs),
		columns: make([]dataset.Values, inputs),
		parts:   make([]once[uint64], len(e.parts.All)), slots: make([]once[int32], tables),
		rates: make([]once[float64], tables), texts: PartReader{markers: e.markers},
		counts: make([]InputCount, inputs)}
	for kind := range l.numbers {
		l.numbers[kind] = make([]once[float64], inputs)
	}
	for _, r := range e.readers {
		own := *r // which shares what does not change
		l.readers = append(l.readers, &own)
	}
	return l
}

// release returns the lookup to e's pool. It first drops references to the caller's columns and clears the counts.
func (l *lookup) release() {
	clear(l.whole)
	clear(l.columns)
	clear(l.counts)
	for kind := range l.numbers {
		for i := range l.numbers[kind] {
			l.numbers[kind][i].values = nil // perhaps the column's own
		}
	}
	l.e.lookups.Put(l)
}

// findColumns sets l.whole to the column of each input, found by name; of two columns with one name, the first is
// taken. Texts with a format of their own are read as numbers or times. A column that is missing or has another number
// of rows is an error.
func (l *lookup) findColumns(r *rows) error {
	// Find the columns by name. Mostly they are in the same places as in the batch before.
	if !slices.Equal(l.names, r.names) {
		at := make(map[string]int, len(r.names))
		for i, name := range slices.Backward(r.names) { // backwards, so that the first of two columns stays
			at[name] = i
		}
		l.names = slices.Clone(r.names)
		for i, name := range l.e.inputs {
			l.places[i] = -1
			if place, ok := at[name]; ok {
				l.places[i] = place
			}
		}
	}

	for i, name := range l.e.inputs {
		if l.places[i] < 0 {
			return &table.InputError{File: r.file, Column: name,
				Msg: "the column is missing, but the model needs it"}
		}
		v := &r.columns[l.places[i]]
		if v.Len() != r.n {
			return &table.InputError{File: r.file, Column: name, Msg: fmt.Sprintf("%d values in %d rows", v.Len(), r.n)}
		}
		if f := l.e.encoding.Formats[name]; f != "" && v.Type == dataset.Text {
			read, bad := ReadAs(f, v, l.e.markers)
			if bad != nil {
				return r.errorAt(bad.At, name, bad.Msg)
			}
			v = &read
		}
		l.whole[i] = v
	}
	return nil
}

// encodeChunks encodes all rows, in chunks of chunkRows rows on several goroutines, each with a lookup of its own. It
// needs findColumns. If several chunks fail, the error is that of the first one in the table, whatever the threads.
func (l *lookup) encodeChunks(r *rows, out []float64, count bool, threads int) error {
	var mu sync.Mutex // for the next two, and l.counts
	var failed error
	failedChunk := math.MaxInt
	chunks, width := (r.n+chunkRows-1)/chunkRows, len(l.e.encoders)
	dataset.Parallel(threads, chunks, func(i int) {
		own := l.e.lookups.Get().(*lookup)
		defer own.release()
		copy(own.whole, l.whole) // in place of a findColumns of its own
		first := i * chunkRows
		err := own.encode(first, min(first+chunkRows, r.n), out[first*width:], r.errorAt, count)

		mu.Lock()
		defer mu.Unlock()
		if err != nil && i < failedChunk {
			failed, failedChunk = err, i
		}
		for i := range own.counts {
			l.counts[i].add(&own.counts[i])
		}
	})
	return failed
}

// encode writes the model values of rows first up to end into out: [rows x features]. With count, it also adds the
// values of the inputs to l.counts. errorAt makes the error for a value, given its row in the batch.
func (l *lookup) encode(first, end int, out []float64, errorAt func(row int, column, msg string) error,
	count bool) error {
	// Forget the chunk before.
	l.rows = end - first
	for i, v := range l.whole {
		l.columns[i] = v.Slice(first, end)
		l.numbers[0][i].known, l.numbers[1][i].known = false, false
	}
	for i := range l.parts {
		l.parts[i].known = false
	}
	for i := range l.slots {
		l.slots[i].known, l.rates[i].known = false, false
	}

	// Write one feature after the other.
	width := len(l.e.encoders)
	for i := range l.e.encoders {
		name, err := l.writeFeature(i, out[i:], width)
		if err != nil {
			var value *ValueError
			if errors.As(err, &value) {
				return errorAt(first+value.At, name, value.Msg)
			}
			return err
		}
	}
	if count {
		return l.countRows(out)
	}
	return nil
}

// writeFeature writes the model values of feature i for the chunk's rows to out[0], out[stride], out[2*stride] and so
// on. If err is a *ValueError, column is the name of the column that has the value.
func (l *lookup) writeFeature(i int, out []float64, stride int) (column string, err error) {
	f := &l.e.encoding.Features[i]
	in := l.e.features[i]

	// A column itself, or further categories of one: the bin of a category, or a number.
	if c := l.e.encoders[i]; c != nil {
		column = l.e.inputs[in[0]]
		if f.Kind == dataset.Categorical {
			l.codes = dataset.Resize(l.codes, l.rows)
			c.categories(&l.columns[in[0]], l.codes, &l.texts)
			for r, code := range l.codes {
				out[r*stride] = float64(code)
			}
			return column, nil
		}

		numbers, err := l.readNumbers(in[0], f.Kind) // no numbers if err is not nil
		for r, x := range numbers {
			out[r*stride] = Clamp(x)
		}
		return column, err
	}

	// Something derived.
	switch what := f.From.What; what {
	case dataset.DeriveHour, dataset.DeriveWeekday, dataset.DeriveAge:
		return l.writeCalendar(f.From, in, out, stride)
	case dataset.DeriveRate:
		rates, column, err := l.readRates(f.From.Table)
		for r, x := range rates {
			out[r*stride] = x
		}
		return column, err
	default:
		slots, column, err := l.findLevels(f.From.Table)
		if err != nil {
			return column, err
		}
		if what == dataset.DeriveRecency {
			return l.writeRecency(f.From, in[0], slots, out, stride)
		}
		for r, at := range slots { // counts
			out[r*stride] = 0
			if at >= 0 {
				out[r*stride] = float64(l.e.levels.Rows[at])
			}
		}
		return "", nil
	}
}

// readNumbers returns an input's values as numbers, or as seconds since 1970 if kind is Temporal, computed once per
// chunk. NaN is missing. They may be the column's own memory, so they must not be written to.
func (l *lookup) readNumbers(input int, kind dataset.Kind) ([]float64, error) {
	which := 0
	if kind == dataset.Temporal {
		which = 1
	}
	n := &l.numbers[which][input]
	if n.known {
		return n.values, nil
	}
	c := ColumnEncoder{feature: &l.e.kinds[which], markers: l.e.markers}
	var err error
	if n.values, n.memory, err = c.Numbers(&l.columns[input], n.memory); err != nil {
		return nil, err
	}
	n.known = true
	return n.values, nil
}

// writeCalendar writes hours, weekdays or ages. in are the inputs with the times that d is made of. The results are
// those of writeFeature.
func (l *lookup) writeCalendar(d *dataset.Derived, in []int, out []float64, stride int) (column string, err error) {
	var times [2][]float64
	for i, p := range d.Of {
		if times[i], err = l.readNumbers(in[i], p.Kind); err != nil {
			return p.Column, err
		}
	}

	for r, t := range times[0] {
		if d.What == dataset.DeriveAge {
			out[r*stride] = Age(t, times[1][r])
		} else {
			out[r*stride] = Take(d.What, t)
		}
	}
	return "", nil
}

// writeRecency writes the seconds from the last row of each row's level, in train, to the row's own time, which is in
// input. slots are the levels; a level that is not known has NaN.
func (l *lookup) writeRecency(d *dataset.Derived, input int, slots []int32, out []float64, stride int) (column string,
	err error) {
	now, err := l.readNumbers(input, d.Of[0].Kind)
	if err != nil {
		return d.Of[0].Column, err
	}
	for r, at := range slots {
		out[r*stride] = math.NaN()
		if at >= 0 {
			out[r*stride] = now[r] - l.e.levels.Last[at]
		}
	}
	return "", nil
}

// readRates returns the rates that a table gives the chunk's rows, computed once per chunk. Tables that it falls back
// to are read, too. If err is not nil, column is the column that it is about.
func (l *lookup) readRates(table int) (rates []float64, column string, err error) {
	if l.rates[table].known {
		return l.rates[table].values, "", nil
	}

	slots, column, err := l.findLevels(table)
	if err != nil {
		return nil, column, err
	}

	// The rates of the table that it falls back to are its priors; without one, all rows have the same.
	t := &l.e.encoding.Tables[table]
	var above []float64
	if t.BackOff >= 0 {
		if above, column, err = l.readRates(t.BackOff); err != nil {
			return nil, column, err
		}
	}

	rates = l.rates[table].allocate(l.rows)
	for r, at := range slots {
		sum, n, prior := 0.0, 0.0, t.Prior
		if at >= 0 {
			sum, n = l.e.levels.Sum[at], l.e.levels.Seen(int(at))
		}
		if above != nil {
			prior = above[r]
		}
		rates[r] = t.Rate(sum, n, prior)
	}
	return rates, "", nil
}

// findLevels returns the index in l.e.levels of each row's level in a table, or -1 if the table does not have it,
// computed once per chunk. If err is not nil, column is the column that it is about.
func (l *lookup) findLevels(table int) (slots []int32, column string, err error) {
	if l.slots[table].known {
		return l.slots[table].values, "", nil
	}

	l.levels = dataset.Resize(l.levels, l.rows)
	// Join the hashes of the parts.
	for i := range l.levels {
		l.levels[i] = encode.Level()
	}
	for _, number := range l.e.partsOf[table] {
		part, err := l.hashesOfPart(number)
		if err != nil {
			return nil, l.e.parts.All[number].Column, err
		}
		for i, h := range part {
			l.levels[i] = encode.Join(l.levels[i], h)
		}
	}

	slots = l.slots[table].allocate(l.rows)
	l.e.guides[table].findSlots(l.e.levels, &l.e.encoding.Tables[table], l.levels, slots)
	return slots, "", nil
}

// guide speeds up the search for a level in a table: first[b] is where those hashes begin whose first bits are b or
// more. There are about as many values of b as levels, so mostly one level has the same b.
type guide struct {
	first []uint32 // by these bits
	shift int
}

// mostGuided is the most levels of a table with a guide. It bounds the guide's memory to 8 MB, which every process has
// for itself, unlike mapped levels.
const mostGuided = 1 << 20

// newGuide returns the guide of a table; an empty one if the table has no levels or more than mostGuided.
func newGuide(t *dataset.LevelTable, levels *dataset.Levels) guide {
	if t.Levels == 0 || t.Levels > mostGuided {
		return guide{}
	}
	n := bits.Len(uint(t.Levels)) // the number of first bits
	g := guide{first: make([]uint32, 1<<n), shift: 64 - n}
	next := 0
	for i, hash := range levels.Hash[t.First : t.First+t.Levels] {
		for ; next <= int(hash>>g.shift); next++ { // the levels before this one have lower first bits than next
			g.first[next] = uint32(i)
		}
	}
	for ; next < len(g.first); next++ { // no level has first bits this high
		g.first[next] = uint32(t.Levels)
	}
	return g
}

// findSlots sets slots[i] to the index of the level with hash hashes[i] in levels, or to -1 if table t does not have
// it. The result is that of levels.Find. Tables have 1 in place of a hash of 0.
func (g *guide) findSlots(levels *dataset.Levels, t *dataset.LevelTable, hashes []uint64, slots []int32) {
	if g.first == nil {
		for i, hash := range hashes {
			slots[i] = -1
			if at, ok := levels.Find(t, max(hash, 1)); ok {
				slots[i] = int32(at)
			}
		}
		return
	}

	// Begin at the guide and go on while hashes are lower. The first two comparisons have no branch, which the
	// processor would often mispredict: below is 1 if the hash in the table is lower. Few levels need a third one.
	all := levels.Hash[t.First : t.First+t.Levels]
	last := uint64(len(all) - 1)
	for i, hash := range hashes[:len(slots)] {
		hash = max(hash, 1)
		at := uint64(g.first[hash>>g.shift])
		for range 2 {
			_, below := bits.Sub64(all[min(at, last)], hash, 0)
			at += below
		}
		at = min(at, last)
		for at < last && all[at] < hash {
			at++
		}
		slots[i] = -1
		if all[at] == hash {
			slots[i] = int32(t.First + int(at))
		}
	}
}

// hashesOfPart returns the hash that a part has in each row of the chunk, computed once per chunk. An error is a
// *ValueError about the part's column.
func (l *lookup) hashesOfPart(number int) ([]uint64, error) {
	p := &l.parts[number]
	if p.known {
		return p.values, nil
	}

	r, input := l.readers[number], l.e.partIn[number]
	if r.encoder == nil {
		r.Texts(&l.columns[input], p.allocate(l.rows))
		return p.values, nil
	}
	numbers, err := l.readNumbers(input, r.Part.Kind)
	if err != nil {
		return nil, err
	}
	r.hashNumbers(numbers, p.allocate(l.rows))
	return p.values, nil
}
