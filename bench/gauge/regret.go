package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"coppice/internal/program"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// regretFlags say what is searched, and how trials are asked for.
type regretFlags struct {
	python, data  string
	methods       []string
	seeds, trials int
	batches       []int
	anonymous     bool
}

func regretCommand(out io.Writer) *cobra.Command {
	var f regretFlags
	cmd := &cobra.Command{
		Use: "regret", Short: "Search the surrogate's tasks, or synthetic functions; one JSON object for each " +
			"method, task and batch", Args: cobra.NoArgs,
		Example: "  gauge regret --data ../shared/data/surrogate --python build/venv-peers/bin/python --methods " +
			"auto,random --batches 1,16 --seeds 4",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), out, cmd.ErrOrStderr()) },
	}

	cmd.Flags().StringVar(&f.python, "python", "python3", "a Python with numpy and onnxruntime")
	cmd.Flags().StringVar(&f.data, "data", "", "folder of the surrogate (default: synthetic functions)")
	cmd.Flags().StringSliceVar(&f.methods, "methods", search.Methods(), "ways of searching")
	cmd.Flags().IntVar(&f.seeds, "seeds", 4, "searches with each")
	cmd.Flags().IntVar(&f.trials, "trials", 50, "trials of a search")
	cmd.Flags().IntSliceVar(&f.batches, "batches", []int{1, 16}, "trials asked for at once")
	cmd.Flags().BoolVar(&f.anonymous, "anonymous", false,
		"hide the names of the surrogate's parameters, so that none is recognized")
	return cmd
}

// searched is what one way of searching found on one task. Best and Median of the task are what regret is measured
// with; a peer's program leaves them out.
type searched struct {
	Method string    `json:"method"`
	Task   string    `json:"task"`
	Batch  int       `json:"batch"`
	Trials int       `json:"trials"`
	Found  []float64 `json:"found"` // by seed

	Millis float64  `json:"ms_per_proposal,omitempty"`
	Best   *float64 `json:"best,omitempty"`
	Median *float64 `json:"median,omitempty"`
}

func (f *regretFlags) run(ctx context.Context, out, errOut io.Writer) (err error) {
	if f.data == "" {
		tasks, err := synthetic()
		if err != nil {
			return err
		}
		return f.searchAll(tasks, out)
	}

	s, err := startSurrogates(ctx, errOut, f.python, f.data)
	if err != nil {
		return err
	}
	defer func() {
		if closed := s.close(); err == nil {
			err = closed
		}
	}()
	tasks, err := s.tasks(f.anonymous)
	if err != nil {
		return err
	}
	return f.searchAll(tasks, out)
}

