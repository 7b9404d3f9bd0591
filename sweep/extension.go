package sweep

import (
	"fmt"
	"slices"
)

// FormatExtended is the format of plans that extend another sweep or end by a rule: a build that does not know of them would train again what has ended, or all that is listed.
const FormatExtended = 5

// Extension is the sweep that a plan goes on from. The plan's first trials are that sweep's, under the same numbers; they have ended, and what came of them stands here, so that
// the plan is enough to know it when the other sweep's objects are gone. Only the files of their models lie there.
type Extension struct {
	Sweep   ID         `json:"sweep"`
	Results []Result   `json:"results"`           // of the plan's first trials, in order, as that sweep's ending counts them; what they were trained with stands in the plan's trials
	Reached []Reached  `json:"reached,omitempty"` // what they had at rungs, ascending by step and trial
	Winner  *Inherited `json:"winner,omitempty"`  // of them, if one was registered
}

// Inherited is a trial of an extended sweep that is a version of a model already.
type Inherited struct {
	Sweep   ID     `json:"sweep"` // that registered it
	Trial   int    `json:"trial"`
	Model   string `json:"model"`
	Version int    `json:"version"`
}

// Inherits is how many of the plan's first trials are those of the sweep that it extends.
func (p *Plan) Inherits() int {
	if p.Extends == nil {
		return 0
	}
	return len(p.Extends.Results)
}

// Own are the trials that the sweep trains itself.
func (p *Plan) Own() []Trial { return p.Trials[p.Inherits():] }

// Inherited is the result of a trial of the sweep that the plan extends; nil of any other.
func (p *Plan) Inherited(trial int) *Result {
	if trial < 0 || trial >= p.Inherits() {
		return nil
	}
	r := p.Extends.Results[trial]
	r.Params = p.Trials[trial].Params
	return &r
}

// counts says whether a result is of one of the plan's trials.
func (p *Plan) counts(r *Result) bool {
	if r.Trial < 0 || r.Trial >= len(p.Trials) {
		return false
	}
	return r.Sweep == p.Sweep || r.Trial < p.Inherits()
}

// checkExtension makes sure of what later code relies on.
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
	case p.Format < FormatExtended:
		return fmt.Errorf("it extends sweep %s in format %d", e.Sweep, p.Format)
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

	if i := slices.IndexFunc(e.Reached, func(r Reached) bool { return r.Trial < 0 || r.Trial >= n || r.Step < 1 }); i >= 0 {
		return fmt.Errorf("trial %d at %d trees is none of sweep %s", e.Reached[i].Trial, e.Reached[i].Step, e.Sweep)
	}
	if w := e.Winner; w != nil && (w.Trial < 0 || w.Trial >= n || e.Results[w.Trial].Status != StatusDone || w.Version < 1 || CheckName("model", w.Model) != nil || CheckID(string(w.Sweep)) != nil) {
		return fmt.Errorf("trial %d, version %d of %.40q, is said to have won sweep %.80q", w.Trial, w.Version, w.Model, w.Sweep)
	}
	return nil
}
