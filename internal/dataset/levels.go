package dataset

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
)

// Levels holds the statistics of all levels of an encoding's tables, one table after the other, in slices of equal
// length. They may be in mapped memory, which Close unmaps, and are safe for concurrent reads.
type Levels struct {
	Hash   []uint64  // ascending within a table
	Sum    []float64 // weighted sum of the labels of its rows of train
	Rows   []uint32  // number of rows of train
	Weight []float64 // of the rows; nil if every weight is 1
	// for tables with recency: seconds since 1970 of its last row of train; nil if no table has recency
	Last []float64

	mapping *mapping
}

// Len returns the number of levels over all tables.
func (l *Levels) Len() int { return len(l.Hash) }

// Append appends the level with index at of from. l must have Weight and Last if from has.
func (l *Levels) Append(from *Levels, at int) {
	l.Hash = append(l.Hash, from.Hash[at])
	l.Sum = append(l.Sum, from.Sum[at])
	l.Rows = append(l.Rows, from.Rows[at])

	if from.Weight != nil {
		l.Weight = append(l.Weight, from.Weight[at])
	}
	if from.Last != nil {
		l.Last = append(l.Last, from.Last[at])
	}
}

// Close unmaps the memory if the levels were opened from a file. It may be called again, and on nil.
func (l *Levels) Close() error {
	if l == nil {
		return nil
	}
	return l.mapping.close()
}

// Find looks up a level of table t by its hash, and returns its index in the slices. ok is false if the table does not
// have it. A hash of 0 is in tables as 1, which the caller has to look for.
func (l *Levels) Find(t *LevelTable, hash uint64) (at int, ok bool) {
	if t.Levels == 0 { // a model may need no levels in any table, and then has no levels file: l is nil
		return 0, false
	}

	// Hashes are evenly distributed. Begin where the hash would be if they were so perfectly, at hash/2^64 of the
	// levels, and widen the range [lo, hi) in growing steps until all hashes before it are lower and the one at hi is
	// not.
	all := l.Hash[t.First : t.First+t.Levels]
	guess, _ := bits.Mul64(hash, uint64(len(all))) // the upper 64 bits of the product
	lo, hi := int(guess), int(guess)

	step := 16
	for ; hi < len(all) && all[hi] < hash; step *= 2 {
		lo, hi = hi+1, min(hi+step, len(all))
	}
	for ; lo > 0 && all[lo-1] >= hash; step *= 2 {
		lo, hi = max(lo-step, 0), lo
	}

	// Search the range, with the hash at hi.
	at, ok = slices.BinarySearch(all[lo:min(hi+1, len(all))], hash)
	return t.First + lo + at, ok
}

// Seen returns the weight of the rows of the level with index at: their number, if rows have no weights.
func (l *Levels) Seen(at int) float64 {
	if l.Weight != nil {
		return l.Weight[at]
	}
	return float64(l.Rows[at])
}

// levelFields returns the columns of a levels file. weight and last say which of the optional ones it has.
func levelFields(weight, last bool) []arrowField {
	fields := []arrowField{{name: "hash", typ: arrowUint64}, {name: "sum", typ: arrowFloat64},
		{name: "rows", typ: arrowUint32}}
	if weight {
		fields = append(fields, arrowField{name: "weight", typ: arrowFloat64})
	}
	if last {
		fields = append(fields, arrowField{name: "last", typ: arrowFloat64})
	}
	return fields
}

// Encode returns the contents of a levels file, which is an Arrow file.
func (l *Levels) Encode() []byte {
	layout := newLayout(levelFields(l.Weight != nil, l.Last != nil), nil, int64(l.Len()), nil)
	file := make([]byte, layout.size)
	copy(file, layout.head)
	copy(file[layout.tailAt:], layout.foot)

	next := 0
	put := func(data []byte) {
		s := layout.columns[next].data
		copy(file[s.off:s.off+s.n], data)
		next++
	}

	// In the order of levelFields.
	put(encodeAll(l.Hash))
	put(encodeAll(l.Sum))
	put(encodeAll(l.Rows))
	for _, optional := range [][]float64{l.Weight, l.Last} {
		if optional != nil {
			put(encodeAll(optional))
		}
	}

	return file
}

// WriteLevels writes LevelsFile or FinalLevelsFile. Files are listed in the order of calls: first the splits, then
// LevelsFile, CreateFinal, FinalLevelsFile and the sample.
func (w *Writer) WriteLevels(name string, l *Levels) error {
	return w.writeFile(name, l.Encode())
}