func (f *regretFlags) searchAll(tasks []task, out io.Writer) error {
	for _, batch := range f.batches {
		for _, method := range f.methods {
			for i := range tasks {
				t := &tasks[i]
				r := searched{Method: method, Task: t.Name, Batch: batch, Trials: f.trials, Best: &t.Best,
					Median: &t.Median}
				if f.anonymous {
					r.Method += ", names hidden"
				}
				var spent time.Duration
				for seed := range f.seeds {
					found, took, err := f.search(t, search.Ask{Search: t.Space, Method: method, Maximize: true,
						Seed: uint64(seed), Number: batch})
					if err != nil {
						return fmt.Errorf("%s on %s: %w", method, t.Name, err)
					}
					spent += took
					r.Found = append(r.Found, found)
				}

				r.Millis = float64(spent.Microseconds()) / 1000 / float64(f.trials*f.seeds)
				if err := json.NewEncoder(out).Encode(r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// search runs one search to its end: the best value that it finds, and the time that proposing took.
func (f *regretFlags) search(t *task, r search.Ask) (best float64, spent time.Duration, err error) {
	batch := r.Number
	best = math.Inf(-1)
	for len(r.Known) < f.trials {
		r.Number = min(batch, f.trials-len(r.Known))
		start := time.Now()
		next, err := search.Next(r)
		if err != nil {
			return 0, 0, err
		}
		spent += time.Since(start)

		var configs []sweep.Params
		for _, n := range next {
			configs = append(configs, n.Params)
		}
		values, err := t.Values(configs)
		if err != nil {
			return 0, 0, err
		}
		for i, n := range next {
			best = max(best, rounded(values[i]))
			r.Known = append(r.Known, sweep.Seen{Trial: n.Trial, Params: n.Params, Status: sweep.StatusDone,
				Score: &values[i]})
		}
	}
	return best, spent, nil
}

// rounded leaves seven digits, as the peers' programs do.
func rounded(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 7, 64), 64)
	if err != nil {
		return v
	}
	return short
}

func regretTableCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:     "regret-table FILE...",
		Short:   "What regret and peers wrote as a table: mean normalised regret with its standard error",
		Args:    cobra.MinimumNArgs(1),
		Example: "  gauge regret-table build/bench/search.jsonl",
		RunE: func(_ *cobra.Command, files []string) error {
			var all []searched
			for _, file := range files {
				some, err := readSearched(file)
				if err != nil {
					return err
				}
				all = append(all, some...)
			}
			return regretTable(out, all)
		},
	}
}

func readSearched(file string) ([]searched, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var all []searched
	for decoder := json.NewDecoder(in); ; {
		var s searched
		err := decoder.Decode(&s)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, s)
	}
}

// yardstick is what normalises the regrets of a task.
type yardstick struct {
	median    float64
	reference float64 // the best of a large random sample, which the objective itself states
	shared    float64 // the best that any search in the table has found, and at least the reference
}

// yardsticks gives one for each task; a task whose median nothing states is an error.
func yardsticks(all []searched) (map[string]*yardstick, error) {
	of := map[string]*yardstick{}
	for _, s := range all {
		if s.Best != nil && s.Median != nil {
			of[s.Task] = &yardstick{*s.Median, *s.Best, *s.Best}
		}
	}

	for _, s := range all {
		y := of[s.Task]
		if y == nil {
			return nil, program.Usagef("nothing says what the median of %s is; give the file of `gauge regret`, too",
				s.Task)
		}
		y.shared = max(y.shared, slices.Max(s.Found))
	}
	return of, nil
}

// regretTable prints (best - found) / (best - median) twice: with the reference as best, below which a search can come,
// and with the best that any search in the table has found.
func regretTable(out io.Writer, all []searched) error {
	of, err := yardsticks(all)
	if err != nil {
		return err
	}

	type way struct {
		method        string
		batch, trials int
	}
	reference, shared, millis := map[way][]float64{}, map[way][]float64{}, map[way][]float64{}
	var order []way
	for _, s := range all {
		w, y := way{s.Method, s.Batch, s.Trials}, of[s.Task]
		if !slices.Contains(order, w) {
			order = append(order, w)
		}
		for _, found := range s.Found {
			reference[w] = append(reference[w], (y.reference-found)/(y.reference-y.median))
			shared[w] = append(shared[w], (y.shared-found)/(y.shared-y.median))
		}
		millis[w] = append(millis[w], s.Millis)
	}

	fmt.Fprintln(out, "| method | trials | at once | regret against the reference | standard error | against the "+
		"best of all | standard error | ms per proposal |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, w := range order {
		took := strings.TrimSuffix(fmt.Sprintf("%.1f", stat.Mean(millis[w], nil)), ".0")
		fmt.Fprintf(out, "| %s | %d | %d | %s | %s | %s |\n", w.method, w.trials, w.batch,
			meanAndError(reference[w]), meanAndError(shared[w]), took)
	}
	return nil
}

// meanAndError are two cells of a table.
func meanAndError(values []float64) string {
	mean, deviation := stat.MeanStdDev(values, nil)
	return fmt.Sprintf("%.4f | %.4f", mean, stat.StdErr(deviation, float64(len(values))))
}
