package ingest

import (
	"context"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// cleanRows are a table's rows as both passes see them. Rows whose label is missing or not final are left out, as are
// negative rows that sampling leaves out. Derived columns are added after those of the table.
type cleanRows struct {
	table  *table.Table
	roles  *roles
	labels *labeler
	ripe   *ripener // nil if every label is final
}

// eachBatch passes the rows to fn, batch by batch. In the first pass it also shows all labels to the labeler and counts
// the rows that are left out. progress, which may be nil, is told the bytes read.
func (c *cleanRows) eachBatch(ctx context.Context, first bool, fn func(*table.Batch) error,
	progress func(done, total int64)) error {
	return readTable(ctx, c.table, c.roles.read, func(b *table.Batch) error {
		b, err := c.clean(b, first)
		if err != nil || b.Rows == 0 {
			return err
		}
		if b, err = c.roles.derive(b); err != nil {
			return err
		}
		return fn(b)
	}, progress)
}

// clean returns a batch of the rows that stay (see cleanRows). In the first pass it also counts what it leaves out.
func (c *cleanRows) clean(batch *table.Batch, first bool) (*table.Batch, error) {
	// First leave out labels that are not final.
	final, err := c.ripe.keepRipe(batch)
	if err != nil {
		return nil, err
	}
	if first && c.ripe != nil {
		c.ripe.left += int64(batch.Rows - final.Rows)
	}

	// Then missing labels.
	label := &final.Columns[c.roles.label]
	var places []int32 // of the rows with a label; nil stands for all
	if first {
		places, err = c.labels.observe(final, label)
	} else {
		places = c.labels.presentIn(final, label)
	}
	if err != nil {
		return nil, err
	}

	// Then some negative rows. If nothing is left out, the batch need not be copied.
	labelled := final.Rows
	if places != nil {
		labelled = len(places)
	}
	places = c.labels.thinNegatives(final, label, places)
	if places == nil {
		return final, nil
	}
	if first {
		c.labels.thinned += int64(labelled - len(places))
	}
	return final.Keep(places), nil
}

// readTable passes the named columns of all rows of a table to fn, batch by batch. progress, which may be nil, is told
// the bytes read.
func readTable(ctx context.Context, t *table.Table, names []string, fn func(*table.Batch) error,
	progress func(done, total int64)) error {
	return t.Read(ctx, names, table.BatchRows(len(names)), func(b *table.Batch) error {
		err := fn(b)
		if err == nil && progress != nil {
			progress(b.Done, t.Bytes())
		}
		return err
	})
}

// thinNegatives returns those of places that sampling keeps: all rows that are not negative, and of the negative ones
// about the spec's share. If the spec samples none, it returns places. nil stands for all rows of the batch, both given
// and returned. The choice depends only on the rows' numbers.
func (l *labeler) thinNegatives(batch *table.Batch, values *dataset.Values, places []int32) []int32 {
	share := l.spec.Sample.Negatives
	if share == 0 {
		return places
	}

	kept := make([]int32, 0, batch.Rows)
	keep := func(i int) {
		// Unit maps the hash of the row's number to a number from 0 up to 1.
		if cell.Unit(encode.Mix(cell.HashRow(batch.Row(i))^seedThin)) < share || !l.meansZero(values, i) {
			kept = append(kept, int32(i))
		}
	}

	if places == nil {
		for i := range batch.Rows {
			keep(i)
		}
	}
	for _, i := range places {
		keep(int(i))
	}
	return kept
}

// meansZero reports whether the label of row i, which must not be missing, is negative. It may be asked before resolve
// knows the kind of label: if the column turns out to hold more than two values, staging fails anyway.
func (l *labeler) meansZero(values *dataset.Values, i int) bool {
	if l.info.Positive != nil {
		return !SameValue(values, i, *l.info.Positive)
	}
	x, ok := parseNumber(values, i)
	if l.info.Above != nil {
		return ok && x <= *l.info.Above
	}
	return ok && x == 0
}
