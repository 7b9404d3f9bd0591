package ingest

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// splitter assigns rows to splits and folds. For a split by time, that is only possible after the first pass.
type splitter struct {
	spec   *dataset.Spec
	by     string // one of dataset.SplitBy..., or SplitNone
	keys   cell.Keys
	groups cell.Keys
	ends   [4]float64       // by hash and random: the upper end of each split's share of 0 to 1
	values map[string]uint8 // by column
	// by classes: of each class, by its name
	classes map[string]*classRows
	labels  *labeler
	buf     []byte

	asTime   *axis              // by time: the column as times
	asNumber *axis              // by time: the column as numbers; texts may turn out to be either
	cuts     [3]float64         // by time, after resolve: the largest value of train, valid and calib
	folds    [4][]float64       // the largest value of each fold but the last, by split
	rule     *dataset.SplitRule // after resolve
}

// newSplitter prepares what the spec's way to split needs: the shares at which the splits end, the split of each value,
// or the counts of times, in which the cuts are found after all rows. t says which keys are missing.
func newSplitter(spec *dataset.Spec, t *cell.Markers, labels *labeler) *splitter {
	s := &splitter{spec: spec, by: spec.Split.By, labels: labels, classes: map[string]*classRows{},
		keys: cell.Keys{Markers: t}, groups: cell.Keys{Markers: t}}
	shares := spec.Split.Shares()

	switch s.by {
	case dataset.SplitByHash, dataset.SplitByRandom, dataset.SplitByClasses:
		sum := 0.0
		for i, share := range shares {
			sum += share
			s.ends[i] = sum
		}

		last := 3
		for shares[last] == 0 {
			last--
		}
		for i := last; i < 4; i++ {
			s.ends[i] = 1 // absorb rounding
		}
	case dataset.SplitByColumn:
		s.values = map[string]uint8{}
		for name, values := range spec.Split.ValuesOf() {
			for _, v := range values {
				s.values[v] = uint8(slices.Index(dataset.SplitNames(), name))
			}
		}
	case dataset.SplitByTime:
		s.asTime, s.asNumber = newAxis(max(minTimeBuckets, spec.BinRows)), newAxis(max(minTimeBuckets, spec.BinRows))
	default:
		s.by = dataset.SplitNone
	}
	return s
}

// observe handles a batch in the first pass. It returns the rows' splits, or nil if they are not known yet.
func (s *splitter) observe(batch *table.Batch, column *dataset.Values) ([]uint8, error) {
	switch s.by {
	case dataset.SplitByTime:
		return nil, s.observeTime(batch, column)
	case dataset.SplitByClasses:
		return nil, s.observeClasses(batch, column)
	}
	out := make([]uint8, batch.Rows)
	for i := range out {
		split, _, err := s.chooseSplit(batch, column, i)
		if err != nil {
			return nil, err
		}
		out[i] = split
	}
	return out, nil
}

// chooseSplit returns the split of row i and, for a split by hash, the hash of its key.
func (s *splitter) chooseSplit(batch *table.Batch, column *dataset.Values, i int) (split uint8, key uint64, err error) {
	switch s.by {
	case dataset.SplitByHash, dataset.SplitByRandom:
		hash := s.rowHash(batch, i)
		if s.by == dataset.SplitByHash {
			key = s.keys.Hash(column, i, batch.Row(i))
			hash = encode.Mix(key ^ seedSplit)
		}
		split = s.byShare(hash)
	case dataset.SplitByClasses:
		split, err = s.placeClass(batch, column, i)
	case dataset.SplitByColumn:
		if cell.Missing(column, i, s.keys.Markers) {
			return 0, 0, batch.ErrorAt(i, s.spec.Split.Column, "the row belongs to no split: the value is missing")
		}

		s.buf = column.AppendText(s.buf[:0], i)
		var known bool
		if split, known = s.values[string(s.buf)]; !known {
			return 0, 0, batch.ErrorAt(i, s.spec.Split.Column,
				"%.40q is not a split; known are %s. To keep the rows of one value together: --key %[3]s, or in a "+
					"spec split: {by: hash, key: %[3]s}. To map values: split: {by: column, column: %[3]s, train: "+
					"[%[1]s], ...}",
				string(s.buf), list(slices.Sorted(maps.Keys(s.values))), s.spec.Split.Column)
		}
	case dataset.SplitByTime:
		x, _ := s.timeOf(column, i)
		for split < 3 && x > s.cuts[split] {
			split++
		}
	}
	return split, key, err
}

// late reports whether a row's split is only known after the first pass.
func (s *splitter) late() bool { return s.by == dataset.SplitByTime || s.by == dataset.SplitByClasses }

// timeOf returns value i of the time column as seconds since 1970, or as a number.
func (s *splitter) timeOf(values *dataset.Values, i int) (float64, bool) {
	switch {
	case values.Type == dataset.Time || values.Type == dataset.Text && s.asTime != nil:
		return timeAt(values, i)
	case values.Type != dataset.Text:
		x, _ := parseNumber(values, i)
		return x, dataset.Finite(x)
	}
	x, ok := cell.ParseForced(values.Text[i])
	return x, ok && dataset.Finite(x)
}

