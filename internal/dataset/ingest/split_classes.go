package ingest

import (
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// classRows counts the rows of one class, to divide them among the splits. A class of at most rankedRows rows is
// divided by the rank of their hashes, so that each split gets its share exactly. Larger ones are divided by the hashes
// themselves, like all rows of a random split.
type classRows struct {
	hashes []uint64 // of the rows seen in the first pass: all, or rankedRows+1 of them if there are more
	counts [4]int64 // rows of each split, in which their hashes fall by the shares; after resolve as divided
	ends   []uint64 // after resolve: the greatest hash of each split; nil if hashes are divided by the shares
}

// rankedRows is the most rows of a class whose hashes are all kept in the first pass. With more rows, dividing by the
// hashes comes close enough to the shares.
const rankedRows = 1 << 16

// rowHash returns the hash that decides the split of row i, from the row's number and the spec's seed.
func (s *splitter) rowHash(batch *table.Batch, i int) uint64 {
	return encode.Mix(encode.Mix(cell.HashRow(batch.Row(i))+uint64(s.spec.Split.Seed)) ^ seedSplit)
}

// byShare returns the split into whose share of the interval from 0 to 1 a hash falls.
func (s *splitter) byShare(hash uint64) (split uint8) {
	for u := cell.Unit(hash); u >= s.ends[split]; {
		split++
	}
	return split
}

// observeClasses counts a batch's rows by class, and by the split into which their hashes fall. It keeps the hashes of
// a class that has few rows.
func (s *splitter) observeClasses(batch *table.Batch, label *dataset.Values) error {
	for i := range batch.Rows {
		name, err := s.labels.classOf(batch, label, i)
		if err != nil {
			return err
		}
		if _, known := s.classes[name]; !known && len(s.classes) > dataset.MaxClasses {
			// Either the label is a regression, whose rows are one class in the end, or its own check refuses it.
			name = ""
		}
		if s.classes[name] == nil {
			s.classes[name] = &classRows{}
		}
		c, hash := s.classes[name], s.rowHash(batch, i)
		c.counts[s.byShare(hash)]++
		// One hash more than are ranked shows that there are too many.
		if len(c.hashes) <= rankedRows {
			c.hashes = append(c.hashes, hash)
		}
	}
	return nil
}

// resolveClasses decides which rows of each class are in which split, and adds their numbers to counts.
func (s *splitter) resolveClasses(counts *[4]int64) {
	// That the label is a regression may be known only now. All its rows are one class. If a class had too many rows to
	// keep all hashes, all together have too many, too.
	if s.labels.info.Kind == dataset.Regression {
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
			// By rank: each split takes the next hashes in ascending order, and ends at its last one. A split that gets
			// none ends where the one before it does; train always gets one. Larger classes keep their counts, which
			// are by the shares already.
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

// divideRows divides rows by shares of train, valid, calib and test. First each split with a share gets one row, as far
// as there are any: train before valid before test before calib, as a model needs them in this order. Then each further
// row goes to the split that is furthest below its share.
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

// placeClass returns the split of row i in a split by classes, after resolveClasses. A class of which the first pass
// saw no row means that the table has changed.
func (s *splitter) placeClass(batch *table.Batch, label *dataset.Values, i int) (split uint8, err error) {
	name, err := s.labels.classOf(batch, label, i)
	if err != nil {
		return 0, err
	}
	c, hash := s.classes[name], s.rowHash(batch, i)
	switch {
	case c == nil:
		return 0, batch.ErrorAt(i, s.labels.info.Column, "the table changed while it was read; stage it again")
	case c.ends == nil: // a large class, which is divided by the shares alone
		return s.byShare(hash), nil
	}
	for split < 3 && hash > c.ends[split] {
		split++
	}
	return split, nil
}