// ReadLevels decodes and checks the contents of a levels file for the tables of an encoding. It copies the data.
func ReadLevels(data []byte, tables []LevelTable) (*Levels, error) {
	f, err := parseLevels(data, tables)
	if err != nil {
		return nil, err
	}

	column := func(name string) []byte {
		s, ok := f.findColumn(name)
		if !ok {
			return nil
		}
		return data[s.off : s.off+s.n]
	}

	l := &Levels{Hash: decodeAll[uint64](column("hash")), Sum: decodeAll[float64](column("sum")),
		Rows: decodeAll[uint32](column("rows")), Weight: decodeAll[float64](column("weight")),
		Last: decodeAll[float64](column("last"))}
	if err := l.check(tables); err != nil {
		return nil, err
	}
	return l, nil
}

// OpenLevels maps the levels file at path, for the tables of an encoding, and checks it. The caller closes the levels.
// If there is no file, the error is an fs.ErrNotExist; of a wrong one it is of kind Damaged.
func OpenLevels(path string, tables []LevelTable) (*Levels, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	m, err := mapFile(path, LevelsFile, info.Size())
	if err != nil {
		return nil, err
	}

	f, err := parseLevels(m.data, tables)
	if err != nil {
		_ = m.close() // the file's error matters more
		return nil, err
	}

	at := func(name string) span {
		s, _ := f.findColumn(name)
		return s
	}

	l := &Levels{
		Hash: view[uint64](m.data, at("hash")), Sum: view[float64](m.data, at("sum")),
		Rows: view[uint32](m.data, at("rows")), Weight: view[float64](m.data, at("weight")),
		Last: view[float64](m.data, at("last")), mapping: m,
	}

	if err := l.check(tables); err != nil {
		_ = m.close()
		return nil, err
	}
	return l, nil
}

// check checks that the levels of each table ascend, since Find would miss some otherwise, that each has at least as
// many rows as the table's floor, and that sums, weights and times are finite. No index is out of range: parseLevels
// has checked the number of levels.
func (l *Levels) check(tables []LevelTable) error {
	// Hashes and rows, by table.
	for i := range tables {
		t := &tables[i]
		for at := t.First + 1; at < t.First+t.Levels; at++ {
			if l.Hash[at] <= l.Hash[at-1] {
				return badFile(LevelsFile, -1, fmt.Sprintf("levels of table %d do not ascend at level %d", i, at))
			}
		}
		for at := t.First; at < t.First+t.Levels; at++ {
			if int(l.Rows[at]) < t.Floor {
				return badFile(LevelsFile, -1, fmt.Sprintf("level %d has %d rows where table %d keeps none with fewer "+
					"than %d", at, l.Rows[at], i, t.Floor))
			}
		}
	}

	// Numbers from which rates and recencies are made. A comparison with NaN is false.
	for _, column := range []struct {
		name   string
		values []float64
		least  float64
	}{{"sum", l.Sum, -math.MaxFloat64}, {"weight", l.Weight, 0}, {"last", l.Last, -math.MaxFloat64}} {
		for at, x := range column.values {
			if !(x >= column.least && x <= math.MaxFloat64) {
				return badFile(LevelsFile, -1, fmt.Sprintf("%s %v at level %d", column.name, x, at))
			}
		}
	}

	return nil
}

// CheckBinary checks that sums of labels are at least 0 and no larger than the rows' weight, as they are for labels 0
// and 1.
func (l *Levels) CheckBinary() error {
	const rounding = 1e-6 // since sums and weights were rounded differently
	for at := range l.Len() {
		if most := l.Seen(at); !(l.Sum[at] >= 0 && l.Sum[at] <= most*(1+rounding)) {
			return badFile(LevelsFile, -1, fmt.Sprintf("level %d: labels 0 and 1 of rows that weigh %v add up to %v",
				at, most, l.Sum[at]))
		}
	}
	return nil
}

// findColumn returns where a column's values are. ok is false if there is no such column.
func (f *arrowFile) findColumn(name string) (s span, ok bool) {
	for i := range f.fields {
		if f.fields[i].name == name {
			return f.columns[i].data, true
		}
	}
	return span{}, false
}

// levelsOf returns the number of levels over all tables, whose levels follow each other.
func levelsOf(tables []LevelTable) int {
	if len(tables) == 0 {
		return 0
	}
	last := &tables[len(tables)-1]
	return last.First + last.Levels
}

// parseLevels checks the columns and the number of rows of a levels file. Whether there are weights is known from the
// file alone. Times must be there if one of the tables has recency.
func parseLevels(data []byte, tables []LevelTable) (*arrowFile, error) {
	f, err := parseArrow(LevelsFile, data)
	if err != nil {
		return nil, err
	}

	_, weight := f.findColumn("weight")
	recency := slices.ContainsFunc(tables, func(t LevelTable) bool { return t.Recency })
	if !f.sameFields(levelFields(weight, recency)) {
		return nil, badFile(LevelsFile, -1, "its columns are not hash, sum and rows, with weight and last "+
			"where they belong")
	}
	if levels := levelsOf(tables); f.rows != int64(levels) {
		return nil, badFile(LevelsFile, -1, fmt.Sprintf("%d levels where the tables have %d", f.rows, levels))
	}
	return f, nil
}
