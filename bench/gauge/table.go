package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/atomicfile"
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/program"
)

// tableOptions say what table is made.
type tableOptions struct {
	dir           string
	rows, columns int
	partRows      int // of every file but the last
	threads       int
}

// The largest table that can be asked for, and the most columns.
const (
	maxRows    = 1 << 32
	maxColumns = 10_000
)

// tableCommand is `gauge table`. It prints to out the files of the table, how many of them were written, and in how
// many seconds.
func tableCommand(out io.Writer) *cobra.Command {
	o := tableOptions{rows: 1_000_000, columns: 40, partRows: 1_000_000, threads: runtime.GOMAXPROCS(0)}
	cmd := &cobra.Command{
		Use: "table --dir DIR", Short: "Make a table of numbers with a binary label as Parquet files",
		Args: cobra.NoArgs,
		Long: `Writes DIR/part-NUMBER-ROWS.parquet, files of --part-rows rows each. A file depends on
number, rows and --columns only, and one that is there already is kept, so that a larger table continues a
smaller one. Give each number of columns a folder of its own.
Values lie on a coarse grid: dictionaries keep 130,000,000 rows of 40 columns below 10 GB. Memory does not
grow with rows.`,
		Example: "  gauge table --rows 130000000 --dir build/bench/scale/table",
		RunE: func(cmd *cobra.Command, _ []string) error {
			start := time.Now()
			files, written, err := o.writeParts(cmd.Context())
			if err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(map[string]any{"files": files, "written": written, "rows": o.rows,
				"columns": o.columns, "seconds": time.Since(start).Seconds()})
		},
	}

	cmd.Flags().StringVar(&o.dir, "dir", "", "folder to write into (required)")
	cmd.Flags().IntVar(&o.rows, "rows", o.rows, "rows of the whole table")
	cmd.Flags().IntVar(&o.columns, "columns", o.columns, "features; the label comes on top")
	cmd.Flags().IntVar(&o.partRows, "part-rows", o.partRows, "rows of a file")
	cmd.Flags().IntVar(&o.threads, "threads", o.threads, "files that are written at once")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// checkOptions returns a usage error if a number is below 1 or above what its flag allows.
func (o *tableOptions) checkOptions() error {
	for _, n := range []struct {
		name       string
		value, max int
	}{{"rows", o.rows, maxRows}, {"columns", o.columns, maxColumns}, {"part-rows", o.partRows, maxRows},
		{"threads", o.threads, 1024}} {
		if n.value < 1 || n.value > n.max {
			return program.Usagef("--%s is %d: use 1 to %d", n.name, n.value, n.max)
		}
	}
	return nil
}

// part is one file of the table.
type part struct {
	path         string
	number, rows int
}

// listParts returns the table's files in order. All have partRows rows but the last, which has the rest.
func (o *tableOptions) listParts() []part {
	var all []part
	for first := 0; first < o.rows; first += o.partRows {
		rows := min(o.partRows, o.rows-first)
		all = append(all, part{filepath.Join(o.dir, fmt.Sprintf("part-%05d-%d.parquet", len(all), rows)), len(all),
			rows})
	}
	return all
}

// writeParts writes the files of the table that are not there yet, as many at once as there are threads. It returns the
// names of all files, and how many of them were not there before. A file's name does not tell its columns: one that is
// there is taken to have as many as are asked for. After an error, or once ctx is done, a thread starts no more files;
// those that are complete stay.
func (o *tableOptions) writeParts(ctx context.Context) (names []string, written int, err error) {
	if err := o.checkOptions(); err != nil {
		return nil, 0, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, 0, err
	}
	m := newMaker(o.columns)
	todo, errs := make(chan part), make([]error, o.threads)
	var workers sync.WaitGroup
	for w := range o.threads {
		workers.Go(func() {
			for p := range todo { // to the end even after an error, so that the sender never waits
				if errs[w] == nil && ctx.Err() == nil {
					errs[w] = m.writePart(p)
				}
			}
		})
	}

	for _, p := range o.listParts() {
		names = append(names, p.path)
		if _, err := os.Stat(p.path); err != nil {
			todo <- p
			written++
		}
	}

	close(todo)
	workers.Wait()
	return names, written, errors.Join(append(errs, ctx.Err())...)
}

// maker holds what all files of a table have in common. It does not change and may be used from any goroutine.
type maker struct {
	columns []table.Column
	weight  []float64 // of each feature in the label
}

// labelColumn is the name of the last column, which is 0 or 1. The features are f00, f01 and so on.
const labelColumn = "label"

// seed starts every random sequence of this file, so that a file with the same number has always the same rows. Any
// number would do.
const seed = 7

// newMaker draws the weight that each feature has in the label. The weights are the same in each run. They are normal
// around 0; their standard deviation falls from 1.2 for the first feature to .37 for the fortieth. The random sequence
// has a number that no file's has, since files count from 0.
func newMaker(columns int) *maker {
	m := &maker{}
	rng := rand.New(rand.NewPCG(seed, math.MaxUint64))
	for i := range columns {
		m.columns = append(m.columns, table.Column{Name: fmt.Sprintf("f%02d", i), Type: dataset.Float})
		m.weight = append(m.weight, 1.2*rng.NormFloat64()/math.Sqrt(1+float64(i)/4))
	}
	m.columns = append(m.columns, table.Column{Name: labelColumn, Type: dataset.Int})
	return m
}

// batchRows are held in memory at once for each file that is being written.
const batchRows = 1 << 14

// writePart writes one file, complete or not at all. Its rows depend only on m and on the number of the part: one with
// fewer rows has the first of them.
func (m *maker) writePart(p part) (err error) {
	file, err := atomicfile.Create(p.path, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Abort()) }() // after Commit it does nothing
	w, err := table.NewParquetWriter(file, m.columns, table.Snappy)
	if err != nil {
		return err
	}

	rng := rand.New(rand.NewPCG(seed, uint64(p.number)))
	b := m.newBatch()
	for left := p.rows; left > 0; left -= b.Rows {
		m.fillRows(b, min(left, batchRows), rng)
		if err := w.Write(b); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}

	if err := w.Close(); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return file.Commit()
}

