package cell

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

// seedRow keeps the hashes of row numbers apart from those of keys (FORMAT.md).
const seedRow = 0x726f77 // "row"

// HashText hashes the text of a key: 64-bit FNV-1a, mixed.
func HashText(s []byte) uint64 { return encode.Mix(encode.FNV(s)) }

// HashRow hashes a row's number in the whole table.
func HashRow(row int64) uint64 { return encode.Mix(uint64(row) ^ seedRow<<32) }

// Unit maps a hash to a number in [0, 1). It takes the upper 53 bits, since a float64 holds these exactly: more of them
// could be rounded up to 1.
func Unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// Keys hashes the values of a key column, by which rows are split or grouped. Spellings of one value are equal: spaces
// around a key do not matter, and 17 in one file equals 17.0 in the next. It is not safe for concurrent use.
type Keys struct {
	Markers *Markers
	buf     []byte
	None    int64 // rows without a key so far
}

// Hash returns the hash of the key in row i of v. A row without a key has one of its own: the hash of row, its number
// in the whole table. Such rows are counted in k.None. A text is hashed without spaces around it, and a number in its
// shortest form, so that all spellings of it are equal.
func (k *Keys) Hash(v *dataset.Values, i int, row int64) uint64 {
	if Missing(v, i, k.Markers) {
		k.None++
		return HashRow(row)
	}

	if v.Type != dataset.Text {
		k.buf = v.AppendText(k.buf[:0], i)
		return HashText(k.buf)
	}

	if x, ok := plainNumber(v.Text[i]); ok {
		if k.Markers.HasNumber(x) {
			k.None++
			return HashRow(row)
		}
		k.buf = dataset.AppendNumber(k.buf[:0], x)
	} else if whole, ok := longWhole(Trim(v.Text[i])); ok {
		k.buf = append(k.buf[:0], whole...)
	} else {
		k.buf = append(k.buf[:0], Trim(v.Text[i])...)
	}

	return HashText(k.buf)
}

// Missing reports whether value i is missing: null in the table, NaN, or one of the markers.
func Missing(v *dataset.Values, i int, t *Markers) bool {
	if v.IsNull(i) {
		return true
	}

	switch v.Type {
	case dataset.Text:
		return t.Has(v.Text[i])
	case dataset.Float:
		x := v.Float[i]
		return x != x || len(t.Numbers) > 0 && t.HasNumber(x)
	case dataset.Int:
		return len(t.Numbers) > 0 && t.HasNumber(float64(v.Int[i]))
	}
	return false
}
