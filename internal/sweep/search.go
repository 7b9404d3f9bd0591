package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"coppice/internal/strictyaml"
)

// Methods that propose trials from a space. Without one, trials are drawn at random when the sweep is planned.
const (
	MethodAuto   = "auto"
	MethodGP     = "gp"
	MethodHalton = "halton"
	MethodRandom = "random"
	MethodPBT    = "pbt"
)

// Methods returns the names of all methods.
func Methods() []string {
	return []string{MethodAuto, MethodGP, MethodHalton, MethodRandom, MethodPBT}
}

// WarmAuto makes a sweep begin with the best results of the bucket's earlier sweeps of the same model.
const WarmAuto = "auto"

// MaxOpen bounds the trials of a sweep that are decided when they are claimed: every decision names all that it has
// seen.
const MaxOpen = 1000

// Listed reports whether the plan lists every trial of the search with its parameters, since the method uses no
// results.
func (s *Search) Listed() bool {
	return !s.selectsForward() && slices.Contains([]string{"", MethodRandom, MethodHalton}, s.Method)
}

// checkMethod checks the keys method and warm_start of the search, and that a search that learns has at most MaxOpen
// trials. A method needs ranges to search, and only some methods use earlier results.
func (s *Spec) checkMethod(doc *strictyaml.Document, _ Vocabulary) error {
	q := &s.Search
	switch {
	case q.Method != "" && !slices.Contains(Methods(), q.Method):
		return doc.Errorf("search.method", "unknown method %.60q%s; use one of %v", q.Method,
			strictyaml.Suggest(q.Method, Methods()), Methods())
	case q.Method != "" && len(q.Random) == 0:
		return doc.Errorf("search.method",
			"search.method says how the trials under search.random are proposed, but there is no search.random")
	case q.WarmStart != "" && q.WarmStart != WarmAuto:
		return doc.Errorf("search.warm_start", "warm_start is %.60q: use auto, or leave it out", q.WarmStart)
	case q.WarmStart != "" && !slices.Contains([]string{MethodAuto, MethodGP}, q.Method):
		return doc.Errorf("search.warm_start", "the results of earlier sweeps inform method: auto and gp, not %s; "+
			"change search.method, or take warm_start out", cmp.Or(q.Method, MethodRandom))
	case !q.Listed() && s.Trials > MaxOpen:
		return doc.Errorf("trials", "trials is %d: a search that learns takes at most %d; use fewer, or "+
			"search.method: halton", s.Trials, MaxOpen)
	}

	return nil
}

// Earlier holds the results of an earlier sweep of the same model, as far as they fit this one's space. The plan
// includes them, so that every decision can be reproduced when the earlier sweep is gone.
type Earlier struct {
	Sweep   ID        `json:"sweep"`
	Dataset string    `json:"dataset"` // NAME@VERSION
	Created time.Time `json:"created"`
	Trials  []Seen    `json:"trials"` // that are done: their values of this sweep's parameters
}

// Limits on a plan's results of earlier sweeps.
const (
	MaxEarlier = 10
	MaxFound   = 50 // of one sweep, the best
)

// Decision says what an open trial trains, and why. A holder of the trial creates it once, before it trains; a task
// that takes the trial over follows it. In a plan with folds it is about a configuration, under the number of its first
// fold (Plan.Decider), and the holder of whichever fold comes first creates it.
type Decision struct {
	Format int `json:"format"`
	Sweep  ID  `json:"sweep"`
	Trial  int `json:"trial"`
	Claim  int `json:"claim"` // of the claim that decided
	// the claimed trial if it is not Trial: a later fold of the configuration
	Holder  int       `json:"holder,omitempty"`
	Task    int       `json:"task"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`

	Params Params `json:"params"` // complete
	Own    Params `json:"own"`    // those of the space
	Source string `json:"source"`
	Reason string `json:"reason"`

	// Seen are the other trials that have ended or been decided, ascending by number. The decision follows from the
	// plan, Seen and Refused alone, and can be reproduced from them.
	Seen []Seen `json:"seen"`
	// From, in a sweep that trains a population, is whose model the trial continues; nil in the first generation.
	From *Origin `json:"from,omitempty"`

	// proposals for this trial that another trial had taken, or that the trainer rejects
	Refused []Params `json:"refused,omitempty"`

	Written
}

// Seen is what is known about a trial that another is decided from: one of the sweep, or of an earlier one. In a plan
// with folds it is about a configuration, by the trial of its first fold.
type Seen struct {
	Trial  int      `json:"trial"`
	Status Status   `json:"status"`           // of its result, or StatusRunning
	Score  *float64 `json:"score,omitempty"`  // of a trial that has one
	Params Params   `json:"params,omitempty"` // of an open trial: those of the space

	Rungs []RungScore `json:"rungs,omitempty"` // of a trial that has ended or was paused

	Values []float64 `json:"values,omitempty"` // in each goal, for a done trial of a sweep with several
}