// newBatch makes a batch with room for batchRows rows, none of them null, for fillRows to fill again and again.
func (m *maker) newBatch() *table.Batch {
	b := &table.Batch{}
	for _, c := range m.columns {
		v := dataset.Values{Type: c.Type, Null: make([]bool, batchRows)}
		if c.Type == dataset.Float {
			v.Float = make([]float64, batchRows)
		} else {
			v.Int = make([]int64, batchRows)
		}
		b.Names, b.Columns = append(b.Names, c.Name), append(b.Columns, v)
	}
	return b
}

// fillRows makes the next rows of a file: it draws so many rows from rng into b, which newBatch made. A model can
// explain about a fifth of the label's variance. For that its trees have to find steps, waves and products of two
// features.
func (m *maker) fillRows(b *table.Batch, rows int, rng *rand.Rand) {
	// Cut the columns to the number of rows: the last batch of a file is shorter.
	features := len(m.weight)
	b.Rows = rows
	for i := range b.Columns {
		v := &b.Columns[i]
		v.Null = v.Null[:rows]
		if v.Type == dataset.Float {
			v.Float = v.Float[:rows]
		} else {
			v.Int = v.Int[:rows]
		}
	}

	// Add up the features' effects on the log odds of the label. Every fifth feature turns its effect around where the
	// feature before it is above 0.5, which is the product of two features. A missing value's effect is never turned.
	score := make([]float64, rows)
	for i, w := range m.weight {
		v := &b.Columns[i]
		for r := range rows {
			var effect float64
			v.Float[r], effect = drawFeature(i, rng)
			v.Null[r] = math.IsNaN(v.Float[r])
			if !v.Null[r] && i > 0 && i%5 == 0 && b.Columns[i-1].Float[r] > 0.5 {
				effect = -effect
			}
			score[r] += w * effect
		}
	}

	// Draw the label with the probability that the score stands for; 0.5 less than the score makes 1 the rarer value.
	label := b.Columns[features].Int
	for r := range rows {
		label[r] = 0
		if rng.Float64() < 1/(1+math.Exp(0.5-score[r])) {
			label[r] = 1
		}
	}
}

// drawFeature draws a value of feature i and returns it with its effect on the label, before the feature's weight.
// There are four kinds of features: normal, uniform, counts with a long tail, and normal with one value in twenty
// missing (NaN), which has an effect of its own. Values are rounded, so that each feature has at most some 1,000
// different ones. The constants in the effects make each about 0 on average: 1.3 is about the mean of the logarithm,
// and .7 and -.4 are weighed by how often a value is above and below .3.
func drawFeature(i int, rng *rand.Rand) (value, effect float64) {
	switch i % 4 {
	case 0:
		value = math.Round(64*rng.NormFloat64()) / 64
		return value, math.Sin(2 * value)
	case 1:
		value = float64(rng.IntN(1000)) / 1000
		return value, 2*value - 1
	case 2:
		value = math.Floor(min(math.Exp(1+1.2*rng.NormFloat64()), 1000))
		return value, math.Log1p(value) - 1.3
	}

	if rng.IntN(20) == 0 {
		return math.NaN(), 0.5
	}
	value = math.Round(32*rng.NormFloat64()) / 32
	if value > 0.3 {
		return value, 0.7
	}
	return value, -0.4
}
