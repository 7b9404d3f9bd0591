package backtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
)

// dayColumn holds each row's day, by name; a night's dataset is split by it.
const dayColumn = "__day"

// daily is a table divided into one file per day: rows that a night must not know are in files that it does not get.
type daily struct {
	dir   string
	end   string // suffix of the files' names
	files map[int]string
	rows  map[int]int64
}

// sink writes one day's file.
type sink struct {
	file *os.File
	buf  *bufio.Writer
	out  interface{ Write(*table.Batch) error }
	done func() error
}

// divide reads the table once and writes the days from first to last, each into a file in dir.
func divide(ctx context.Context, spec *dataset.Spec, files []table.File, column, dir string, first, last,
	threads int) (*daily, error) {
	t, err := table.Open(files, table.Options{CSV: spec.CSV, Threads: threads})
	if err != nil {
		return nil, err
	}

	d := &daily{dir: dir, end: ".parquet", files: map[int]string{}, rows: map[int]int64{}}
	var columns []table.Column
	var names []string
	for _, c := range t.Columns() {
		if c.Name == dayColumn {
			return nil, spec.Errorf("source", "the table has a column %s, which a backtest adds; rename it", dayColumn)
		}
		if c.Unreadable != "" {
			continue
		}
		if c.Untyped { // each night interprets the texts itself
			d.end = ".csv"
		}
		columns = append(columns, c)
		names = append(names, c.Name)
	}
	if !slices.Contains(names, column) {
		return nil, spec.Errorf("source", "the table has no column %q, by which the backtest divides it into days",
			column)
	}
	columns = append(columns, table.Column{Name: dayColumn, Type: dataset.Text})

	sinks := map[int]*sink{}
	defer func() {
		for _, s := range sinks {
			s.file.Close()
		}
	}()
	times := ingest.NewTimes(column, spec.Missing)
	err = t.Read(ctx, names, 1<<14, func(b *table.Batch) error {
		seconds, err := times.Seconds(b)
		if err != nil {
			return err
		}
		places := map[int][]int32{}
		for i, s := range seconds {
			if day := ingest.Day(s); day >= first && day <= last {
				places[day] = append(places[day], int32(i))
			}
		}
		for day, at := range places {
			if err := d.write(sinks, day, b.Keep(at), columns); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range sinks {
		if err := errors.Join(s.done(), s.buf.Flush()); err != nil {
			return nil, fmt.Errorf("write %s: %w", s.file.Name(), err)
		}
	}
	return d, nil
}

// write adds rows to a day's file.
func (d *daily) write(sinks map[int]*sink, day int, b *table.Batch, columns []table.Column) error {
	s := sinks[day]
	if s == nil {
		path := filepath.Join(d.dir, dayName(day)+d.end)
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		s = &sink{file: file, buf: bufio.NewWriterSize(file, 1<<16)}
		sinks[day] = s
		d.files[day] = path

		if d.end == ".csv" {
			s.out, err = table.NewCSVWriter(s.buf, columns, ',')
			s.done = func() error { return nil }
		} else {
			var p *table.ParquetWriter
			p, err = table.NewParquetWriter(s.buf, columns, table.Snappy)
			s.out, s.done = p, p.Close
		}
		if err != nil {
			return err
		}
	}

	names := dataset.Values{Type: dataset.Text, Text: slices.Repeat([]string{dayName(day)}, b.Rows)}
	d.rows[day] += int64(b.Rows)
	return s.out.Write(b.With(dayColumn, names))
}

// link links a night's days into a folder of its own, which is all that the night sees of the table.
func (d *daily) link(folder string, first, last int) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}

	for day := first; day <= last; day++ {
		path, ok := d.files[day]
		if !ok {
			return fmt.Errorf("%w on %s", errNoRows, dayName(day))
		}
		if err := os.Link(path, filepath.Join(folder, filepath.Base(path))); err != nil {
			return err
		}
	}

	return nil
}

var errNoRows = problem.New(problem.Input, "the table has no row")
