package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

// Seeds keep the uses of the hash independent, so that a row's split says nothing about its fold. They are documented
// in FORMAT.md: changing one would move rows to other splits.
const (
	seedRow   = 0x726f77 // "row"
	seedSplit = 0x73706c6974
	seedBins  = 0x62696e73
	seedTest  = 0x73616d706c65
	seedThin  = 0x7468696e
	seedNight = 0x6e69676874
)

func mix(x uint64) uint64 { return encode.Mix(x) }

// hashText is 64-bit FNV-1a, mixed.
func hashText(s []byte) uint64 { return mix(encode.FNV(s)) }

// hashRow hashes a row's number in the whole table.
func hashRow(row int64) uint64 { return mix(uint64(row) ^ seedRow<<32) }

// unit maps a hash to a number in [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// below maps a hash to a whole number in [0, n).
func below(h uint64, n uint64) uint64 { return (h >> 32) * n >> 32 }

// keys hashes the values of a key column. A row without a key gets a key of its own. Spellings are normalised: spaces
// around a key do not matter, and 17 in one file equals 17.0 in the next.
type keys struct {
	markers *missingMarkers
	buf     []byte
	none    int64 // rows without a key so far
}

func (k *keys) hash(v *dataset.Values, i int, row int64) uint64 {
	if missing(v, i, k.markers) {
		k.none++
		return hashRow(row)
	}

	if v.Type != dataset.Text {
		k.buf = v.AppendText(k.buf[:0], i)
		return hashText(k.buf)
	}

	if x, ok := plainNumber(v.Text[i]); ok {
		if k.markers.hasNumber(x) {
			k.none++
			return hashRow(row)
		}
		k.buf = dataset.AppendNumber(k.buf[:0], x)
	} else if whole, ok := longWhole(trim(v.Text[i])); ok {
		k.buf = append(k.buf[:0], whole...)
	} else {
		k.buf = append(k.buf[:0], trim(v.Text[i])...)
	}

	return hashText(k.buf)
}

// missing reports whether value i is missing: null in the table, NaN, or one of the markers.
func missing(v *dataset.Values, i int, t *missingMarkers) bool {
	if v.IsNull(i) {
		return true
	}

	switch v.Type {
	case dataset.Text:
		return t.has(v.Text[i])
	case dataset.Float:
		x := v.Float[i]
		return x != x || len(t.numbers) > 0 && t.hasNumber(x)
	case dataset.Int:
		return len(t.numbers) > 0 && t.hasNumber(float64(v.Int[i]))
	}
	return false
}
