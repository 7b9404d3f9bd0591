package ingest

import (
	"encoding/binary"
	"errors"
)

// Levels and indices are runs: a head, whose lowest bit says whether a repeated value follows or groups of eight values, bit
// after bit (the hybrid encoding of apache/parquet-format's Encodings.md).

// checkLevels makes sure that definition levels of one bit say of as many values as the page has whether they are there,
// and end with the last of them: whatever came behind would be taken for values.
func checkLevels(data []byte, values int64) error {
	for have := int64(0); have < values; {
		head, n := binary.Uvarint(data)
		run := int64(head >> 1)
		if n <= 0 || run == 0 || run > maxPage {
			return errors.New("a page whose levels are cut off")
		}
		size := int64(1)
		if head&1 == 1 { // groups of eight
			size, run = run, run*8
		}
		if size > int64(len(data)-n) {
			if head&1 == 0 || have+int64(len(data)-n)*8 < values { // the last group may be cut where no value needs it
				return errors.New("a page whose levels are cut off")
			}
			return nil
		}
		data = data[int64(n)+size:]
		have += run
	}
	if len(data) > 0 {
		return errors.New("a page with more levels than values")
	}
	return nil
}

// greatestIndex is the greatest of up to so many indices of width bits, 1 to 32. Where the runs end early, so does the
// search: who reads the indices finds out.
func greatestIndex(data []byte, width uint, values int64) uint64 {
	greatest := uint64(0)
	for have := int64(0); have < values; {
		head, n := binary.Uvarint(data)
		run := int64(head >> 1)
		if n <= 0 || run == 0 || run > maxPage {
			break
		}
		data = data[n:]
		if head&1 == 0 {
			var value [8]byte
			data = data[copy(value[:(width+7)/8], data):]
			greatest = max(greatest, binary.LittleEndian.Uint64(value[:]))
			have += run
			continue
		}
		group := data[:min(int64(len(data)), run*int64(width))]
		data = data[len(group):]
		left := values - have // the last group is filled up with anything
		have += run * 8
		bits, got := uint64(0), uint(0)
		for _, b := range group {
			bits |= uint64(b) << got
			for got += 8; got >= width && left > 0; got -= width {
				greatest = max(greatest, bits&(1<<width-1))
				bits >>= width
				left--
			}
			if left == 0 {
				break
			}
		}
	}
	return greatest
}
