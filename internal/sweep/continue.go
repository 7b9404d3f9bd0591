package sweep

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"coppice/internal/strictyaml"
)

// What a sweep does with the model that it continues.
const (
	GrowMode  = "grow"  // every trial adds trees to it
	RefitMode = "refit" // every trial keeps its trees and renews their leaf values
)

// Champion is the version in production, as named in Continue.From.
const Champion = "champion"

// Continue says which registered version of the sweep's model its trials start from.
type Continue struct {
	From string `yaml:"from" json:"from"`           // champion, another alias, or a version's number
	Mode string `yaml:"mode" json:"mode,omitempty"` // grow, the default, or refit
}

// Input is the model that a sweep's trials start from, pinned by its contents.
type Input struct {
	Model   string `json:"model"`
	Version int    `json:"version"`
	Mode    string `json:"mode"`
	Trees   int    `json:"trees"`
	// Cuts is the number of its numerical splits, and Moved how many of them are inside a bin of the sweep's dataset
	// and are moved to its edge.
	Cuts  int `json:"cuts"`
	Moved int `json:"moved"`

	Text    Object `json:"text"`    // LightGBM text
	Dataset Object `json:"dataset"` // manifest of its training dataset
}

// MaxInput bounds the bytes of each object.
const MaxInput = 1 << 30

var numberPattern = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)

func (s *Spec) checkContinue(doc *strictyaml.Document, _ Vocabulary) error {
	c := s.Continue
	if c == nil {
		return nil
	}

	if c.From == "" {
		return doc.Errorf("continue", "from is missing: say which version of model %s to continue, %s or a number",
			s.Model, Champion)
	}
	if !numberPattern.MatchString(c.From) {
		if err := CheckName("alias", c.From); err != nil {
			return doc.Errorf("continue.from", "from %.40q: use %s, another alias, or a version's number", c.From,
				Champion)
		}
	}
	if !slices.Contains([]string{GrowMode, RefitMode}, c.Mode) {
		return doc.Errorf("continue.mode", "mode %.40q: use %s (more trees) or %s (the same trees, new values)", c.Mode,
			GrowMode, RefitMode)
	}
	return nil
}

// check checks what later code relies on.
func (in *Input) check() error {
	if in == nil {
		return nil
	}
	if err := CheckName("model", in.Model); err != nil {
		return err
	}
	if in.Version < 1 || in.Mode != GrowMode && in.Mode != RefitMode {
		return fmt.Errorf("input model version %s, mode %.40q", strconv.Itoa(in.Version), in.Mode)
	}

	for _, o := range []Object{in.Text, in.Dataset} {
		if o.Bytes < 0 || o.Bytes > MaxInput || len(o.SHA256) != 64 {
			return fmt.Errorf("input model object %.200q of %d bytes", o.Name, o.Bytes)
		}
	}

	return nil
}

// Extension is the sweep that a plan extends. The plan's first trials are that sweep's, with the same numbers; they
// have ended, and their results are included here, so that the plan suffices when the other sweep's objects are gone.
// Only their model files are needed from there.
type Extension struct {
	Sweep ID `json:"sweep"`
	// of the plan's first trials, in order, as counted by that sweep's ending; their parameters are in the plan's
	// trials
	Results []Result   `json:"results"`
	Reached []Reached  `json:"reached,omitempty"` // their scores at rungs, ascending by step and trial
	Winner  *Inherited `json:"winner,omitempty"`  // the registered one of them, if any
}

// Inherited is a trial of an extended sweep that is already a version of a model.
type Inherited struct {
	Sweep   ID     `json:"sweep"` // that registered it
	Trial   int    `json:"trial"`
	Model   string `json:"model"`
	Version int    `json:"version"`
}

// Inherits is how many of the plan's first trials belong to the sweep that it extends.
func (p *Plan) Inherits() int {
	if p.Extends == nil {
		return 0
	}
	return len(p.Extends.Results)
}

// Own returns the trials that the sweep trains itself, without the final training.
func (p *Plan) Own() []Trial {
	own := p.Trials[p.Inherits():]
	if _, ok := p.Final(); ok {
		own = own[:len(own)-1]
	}
	return own
}

// Inherited returns the result of a trial of the extended sweep; nil for any other.
func (p *Plan) Inherited(trial int) *Result {
	if trial < 0 || trial >= p.Inherits() {
		return nil
	}
	r := p.Extends.Results[trial]
	r.Params = p.Trials[trial].Params
	return &r
}

// counts reports whether a result belongs to one of the plan's trials.
func (p *Plan) counts(r *Result) bool {
	if r.Trial < 0 || r.Trial >= len(p.Trials) {
		return false
	}
	return r.Sweep == p.Sweep || r.Trial < p.Inherits()
}

// checkExtension checks what later code relies on.
func (p *Plan) checkExtension() error {
	e := p.Extends
	if e == nil {
		return nil
	}
	if err := CheckID(string(e.Sweep)); err != nil {
		return err
	}

	n := len(e.Results)
	switch {
	case e.Sweep == p.Sweep || n == 0 || n >= len(p.Trials):
		return fmt.Errorf("it extends %d trials of sweep %s by %d", n, e.Sweep, len(p.Trials)-n)
	case p.Folds != nil:
		return fmt.Errorf("it extends sweep %s, and has folds", e.Sweep)
	}
	for i := range e.Results {
		r := &e.Results[i]
		if r.Trial != i || r.Sweep == p.Sweep || r.Fold != 0 {
			return fmt.Errorf("the result of trial %d is of trial %d of sweep %.80q", i, r.Trial, r.Sweep)
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("the result of trial %d: %w", i, err)
		}
	}

	if i := slices.IndexFunc(e.Reached, func(r Reached) bool {
		return r.Trial < 0 || r.Trial >= n ||
			r.Step < 1
	}); i >= 0 {
		return fmt.Errorf("trial %d at %d trees is none of sweep %s", e.Reached[i].Trial, e.Reached[i].Step, e.Sweep)
	}
	if w := e.Winner; w != nil && (w.Trial < 0 || w.Trial >= n || e.Results[w.Trial].Status != StatusDone ||
		w.Version < 1 || CheckName("model", w.Model) != nil || CheckID(string(w.Sweep)) != nil) {
		return fmt.Errorf("trial %d, version %d of %.40q, is said to have won sweep %.80q", w.Trial, w.Version, w.Model,
			w.Sweep)
	}
	return nil
}
