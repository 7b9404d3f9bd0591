package fit

import (
	"fmt"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// trainingRows returns the rows of parts for the trainer (Request.Rows, with Request.Final). ranks says that the
// objective ranks the rows of groups. Only rows of several splits are copied.
func (t *Table) trainingRows(parts []sweep.Rows, final, ranks bool) (*gbt.Data, error) {
	switch {
	case len(parts) > 1:
		return t.joinSplits(parts, final, ranks)
	case len(parts) == 1 && parts[0].Folds != nil:
		return t.maskRows(parts[0])
	case len(parts) == 1 && parts[0].Split != dataset.TrainSplit:
		return nil, fmt.Errorf("%w: a model is trained on %s, not on %s", ErrNoRows, dataset.TrainSplit, parts[0].Split)
	}

	part := sweep.Rows{Split: dataset.TrainSplit}
	if len(parts) == 1 {
		part = parts[0]
	}
	train, err := t.Select(part)
	if err != nil {
		return nil, err
	}
	return &train.Data, nil
}

// JoinedBytes returns the memory for a copy of so many rows: two layouts of the bins with a byte per feature, label and
// weight of four bytes each, and eight bytes for the group if rows are ranked.
func JoinedBytes(rows, features int, ranked bool) int64 {
	each := 2*features + 8
	if ranked {
		each += 8
	}
	return int64(rows) * int64(each)
}

// CheckGroups reports an error that wraps ErrScheme if train has no groups, or a row is in another fold than follows
// from its group's hash: then the group's rows would be in several folds.
func (t *Table) CheckGroups() error {
	s := t.ds.Split(dataset.TrainSplit)
	if s == nil || s.Group == nil {
		return fmt.Errorf("%w: dataset %s has no groups", ErrScheme, t.ds.Manifest.Name)
	}
	for r, g := range s.Group {
		if want := encode.Fold(g, dataset.Folds); s.Fold[r] != want {
			return fmt.Errorf("%w: row %d of %s is in fold %d, but its group in fold %d, so a group would be both "+
				"trained on and evaluated; the dataset is damaged, stage it again",
				ErrScheme, r, s.Name, s.Fold[r], want)
		}
	}
	return nil
}

// joinSplits copies all of train and the rows of other splits into one table. Rows of other splits are repeated as
// often as train repeats its rows, so that all count the same. In the final training they get the statistics of ids
// that they would have as later rows of train.
func (t *Table) joinSplits(parts []sweep.Rows, final, ranks bool) (*gbt.Data, error) {
	if parts[0].Split != dataset.TrainSplit || parts[0].Folds != nil {
		return nil, fmt.Errorf("%w: what is joined begins with all of %s", ErrNoRows, dataset.TrainSplit)
	}

	// Choose the rows of all parts, still without a copy.
	var selected []*HeldOut // of each part, its rows; their slices still belong to the dataset
	for _, part := range parts {
		rows, err := t.Select(part)
		if err != nil {
			return nil, err
		}
		selected = append(selected, rows)
	}

	// Copy train into slices that have room for all rows. Growing the slices would need half as much memory again.
	all := selected[0].Data
	copies := max(1, all.Copies)
	total := all.Rows
	for _, rows := range selected[1:] {
		total += copies * rows.Len()
	}
	all.RowMajor = append(make([]byte, 0, total*len(all.Features)), all.RowMajor...)
	all.Label = append(make([]float32, 0, total), all.Label...)
	if all.Weight != nil {
		all.Weight = append(make([]float32, 0, total), all.Weight...)
	}
	if !ranks {
		all.Group = nil
	} else if all.Group != nil {
		all.Group = append(make([]uint64, 0, total), all.Group...)
	}
	all.Columns = slices.Clone(all.Columns)
	for f, column := range all.Columns {
		all.Columns[f] = append(make([]byte, 0, total), column...)
	}

	// Append the other splits, once for each copy of train. The first of parts is train itself.
	for i, rows := range selected[1:] {
		if final {
			t.asLaterRows(rows, parts[i+1].Split)
		}
		for number := range copies {
			t.appendRows(&all, rows, number)
		}
	}
	return &all, nil
}

// asLaterRows replaces the statistics of ids of another split's rows by those that they would have as later rows of
// train, which the dataset keeps in Final. It changes rows.Data, but not the dataset. It does nothing if there are
// none.
func (t *Table) asLaterRows(rows *HeldOut, split string) {
	if t.ds.Final == nil {
		return
	}

	// Final has the rows of all splits but train, in the manifest's order. Find the first one of this split.
	first := 0
	for _, s := range t.ds.Manifest.Splits {
		if s.Name == split {
			break
		}
		if s.Name != dataset.TrainSplit {
			first += s.Rows
		}
	}

	// Replace the statistics in copies of both layouts.
	d := &rows.Data
	width := len(d.Features)
	d.Columns, d.RowMajor = slices.Clone(d.Columns), slices.Clone(d.RowMajor)
	for i, feature := range t.ds.Manifest.Statistics() {
		d.Columns[feature] = t.ds.Final[i][first : first+d.Rows]
		for r, bin := range d.Columns[feature] {
			d.RowMajor[r*width+feature] = bin
		}
	}
}

// appendRows appends the rows of another split to all, once: bins in both layouts, labels, and groups and weights if
// all has them. number is that of the copy of train that they go with, from which the copies of their queries are
// named.
func (t *Table) appendRows(all *gbt.Data, rows *HeldOut, number int) {
	// Bins, row by row and column by column.
	width := len(all.Features)
	if rows.Data.Subset == nil {
		all.RowMajor = append(all.RowMajor, rows.Data.RowMajor...)
	} else {
		for _, r := range rows.Data.Subset {
			all.RowMajor = append(all.RowMajor, rows.Data.RowMajor[int(r)*width:int(r+1)*width]...)
		}
	}
	for f, column := range rows.Data.Columns {
		if rows.Data.Subset != nil {
			column = dataset.Pick(column, rows.Data.Subset)
		}
		all.Columns[f] = append(all.Columns[f], column...)
	}

	all.Label = append(all.Label, rows.Label...)
	if all.Group != nil {
		for _, g := range rows.Group {
			all.Group = append(all.Group, groupOfCopy(g, number))
		}
	}
	if all.Weight != nil {
		// If negatives were sampled, those of other splits weigh more, so that metrics are right. In training they
		// count as those of train do, and the trainer's Shift corrects for the sampling.
		keptShare := t.ds.Manifest.Negatives
		for i, w := range rows.Weight {
			if keptShare > 0 && rows.Label[i] == 0 {
				w = float32(float64(w) * keptShare)
			}
			all.Weight = append(all.Weight, w)
		}
	}
	all.Rows += rows.Len()
}
