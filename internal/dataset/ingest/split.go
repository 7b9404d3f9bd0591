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

// splitter assigns rows to splits and folds. Each batch goes through observe in the first pass, then resolve is called.
// A split by time or by classes is known only after that (see late).
type splitter struct {
	spec   *dataset.Spec
	by     string             // one of dataset.SplitBy..., or SplitNone
	keys   cell.Keys          // hashes the keys of a split by hash
	groups cell.Keys          // hashes groups, which are never divided among folds
	buf    []byte             // scratch
	rule   *dataset.SplitRule // after resolve: what the manifest says

	// By hash, at random and by classes: the interval from 0 to 1 is divided by the shares, and a hash falls into it.
	ends [4]float64 // upper end of each split's part

	// By column.
	values map[string]uint8 // the split of each value

	// By classes.
	classes map[string]*classRows // by name
	labels  *labeler

	// By time. Texts may turn out to be times or numbers, so both are counted until one is ruled out.
	asTime   *axis        // the column as times; nil if it holds something else
	asNumber *axis        // the column as numbers; nil if it holds something else
	cuts     [3]float64   // after resolve: the largest value of train, valid and calib
	folds    [4][]float64 // after resolve: by split, the largest value of each fold but the last
}

// newSplitter prepares what the spec's way to split needs. By shares, that is where each split ends; by column, the
// split of each value; by time, the counts of times, in which resolve finds the cuts. markers say which keys are
// missing.
func newSplitter(spec *dataset.Spec, markers *cell.Markers, labels *labeler) *splitter {
	s := &splitter{spec: spec, by: spec.Split.By, labels: labels, classes: map[string]*classRows{},
		keys: cell.Keys{Markers: markers}, groups: cell.Keys{Markers: markers}}
	shares := spec.Split.Shares()

	switch s.by {
	case dataset.SplitByHash, dataset.SplitByRandom, dataset.SplitByClasses:
		sum := 0.0
		for i, share := range shares {
			sum += share
			s.ends[i] = sum
		}

		// The last split that has a share ends at 1, and so do those after it, which get no rows. Train has a share.
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

// observe takes a batch of the first pass; column is the one that splits the rows. It returns the rows' splits, or nil
// if they are not known before resolve.
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

// chooseSplit returns the split of row i, as an index in dataset.SplitNames, and, for a split by hash, the hash of its
// key (otherwise 0). Without any way to split, all rows are train. A row that belongs to no split is an error. If late
// reports true, it may be called only after resolve.
func (s *splitter) chooseSplit(batch *table.Batch, column *dataset.Values, i int) (split uint8, key uint64, err error) {
	switch s.by {
	case dataset.SplitByHash:
		key = s.keys.Hash(column, i, batch.Row(i))
		split = s.byShare(encode.Mix(key ^ seedSplit))
	case dataset.SplitByRandom:
		split = s.byShare(s.rowHash(batch, i))
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

// timeOf returns value i of the time column as seconds since 1970, or as a number; ok is false if it is neither. Texts
// are read as times until s.asTime is nil, as one of them was no time, and as numbers from then on.
func (s *splitter) timeOf(values *dataset.Values, i int) (x float64, ok bool) {
	switch {
	case values.Type == dataset.Time || values.Type == dataset.Text && s.asTime != nil:
		return timeAt(values, i)
	case values.Type != dataset.Text:
		x, _ = parseNumber(values, i)
		return x, dataset.Finite(x)
	}
	x, ok = cell.ParseForced(values.Text[i])
	return x, ok && dataset.Finite(x)
}

// observeTime counts the times of a batch. A column of texts is counted both as times and as numbers, until a value
// rules one of them out. A value that is missing, or that rules out what was left, is an error that names the row.
func (s *splitter) observeTime(batch *table.Batch, values *dataset.Values) error {
	column := s.spec.Split.Column
	for i := range batch.Rows {
		if cell.Missing(values, i, s.keys.Markers) {
			return batch.ErrorAt(i, column,
				"the row belongs to no split: the time is missing. Leave such rows out of the table")
		}

		// Typed times and numbers need no parsing, and are counted in asNumber alone (see axis).
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

// resolve completes the splitter after the first pass: rule, and the cuts of a split by time or by classes. counts has
// the rows of each split; resolve fills it in if they were not known before. A split that gets no row, or too many, is
// an error.
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

	// Every split that the spec asks for has rows, but not too many.
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

// axis returns the counts of rows by time: as times if all values were texts of times, else as numbers. In a column of
// numbers or of typed times asTime stays empty, as these are counted by their numbers only. A split by time has the
// counts after the first pass.
func (s *splitter) axis() *axis {
	if s.asTime != nil && s.asTime.rows > 0 {
		return s.asTime
	}
	return s.asNumber
}

// resolveTime divides the times into splits near their shares, sets cuts and folds, and adds the rows of each split to
// counts. Rows with the same time stay together. Every split that has a share gets at least one time; fewer times than
// splits are an error.
func (s *splitter) resolveTime(counts *[4]int64) error {
	// If some text was not a time, all are read as numbers from now on.
	a := s.axis()
	if a != s.asTime {
		s.asTime = nil
	}

	buckets := a.sorted()
	shares := s.spec.Split.Shares()

	// wanted counts the splits that do not have their times yet.
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

	// Cut after each split, as near to the sum of the shares so far as the times allow. Enough times must be left for
	// the splits after it; the last split gets the rest.
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

		// A split without times ends where the one before it does.
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

// foldOf returns the fold of row i, and the hash of its group, 0 if there is no group. split and key are what
// chooseSplit returned for the row; column splits the rows, and group holds their groups or is nil.
//
// Rows of one group are in one fold, and without groups those of one key. In a split by time, folds follow each other
// in time. All other rows are assigned at random.
func (s *splitter) foldOf(batch *table.Batch, i int, split uint8, key uint64,
	column, group *dataset.Values) (fold uint8, groupHash uint64) {
	h := key
	if group != nil {
		groupHash = s.groups.Hash(group, i, batch.Row(i))
		h = groupHash
	}

	switch {
	case s.by == dataset.SplitByHash || group != nil: // by the hash of the group or the key
	case s.by == dataset.SplitByTime:
		x, _ := s.timeOf(column, i)
		n, _ := slices.BinarySearch(s.folds[split], x)
		return uint8(n), groupHash
	default:
		h = cell.HashRow(batch.Row(i))
	}

	return encode.Fold(h, dataset.Folds), groupHash
}

// keyless returns the text of a warning if some of the rows have no key to split by, or "". It is valid after the first
// pass; rows is the number of all rows.
func (s *splitter) keyless(rows int64) string {
	if s.keys.None == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d rows have no %s; each is treated as a key of its own", s.keys.None, rows,
		s.spec.Split.Key)
}
