package sweep

import (
	"fmt"
	"regexp"
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

	// Continue, if not nil, starts every trial from a registered model instead of from scratch.
	Continue *Continue `yaml:"continue" json:"continue,omitempty"`

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

	// When is a condition on other parameters that plans of earlier builds may have, and no search can decide by.
	When any `yaml:"-" json:"when,omitempty"`

	// DrawnAs is the alias under which the spec names the parameter, if any: draws are keyed by the name as written, so
	// that a sweep draws the same values whenever it is planned.
	DrawnAs string `yaml:"-" json:"drawn_as,omitempty"`
}

// Machine says what the trials run on.
type Machine struct {
	Type           string `yaml:"type" json:"type"`                         // a Compute Engine machine type
	Spot           *bool  `yaml:"spot" json:"spot"`                         // default true; never nil once parsed
	VMs            int    `yaml:"vms" json:"vms"`                           // how many at once, default 1
	ThreadsPerTask int    `yaml:"threads_per_task" json:"threads_per_task"` // default 4
	// default auto: as many as CPU and memory allow
	TasksPerVM Auto `yaml:"tasks_per_vm" json:"tasks_per_vm"`
	// disks of 375 GiB on each VM, default auto: the fewest that hold the dataset
	LocalSSD Auto `yaml:"local_ssd" json:"local_ssd"`

	Zones []string `yaml:"zones" json:"zones,omitempty"` // where the VMs may be; default: the deployment's choice

	// Wait is how long a job may go without machines before the next entry of Fallback is tried, default 10m. The last
	// entry waits for as long as it takes.
	Wait     Duration   `yaml:"wait" json:"wait,omitzero"`
	Fallback []Fallback `yaml:"fallback" json:"fallback,omitempty"`
}

// Fallback is what a sweep runs on if the machines before it in the order are not available. Unset fields are as in
// Machine.
type Fallback struct {
	Type  string   `yaml:"type" json:"type,omitempty"`
	Zones []string `yaml:"zones" json:"zones,omitempty"`
	Spot  *bool    `yaml:"spot" json:"spot,omitempty"`
	// not inherited, since each type allows other numbers; default auto
	LocalSSD Auto `yaml:"local_ssd" json:"local_ssd,omitempty"`
}

// MaxFallbacks bounds the list of fallbacks.
const MaxFallbacks = 20

// Choice returns the machines of the sweep's job number n: Machine itself, or Machine changed by a fallback.
func (m Machine) Choice(n int) Machine {
	if n == 0 {
		return m
	}
	f := m.Fallback[n-1]
	if f.Type != "" {
		m.Type = f.Type
	}
	if f.Spot != nil {
		m.Spot = f.Spot
	}
	if f.Zones != nil {
		m.Zones = f.Zones
	}
	m.LocalSSD = f.LocalSSD
	return m
}

// Auto is a count, or "auto" (0), which leaves it to Coppice.
type Auto int

// UnmarshalYAML accepts a whole number or the word auto.
func (a *Auto) UnmarshalYAML(decode func(any) error) error {
	var word string
	if decode(&word) == nil && word == "auto" {
		*a = 0
		return nil
	}
	return decode((*int)(a))
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

// UnmarshalText reads a Go duration such as 1h30m.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("expected a duration such as 90s or 2h, found %q", text)
	}
	*d = Duration(v)
	return nil
}

// Vocabulary is what the contract does not know and the caller of ParseSpec has to provide: the engines' names. Errors
// say what is wrong and what would be right.
type Vocabulary struct {
	Metric func(name string) error         // is there such a metric?
	Goal   func(name string) (Goal, error) // one of several objectives: a metric, or one of GoalFacts
	// the canonical name of a training parameter; an unknown name unchanged
	ParamName func(name string) string
	// is there such a training parameter, and may it have this value?
	Param func(name string, value any) error
	// this condition on parameters by their canonical names, if it can be evaluated
	Constraint func(expression string) (string, error)
	Require    func(expression string) error // can this condition on results be evaluated?
	// can these be combined? The objective's canonical name
	Objective func(objective string, metric string) (string, error)
	Value     func(metric string, value float64) error  // can the metric have this value?
	Machine   func(machineType string) error            // is there such a machine type?
	LocalSSD  func(machineType string, disks int) error // may it have that many local SSDs?
}

var namePattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// CheckName rejects a sweep's, dataset's or model's name that is not 1 to 40 characters of a-z, 0-9 and '-', beginning
// with a letter and ending with a letter or digit: the rule of Batch job ids, which are made from them, and safe in
// paths.
func CheckName(kind, name string) error {
	if !namePattern.MatchString(name) {
		return nameError(kind+" name", name, 40)
	}
	return nil
}

func nameError(what, name string, longest int) error {
	return problem.New(problem.Input,
		"%s %.60q: use 1 to %d of a-z, 0-9 and '-', beginning with a letter and not ending with '-'", what, name,
		longest)
}

// MaxTrials bounds a sweep; Batch would run no more tasks anyway.
const MaxTrials = 10_000

