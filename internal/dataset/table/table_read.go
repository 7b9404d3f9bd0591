package table

import (
	"context"
	"errors"
	"slices"

	"coppice/internal/dataset"
)

// source is one file of a table. read passes its rows on, as the request says; it returns the first error, which is its
// own, emit's or the context's.
type source interface {
	columns() []Column
	read(ctx context.Context, r request) error
}

// request asks a source for the rows of a file. Several may run at once.
type request struct {
	places []int         // indices in source.columns of the columns to read, in the order of a batch
	rows   int           // most rows per batch; fewer if texts are long
	empty  func() *Batch // returns a batch to fill, whose memory may be used again; until emit it is the same one
	// emit passes on a filled batch, whose First counts from the file's first row. The progress is done of total, in
	// any unit.
	emit func(b *Batch, done, total int64) error
}

// BatchRows returns how many rows make a batch of a few megabytes, given the number of columns. A very wide table still
// has 64 rows in a batch, whatever their size. A batch also ends after batchBytes of long texts.
func BatchRows(columns int) int {
	const cells = 1 << 20
	return max(64, min(1<<16, cells/max(1, columns)))
}

const batchBytes = 32 << 20

// Read passes the named columns of all rows to fn, in order, in batches of at most so many rows. It stops at the first
// error: its own, fn's or the context's. If the table was opened with several threads, it reads the next batch while fn
// uses the last. Several Reads may run at once.
func (t *Table) Read(ctx context.Context, names []string, rows int, fn func(*Batch) error) error {
	places, err := t.Find(names...)
	if err != nil {
		return err
	}

	use := func(b *Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.Names = names
		out, err := t.inFormats(b)
		if err != nil {
			return err
		}
		return fn(out)
	}

	if t.threads > 1 {
		return t.readAhead(ctx, places, rows, use)
	}

	b := &Batch{}
	return t.produce(ctx, places, rows, func() *Batch { return b }, use)
}

// Empty reports whether files have no rows at all. It reads no further than the first row, and no column of that: any
// may be one that cannot be read.
func Empty(ctx context.Context, files []File) (bool, error) {
	t, err := Open(files, Options{Threads: 1})
	if err != nil {
		return false, err
	}
	some := errors.New("a row") // ends the reading
	err = t.Read(ctx, nil, 1, func(b *Batch) error {
		if b.Rows > 0 {
			return some
		}
		return nil
	})
	if errors.Is(err, some) {
		return false, nil
	}
	return err == nil, err
}

// ReadAs makes Read pass columns of texts as numbers or times. formats says which columns, all of them the table's, and
// in which format their texts are; values reads the texts of a column of a batch. It is called before Read.
func (t *Table) ReadAs(formats dataset.Formats, values func(b *Batch, column int, f dataset.Format) (dataset.Values,
	error)) {
	t.values = values
	for name, f := range formats {
		as := Column{Name: name, Type: dataset.Float, Format: f}
		if f == dataset.DayFirst || f == dataset.MonthFirst {
			as.Type, as.Unit = dataset.Time, dataset.Micro
		}
		t.columns[t.byName[name]] = as
	}
}

// inFormats returns a batch with the columns in their formats. It does not change b, whose memory for texts is used for
// the next rows. An error is that of the first column with a text that is not in its format.
func (t *Table) inFormats(b *Batch) (*Batch, error) {
	out := *b
	out.Columns = slices.Clone(b.Columns)
	for i, name := range b.Names {
		f := t.columns[t.byName[name]].Format
		if f == "" {
			continue
		}
		var err error
		if out.Columns[i], err = t.values(b, i, f); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// produce reads all files, one after the other, and passes every batch to emit. places are indices in t.columns, rows
// is the most rows of a batch, and empty returns a batch to fill.
func (t *Table) produce(ctx context.Context, places []int, rows int, empty func() *Batch,
	emit func(*Batch) error) error {
	// first is the number of the file's first row in the table, before the bytes of the files before it.
	first, before := int64(0), int64(0)
	for i, s := range t.sources {
		r := request{rows: rows, empty: empty}
		for _, p := range places {
			r.places = append(r.places, t.places[i][p])
		}

		next := first
		r.emit = func(b *Batch, done, total int64) error {
			b.File, b.firstInFile = t.files[i].URI, b.First
			b.First += first
			next = b.First + int64(b.Rows)
			b.Done = before + scaleBytes(done, total, t.files[i].Bytes)
			return emit(b)
		}

		if err := s.read(ctx, r); err != nil {
			return err
		}

		first = next
		before += t.files[i].Bytes
	}
	return nil
}

// readAhead calls use for every batch, while a goroutine reads the next one. Two batches go round: one is filled while
// the other is used.
func (t *Table) readAhead(ctx context.Context, places []int, rows int, use func(*Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	full, ended := make(chan *Batch), make(chan error, 1)
	free := make(chan *Batch, 2)
	free <- &Batch{}
	free <- &Batch{}

	go func() {
		defer close(full)
		var held *Batch // taken from free but not passed on yet: a file may end without filling it
		empty := func() *Batch {
			if held == nil {
				held = <-free
			}
			return held
		}

		ended <- t.produce(ctx, places, rows, empty, func(b *Batch) error {
			held = nil
			select {
			case full <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()

	// After an error the goroutine is told to stop, and its last batch is dropped.
	var err error
	for b := range full {
		if err == nil {
			if err = use(b); err != nil {
				cancel()
			}
		}
		free <- b // never waits: there are no more batches than free has room for
	}

	if readErr := <-ended; err == nil {
		err = readErr
	}
	return err
}

// scaleBytes returns how many of so many bytes correspond to a progress of done of total.
func scaleBytes(done, total, bytes int64) int64 {
	if total <= 0 {
		return 0
	}
	return int64(float64(bytes) * min(1, float64(done)/float64(total)))
}
