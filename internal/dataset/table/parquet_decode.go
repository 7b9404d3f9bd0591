package table

import (
	"encoding/binary"
	"math"
)

// The decoders below write len(out) values from little-endian bytes. They process four at a time, so that one bounds
// check covers all four.

func decodeFloats(data []byte, out []float64) {
	for ; len(out) >= 4 && len(data) >= 16; out, data = out[4:], data[16:] {
		out[0] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
		out[1] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4:])))
		out[2] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[8:])))
		out[3] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[12:])))
	}
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
}

func decodeDoubles(data []byte, out []float64) {
	for ; len(out) >= 4 && len(data) >= 32; out, data = out[4:], data[32:] {
		out[0] = math.Float64frombits(binary.LittleEndian.Uint64(data))
		out[1] = math.Float64frombits(binary.LittleEndian.Uint64(data[8:]))
		out[2] = math.Float64frombits(binary.LittleEndian.Uint64(data[16:]))
		out[3] = math.Float64frombits(binary.LittleEndian.Uint64(data[24:]))
	}
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
	}
}

func decodeInts(data []byte, out []int64) {
	for ; len(out) >= 4 && len(data) >= 16; out, data = out[4:], data[16:] {
		out[0] = int64(int32(binary.LittleEndian.Uint32(data)))
		out[1] = int64(int32(binary.LittleEndian.Uint32(data[4:])))
		out[2] = int64(int32(binary.LittleEndian.Uint32(data[8:])))
		out[3] = int64(int32(binary.LittleEndian.Uint32(data[12:])))
	}
	for i := range out {
		out[i] = int64(int32(binary.LittleEndian.Uint32(data[4*i:])))
	}
}

func decodeLongs(data []byte, out []int64) {
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
}

// The decoders below write the words at the given indices, which must be in range.

func lookUpFloats(words []byte, indices []uint32, out []float64) {
	out = out[:len(indices)]
	for i, index := range indices {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(words[4*uint(index):])))
	}
}

func lookUpDoubles(words []byte, indices []uint32, out []float64) {
	out = out[:len(indices)]
	for i, index := range indices {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(words[8*uint(index):]))
	}
}

func lookUpInts(words []byte, indices []uint32, out []int64) {
	out = out[:len(indices)]
	for i, index := range indices {
		out[i] = int64(int32(binary.LittleEndian.Uint32(words[4*uint(index):])))
	}
}

func lookUpLongs(words []byte, indices []uint32, out []int64) {
	out = out[:len(indices)]
	for i, index := range indices {
		out[i] = int64(binary.LittleEndian.Uint64(words[8*uint(index):]))
	}
}