// StatusRunning is the status of a trial without a result, for Seen.
const StatusRunning Status = "running"

// DecodeDecision decodes the decision about an open trial. The trials that it has seen have to be in their order, and
// the decided one must not be among them.
func DecodeDecision(data []byte) (*Decision, error) {
	return decode("decision", data, func(d *Decision) error {
		switch {
		case !isTrial(d.Trial) || d.Claim < 0 || d.Holder < 0 || d.Holder >= MaxTrials:
			return fmt.Errorf("trial %d, claim %d", d.Trial, d.Claim)
		case len(d.Params) == 0 || len(d.Own) == 0:
			return fmt.Errorf("of trial %d without parameters", d.Trial)
		case !slices.IsSortedFunc(d.Seen, func(a, b Seen) int { return cmp.Compare(a.Trial, b.Trial) }):
			return fmt.Errorf("of trial %d: what it has seen is not in order", d.Trial)
		}
		if err := d.From.check(d.Trial); err != nil {
			return err
		}
		for _, s := range d.Seen {
			if !isTrial(s.Trial) || s.Trial == d.Trial || s.Score != nil && !Finite(*s.Score) ||
				len(s.Values) > MaxGoals {
				return fmt.Errorf("of trial %d: has seen trial %d", d.Trial, s.Trial)
			}
			if err := checkRungs(s.Rungs); err != nil {
				return fmt.Errorf("of trial %d: has seen trial %d with %w", d.Trial, s.Trial, err)
			}
		}
		return nil
	})
}

// Configuration says which trial has reserved a configuration: no other trains it.
type Configuration struct {
	Format int    `json:"format"`
	Sweep  ID     `json:"sweep"`
	Trial  int    `json:"trial"`
	Key    string `json:"key"`

	Written
}

// DecodeConfiguration decodes the reservation of a configuration.
func DecodeConfiguration(data []byte) (*Configuration, error) {
	return decode("configuration", data, func(c *Configuration) error {
		if !isTrial(c.Trial) {
			return fmt.Errorf("of trial %d", c.Trial)
		}
		return nil
	})
}

// Key returns a key that is the same exactly for decisions that train the same model: those with equal parameters and,
// in a population, with the same trial whose model is continued.
func (d *Decision) Key() string {
	if d.From == nil {
		return ConfigurationKey(d.Params)
	}
	return ConfigurationKey(Params{"from": d.From.Trial, "params": d.Params})
}

