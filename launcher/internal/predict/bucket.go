package predict

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
)

// Bucket is a request to score the tables of a bucket, each into one of its own: a table at a time is on the disk, and
// a batch of it in memory.
//
// An output is created once, complete or not at all, and one that is there is not made again. So a run that was
// interrupted goes on where it was, and several runs at once write every row once.
type Bucket struct {
	Request            // In and Out are set by Run
	From, To           blob.Store
	Pattern            string // of the objects in From: a name, a glob or a folder
	Prefix             string // of the objects in To
	Same               bool   // From and To are one bucket
	Scored, WereScored int    // tables: those of this run, and of earlier ones
}

// Run scores the tables that are not scored yet, one after the other, and counts them in Scored, and those that have an
// output already in WereScored. It stops at the first error; outputs until then stay. The result has the rows of this
// run only. Progress is called with the rows of all tables of this run so far.
func (q *Bucket) Run(ctx context.Context) (*Result, error) {
	inputs, err := q.listTables(ctx)
	if err != nil {
		return nil, err
	}
	var in cell.Inputs
	progress := q.Progress
	for _, o := range inputs {
		name := q.outputName(o.Name)
		if _, err := q.To.Stat(ctx, name); err == nil {
			q.WereScored++
			continue
		} else if !errors.Is(err, blob.ErrNotExist) {
			return nil, fmt.Errorf("look for %s: %w", name, err)
		}
		before := in.Rows
		if progress != nil {
			q.Progress = func(rows int64) { progress(before + rows) }
		}
		done, err := q.scoreObject(ctx, o, name)
		if err != nil {
			return nil, fmt.Errorf("score %s: %w", o.Name, err)
		}
		in.Add(&done.counts)
		q.Scored++
	}
	return &Result{Rows: in.Rows, Inputs: compare(&in, q.Scorer.Usual)}, nil
}

// listTables returns the objects that match the pattern. It is an error if there are none or too many, if two of them
// would have one output, or if an output would itself match the pattern.
func (q *Bucket) listTables(ctx context.Context) ([]blob.Attrs, error) {
	var inputs []blob.Attrs
	outputs := map[string]string{} // by the output's name: its table
	for o, err := range q.From.List(ctx, table.Literal(q.Pattern)) {
		if err != nil {
			return nil, fmt.Errorf("list the tables to score: %w", err)
		}
		if !table.Matches(q.Pattern, o.Name) {
			continue
		}
		if len(inputs) == table.MaxFiles {
			return nil, problem.New(problem.Input, "--in: more than %d tables; give them in several runs",
				table.MaxFiles)
		}
		name := q.outputName(o.Name)
		if other, ok := outputs[name]; ok {
			return nil, problem.New(problem.Input, "--in: %s and %s would both be scored into %s; rename one", other,
				o.Name, name)
		}
		if q.Same && table.Matches(q.Pattern, name) {
			return nil, problem.New(problem.Usage, "--out: %s would itself be a table to score; give another prefix",
				name)
		}
		outputs[name] = o.Name
		inputs = append(inputs, o)
	}
	if len(inputs) == 0 {
		return nil, problem.New(problem.NotFound, "--in: no object matches %s", q.Pattern)
	}
	return inputs, nil
}

// outputName returns the name of the output for an input, whose name matches the pattern: q.Prefix, and what of the
// input's name follows the last slash before the pattern's first special character. So the glob in/day-*/*.csv keeps
// the folders of days, as in day-1/a.csv, and of the folder in/clicks the outputs are clicks/a.csv. The suffix, with
// that of a compression, is replaced by .parquet for Parquet, else by .csv.
func (q *Bucket) outputName(name string) string {
	// All matching names begin with the literal part, and so with the folders in it.
	folders := strings.LastIndex(table.Literal(q.Pattern), "/") + 1
	rest := name[folders:]

	// Cut the suffix, which is in lower case, and what follows it off, unless it is all of the name. The name is not
	// searched in lower case, in which some letters have another number of bytes: İ has two, and i one.
	suffix := table.Suffix(rest)
	for i := len(rest) - len(suffix); suffix != "" && i > 0; i-- {
		if strings.EqualFold(rest[i:i+len(suffix)], suffix) {
			rest = rest[:i]
			break
		}
	}
	if suffix == ".pq" || suffix == ".parquet" {
		return q.Prefix + rest + ".parquet"
	}
	return q.Prefix + rest + ".csv"
}

// scoreObject scores the object o of q.From through temporary files of this machine, which it removes, and writes the
// scores to q.To as the object called name. If that exists by then, another run has written the same, which is no
// error.
func (q *Bucket) scoreObject(ctx context.Context, o blob.Attrs, name string) (*Result, error) {
	dir, err := os.MkdirTemp("", "predict-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	one := q.Request
	one.In, one.Out = filepath.Join(dir, "in-"+path.Base(o.Name)), filepath.Join(dir, "out"+path.Ext(name))
	if err := blob.Fetch(ctx, q.From, o, one.In, func(int64) {}); err != nil {
		return nil, err
	}
	done, err := Run(ctx, one)
	if err != nil {
		return nil, err
	}

	f, err := os.Open(one.Out)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := q.To.Put(ctx, name, blob.Absent, f); err != nil && !errors.Is(err, blob.ErrPrecondition) {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return done, nil
}
