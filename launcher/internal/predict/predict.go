// Package predict scores a table with a registered version: CSV or Parquet in, CSV or Parquet out, a batch at a time.
package predict

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"coppice/internal/atomicfile"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
	"coppice/internal/scorer"
)

// Request is a table to score.
type Request struct {
	Scorer  *scorer.Scorer
	In, Out string // files; the suffix of Out decides its format
	CSV     dataset.CSVSpec
	Keep    []string // columns of In to copy before the prediction
	Raw     bool     // add a column with the raw score
	// Contributions adds a column for each feature, what it adds to the raw score, and what all rows begin with.
	Contributions bool
	// Explain adds, for so many features of each row, the name and what it adds to the raw score, the farthest from 0
	// first.
	Explain int
	// MaxUnseen is how much a column's share of unseen values may exceed the usual one; 1 allows any.
	MaxUnseen float64
	// Progress, which may be nil, is called with the number of rows scored.
	Progress func(rows int64)
}

// Columns in the output. Of several classes, ColumnPrediction names the likeliest; all others are there for each, with
// its name behind a colon, such as "prediction:red" and "contribution:red:price".
const (
	ColumnPrediction = "prediction"
	ColumnRaw        = "raw_score"
	// With a version's contributions: the raw score that all rows begin with. The features' columns are named
	// ColumnContribution and the feature, such as "contribution:price".
	ColumnExpected     = "expected_score"
	ColumnContribution = "contribution:"
	// With explanations, 1 is the first: the feature's name, and with the second one what it adds.
	ColumnReason     = "reason_%d"
	ColumnReasonAdds = "reason_%d_adds"
)

const (
	scoredRows = 16384 // in a batch; of wide tables fewer, so that a batch takes megabytes
	// Explaining a row takes a millisecond and more: between batches progress is shown and an end is heard.
	explainedRows = 512
)

// writer is the common method of ingest's two writers.
type writer interface{ Write(*table.Batch) error }