// ConfigurationKey returns a key that is the same exactly for equal parameters: 32 hexadecimal digits, a hash of their
// JSON, in which names are sorted. Complete parameters with equal keys train the same model.
func ConfigurationKey(complete Params) string {
	text, err := json.Marshal(complete)
	if err != nil {
		// the trainer's parameters contain no such value
		panic(fmt.Sprintf("parameters that cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Open reports whether any trial is decided when it is claimed.
func (p *Plan) Open() bool {
	return slices.ContainsFunc(p.Trials, func(t Trial) bool { return t.Open })
}

// WithDecisions returns a copy of the plan in which open trials have what was decided for them, for display. decisions
// are by the trial under which each is recorded; trials without one stay as they are.
func (p *Plan) WithDecisions(decisions map[int]*Decision) *Plan {
	out := *p
	out.Trials = slices.Clone(p.Trials)
	for n := range out.Trials {
		t := &out.Trials[n]
		if d := decisions[p.Decider(n)]; t.Open && d != nil {
			t.Params, t.Source, t.Reason = d.Params, d.Source, d.Reason
		}
	}
	return &out
}

// checkTrials checks that the trials' numbers are their places in the list, by which they are looked up. An open trial
// must have no parameters of its own, and the plan and its search have to be such that one can be decided.
func (p *Plan) checkTrials() error {
	for i, t := range p.Trials {
		switch {
		case t.Number != i:
			return fmt.Errorf("trial %d stands at place %d", t.Number, i)
		case t.Open && t.Params != nil:
			return fmt.Errorf("trial %d is open and has parameters", i)
		case t.Open && len(p.Base) == 0:
			return fmt.Errorf("trial %d is open in a plan without base", i)
		case t.Open && p.Spec.Search.Listed():
			return fmt.Errorf("trial %d is open, but the search has no method that decides it", i)
		}
	}
	return nil
}

// checkEarlier checks, of the earlier sweeps whose results the search starts from, how many they are, their ids, and
// the number of results of each.
func (p *Plan) checkEarlier() error {
	if len(p.Earlier) > MaxEarlier {
		return fmt.Errorf("%d earlier sweeps", len(p.Earlier))
	}
	for _, e := range p.Earlier {
		if err := CheckID(string(e.Sweep)); err != nil || len(e.Trials) > MaxFound {
			return fmt.Errorf("earlier sweep %.80q with %d trials", e.Sweep, len(e.Trials))
		}
	}
	return nil
}

// Base returns the parameters that every trial has unless its own override them: the spec's params, and those that the
// spec sets by keys of their own, such as the objective.
func (s *Spec) Base() Params {
	base := Params{"objective": s.Objective, "early_stopping_round": float64(s.EarlyStoppingRounds),
		"seed": float64(s.Seed)}
	for name, value := range s.Params {
		base[name] = value
	}
	return base
}

// Defaults and limits of a population.
const (
	defaultPopulation = 10
	maxPopulation     = 200
	maxGenerations    = 50 // a result lists the parameters of all that its model goes back to
	// MaxInput bounds the bytes of a model that a trial continues.
	MaxInput = 1 << 30
)

// Origin is the trial whose model a trial of a population continues.
type Origin struct {
	Trial int    `json:"trial"`
	Model Object `json:"model"`

	// Lineage are the space's parameters of all trials that the model goes back to, oldest first, that trial last:
	// training them one after the other makes the model again. One that ended at its limit also has num_iterations, the
	// trees that it had grown.
	Lineage []Params `json:"lineage"`
}

// Generation returns which generation of a population a trial belongs to, from 0: trials are numbered by generation.
func (p *Plan) Generation(trial int) int { return trial / max(1, p.Spec.Search.Population) }

// breeds reports whether the trials of the search are generations of a population, each of which continues models of
// the one before.
func (s *Search) breeds() bool { return s.Method == MethodPBT }

// checkPopulation checks the settings of population-based training, and fills in the default size of a population. The
// trials have to be two whole generations or more. What cannot be combined with the method, or cannot change while a
// model is trained, is refused; a parameter also under its aliases, which are resolved only later.
func (s *Spec) checkPopulation(doc *strictyaml.Document, v Vocabulary) error {
	q := &s.Search
	if !q.breeds() {
		if doc.Has("search.population") {
			return doc.Errorf("search.population", "search.population is for method: %s", MethodPBT)
		}
		return nil
	}
	if !doc.Has("search.population") {
		q.Population = defaultPopulation
	}

	switch {
	case q.Population < 2 || q.Population > maxPopulation:
		return doc.Errorf("search.population", "population is %d: use 2 to %d", q.Population, maxPopulation)
	case s.Trials%q.Population != 0 || s.Trials < 2*q.Population:
		return doc.Errorf("trials",
			"trials is %d: a population of %d takes a multiple of that, and two generations or more", s.Trials,
			q.Population)
	case s.Trials > maxGenerations*q.Population:
		return doc.Errorf("trials", "trials is %d: a population of %d trains at most %d generations", s.Trials,
			q.Population, maxGenerations)
	}
	for _, with := range []string{"search.fixed", "search.grid", "search.stop", "validate"} {
		if doc.Has(with) {
			return doc.Errorf(with, "%s cannot be combined with search.method: %s: its trials continue each other's "+
				"models; take one of them out", with, MethodPBT)
		}
	}
	fixed := []string{"num_iterations", "max_bin", "boost_from_average", IgnoreColumn}
	for _, name := range slices.Sorted(maps.Keys(q.Random)) {
		if slices.Contains(fixed, v.ParamName(name)) {
			return doc.Errorf("search.random."+name, "%s cannot change during a training, so it cannot be searched "+
				"with method: %s; set it under params", name, MethodPBT)
		}
	}
	return nil
}

// checkPopulation checks what later code relies on in a plan that trains a population: whole generations of open
// trials, without folds and rungs.
func (p *Plan) checkPopulation() error {
	q := &p.Spec.Search
	if !q.breeds() {
		return nil
	}
	if q.Population < 2 || len(p.Trials)%q.Population != 0 ||
		len(p.Trials) > maxGenerations*q.Population || p.Folds != nil || q.Stop != nil {
		return fmt.Errorf("a population of %d in %d trials", q.Population, len(p.Trials))
	}
	if i := slices.IndexFunc(p.Trials, func(t Trial) bool { return !t.Open }); i >= 0 {
		return fmt.Errorf("trial %d of a population stands in the plan", i)
	}
	return nil
}

// check checks an origin read from outside, of this trial; nil is none. A trial can only continue the model of an
// earlier one, with a lineage, and of a size that a task can hold.
func (o *Origin) check(trial int) error {
	if o == nil {
		return nil
	}
	if o.Trial < 0 || o.Trial >= trial || len(o.Lineage) < 1 || len(o.Lineage) > maxGenerations || o.Model.Bytes < 0 ||
		o.Model.Bytes > MaxInput || len(o.Model.SHA256) != 64 {
		return fmt.Errorf("trial %d continues the model of trial %d, the last of %d, of %d bytes", trial, o.Trial,
			len(o.Lineage), o.Model.Bytes)
	}
	return nil
}
