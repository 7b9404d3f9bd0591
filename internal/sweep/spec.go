package sweep

import (
	"fmt"
	"math"
	"time"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// Spec is a sweep.yaml: what a person asks for. ParseSpec has checked everything that can be checked without the
// dataset.
type Spec struct {
	doc *strictyaml.Document // that it was read from; nil for a spec of a plan

	Name      string `yaml:"name" json:"name"`
	Dataset   string `yaml:"dataset" json:"dataset"`     // NAME, or NAME@VERSION
	Model     string `yaml:"model" json:"model"`         // name in the registry
	Objective string `yaml:"objective" json:"objective"` // by its canonical name
	// selects the winner, on valid; with several objectives the first
	Metric string `yaml:"-" json:"metric"`
	Trials int    `yaml:"trials" json:"trials"` // in a spec 0 with Search.Features: as many as it takes
	Seed   uint64 `yaml:"seed" json:"seed"`

	Metrics MetricNames `yaml:"metric" json:"-"` // as written; ParseSpec derives Metric and Goals from it

	// Goals are the objectives of a sweep with several, Metric first; otherwise empty. Pick then says which trial wins.
	Goals []Goal `yaml:"-" json:"goals,omitempty"`
	Pick  *Pick  `yaml:"pick" json:"pick,omitempty"`

	// EarlyStoppingRounds ends a trial when Metric has not improved on valid for that many trees; 0 never does.
	EarlyStoppingRounds int `yaml:"early_stopping_rounds" json:"early_stopping_rounds,omitempty"`

	Params  Params  `yaml:"params" json:"params,omitempty"` // for every trial, beneath the trial's own
	Search  Search  `yaml:"search" json:"search"`
	Machine Machine `yaml:"machine" json:"machine"`
	Limits  Limits  `yaml:"limits" json:"limits"`
	Gate    *Gate   `yaml:"gate" json:"gate,omitempty"`

	// Validate, if not nil, evaluates configurations by cross-validation instead of on valid.
	Validate *Validate `yaml:"validate" json:"validate,omitempty"`

	// Final, if not nil, trains the winner's configuration again, on more rows, for the version.
	Final *Final `yaml:"final" json:"final,omitempty"`

	// Ensemble makes the final training one of several models. A plan's spec always says of how many.
	Ensemble *Ensemble `yaml:"ensemble" json:"ensemble,omitempty"`

	// Budget is the USD that the sweep's machines may cost; 0 is no limit. It does not affect the sweep's identity.
	Budget float64 `yaml:"budget" json:"budget,omitempty"`

	// Labels say whose cost the sweep is: its Batch jobs carry them. Like Budget they do not affect its identity.
	Labels map[string]string `yaml:"labels" json:"labels,omitempty"`

	// Require are conditions on a finished trial, such as "log_loss <= 0.3" or "trees <= 500"; only trials that meet
	// all of them may win.
	Require []string `yaml:"require" json:"require,omitempty"`
}

// Search says which configurations to try: the fixed ones, then the grid's, then random draws up to Spec.Trials, or
// what Method makes of the results.
type Search struct {
	Fixed       []Params                `yaml:"fixed" json:"fixed,omitempty"`
	Grid        map[string][]any        `yaml:"grid" json:"grid,omitempty"`
	Random      map[string]Distribution `yaml:"random" json:"random,omitempty"`
	Constraints []string                `yaml:"constraints" json:"constraints,omitempty"`

	// Features, if not nil, makes the trials differ in their columns instead; all other fields are empty then.
	Features *Features `yaml:"features" json:"features,omitempty"`

	// one of Methods; empty draws at random when the sweep is planned
	Method     string `yaml:"method" json:"method,omitempty"`
	Population int    `yaml:"population" json:"population,omitempty"` // of MethodPBT
	WarmStart  string `yaml:"warm_start" json:"warm_start,omitempty"` // WarmAuto, or empty
	Stop       *Stop  `yaml:"stop" json:"stop,omitempty"`             // nil lets every trial run to its end
}

// Distribution is what a parameter is drawn from; exactly one field is set.
type Distribution struct {
	Uniform    []float64 `yaml:"uniform" json:"uniform,omitempty"`         // [low, high)
	LogUniform []float64 `yaml:"log_uniform" json:"log_uniform,omitempty"` // [low, high), uniform in the logarithm
	Int        []int64   `yaml:"int" json:"int,omitempty"`                 // [low, high], whole numbers
	// [low, high], whole numbers, uniform in the logarithm
	LogInt []int64 `yaml:"log_int" json:"log_int,omitempty"`
	// [low, high, step]: low, low+step ... up to high
	Step   []float64 `yaml:"step" json:"step,omitempty"`
	Choice []any     `yaml:"choice" json:"choice,omitempty"` // one of these

	// DrawnAs is the alias under which the spec names the parameter, if any: draws are keyed by the name as written, so
	// that a sweep draws the same values whenever it is planned.
	DrawnAs string `yaml:"-" json:"drawn_as,omitempty"`
}

// Check checks that a distribution in a spec has exactly one of its forms, with valid bounds.
func (d Distribution) Check() error {
	forms := 0
	for _, given := range []bool{d.Uniform != nil, d.LogUniform != nil, d.Int != nil, d.LogInt != nil, d.Step != nil,
		d.Choice != nil} {
		if given {
			forms++
		}
	}
	if forms != 1 {
		return fmt.Errorf("give one of uniform, log_uniform, int, log_int, step and choice, not %d", forms)
	}

	switch {
	case d.Uniform != nil:
		return checkBounds(d.Uniform, false)
	case d.LogUniform != nil:
		return checkBounds(d.LogUniform, true)
	case d.Int != nil:
		return checkBounds(d.Int, false)
	case d.LogInt != nil:
		return checkBounds(d.LogInt, true)
	case d.Step != nil:
		if len(d.Step) != 3 || !(d.Step[0] <= d.Step[1]) || !(d.Step[2] > 0) {
			return fmt.Errorf("step takes [low, high, step] with low <= high and step > 0, not %v", d.Step)
		}
		if (d.Step[1]-d.Step[0])/d.Step[2] > 1e6 {
			return fmt.Errorf("step %v gives over a million values", d.Step)
		}
	case len(d.Choice) == 0:
		return fmt.Errorf("choice is empty")
	}

	return nil
}

// checkBounds checks a range [low, high]. With positive, as on a logarithmic scale, low has to be above 0.
func checkBounds[T int64 | float64](b []T, positive bool) error {
	if len(b) != 2 || !(b[0] < b[1]) {
		return fmt.Errorf("give [low, high] with low < high, not %v", b)
	}
	if positive && !(b[0] > 0) {
		return fmt.Errorf("a logarithmic range has to start above 0, not at %v", b[0])
	}
	return nil
}

// Extremes returns values that stand for all that d can draw, so that a check of them is a check of d. They are every
// choice, or both ends of a range. If d draws fractions there is one in between as well, since a parameter may accept
// only whole numbers. There are none if d has no form.
func (d Distribution) Extremes() []any {
	switch {
	case d.Choice != nil:
		return d.Choice
	case d.Step != nil:
		return []any{d.Step[0], d.Step[1]}
	case d.Int != nil:
		return []any{float64(d.Int[0]), float64(d.Int[1])}
	case d.LogInt != nil:
		return []any{float64(d.LogInt[0]), float64(d.LogInt[1])}
	case d.LogUniform != nil:
		return endsAndFraction(d.LogUniform)
	case d.Uniform != nil:
		return endsAndFraction(d.Uniform)
	}

	return nil
}

// endsAndFraction returns the ends of a range and a number in between. Pi makes that a fraction for all bounds that a
// person would write.
func endsAndFraction(bounds []float64) []any {
	low, high := bounds[0], bounds[1]
	return []any{low, high, low + (high-low)/math.Pi}
}

// Limits end what takes too long. Quorum is the share of trials that must be done or stopped by a rule for a sweep to
// have a winner.
type Limits struct {
	Trial  Duration `yaml:"trial" json:"trial"`
	Sweep  Duration `yaml:"sweep" json:"sweep"`
	Quorum float64  `yaml:"quorum" json:"quorum"`
}

// Duration is a time.Duration that is written "90s" or "2h" in YAML and JSON.
type Duration time.Duration

// String is the form that UnmarshalText reads.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the form that UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a Go duration, such as 1h30m.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("expected a duration such as 90s or 2h, found %q", text)
	}
	*d = Duration(v)
	return nil
}

// MaxTrials bounds a sweep; Batch would run no more tasks anyway.
const MaxTrials = 10_000

// Errorf returns an error about the key at path, of kind input. It has the key's line if the spec was read from a file
// that has the key.
func (s *Spec) Errorf(path, format string, args ...any) error {
	if s.doc != nil {
		return s.doc.Errorf(path, format, args...)
	}
	return problem.New(problem.Input, format, args...)
}
