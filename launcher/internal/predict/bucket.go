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

// Run scores the tables that are not scored yet, one after the other, and counts both kinds in Scored and WereScored.
// It stops at the first error. The result has the rows of this run only.
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
	outputs := map[string]string{}
	for o, err := range q.From.List(ctx, q.literal()) {
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

// literal is the part of the pattern before its first special character, with which all matching names begin.
func (q *Bucket) literal() string {
	if i := strings.IndexAny(q.Pattern, "*?[\\"); i >= 0 {
		return q.Pattern[:i]
	}
	return strings.TrimSuffix(q.Pattern, "/")
}

// outputName returns the name of the output for the input of a name: q.Prefix and what follows the folder that holds
// all inputs, with the suffix .parquet for Parquet, else .csv.
func (q *Bucket) outputName(name string) string {
	// What follows the last slash that all inputs have in common.
	front := q.literal()
	rest := path.Base(name)
	if i := strings.LastIndex(front, "/"); i >= 0 && strings.HasPrefix(name, front[:i+1]) {
		rest = name[i+1:]
	} else if i < 0 {
		rest = name
	}

	// Replace the suffix.
	suffix := table.Suffix(rest)
	if i := strings.LastIndex(strings.ToLower(rest), suffix); suffix != "" && i > 0 {
		rest = rest[:i]
	}
	if suffix == ".pq" || suffix == ".parquet" {
		return q.Prefix + rest + ".parquet"
	}
	return q.Prefix + rest + ".csv"
}

// scoreObject scores one object of the bucket through temporary files of this machine, and writes the scores as the
// object of the name. If that exists by then, another run has written the same, which is no error.
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
		return nil, fmt.Errorf("write %s: %w", name, err) // if it is there, another run has written the same
	}
	return done, nil
}
