package sweep

import (
	"fmt"
	"math"
	"slices"
	"time"

	"coppice/internal/strictyaml"
)

// The rules by which a sweep stops starting trials.
const (
	RuleTarget   = "target"   // a trial has reached limits.target
	RulePatience = "patience" // limits.patience.trials trials in a row have not improved on the best
)

// Patience says after how many trials without improvement a sweep starts no more of them.
type Patience struct {
	Trials int `yaml:"trials" json:"trials"`
	// smallest improvement on the best that counts; default: that of search.stop
	Noise float64 `yaml:"noise" json:"noise"`
}

// Enough says that a sweep starts no more trials, and why. A task that has claimed a trial creates it once, before it
// acts on it: trials that are claimed from then on are not trained.
type Enough struct {
	Format  int    `json:"format"`
	Sweep   ID     `json:"sweep"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Trial   int    `json:"trial"` // the claimed one
	Claim   int    `json:"claim"`
	Task    int    `json:"task"`
	Attempt int    `json:"attempt"`

	// Seen are the sweep's own trials that were done or stopped at a rung, in the order in which they ended, by the
	// store's clock. The decision follows from the plan and Seen alone.
	Seen []Seen    `json:"seen"`
	At   time.Time `json:"at"`

	Written
}

// EndsByRule reports whether a rule may end the sweep before all its trials are trained.
func (p *Plan) EndsByRule() bool {
	return p.Spec.Limits.Target != nil || p.Spec.Limits.Patience != nil
}

// Untrained reports whether a trial was ended without training because its sweep had enough.
func (r *Result) Untrained() bool {
	return r.Status == StatusStopped && r.TreesGrown == 0 && r.Fold == 0
}

// State is the result's status in words.
func (r *Result) State() string {
	if r.Untrained() {
		return "not trained"
	}
	return string(r.Status)
}

// DecodeEnough decodes why a sweep starts no more trials.
func DecodeEnough(data []byte) (*Enough, error) {
	return decode("end by rule", data, func(e *Enough) error {
		if !slices.Contains([]string{RuleTarget, RulePatience}, e.Rule) {
			return fmt.Errorf("rule %.40q", e.Rule)
		}
		for _, s := range e.Seen {
			if s.Trial < 0 || s.Trial >= MaxTrials || s.Score == nil || !Finite(*s.Score) {
				return fmt.Errorf("it has seen trial %d", s.Trial)
			}
		}
		return nil
	})
}

// checkEnough checks the rules that end a sweep.
func (s *Spec) checkEnough(doc *strictyaml.Document, v Vocabulary) error {
	l := &s.Limits
	if l.Target == nil && l.Patience == nil {
		return nil
	}
	if s.Validate != nil {
		return doc.Errorf("limits",
			"target and patience end a sweep by the results of trials, and with validate a trial is one fold of a "+
				"configuration; leave them out, or validate")
	}
	if l.Target != nil {
		if err := v.Value(s.Metric, *l.Target); err != nil {
			return doc.Errorf("limits.target", "target: %v", err)
		}
	}

	switch p := l.Patience; {
	case p == nil:
	case p.Trials < 1 || p.Trials >= s.Trials:
		return doc.Errorf("limits.patience",
			"patience.trials is %d of %d trials: use 1 to %d, after how many trials without improvement no more are "+
				"started", p.Trials, s.Trials, s.Trials-1)
	case !(p.Noise >= 0) || math.IsInf(p.Noise, 1):
		return doc.Errorf("limits.patience.noise", "noise is %v: use 0 or more, in the metric's units", p.Noise)
	case !doc.Has("limits.patience.noise") && s.Search.Stop != nil:
		p.Noise = s.Search.Stop.Noise
	}
	return nil
}
