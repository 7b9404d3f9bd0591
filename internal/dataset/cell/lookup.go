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

// lookup is the encoding of some rows, and its memory, which later rows use again. What several features need is read,
// hashed and looked up once.
type lookup struct {
	e       *Encoder
	rows    int               // of the chunk
	names   []string          // of the columns that were given last
	places  []int             // by input, its place among them; -1 if it is not there
	whole   []*dataset.Values // by input, all rows
	columns []dataset.Values  // by input, the chunk's rows

	numbers [2][]once[float64] // by kind and input; see kindOf
	readers []*PartReader      // by part
	parts   []once[uint64]     // by part, the rows' hashes
	slots   []once[int32]      // by table, the positions of the rows' levels; -1 if unknown
	rates   []once[float64]    // by table
	levels  []uint64
	codes   []uint8
	texts   PartReader // scratch of categories

	counts []InputCount // by input
}

// once is something of a chunk's rows that is computed when it is first needed.
type once[T any] struct {
	known  bool
	values []T // those of the rows
	memory []T
}

// make returns the memory for the values.
func (o *once[T]) make(rows int) []T {
	o.memory = dataset.Resize(o.memory, rows)
	o.values, o.known = o.memory, true
	return o.values
}

// newLookup makes the memory in which one goroutine at a time encodes a chunk of rows; it is used again.
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

// release returns the memory, without what it refers to.
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

// resolve finds the columns by their names; of two with one name, the first.
func (l *lookup) resolve(r *rows) error {
	if !slices.Equal(l.names, r.names) { // mostly, they are those of the rows before
		at := make(map[string]int, len(r.names))
		for i, name := range slices.Backward(r.names) {
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

// encodeChunks encodes rows in chunks on several goroutines. Of several errors, the first chunk's is returned.
func (l *lookup) encodeChunks(r *rows, out []float64, count bool, threads int) error {
	var mu sync.Mutex
	var failed error
	chunks, width, at := (r.n+chunkRows-1)/chunkRows, len(l.e.encoders), math.MaxInt
	dataset.Parallel(threads, chunks, func(i int) {
		own := l.e.lookups.Get().(*lookup)
		defer own.release()
		copy(own.whole, l.whole)
		first := i * chunkRows
		err := own.encode(first, min(first+chunkRows, r.n), out[first*width:], r.errorAt, count)

		mu.Lock()
		defer mu.Unlock()
		if err != nil && i < at {
			failed, at = err, i
		}
		for i := range own.counts {
			l.counts[i].add(&own.counts[i])
		}
	})
	return failed
}

// encode writes the values of rows first to end, and counts them.
func (l *lookup) encode(first, end int, out []float64, errorAt func(row int, column, msg string) error,
	count bool) error {
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

	width := len(l.e.encoders)
	for i := range l.e.encoders {
		name, err := l.feature(i, out[i:], width)
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

// feature writes the values of feature i to out[0], out[stride] ... An error about a value also names the column.
func (l *lookup) feature(i int, out []float64, stride int) (column string, err error) {
	f := &l.e.encoding.Features[i]
	in := l.e.features[i]
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

		numbers, err := l.number(in[0], f.Kind)
		for r, x := range numbers {
			out[r*stride] = Clamp(x)
		}
		return column, err
	}

	switch what := f.From.What; what {
	case dataset.DeriveHour, dataset.DeriveWeekday, dataset.DeriveAge:
		return l.calendar(f.From, in, out, stride)
	case dataset.DeriveRate:
		rates, column, err := l.readRates(f.From.Table)
		for r, x := range rates {
			out[r*stride] = x
		}
		return column, err
	default:
		slots, column, err := l.findLevels(f.From.Table)
		if err != nil || what == dataset.DeriveCount {
			for r, at := range slots {
				out[r*stride] = 0
				if at >= 0 {
					out[r*stride] = float64(l.e.levels.Rows[at])
				}
			}
			return column, err
		}
		return l.recency(f.From, in[0], slots, out, stride)
	}
}

// number returns a column of times as seconds since 1970, and one of numbers as it is.
func (l *lookup) number(input int, kind dataset.Kind) ([]float64, error) {
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

// calendar writes hours, weekdays or other calendar values of times.
func (l *lookup) calendar(d *dataset.Derived, in []int, out []float64, stride int) (column string, err error) {
	var times [2][]float64
	for i, p := range d.Of {
		if times[i], err = l.number(in[i], p.Kind); err != nil {
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

// recency writes the time since the levels were last seen.
func (l *lookup) recency(d *dataset.Derived, input int, slots []int32, out []float64, stride int) (column string,
	err error) {
	now, err := l.number(input, d.Of[0].Kind)
	for r, at := range slots {
		out[r*stride] = math.NaN()
		if at >= 0 && err == nil {
			out[r*stride] = now[r] - l.e.levels.Last[at]
		}
	}
	return d.Of[0].Column, err
}

// readRates returns the rates of the rows' levels in a table.
func (l *lookup) readRates(table int) (rates []float64, column string, err error) {
	if l.rates[table].known {
		return l.rates[table].values, "", nil
	}

	slots, column, err := l.findLevels(table)
	if err != nil {
		return nil, column, err
	}

	t := &l.e.encoding.Tables[table]
	var above []float64
	if t.BackOff >= 0 {
		if above, column, err = l.readRates(t.BackOff); err != nil {
			return nil, column, err
		}
	}

	rates = l.rates[table].make(l.rows)
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

// findLevels returns the positions of the rows' levels in a table.
func (l *lookup) findLevels(table int) (slots []int32, column string, err error) {
	if l.slots[table].known {
		return l.slots[table].values, "", nil
	}

	l.levels = dataset.Resize(l.levels, l.rows)
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

	slots = l.slots[table].make(l.rows)
	l.e.guides[table].findSlots(l.e.levels, &l.e.encoding.Tables[table], l.levels, slots)
	return slots, "", nil
}

// guide says where in a table the levels begin whose hashes have the same first bits, of which there is mostly one.
type guide struct {
	first []uint32 // by these bits
	shift int
}

// mostGuided bounds a guide's memory, which every process has for itself, to some megabytes.
const mostGuided = 1 << 20

// newGuide returns an empty guide for tables that are too small or too large for one.
func newGuide(t *dataset.LevelTable, levels *dataset.Levels) guide {
	if t.Levels == 0 || t.Levels > mostGuided {
		return guide{}
	}
	n := bits.Len(uint(t.Levels))
	g := guide{first: make([]uint32, 1<<n), shift: 64 - n}
	next := 0
	for i, hash := range levels.Hash[t.First : t.First+t.Levels] {
		for ; next <= int(hash>>g.shift); next++ {
			g.first[next] = uint32(i)
		}
	}
	for ; next < len(g.first); next++ {
		g.first[next] = uint32(t.Levels)
	}
	return g
}

// findSlots writes the positions of levels, as levels.Find finds them, and -1 where there is none. The first two
// comparisons have no branch, which would often be mispredicted; few levels need a third.
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

// hashesOfPart returns the hashes that a part contributes to the rows' levels.
func (l *lookup) hashesOfPart(number int) ([]uint64, error) {
	p := &l.parts[number]
	if p.known {
		return p.values, nil
	}

	r, input := l.readers[number], l.e.partIn[number]
	if r.encoder == nil {
		r.Texts(&l.columns[input], p.make(l.rows))
		return p.values, nil
	}
	numbers, err := l.number(input, r.Part.Kind)
	if err != nil {
		return nil, err
	}
	r.hashNumbers(numbers, p.make(l.rows))
	return p.values, nil
}