// observeTime counts the times of a batch. A column of texts is counted both as times and as numbers, until a value
// rules one of them out; the row of a value that is neither is an error.
func (s *splitter) observeTime(batch *table.Batch, values *dataset.Values) error {
	column := s.spec.Split.Column
	for i := range batch.Rows {
		if cell.Missing(values, i, s.keys.Markers) {
			return batch.ErrorAt(i, column,
				"the row belongs to no split: the time is missing. Leave such rows out of the table")
		}

		if values.Type != dataset.Text {
			x, ok := s.timeOf(values, i)
			if !ok {
				return batch.ErrorAt(i, column, "the row belongs to no split: the time is not a finite number")
			}
			s.asNumber.add(x)
			continue
		}

		if s.asTime != nil {
			if x, ok := s.timeOf(values, i); ok {
				s.asTime.add(x)
			} else {
				s.asTime = nil
			}
		}

		if s.asNumber != nil {
			if x, ok := cell.ParseForced(values.Text[i]); ok && dataset.Finite(x) {
				s.asNumber.add(x)
			} else {
				s.asNumber = nil
			}
		}

		if s.asTime == nil && s.asNumber == nil {
			return batch.ErrorAt(i, column,
				"%.40q is neither a time (such as 2017-07-02 or 2017-07-02T10:03:20Z) nor a number like the values "+
					"before it", values.Text[i])
		}
	}
	return nil
}

// resolve completes the rule after the first pass. counts are the rows of each split; by time it fills them in.
func (s *splitter) resolve(counts *[4]int64) error {
	sp := &s.spec.Split
	s.rule = &dataset.SplitRule{By: s.by, Column: sp.Key + sp.Column, Seed: sp.Seed}

	switch s.by {
	case dataset.SplitByColumn:
		s.rule.Values = sp.ValuesOf()
	case dataset.SplitByHash, dataset.SplitByRandom, dataset.SplitByTime, dataset.SplitByClasses:
		s.rule.Shares = map[string]float64{}
		for i, share := range sp.Shares() {
			if share > 0 {
				s.rule.Shares[dataset.SplitNames()[i]] = share
			}
		}
	}

	switch s.by {
	case dataset.SplitByTime:
		if err := s.resolveTime(counts); err != nil {
			return err
		}
	case dataset.SplitByClasses:
		s.resolveClasses(counts)
	}

	for i, n := range counts {
		name := dataset.SplitNames()[i]
		if n > dataset.MaxRows {
			return s.spec.Errorf("split", "%s gets %d rows, more than the %d that a split may have", name, n,
				int64(dataset.MaxRows))
		}
		if n > 0 {
			continue
		}

		if values := sp.Values(name); len(values) > 0 {
			return s.spec.Errorf("split."+name, "no row has a value of %s in column %q: %s", name, sp.Column,
				list(values))
		}
		if i == 0 || s.rule.Shares[name] > 0 {
			return s.spec.Errorf("split", "the split leaves %s without any row", name)
		}
	}
	return nil
}

// axis returns the counts of rows by time.
func (s *splitter) axis() *axis {
	if s.asTime != nil && s.asTime.rows > 0 {
		return s.asTime
	}
	return s.asNumber
}

// resolveTime cuts the axis into splits near their shares, and each of these into folds, and counts their rows. Every
// split that has a share gets at least one time; fewer times than splits are an error.
func (s *splitter) resolveTime(counts *[4]int64) error {
	a := s.axis()
	if a != s.asTime {
		s.asTime = nil
	}

	buckets := a.sorted()
	shares := s.spec.Split.Shares()

	wanted := 0
	for _, share := range shares {
		if share > 0 {
			wanted++
		}
	}

	if len(buckets) < wanted {
		return s.spec.Errorf("split",
			"column %q has %d distinct times, too few for %d splits: rows with the same time stay together",
			s.spec.Split.Column, len(buckets), wanted)
	}

	s.rule.Until = map[string]float64{}
	from, share := 0, 0.0
	for i := range shares {
		to := from
		if shares[i] > 0 {
			wanted--
			share += shares[i]
			to = len(buckets)
			if wanted > 0 {
				to = nearestCut(buckets, share, from+1, len(buckets)-wanted)
			}
		}

		last := math.Inf(-1)
		if to > from {
			last = a.greatest(buckets[to-1].key)
			s.folds[i] = foldEnds(a, buckets[from:to])
		} else if i > 0 {
			last = s.cuts[i-1]
		}

		if i < 3 {
			s.cuts[i] = last
		}
		if to > from && wanted > 0 {
			s.rule.Until[dataset.SplitNames()[i]] = last
		}

		for _, g := range buckets[from:to] {
			counts[i] += g.rows
		}
		from = to
	}
	return nil
}

// foldOf returns the fold of row i, which place has put into split.
func (s *splitter) foldOf(batch *table.Batch, i int, split uint8, key uint64, column,
	group *dataset.Values) (fold uint8,
	groupHash uint64) {
	h := key
	if group != nil {
		groupHash = s.groups.Hash(group, i, batch.Row(i))
		h = groupHash
	}

	switch {
	case s.by == dataset.SplitByHash || group != nil:
	case s.by == dataset.SplitByTime:
		x, _ := s.timeOf(column, i)
		n, _ := slices.BinarySearch(s.folds[split], x)
		return uint8(n), groupHash
	default:
		h = cell.HashRow(batch.Row(i))
	}

	return encode.Fold(h, dataset.Folds), groupHash
}

// keyless returns the text of a warning if rows have no key, or "". It may be called after the first pass.
func (s *splitter) keyless(rows int64) string {
	if s.keys.None == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d rows have no %s; each is treated as a key of its own", s.keys.None, rows,
		s.spec.Split.Key)
}
