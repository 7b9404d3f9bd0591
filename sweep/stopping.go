package sweep

import (
	"fmt"
	"math"
	"slices"
	"time"

	"coppice/strictyaml"
)

// Rules by which trials are stopped before their end.
const (
	StopASHA      = "asha"      // asynchronous successive halving
	StopHyperband = "hyperband" // asha in brackets, the later of which stop later
	StopMedian    = "median"    // who is worse than half of the others so far
)

// StopRules are the names of the rules that a sweep may have.
func StopRules() []string { return []string{StopASHA, StopHyperband, StopMedian} }

// Stop says when a trial is stopped because others are better.
type Stop struct {
	Rule     string  `yaml:"rule" json:"rule"`
	Eta      int     `yaml:"eta" json:"eta"`             // one in so many goes on at a rung, default 3
	MinTrees int     `yaml:"min_trees" json:"min_trees"` // before the first rung, default 10
	Noise    float64 `yaml:"noise" json:"noise"`         // standard error of the difference of two trials' metric; who is behind by less goes on
	Rungs    []int   `yaml:"-" json:"rungs,omitempty"`   // numbers of trees after which trials are compared; the plan's
}

func (s *Spec) checkStop(doc *strictyaml.Document, _ Vocabulary) error {
	q := s.Search.Stop
	switch {
	case q == nil:
		return nil
	case !slices.Contains(StopRules(), q.Rule):
		return doc.Errorf("search.stop.rule", "unknown rule %.60q%s; use one of %v", q.Rule, strictyaml.Suggest(q.Rule, StopRules()), StopRules())
	case q.Eta < 2 || q.Eta > 100:
		return doc.Errorf("search.stop.eta", "eta is %d: one in so many trials goes on at a rung; use 2 to 100", q.Eta)
	case q.MinTrees < 1 || q.MinTrees > math.MaxInt32:
		return doc.Errorf("search.stop.min_trees", "min_trees is %d: use 1 or more", q.MinTrees)
	case !(q.Noise >= 0) || math.IsInf(q.Noise, 1):
		return doc.Errorf("search.stop.noise", "noise is %v: use a standard error of 0 or more", q.Noise)
	case s.Trials > MaxOpen: // every rung names all that it has seen
		return doc.Errorf("trials", "trials is %d: with search.stop a sweep has at most %d; use fewer, or take search.stop out", s.Trials, MaxOpen)
	}

	return nil
}

// ForgetHistory takes out of s what follows from earlier sweeps and not from what was written: with warm_start the rungs go by the trees that winners had. What s
// shares with other specs stays as it is.
func (s *Spec) ForgetHistory() {
	if s.Search.WarmStart == "" || s.Search.Stop == nil {
		return
	}
	stop := *s.Search.Stop
	stop.Rungs = nil
	s.Search.Stop = &stop
}

func (s *Stop) fillDefaults() {
	if s == nil {
		return
	}
	if s.Eta == 0 {
		s.Eta = 3
	}
	if s.MinTrees == 0 {
		s.MinTrees = 10
	}
}

// Rung is what became of a trial when it had so many trees. It is created once, and before it is acted on: whoever takes the trial over and comes to the same rung
// goes by it.
type Rung struct {
	Format int       `json:"format"`
	Sweep  ID        `json:"sweep"`
	Trial  int       `json:"trial"`
	Claim  int       `json:"claim"`
	Step   int       `json:"step"` // trees
	Score  float64   `json:"score"`
	Stop   bool      `json:"stop"`
	Reason string    `json:"reason"`
	Seen   []Reached `json:"seen"` // of other trials, and where the rule looks at the whole way this one's own before, ascending by step and trial; with plan and Score, all that this rests on
	At     time.Time `json:"at"`

	Written
}

// Reached is a trial's score at a rung.
type Reached struct {
	Step  int     `json:"step"`
	Trial int     `json:"trial"`
	Score float64 `json:"score"`
}

// DecodeRung reads what became of a trial at a rung.
func DecodeRung(data []byte) (*Rung, error) {
	var r Rung
	if err := decode("rung", data, &r, func() int { return r.Format }); err != nil {
		return nil, err
	}
	if err := CheckID(string(r.Sweep)); err != nil {
		return nil, &DecodeError{"rung", err}
	}
	if r.Trial < 0 || r.Trial >= MaxTrials || r.Step < 1 || r.Claim < 0 {
		return nil, &DecodeError{"rung", fmt.Errorf("trial %d, %d trees, claim %d", r.Trial, r.Step, r.Claim)}
	}

	for _, s := range r.Seen {
		if s.Trial < 0 || s.Trial >= MaxTrials || s.Step < 1 {
			return nil, &DecodeError{"rung", fmt.Errorf("has seen trial %d at %d trees", s.Trial, s.Step)}
		}
	}

	return &r, nil
}
