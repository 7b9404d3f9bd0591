package gbt

import (
	"fmt"
	"math"
	"slices"

	"coppice/internal/problem"
)

// byteBins is how many values a bin's byte can have, and so the most bins of a feature. Kernels and bin sets have room
// for all of them, whatever a feature's number of bins.
const byteBins = 256

// Feature describes one column of Data.
type Feature struct {
	Name string
	// Bins is the number of values that the column's bytes take: 0..Bins-1.
	Bins int
	// Categorical columns are unordered; the model's category is the bin number.
	Categorical bool
	// Bounds holds, for a numerical feature, the ascending inclusive upper bounds of the bins of present values, except
	// the last bin's, which is +Inf. So there are len(Bounds)+1 such bins.
	Bounds []float64
	// Missing is the bin of missing values in a numerical feature, always the last; -1 if no value is missing.
	Missing int
	// Min and Max are the range of the raw values, for the model file's feature_infos, and to tell one run's
	// checkpoints from another's.
	Min, Max float64
}

// valueBins is how many bins hold present values.
func (f *Feature) valueBins() int {
	if !f.Categorical && f.Missing >= 0 {
		return f.Bins - 1
	}
	return f.Bins
}

// Data is a binned table that the trainer reads and never writes. Both layouts hold the same bytes.
type Data struct {
	Rows     int      // number of rows
	RowMajor []byte   // [rows x features] bin of row r and feature f at r*len(Features)+f
	Columns  [][]byte // [features][rows]
	Features []Feature
	Label    []float32 // [rows]; 0 or 1 for the binary objective
	Weight   []float32 // [rows], not negative; nil means 1 everywhere
	Group    []uint64  // [rows] the query of each row, for objectives that rank; nil otherwise

	// Copies is how often the table holds each row of the training data, with a different encoding of its categories in
	// each copy. 0 and 1 mean once. min_data_in_leaf, min_data_per_group and min_sum_hessian_in_leaf are multiplied by
	// it, so that they apply to original rows. It is ignored for held-out rows.
	Copies int

	// Subset, if not nil, lists the only rows to use, ascending. So a fold or a training split needs no copy of the
	// table.
	Subset []uint32

	// Team, if not nil, joins the workers that train one model together. Rows are then this worker's part of the whole
	// table, and there may be none; Copies is the whole table's. Team is ignored for held-out rows, which every worker
	// has in full.
	Team Team
	link *link // the training's connection to Team; nil without one
}

// Shard returns the rows lo <= r < hi as a table of their own, in which they are numbered from 0. It shares the memory
// of d except for Subset.
func (d *Data) Shard(lo, hi int) *Data {
	s := *d
	s.Rows = hi - lo
	s.RowMajor = d.RowMajor[lo*len(d.Features) : hi*len(d.Features)]
	s.Label = d.Label[lo:hi]
	s.Columns = make([][]byte, len(d.Columns))
	for f, column := range d.Columns {
		s.Columns[f] = column[lo:hi]
	}
	if d.Weight != nil {
		s.Weight = d.Weight[lo:hi]
	}
	if d.Group != nil {
		s.Group = d.Group[lo:hi]
	}

	if d.Subset != nil {
		from, _ := slices.BinarySearch(d.Subset, uint32(lo))
		to, _ := slices.BinarySearch(d.Subset, uint32(hi))
		s.Subset = slices.Clone(d.Subset[from:to])
		for i := range s.Subset {
			s.Subset[i] -= uint32(lo)
		}
		if s.Subset == nil { // an empty subset uses no row; nil would use all of them
			s.Subset = []uint32{}
		}
	}
	return &s
}

// firstRow is the number that this worker's first row has in the whole table; 0 without a team.
func (d *Data) firstRow() uint64 {
	if d.link != nil {
		return d.link.first
	}
	return 0
}

// tableRows is the number of rows of the whole table, over all workers.
func (d *Data) tableRows() int {
	if d.link != nil {
		return d.link.rows
	}
	return d.Rows
}

// tableUsed is the number of rows in use in the whole table, over all workers.
func (d *Data) tableUsed() int {
	if d.link != nil {
		return d.link.used
	}
	return d.Used()
}