// Run scores the rows of q.In, a file or several, into q.Out, in their order and a batch at a time. The output appears
// when it is complete, in place of a file of that name. It does not appear after an error; one of them is that a
// column's share of unseen values exceeds the usual one by more than q.MaxUnseen. The caller keeps q.Scorer.
func Run(ctx context.Context, q Request) (done *Result, err error) {
	if dataset.InBucket(q.In) {
		return nil, problem.New(problem.Usage, "--in %s: a table in a bucket is scored into one: --out "+
			"gs://BUCKET/PREFIX/", q.In)
	}

	// Open the table, and check the flags against its columns.
	files, err := table.Expand(q.In)
	if err != nil {
		return nil, err
	}
	if err := q.spareInput(files); err != nil {
		return nil, err
	}

	t, err := table.Open(files, table.Options{CSV: q.CSV, Threads: runtime.GOMAXPROCS(0), Keys: q.Scorer.Columns()})
	if err != nil {
		return nil, err
	}
	columns, err := q.outputColumns(t)
	if err != nil {
		return nil, err
	}

	// The output is renamed into place when it is complete.
	pending, err := atomicfile.Create(q.Out, 0o644)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", q.Out, err)
	}
	defer func() { // after Commit, Abort does nothing
		if cleanup := pending.Abort(); err == nil && cleanup != nil {
			err = cleanup
		}
	}()

	out, finish, err := q.writer(pending, columns)
	if err != nil {
		return nil, err
	}

	// Score batch by batch: read the model's columns and those to keep, each once. values is memory that each batch
	// uses again for its encoded rows; in counts the values of all batches.
	wanted := slices.Concat(q.Scorer.Columns(), q.Keep)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	var values []float64
	var in cell.Inputs
	err = t.Read(ctx, wanted, q.batchRows(len(wanted)+len(columns)), func(b *table.Batch) error {
		raw, predicted, reuse, err := q.Scorer.Batch(b, values, runtime.GOMAXPROCS(0), &in)
		if err != nil {
			return err
		}
		values = reuse
		if q.Progress != nil {
			q.Progress(in.Rows)
		}

		added, err := q.contributions(b.Rows, values)
		if err != nil {
			return err
		}
		if err := out.Write(q.outputBatch(b, raw, predicted, added)); err != nil {
			return fmt.Errorf("write %s: %w", q.Out, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	done = &Result{Rows: in.Rows, Inputs: compare(&in, q.Scorer.Usual), counts: in}
	if err := checkUnseen(done.Inputs, q.MaxUnseen); err != nil {
		return nil, err
	}

	if err := finish(); err != nil {
		return nil, fmt.Errorf("write %s: %w", q.Out, err)
	}
	return done, pending.Commit()
}

// contributions returns, for each of so many encoded rows and each output, one number per feature and the expected
// score; nil if neither contributions nor explanations are asked for.
func (q *Request) contributions(rows int, values []float64) ([]float64, error) {
	if !q.Contributions && q.Explain == 0 {
		return nil, nil
	}
	model := q.Scorer.Model
	added := make([]float64, rows*model.Outputs()*(model.Features()+1))
	return added, model.Contributions(values, added, runtime.GOMAXPROCS(0))
}

// batchRows returns how many rows are scored at once, if so many columns are read and written: at most scoredRows, and
// fewer of wide tables. Rows whose contributions are computed come in batches of at most explainedRows, as that takes
// long.
func (q *Request) batchRows(columns int) int {
	// With Contributions these are among the columns to write. Explain needs them too, but writes only a few.
	if q.Explain > 0 {
		columns += q.Scorer.Model.Features()
	}
	if q.Contributions || q.Explain > 0 {
		return min(explainedRows, table.BatchRows(columns))
	}
	return min(scoredRows, table.BatchRows(columns))
}

// spareInput returns an error of kind Usage if q.Out is one of the input's files, which it would overwrite.
func (q *Request) spareInput(files []table.File) error {
	out, err := os.Stat(q.Out)
	if err != nil {
		return nil //nolint:nilerr // it does not exist yet
	}
	for _, f := range files {
		if in, err := os.Stat(f.Path); err == nil && os.SameFile(in, out) {
			return problem.New(problem.Usage, "--out %s: it is the table to score; choose another name", q.Out)
		}
	}
	return nil
}

// outputColumns returns the output's columns: those of the table t to keep, then those that are added. An error of kind
// Usage says that --keep names a column twice, or one that the table lacks or that is added, or that the model cannot
// give as many reasons as --explain asks for.
func (q *Request) outputColumns(t *table.Table) ([]table.Column, error) {
	// The kept columns.
	var out []table.Column
	for n, name := range q.Keep {
		if slices.Contains(q.Keep[:n], name) {
			return nil, problem.New(problem.Usage, "--keep %s is given twice", name)
		}
		i := slices.IndexFunc(t.Columns(), func(c table.Column) bool { return c.Name == name })
		if i < 0 {
			var names []string
			for _, c := range t.Columns() {
				names = append(names, c.Name)
			}
			return nil, problem.New(problem.Usage, "--keep %s: %s has no such column%s", name, q.In,
				table.Suggest(name, names))
		}
		out = append(out, t.Columns()[i])
	}

	// The added ones.
	if most := q.Scorer.Model.Features(); q.Explain > most {
		return nil, problem.New(problem.Usage, "--explain top:%d: the model has %d features", q.Explain, most)
	}
	if q.Explain > 0 && len(q.Scorer.Encoding.Classes) > 0 {
		return nil, problem.New(problem.Usage, "--explain top:%d: each of %d classes has reasons of its own; use "+
			"--contributions, which adds columns for each class", q.Explain, len(q.Scorer.Encoding.Classes))
	}
	for _, c := range q.ownColumns() {
		if slices.Contains(q.Keep, c.Name) {
			return nil, problem.New(problem.Usage, "--keep %s: a column of this name is added", c.Name)
		}
		out = append(out, c)
	}
	return out, nil
}

// ownColumns returns the columns that the output adds to the kept ones, in their order. A label of several classes has
// one of each score for every class, NAME:CLASS.
func (q *Request) ownColumns() []table.Column {
	var out []table.Column
	add := func(name string, t dataset.Type) { out = append(out, table.Column{Name: name, Type: t}) }

	// The prediction: a number, or the likeliest class and a probability for each.
	classes := q.Scorer.Encoding.Classes
	if len(classes) == 0 {
		add(ColumnPrediction, dataset.Float)
		classes = []string{""} // one, which has no name
	} else {
		add(ColumnPrediction, dataset.Text)
		for _, class := range classes {
			add(ColumnPrediction+":"+class, dataset.Float)
		}
	}
	addFor := func(class, name string) {
		if class != "" {
			name += ":" + class
		}
		add(name, dataset.Float)
	}

	// What flags ask for.
	if q.Raw {
		for _, class := range classes {
			addFor(class, ColumnRaw)
		}
	}
	if q.Contributions {
		for _, class := range classes {
			prefix := ColumnContribution
			if class != "" {
				prefix += class + ":"
			}
			for _, f := range q.Scorer.Encoding.Features {
				add(prefix+f.Name, dataset.Float)
			}
			addFor(class, ColumnExpected)
		}
	}
	for i := range q.Explain {
		add(fmt.Sprintf(ColumnReason, i+1), dataset.Text)
		add(fmt.Sprintf(ColumnReasonAdds, i+1), dataset.Float)
	}
	return out
}

// writer returns the writer for the output's suffix, and the function that completes what it has written to w. Another
// suffix is an error of kind Usage.
func (q *Request) writer(w io.Writer, columns []table.Column) (writer, func() error, error) {
	switch strings.ToLower(filepath.Ext(q.Out)) {
	case ".parquet":
		p, err := table.NewParquetWriter(w, columns, table.Snappy)
		if err != nil {
			return nil, nil, err
		}
		return p, p.Close, nil
	case ".tsv":
		c, err := table.NewCSVWriter(w, columns, '\t')
		return c, func() error { return nil }, err
	case ".csv":
		c, err := table.NewCSVWriter(w, columns, ',')
		return c, func() error { return nil }, err
	}

	return nil, nil, problem.New(problem.Usage, "--out %s: give a name that ends in .csv, .tsv or .parquet", q.Out)
}

// WriteCSV writes the CSV that Run writes for rows with these predictions, without any flags. predicted has one number
// for each row or, of several classes, [rows x classes].
func WriteCSV(w io.Writer, s *scorer.Scorer, predicted []float64) error {
	q := Request{Scorer: s}
	c, err := table.NewCSVWriter(w, q.ownColumns(), ',')
	if err != nil {
		return err
	}
	return c.Write(q.outputBatch(&table.Batch{Rows: len(predicted) / s.Model.Outputs()}, nil, predicted, nil))
}

// outputBatch returns the batch to write for the rows of b, in the order of outputColumns. raw and predicted are
// [rows x outputs]; added are the contributions, [rows x outputs x (features + 1)], or nil if none were asked for.
func (q *Request) outputBatch(b *table.Batch, raw, predicted, added []float64) *table.Batch {
	out := &table.Batch{Rows: b.Rows, First: b.First, Names: slices.Clone(q.Keep)}
	for _, c := range q.ownColumns() {
		out.Names = append(out.Names, c.Name)
	}
	for _, name := range q.Keep {
		out.Columns = append(out.Columns, *b.Column(name))
	}

	// byColumn adds numbers, which are [rows x width], as width columns: it transposes them, so that number i goes to
	// row i/width of column i%width. Without rows it adds none.
	byColumn := func(rows []float64) {
		width := len(rows) / max(b.Rows, 1)
		columns := make([]float64, len(rows))
		for i, x := range rows {
			columns[i%width*b.Rows+i/width] = x
		}
		for ; len(columns) > 0; columns = columns[b.Rows:] {
			out.Columns = append(out.Columns, dataset.Values{Type: dataset.Float, Float: columns[:b.Rows]})
		}
	}

	// The columns in the order in which ownColumns has named them.
	if classes := q.Scorer.Encoding.Classes; len(classes) > 0 {
		out.Columns = append(out.Columns, dataset.Values{Type: dataset.Text, Text: Likeliest(predicted, classes)})
	}
	byColumn(predicted)
	if q.Raw {
		byColumn(raw)
	}
	if q.Contributions {
		byColumn(added)
	}
	if q.Explain > 0 {
		out.Columns = append(out.Columns, q.pickReasons(b.Rows, added)...)
	}
	return out
}

// pickReasons returns 2 x q.Explain columns: for each row the names of the features whose contributions are the
// farthest from 0, each followed by its contribution. Of equal ones the first feature comes first. added are the
// contributions, [rows x (features + 1)]; the last of a row is what all rows begin with, which is no feature's.
func (q *Request) pickReasons(rows int, added []float64) []dataset.Values {
	features := q.Scorer.Encoding.Features
	out := make([]dataset.Values, 2*q.Explain)
	order := make([]int, len(features))
	for r := range rows {
		own := added[r*(len(features)+1):][:len(features)]
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(math.Abs(own[b]), math.Abs(own[a])), a-b)
		})
		for i, f := range order[:q.Explain] {
			out[2*i].Type, out[2*i+1].Type = dataset.Text, dataset.Float
			out[2*i].Text = append(out[2*i].Text, features[f].Name)
			out[2*i+1].Float = append(out[2*i+1].Float, own[f])
		}
	}
	return out
}

// Likeliest returns for each row the name of the class with the highest prediction, the first of equal ones. predicted
// is [rows x classes]; classes are the names, at least one.
func Likeliest(predicted []float64, classes []string) []string {
	var names []string
	for row := range slices.Chunk(predicted, len(classes)) {
		best := 0
		for c, p := range row {
			if p > row[best] {
				best = c
			}
		}
		names = append(names, classes[best])
	}
	return names
}
