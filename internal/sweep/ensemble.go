package sweep

import "coppice/internal/strictyaml"

// Ensemble merges the best trials' models into one, which is registered if that is better.
type Ensemble struct {
	// Cost is how many times the winner's trees it may have; 0 merges none.
	Cost float64 `yaml:"cost" json:"cost"`
}

// MaxEnsembleCost bounds Ensemble.Cost.
const MaxEnsembleCost = 10

// checkEnsemble checks the ensemble, and drops one that would change nothing.
func (s *Spec) checkEnsemble(doc *strictyaml.Document, _ Vocabulary) error {
	e := s.Ensemble
	if e == nil {
		return nil
	}
	if e.Cost == 0 {
		s.Ensemble = nil
		return nil
	}
	if !(e.Cost > 1 && e.Cost <= MaxEnsembleCost) {
		return doc.Errorf("ensemble.cost", "cost is %v: use a number above 1, at most %d (how many times the winner's "+
			"trees the merged model may have), or 0 for no ensemble", e.Cost, MaxEnsembleCost)
	}
	for _, other := range []struct {
		key, why string
		given    bool
	}{
		{"validate", "no model of a fold has seen all rows, and one refit is left to merge", s.Validate != nil},
		{"continue", "its models would have the champion's trees several times", s.Continue != nil},
		{"final", "its model is of several configurations", s.FinalRows()},
		{"require", "the conditions are on single trials", len(s.Require) > 0},
		{"a list of metrics", "it has more trees and bytes than any trial that pick compares", len(s.Goals) > 0},
	} {
		if other.given {
			return doc.Errorf("ensemble", "ensemble cannot be combined with %s: %s; take one of them out", other.key,
				other.why)
		}
	}
	return nil
}
