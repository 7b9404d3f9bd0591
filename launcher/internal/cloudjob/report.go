package cloudjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// Progress is a task's progress.
type Progress struct {
	Format int         `json:"format"`
	Step   stager.Step `json:"step"` // "" before the first
	Done   int64       `json:"done"` // in the step's unit, mostly bytes
	Total  int64       `json:"total"`
}

// JobOutcome is how a task ended. Every attempt overwrites the previous one's.
type JobOutcome struct {
	Format  int       `json:"format"`
	Attempt int       `json:"attempt"`
	Version string    `json:"version,omitempty"` // of the staged dataset
	Existed bool      `json:"existed,omitempty"`
	Error   string    `json:"error,omitempty"` // "" on success
	Code    int       `json:"code,omitempty"`  // exit code
	At      time.Time `json:"at"`
}

const (
	progressFile = "progress.json"
	outcomeFile  = "outcome.json"
	maxReport    = 1 << 20
	maxError     = 16 << 10
)

// putJSON overwrites an object with a value.
func putJSON(ctx context.Context, store blob.Store, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = store.Put(ctx, name, blob.Any, strings.NewReader(string(text)+"\n"))
	return err
}

// readProgress reads a task's progress. It returns nil if there is none, or none that is valid: people look at it, and
// it is soon written again.
func readProgress(ctx context.Context, store blob.Store, folder string) (*Progress, error) {
	data, _, err := blob.ReadAll(ctx, store, folder+progressFile, maxReport)
	if errors.Is(err, blob.ErrNotExist) || problem.Is(err, problem.Damaged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeProgress(data), nil
}

// stepPattern matches the names of steps, also of those that another build adds: they are shown on a terminal.
var stepPattern = regexp.MustCompile(`^[a-z]{0,20}$`)

// decodeProgress returns nil for what no task writes as its progress, such as one with more done than there is.
func decodeProgress(data []byte) *Progress {
	var p Progress
	if json.Unmarshal(data, &p) != nil || p.Format != 1 || !stepPattern.MatchString(string(p.Step)) || p.Done < 0 ||
		p.Total < p.Done {
		return nil
	}
	return &p
}

// readOutcome reads how the job's task has ended, nil if it has not. A damaged outcome is an error of kind Damaged.
func readOutcome(ctx context.Context, store blob.Store, folder string) (*JobOutcome, error) {
	data, _, err := blob.ReadAll(ctx, store, folder+outcomeFile, maxReport)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeOutcome(data)
}

// decodeOutcome reads an outcome, which a program of another build may have written. In its error text, which is
// printed on a terminal, control characters other than line breaks and tabs are replaced. What is no outcome, such as
// one of another format or one with neither a version nor an error, is an error of kind Damaged.
func decodeOutcome(data []byte) (*JobOutcome, error) {
	var o JobOutcome
	err := json.Unmarshal(data, &o)
	switch {
	case err != nil:
	case o.Format != 1:
		err = fmt.Errorf("format %d; this build reads 1", o.Format)
	case o.Error == "" && o.Version == "":
		err = fmt.Errorf("neither a result nor an error")
	case o.Code < 0 || o.Code > 255:
		err = fmt.Errorf("code is %d, and exit codes are 0 to 255", o.Code)
	}
	if err != nil {
		return nil, sweep.NotA("job's outcome", err)
	}

	o.Error = strings.Map(func(r rune) rune { // it is shown on a terminal
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, o.Error)
	return &o, nil
}
