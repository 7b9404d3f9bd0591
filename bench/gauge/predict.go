package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/dmitryikh/leaves"
	"github.com/spf13/cobra"

	"coppice/internal/gbt"
	"coppice/internal/program"
)

type predictOptions struct {
	model, values, scores, scorer string
	threads, repeat               int
}

// predicted is what scoring took, reading model and values not counted.
type predicted struct {
	Scorer  string  `json:"scorer"`
	Rows    int     `json:"rows"`
	Trees   int     `json:"trees"`
	Threads int     `json:"threads"`
	Seconds float64 `json:"seconds"`
	// Processor is the processor time of one call, on average over all but the first, which compiles the trees; 0 for
	// a single call.
	Processor float64 `json:"cpu_seconds,omitempty"`
}

func predictCommand(out io.Writer) *cobra.Command {
	o := predictOptions{scorer: "coppice", threads: 1, repeat: 1}
	cmd := &cobra.Command{
		Use: "predict --model model.txt --values FILE", Short: "Time raw scores of rows in memory", Args: cobra.NoArgs,
		Long: `FILE holds float64 values, row by row, little endian, without a header; NaN is a missing one.
The time is that of scoring all rows that are already in memory.`,
		Example: "  gauge predict --model model.txt --values valid.f64 --scorer leaves --scores scores.f64",
		RunE: func(*cobra.Command, []string) error {
			p, err := o.run()
			if err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(p)
		},
	}

	cmd.Flags().StringVar(&o.model, "model", "", "model as LightGBM text (required)")
	cmd.Flags().StringVar(&o.values, "values", "", "rows to score (required)")
	cmd.Flags().StringVar(&o.scores, "scores", "", "where to write the scores, float64 each")
	cmd.Flags().StringVar(&o.scorer, "scorer", o.scorer, "coppice or leaves")
	cmd.Flags().IntVar(&o.threads, "threads", o.threads, "threads that score")
	cmd.Flags().IntVar(&o.repeat, "repeat", o.repeat, "how often the rows are scored, for the processor time of few")
	_ = cmd.MarkFlagRequired("model")
	_ = cmd.MarkFlagRequired("values")
	return cmd
}

func (o *predictOptions) run() (*predicted, error) {
	if o.threads < 1 || o.threads > 1024 {
		return nil, program.Usagef("--threads is %d: use 1 to 1024", o.threads)
	}
	text, err := os.ReadFile(o.model)
	if err != nil {
		return nil, err
	}

	m, err := gbt.ReadModel(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.model, err)
	}

	x, err := readFloats(o.values)
	if err != nil {
		return nil, err
	}

	if len(x) == 0 || len(x)%m.Features() != 0 {
		return nil, program.Usagef("%s holds %d values: the model has %d features, and so many make a row", o.values,
			len(x), m.Features())
	}
	score := make([]float64, len(x)/m.Features())
	predict, err := o.predictor(m, text)
	if err != nil {
		return nil, err
	}

	runtime.GC() // what reading left behind is not scoring's
	start := time.Now()
	err = predict(x, score)
	took := time.Since(start)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.scorer, err)
	}

	processor := 0.0
	if o.repeat > 1 {
		for len(score)*o.repeat < 1024 { // until the trees are compiled
			o.repeat *= 2
		}
		for range o.repeat {
			if err := predict(x, score); err != nil {
				return nil, fmt.Errorf("%s: %w", o.scorer, err)
			}
		}
		before := processorTime()
		for range o.repeat {
			if err := predict(x, score); err != nil {
				return nil, fmt.Errorf("%s: %w", o.scorer, err)
			}
		}
		processor = (processorTime() - before).Seconds() / float64(o.repeat)
	}

	if o.scores != "" {
		if err := writeFloats(o.scores, score); err != nil {
			return nil, err
		}
	}

	return &predicted{o.scorer, len(score), len(m.Trees), o.threads, took.Seconds(), processor}, nil
}

// processorTime is how long this process has computed so far.
func processorTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // it cannot fail with these arguments
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// predictor is the scorer that was asked for, its model loaded.
func (o *predictOptions) predictor(m *gbt.Model, text []byte) (func(x, score []float64) error, error) {
	switch o.scorer {
	case "coppice":
		return func(x, score []float64) error { return m.PredictAll(x, score, o.threads) }, nil
	case "leaves":
		other, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text)), false)
		if err != nil {
			return nil, fmt.Errorf("leaves cannot read %s: %w", o.model, err)
		}
		return func(x, score []float64) error {
			return other.PredictDense(x, len(score), m.Features(), score, 0, o.threads)
		}, nil
	}

	return nil, program.Usagef("--scorer %q: use coppice or leaves", o.scorer)
}

// readFloats reads a file of little-endian float64.
func readFloats(path string) ([]float64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data)%8 != 0 {
		return nil, program.Usagef("%s has %d bytes, and float64 values have 8 each", path, len(data))
	}
	x := make([]float64, len(data)/8)
	_, err = binary.Decode(data, binary.LittleEndian, x)
	return x, err
}

func writeFloats(path string, x []float64) error {
	data, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
