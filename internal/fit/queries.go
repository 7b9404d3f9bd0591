package fit

import (
	"fmt"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/gbt"
)

// CheckRanking reports why an objective that ranks cannot be trained on a dataset, with how to stage it instead. The
// error wraps ErrQueries. It is nil for other objectives. valid says that models are evaluated on the valid split,
// which must not have queries that train has.
func CheckRanking(objective string, m *dataset.Manifest, valid bool) error {
	refuse := func(what string) error {
		return fmt.Errorf("%w: objective %s, dataset %s@%s: %s", ErrQueries, objective, m.Name, m.Version, what)
	}
	switch {
	case !gbt.Ranks(objective):
		return nil
	case m.Group == "":
		return refuse("it does not say which rows belong to one query; stage it with group: COLUMN")
	case m.Label.Kind == dataset.Binary && m.Negatives > 0:
		return refuse("a sample of its negative rows leaves no query whole; stage it without sample.negatives")
	case slices.Contains([]string{dataset.SplitByRandom, dataset.SplitByClasses, dataset.SplitNone}, m.Split.By):
		return refuse(fmt.Sprintf("its rows are split at random, which divides queries; stage it with "+
			"split: {by: hash, key: %s, ...}", m.Group))
	case m.Order != nil && m.Order.By != dataset.OrderGroup:
		return refuse("its statistics of ids have seen labels of other rows of the same query, so that a model would " +
			"learn the order from them; stage it with encodings: none, or with {order: {by: group}}")
	case valid && m.About.Divided != nil:
		return refuse(fmt.Sprintf("%v queries are in several splits, train and valid, so they would be judged on rows "+
			"of queries that were trained on; stage it with split: {by: hash, key: %s, ...} (launcher fit: without "+
			"--time and --split), or by a column that is the same for all rows of a query", m.About.Divided, m.Group))
	}
	return nil
}

// checkWhole reports an error that wraps ErrQueries if rows of a query are both in train and in valid, which both have
// groups.
func (t *Table) checkWhole(train *gbt.Data, valid *HeldOut) error {
	trained := make(map[uint64]struct{})
	for i := range train.Used() {
		r := i
		if train.Subset != nil {
			r = int(train.Subset[i])
		}
		trained[train.Group[r]] = struct{}{}
	}
	for i, g := range valid.Group {
		if _, both := trained[g]; both {
			return fmt.Errorf("%w: the query (%s) of row %d that is to be evaluated is also trained on; stage dataset "+
				"%s with split: {by: hash, key: %s, ...} (launcher fit: without --time), or by a column that is the "+
				"same for all rows of a query",
				ErrQueries, t.ds.Manifest.Group, i, t.ds.Manifest.Name, t.ds.Manifest.Group)
		}
	}
	return nil
}

// sampleQueries draws about one in oneIn queries and returns their rows in use. It depends only on the queries' hashes,
// so all configurations get the same rows.
func sampleQueries(d *gbt.Data, oneIn int) []uint32 {
	rows := []uint32{}
	for i := range d.Used() {
		r := uint32(i)
		if d.Subset != nil {
			r = d.Subset[i]
		}
		if encode.Mix(d.Group[r]^uint64(oneIn))%uint64(oneIn) == 0 {
			rows = append(rows, r)
		}
	}
	return rows
}
