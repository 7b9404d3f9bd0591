package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

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
	cmd.Flags().StringSliceVar(&f.methods, "methods", sweep.Methods(), "ways of searching")
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
