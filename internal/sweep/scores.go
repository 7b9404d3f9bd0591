package sweep

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The scores file: raw scores of one model for a set of rows, in row order. WIRE.md has the layout.
const scoresMagic = "COPSCOR1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Finite is true of all numbers but NaN and the infinities.
func Finite(v float64) bool { return v-v == 0 }

// MaxScores bounds a scores file: 2^31 rows.
const MaxScores = 1 << 31

// EncodeScores writes raw scores (log odds, or the predicted value for regression) as a scores file.
func EncodeScores(raw []float64) []byte {
	out := make([]byte, 0, len(scoresMagic)+8+8*len(raw)+4)
	out = append(out, scoresMagic...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(raw)))
	for _, s := range raw {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(s))
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// DecodeScores reads a scores file. Every score is finite.
func DecodeScores(data []byte) ([]float64, error) {
	const head = len(scoresMagic) + 8
	bad := func(format string, args ...any) ([]float64, error) {
		return nil, NotA("scores file", fmt.Errorf(format, args...))
	}
	if len(data) < head+4 || string(data[:len(scoresMagic)]) != scoresMagic {
		return bad("it does not begin with %s", scoresMagic)
	}
	rows := binary.LittleEndian.Uint64(data[len(scoresMagic):])
	if rows > MaxScores || uint64(len(data)) != uint64(head)+8*rows+4 {
		return bad("%d bytes for %d rows", len(data), rows)
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return bad("checksum %08x, expected %08x", got, sum)
	}
	raw := make([]float64, rows)
	for i := range raw {
		raw[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[head+8*i:]))
		if !Finite(raw[i]) {
			return bad("score %v in row %d", raw[i], i)
		}
	}

	return raw, nil
}
