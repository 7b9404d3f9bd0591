package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SpecError is a part of the search that cannot be turned into trials. It unwraps to what the trainer, or this package,
// says about it.
type SpecError struct {
	Part string // such as "fixed[1]", "grid num_leaves=31" or "random learning_rate"
	Err  error
}

// Error gives "part: what".
func (e *SpecError) Error() string { return fmt.Sprintf("search: %s: %v", e.Part, e.Err) }

// Unwrap gives the cause.
func (e *SpecError) Unwrap() error { return e.Err }

// IsInput says that what was handed in is at fault, and will be the next time.
func (*SpecError) IsInput() bool { return true }

// Path is where the part stands in a specification, such as search.constraints[0].
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

// TooManyError says that the configurations that were written down are more than the trials that were asked for.
type TooManyError struct{ Fixed, Grid, Trials int }

// Error gives the numbers and the remedy.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("search: %d fixed and %d grid configurations are more than trials: %d; raise trials to at least %d or shorten the grid",
		e.Fixed, e.Grid, e.Trials, e.Fixed+e.Grid)
}

// IsInput says that what was handed in is at fault, and will be the next time.
func (*TooManyError) IsInput() bool { return true }

// SpaceError says that random draws did not find as many configurations as were asked for.
type SpaceError struct {
	Trials, Found int // asked for, and found with the fixed ones and the grid
	Draws         int
	Repeats       int            // draws that were another trial again
	Violations    map[string]int // draws that broke a constraint, by the first that they broke
	Refused       int            // draws that the trainer refused
	Refusal       string         // the first of these
}

// Error says what became of the draws.
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

// IsInput says that what was handed in is at fault, and will be the next time.
func (*SpaceError) IsInput() bool { return true }