// ParseSpec parses a sweep.yaml. Every error is a *strictyaml.Error that names line and column. Numbers among
// parameters become float64, so that a spec is the same after a round trip through JSON, and names of parameters are
// the canonical ones.
func ParseSpec(file string, data []byte, v Vocabulary) (*Spec, error) {
	var s Spec
	doc, err := strictyaml.Decode(file, data, &s)
	if err != nil {
		return nil, err
	}

	if err := s.refuseZeros(doc); err != nil {
		return nil, err
	}

	// The check is of what the sweep will run with, defaults included.
	s.searchByDefault(doc, v)
	s.fillDefaults(v)
	s.normalizeNumbers()

	for _, check := range []func(*strictyaml.Document, Vocabulary) error{
		s.checkNames, s.checkGoals, s.checkSearch, s.checkFeatures, s.checkMethod, s.checkPopulation, s.checkStop,
		s.checkGiven, s.checkParams, s.checkMachine, s.checkFallback, s.checkConditions, s.checkGate, s.checkContinue,
		s.checkValidate, s.checkFinal, s.checkEnsemble,
	} {
		if err := check(doc, v); err != nil {
			return nil, err
		}
	}

	s.resolve(v)
	s.doc = doc
	return &s, nil
}

// Errorf is an error about the key at path: at its line, if the spec was read from a file that has it.
func (s *Spec) Errorf(path, format string, args ...any) error {
	if s.doc != nil {
		return s.doc.Errorf(path, format, args...)
	}
	return problem.New(problem.Input, format, args...)
}

// refuseZeros rejects a 0 that would silently become the default.
func (s *Spec) refuseZeros(doc *strictyaml.Document) error {
	for _, path := range []string{"machine.vms", "machine.threads_per_task", "limits.quorum"} {
		if x, given := doc.Number(path); given && x == 0 {
			return doc.Errorf(path, "%s is 0: use a number above 0, or leave it out for the default", path)
		}
	}

	autos := []string{"machine.tasks_per_vm", "machine.local_ssd"}
	for i := range s.Machine.Fallback {
		autos = append(autos, fmt.Sprintf("machine.fallback[%d].local_ssd", i))
	}
	for _, path := range autos {
		if x, given := doc.Number(path); given && x == 0 {
			return doc.Errorf(path, "%s is 0: use a number above 0, or auto", path)
		}
	}

	for _, d := range []struct {
		path  string
		value Duration
	}{{"limits.trial", s.Limits.Trial}, {"limits.sweep", s.Limits.Sweep}, {"machine.wait", s.Machine.Wait}} {
		if doc.Has(d.path) && d.value == 0 {
			return doc.Errorf(d.path, "%s is 0s: use a duration such as 90s or 2h, or leave it out for the default",
				d.path)
		}
	}
	return nil
}

// searchByDefault is the search of a spec that has none, or says no more than method: auto, but several trials: the
// parameters that matter on most tables, without those that params has, and the method that is best on most. A model
// that is continued has its parameters.
func (s *Spec) searchByDefault(doc *strictyaml.Document, v Vocabulary) {
	q := &s.Search
	auto := q.Method == MethodAuto && q.Features == nil && len(q.Fixed)+len(q.Grid)+len(q.Random) == 0
	if doc.Has("search") && !auto || s.Trials < 2 || s.Continue != nil {
		return
	}
	s.Search.Method = MethodAuto
	s.Search.Random = map[string]Distribution{
		"learning_rate":    {LogUniform: []float64{0.03, 0.3}},
		"num_leaves":       {LogInt: []int64{8, 255}},
		"min_data_in_leaf": {LogInt: []int64{5, 500}},
		"feature_fraction": {Uniform: []float64{0.4, 1}},
		"lambda_l2":        {LogUniform: []float64{0.001, 20}},
	}
	for name := range s.Params {
		delete(s.Search.Random, v.ParamName(name))
	}
}

func (s *Spec) fillDefaults(v Vocabulary) {
	if len(s.Metrics) > 0 {
		s.Metric = s.Metrics[0]
	}
	if s.Objective == "" {
		s.Objective = "binary"
		_, err := v.Objective(s.Objective, s.Metric)
		for _, name := range []string{"regression", "multiclass"} {
			if _, other := v.Objective(name, s.Metric); err != nil && other == nil {
				s.Objective = name // a metric such as rmse says so
				break
			}
		}
	}
	if name, err := v.Objective(s.Objective, s.Metric); err == nil {
		s.Objective = name
	}
	if s.Model == "" {
		s.Model = s.Name
	}

	s.Search.Stop.fillDefaults()
	if s.Machine.Type == "" {
		s.Machine.Type = "n2-highmem-8" // which the 12 vCPUs of a new account have room for
	}
	if s.Machine.Spot == nil {
		spot := true
		s.Machine.Spot = &spot
	}

	if len(s.Machine.Fallback) > 0 && s.Machine.Wait == 0 {
		s.Machine.Wait = Duration(10 * time.Minute)
	}

	for p, value := range map[*int]int{&s.Machine.VMs: 1, &s.Machine.ThreadsPerTask: 4} {
		if *p == 0 {
			*p = value
		}
	}

	if s.Limits.Trial == 0 {
		s.Limits.Trial = Duration(2 * time.Hour)
	}
	if s.Limits.Sweep == 0 {
		s.Limits.Sweep = Duration(6 * time.Hour)
	}
	if s.Limits.Quorum == 0 {
		s.Limits.Quorum = 0.5
	}

	if s.Gate != nil && s.Gate.Against == "" {
		s.Gate.Against = AgainstChampion
	}
	if s.Gate != nil && s.Gate.Metric == "" {
		s.Gate.Metric = s.Metric
	}
}

func (s *Spec) normalizeNumbers() {
	all := append([]Params{s.Params}, s.Search.Fixed...)
	for _, params := range all {
		for k, v := range params {
			params[k] = normalNumber(v)
		}
	}

	for _, values := range s.Search.Grid {
		for i, v := range values {
			values[i] = normalNumber(v)
		}
	}

	for _, d := range s.Search.Random {
		for i, v := range d.Choice {
			d.Choice[i] = normalNumber(v)
		}
	}
}

func normalNumber(v any) any {
	switch n := v.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	}
	return v
}
