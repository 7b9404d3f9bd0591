// Command arrow is what docs/design/014-parquet.md weighs: the readers of Parquet and of Arrow files that others keep.
// It is a module of its own, because arrow-go v18 and the v17 of the programs do not link into one. bench/arrow.py
// calls it.
//
//	arrow parquet arrow-go|parquet-go FILE...    reads every value of the files, and says what came of it, a line of JSON each
//	arrow ipc SEED FILE...                       reads each Arrow file with a hundred single bits flipped, one after the other
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/parquet-go/parquet-go"
)

// outcome is what came of reading a file.
type outcome struct {
	File  string  `json:"file"`
	What  string  `json:"what"` // ok, error, panic, hang
	Rows  int64   `json:"rows"`
	Cells int64   `json:"cells"` // values that are there
	CPU   float64 `json:"cpu_ms"`
	Error string  `json:"error,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: arrow parquet arrow-go|parquet-go FILE..., or arrow ipc SEED FILE")
	}

	out := json.NewEncoder(os.Stdout)
	switch args[0] {
	case "parquet":
		read := map[string]func(string) (int64, int64, error){"arrow-go": readArrow, "parquet-go": readParquet}[args[1]]
		if read == nil {
			return fmt.Errorf("no reader %q", args[1])
		}
		for _, path := range args[2:] {
			o := tried(path, read)
			if err := out.Encode(o); err != nil || o.What == "hang" {
				return err // what hangs cannot be stopped
			}
		}
	case "ipc":
		seed, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return err
		}
		for _, path := range args[2:] {
			counts, err := flip(path, seed)
			if err != nil {
				return err
			}
			if err := out.Encode(counts); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit is how long one file may take before it counts as hanging.
const limit = 5 * time.Second

// tried reads one file, whatever happens.
func tried(path string, read func(string) (int64, int64, error)) outcome {
	before := cpu()
	done := make(chan outcome, 1)
	go func() {
		o := outcome{File: path, What: "ok"}
		defer func() {
			if p := recover(); p != nil {
				o.What, o.Error = "panic", fmt.Sprint(p)
			}
			done <- o
		}()
		var err error
		if o.Rows, o.Cells, err = read(path); err != nil {
			o.What, o.Error = "error", err.Error()
		}
	}()

	o := outcome{File: path, What: "hang"}
	select {
	case o = <-done:
	case <-time.After(limit):
	}
	o.CPU = (cpu() - before) * 1e3
	return o
}

func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

func readArrow(path string) (rows, cells int64, err error) {
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 1 << 16}, memory.DefaultAllocator)
	if err != nil {
		return 0, 0, err
	}
	batches, err := r.GetRecordReader(context.Background(), nil, nil)
	if err != nil {
		return 0, 0, err
	}
	defer batches.Release()

	for batches.Next() {
		b := batches.RecordBatch()
		rows += b.NumRows()
		for _, c := range b.Columns() {
			cells += int64(c.Len() - c.NullN())
		}
	}
	if err := batches.Err(); err != nil && !errors.Is(err, io.EOF) {
		return rows, cells, err
	}
	return rows, cells, nil
}

func readParquet(path string) (rows, cells int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	p, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return 0, 0, err
	}

	for _, g := range p.RowGroups() {
		rows += g.NumRows()
		for _, c := range g.ColumnChunks() {
			n, err := countValues(c.Pages())
			cells += n
			if err != nil {
				return rows, cells, err
			}
		}
	}
	return rows, cells, nil
}

func countValues(pages parquet.Pages) (n int64, err error) {
	defer pages.Close()
	values := make([]parquet.Value, 4096)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}

		for from := page.Values(); err == nil; {
			var read int
			read, err = from.ReadValues(values)
			for _, v := range values[:read] {
				if !v.IsNull() {
					n++
				}
			}
		}
		parquet.Release(page)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
	}
}

// flips is what came of an Arrow file with single bits flipped.
type flips struct {
	File   string         `json:"file"`
	Counts map[string]int `json:"counts"`
}

func flip(path string, seed uint64) (*flips, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &flips{File: path, Counts: map[string]int{}}
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 100 {
		bad := bytes.Clone(data)
		bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		f.Counts[readIPC(bad)]++
	}
	return f, nil
}

func readIPC(data []byte) (what string) {
	defer func() {
		if recover() != nil {
			what = "panic"
		}
	}()
	r, err := ipc.NewFileReader(bytes.NewReader(data))
	if err != nil {
		return "error"
	}
	defer r.Close()

	sum := 0
	for i := range r.NumRecords() {
		b, err := r.RecordBatch(i)
		if err != nil {
			return "error"
		}
		for _, c := range b.Columns() {
			sum += c.NullN()
			if texts, ok := c.(*array.String); ok {
				for i := range texts.Len() {
					sum += len(texts.Value(i))
				}
			}
		}
	}
	return "ok"
}
