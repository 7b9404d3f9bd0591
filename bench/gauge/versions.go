package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
)

// versionResult is what became of a version: why it is refused, or its predictions.
type versionResult struct {
	Refused string    `json:"refused,omitempty"`
	Raw     []float64 `json:"raw,omitempty"`
	Scores  []float64 `json:"scores,omitempty"`
	Memory  int       `json:"memory"` // KiB, the most that the process has had so far
	// Odd is set if there are no scores to compare. It is "input" if a row does not fit the version's features, and the
	// scores as text if JSON cannot hold them because some are not finite.
	Odd string `json:"odd,omitempty"`
}

// versionsCommand is `gauge versions`. It reads folders from in, one a line, and prints a versionResult for each to
// out.
func versionsCommand(in io.Reader, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "versions ROWS.csv", Short: "Predict with the versions whose folders are on standard input, one a line",
		Args: cobra.ExactArgs(1),
		Long: `The folders hold the files of version 1 of the model ctr. For each, one JSON object says why it is
refused, or what it predicts. python/tests/fuzz.py compares that with the Python package.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			lines := bufio.NewScanner(in)
			for lines.Scan() {
				files := map[string][]byte{}
				paths, err := filepath.Glob(filepath.Join(lines.Text(), "*"))
				if err != nil {
					return err
				}
				for _, path := range paths {
					if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
						return err
					}
				}
				result, err := scoreVersion(cmd.Context(), files, args[0])
				if err != nil {
					return err
				}
				result.Memory = peakMemory()
				// JSON has no infinity and no NaN: such scores go out as text.
				if err := json.NewEncoder(out).Encode(result); err != nil {
					result = versionResult{Odd: fmt.Sprint(result.Raw, result.Scores)}
					if err := json.NewEncoder(out).Encode(result); err != nil {
						return err
					}
				}
			}
			return lines.Err()
		},
	}
}

// peakMemory returns the most KiB of memory that this process has had so far, and 0 where the system does not tell. It
// does not use getrusage, whose number also counts the process that started this one.
func peakMemory() (kib int) {
	status, _ := os.ReadFile("/proc/self/status")
	if _, text, ok := strings.Cut(string(status), "VmHWM:"); ok {
		_, _ = fmt.Sscan(text, &kib)
	}
	return kib
}

// scoreVersion scores the rows of a CSV file with version 1 of the model ctr, which consists of the files by their
// names. A version that is damaged or incomplete, and rows that do not fit it, are told in the result. An error is
// anything else, such as a CSV file that is not there.
func scoreVersion(ctx context.Context, files map[string][]byte, rows string) (versionResult, error) {
	store := blob.Memory()
	for name, data := range files {
		if _, err := store.Put(ctx, "registry/ctr/versions/1/"+name, blob.Any, bytes.NewReader(data)); err != nil {
			return versionResult{}, err
		}
	}
	r := registry.New(store)
	v, err := r.Get(ctx, "ctr", "1")
	var s *scorer.Scorer
	if err == nil {
		s, err = scorer.Open(ctx, r, v)
	}
	if problem.Is(err, problem.Damaged) || problem.Is(err, problem.NotFound) {
		return versionResult{Refused: err.Error()}, nil
	}
	if err != nil {
		return versionResult{}, err
	}
	defer s.Close()

	paths, err := table.Expand(rows)
	if err != nil {
		return versionResult{}, err
	}
	t, err := table.Open(paths, table.Options{Threads: 1})
	if err != nil {
		return versionResult{}, err
	}
	var result versionResult
	err = t.Read(ctx, s.Columns(), 1000, func(b *table.Batch) error {
		raw, scores, _, err := s.Batch(b, nil, 1, nil)
		result.Raw, result.Scores = append(result.Raw, raw...), append(result.Scores, scores...)
		return err
	})
	if problem.Is(err, problem.Input) {
		return versionResult{Odd: "input"}, nil // a row that is not what the features of this version are made from
	}
	return result, err
}
