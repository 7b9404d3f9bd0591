package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SpecError is a part of the search that cannot be turned into trials. It unwraps to the error of the trainer, or of
// this package.
type SpecError struct {
	Part string // such as "fixed[1]", "grid num_leaves=31" or "random learning_rate"
	Err  error
}

// Error returns "part: what".
func (e *SpecError) Error() string { return fmt.Sprintf("search: %s: %v", e.Part, e.Err) }

// Unwrap returns the cause.
func (e *SpecError) Unwrap() error { return e.Err }

// IsInput says that the input is at fault, permanently.
func (*SpecError) IsInput() bool { return true }

// Path is the part's path in a spec, such as search.constraints[0].
func (e *SpecError) Path() string {
	path := e.Part
	if name, ok := strings.CutPrefix(path, "random "); ok {
		name, condition := strings.CutSuffix(name, ": when")
		path = "random." + name
		if condition {
			path += ".when"
		}
	}
	return "search." + path
}

// TooManyError says that more configurations are listed than trials requested.
type TooManyError struct{ Fixed, Grid, Trials int }

// Error states the numbers and the remedy.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("search: %d fixed and %d grid configurations are more than trials: %d; raise trials to at "+
		"least %d or shorten the grid",
		e.Fixed, e.Grid, e.Trials, e.Fixed+e.Grid)
}

// IsInput says that the input is at fault, permanently.
func (*TooManyError) IsInput() bool { return true }

// SpaceError says that random draws found fewer configurations than requested.
type SpaceError struct {
	Trials, Found int // requested, and found including the fixed ones and the grid
	Draws         int
	Repeats       int            // draws that repeated a trial
	Violations    map[string]int // draws that violated a constraint, by the first one violated
	Refused       int            // draws rejected by the trainer
	Refusal       string         // the first such rejection
}

// Error explains the outcome of the draws.
func (e *SpaceError) Error() string {
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(e.Violations)) {
		parts = append(parts, fmt.Sprintf("%d broke the constraint %s", e.Violations[c], c))
	}
	if e.Repeats > 0 {
		parts = append(parts, fmt.Sprintf("%d repeated another trial", e.Repeats))
	}
	if e.Refused > 0 {
		parts = append(parts, fmt.Sprintf("%d were refused by the trainer (%s)", e.Refused, e.Refusal))
	}

	text := fmt.Sprintf("search: found %d of %d trials", e.Found, e.Trials)
	if e.Draws > 0 {
		text += fmt.Sprintf(": of %d random draws %s", e.Draws, strings.Join(parts, ", "))
	}
	return text + "; loosen the constraints, widen the ranges or ask for fewer trials"
}

// IsInput says that the input is at fault, permanently.
func (*SpaceError) IsInput() bool { return true }