// Used is the number of this worker's rows in use.
func (d *Data) Used() int {
	if d.Subset != nil {
		return len(d.Subset)
	}
	return d.Rows
}

// ErrData is wrapped by every error about a table that cannot be used.
var ErrData = problem.New(problem.Input, "unusable data")

// check returns an error unless all slices have the lengths that the trainer's loops rely on. Labels and weights are
// checked if labelled is true, which it is for training rows and not for held-out ones. The table's bytes are not read:
// the kernels have room for 256 bins of every feature, and growRoot reports a byte beyond a feature's bins.
func (d *Data) check(labelled bool) error {
	n, f := d.Rows, len(d.Features)
	part := labelled && d.Team != nil // one worker's part of a table, which may be empty
	if n < 1 && !part || n < 0 || n > math.MaxUint32 {
		return fmt.Errorf("%w: %d rows", ErrData, n)
	}
	if f < 1 || len(d.Columns) != f {
		return fmt.Errorf("%w: %d features, %d columns", ErrData, f, len(d.Columns))
	}
	if len(d.RowMajor) != n*f {
		return fmt.Errorf("%w: %d bytes in rows, expected %d x %d", ErrData, len(d.RowMajor), n, f)
	}

	for i := range d.Features {
		if len(d.Columns[i]) != n {
			return fmt.Errorf("%w: column %d has %d rows, expected %d", ErrData, i, len(d.Columns[i]), n)
		}
		if err := d.Features[i].check(); err != nil {
			return fmt.Errorf("%w: feature %d (%s): %w", ErrData, i, d.Features[i].Name, err)
		}
	}

	// Kernels index by these rows without bounds checks, and rely on their order.
	for i, r := range d.Subset {
		if int(r) >= n || i > 0 && r <= d.Subset[i-1] {
			return fmt.Errorf("%w: subset is not ascending rows below %d at position %d", ErrData, n, i)
		}
	}

	if d.Copies < 0 || d.Copies > n && !part {
		return fmt.Errorf("%w: %d copies in %d rows", ErrData, d.Copies, n)
	}
	if d.Used() == 0 && !part {
		return fmt.Errorf("%w: no row to use", ErrData)
	}

	if labelled {
		return d.checkTarget()
	}
	return nil
}

// checkTarget returns an error unless every row has a finite label and, if they are used, a finite weight of 0 or more
// and a group.
func (d *Data) checkTarget() error {
	if len(d.Label) != d.Rows || d.Weight != nil && len(d.Weight) != d.Rows {
		return fmt.Errorf("%w: %d labels and %d weights for %d rows", ErrData, len(d.Label), len(d.Weight), d.Rows)
	}

	if d.Group != nil && len(d.Group) != d.Rows {
		return fmt.Errorf("%w: groups of %d rows for %d rows", ErrData, len(d.Group), d.Rows)
	}

	for r, y := range d.Label {
		if y-y != 0 { // NaN or infinite
			return fmt.Errorf("%w: label %v in row %d", ErrData, y, r)
		}
	}

	for r, w := range d.Weight {
		if !(w >= 0) || w-w != 0 {
			return fmt.Errorf("%w: weight %v in row %d", ErrData, w, r)
		}
	}
	return nil
}

// check returns an error unless the feature is as the trainer needs it: with 1 to 256 bins; if it is numerical, its
// missing bin is the last one, and its bounds are finite, ascending, and one fewer than the bins of present values.
// Missing and Bounds of a categorical feature are not used.
func (f *Feature) check() error {
	if f.Bins < 1 || f.Bins > byteBins {
		return fmt.Errorf("%d bins", f.Bins)
	}
	if f.Categorical {
		return nil
	}

	if f.Missing >= 0 && f.Missing != f.Bins-1 {
		return fmt.Errorf("missing bin %d of %d is not the last", f.Missing, f.Bins)
	}

	// A column of only missing values has a missing bin and no bound.
	if len(f.Bounds) != max(f.valueBins()-1, 0) {
		return fmt.Errorf("%d bounds for %d bins of values", len(f.Bounds), f.valueBins())
	}

	for i, b := range f.Bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= f.Bounds[i-1] {
			return fmt.Errorf("bound %d is %v", i, b)
		}
	}
	return nil
}
