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
	"time"

	"github.com/dmitryikh/leaves"
	"github.com/spf13/cobra"

	"coppice/internal/gbt"
	"coppice/internal/program"
)

// predictOptions are the flags of `gauge predict`: the paths of three files, and which scorer is timed.
type predictOptions struct {
	model, values, scores, scorer string // scores is "" if they are not written
}

// predicted is what `gauge predict` prints. Its seconds are those of scoring alone, without reading model and values.
type predicted struct {
	Scorer  string  `json:"scorer"`
	Rows    int     `json:"rows"`
	Trees   int     `json:"trees"`
	Seconds float64 `json:"seconds"`
}

// predictCommand is `gauge predict`, which prints a predicted to out.
func predictCommand(out io.Writer) *cobra.Command {
	o := predictOptions{scorer: "coppice"}
	cmd := &cobra.Command{
		Use: "predict --model model.txt --values FILE", Args: cobra.NoArgs,
		Short: "Time raw scores of rows in memory, on one thread",
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
	_ = cmd.MarkFlagRequired("model")
	_ = cmd.MarkFlagRequired("values")
	return cmd
}

// run scores all rows and measures that alone: reading, parsing and writing are not in its seconds. A file
// without values, or whose values do not make whole rows of the model's features, is a usage error.
func (o *predictOptions) run() (*predicted, error) {
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

	runtime.GC() // otherwise garbage from reading could be collected in the time that is measured
	start := time.Now()
	err = predict(x, score)
	took := time.Since(start)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.scorer, err)
	}

	if o.scores != "" {
		if err := writeFloats(o.scores, score); err != nil {
			return nil, err
		}
	}

	return &predicted{o.scorer, len(score), len(m.Trees), took.Seconds()}, nil
}

// predictor returns a function of the scorer that was asked for. The function scores the rows in x on one thread and
// writes one score a row. m is the model, and text what it was read from, which leaves reads for itself. Another scorer
// than the two is a usage error.
func (o *predictOptions) predictor(m *gbt.Model, text []byte) (func(x, score []float64) error, error) {
	switch o.scorer {
	case "coppice":
		return func(x, score []float64) error { return m.PredictAll(x, score, 1) }, nil
	case "leaves":
		other, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text)), false)
		if err != nil {
			return nil, fmt.Errorf("leaves cannot read %s: %w", o.model, err)
		}
		return func(x, score []float64) error {
			return other.PredictDense(x, len(score), m.Features(), score, 0, 1)
		}, nil
	}

	return nil, program.Usagef("--scorer %q: use coppice or leaves", o.scorer)
}

// readFloats reads a file of little-endian float64 values. One whose length is not a multiple of 8 bytes is a usage
// error.
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

// writeFloats writes x as such a file, replacing what is there.
func writeFloats(path string, x []float64) error {
	data, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
