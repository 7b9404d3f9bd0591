package ingest

import (
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// classRows divides the rows of one class: by rank if they are few, so that each split gets its share of them exactly,
// else by share, like all rows.
type classRows struct {
	hashes []uint64 // of the first pass, up to rankedRows
	counts [4]int64 // by share
	ends   []uint64 // after resolve: the greatest hash of each split; nil by share
}

// rankedRows is the most rows of a class of which each is kept in the first pass. Of more, shares are close enough.
const rankedRows = 1 << 16

func (s *splitter) rowHash(batch *table.Batch, i int) uint64 {
	return encode.Mix(encode.Mix(cell.HashRow(batch.Row(i))+uint64(s.spec.Split.Seed)) ^ seedSplit)
}

// byShare is the split of a hash.
func (s *splitter) byShare(hash uint64) (split uint8) {
	for u := cell.Unit(hash); u >= s.ends[split]; {
		split++
	}
	return split
}

// observeClasses counts each class's rows by the split that their hashes give, and keeps the hashes as long as a class
// has few.
func (s *splitter) observeClasses(batch *table.Batch, label *dataset.Values) error {
	for i := range batch.Rows {
		name, err := s.labels.classOf(batch, label, i)
		if err != nil {
			return err
		}
		if _, known := s.classes[name]; !known && len(s.classes) > dataset.MaxClasses {
			name = "" // which the label's own check refuses
		}
		if s.classes[name] == nil {
			s.classes[name] = &classRows{}
		}
		c, hash := s.classes[name], s.rowHash(batch, i)
		c.counts[s.byShare(hash)]++
		if len(c.hashes) <= rankedRows {
			c.hashes = append(c.hashes, hash)
		}
	}
	return nil
}

// resolveClasses decides which rows of each class are in which split.
func (s *splitter) resolveClasses(counts *[4]int64) {
	if s.labels.info.Kind == dataset.Regression { // which may have been open in the first pass
		all := &classRows{}
		for _, c := range s.classes {
			all.hashes = append(all.hashes, c.hashes...)
			for i, n := range c.counts {
				all.counts[i] += n
			}
		}
		s.classes = map[string]*classRows{"": all}
	}
	for _, c := range s.classes {
		if n := len(c.hashes); n <= rankedRows {
			slices.Sort(c.hashes)
			c.counts, c.ends = [4]int64{}, make([]uint64, 4)
			to := 0
			for i, quota := range divideRows(n, s.spec.Split.Shares()) {
				c.counts[i] = int64(quota)
				to += quota
				c.ends[i] = c.hashes[to-1]
			}
		}
		c.hashes = nil
		for i, n := range c.counts {
			counts[i] += n
		}
	}
}

// divideRows divides rows by shares: first one for each split, as far as there are any, in the order in which a model
// needs them; then each to the split that lacks most.
func divideRows(rows int, shares [4]float64) (out [4]int) {
	left := rows
	for _, i := range []int{0, 1, 3, 2} {
		if shares[i] > 0 && left > 0 {
			out[i]++
			left--
		}
	}
	for ; left > 0; left-- {
		most := 0
		for i, share := range shares {
			if share*float64(rows)-float64(out[i]) > shares[most]*float64(rows)-float64(out[most]) {
				most = i
			}
		}
		out[most]++
	}
	return out
}

// placeClass is the split of row i in a split by classes: by a hash of the row, at bounds that give each class its
// shares: exact ones for a class of at most rankedRows rows, the spec's for others.
func (s *splitter) placeClass(batch *table.Batch, label *dataset.Values, i int) (split uint8, err error) {
	name, err := s.labels.classOf(batch, label, i)
	if err != nil {
		return 0, err
	}
	c, hash := s.classes[name], s.rowHash(batch, i)
	switch {
	case c == nil:
		return 0, batch.ErrorAt(i, s.labels.info.Column, "the table changed while it was read; stage it again")
	case c.ends == nil:
		return s.byShare(hash), nil
	}
	for split < 3 && hash > c.ends[split] {
		split++
	}
	return split, nil
}
