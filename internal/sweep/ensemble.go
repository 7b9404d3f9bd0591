package sweep

import (
	"fmt"

	"coppice/internal/strictyaml"
)

// Ensemble makes the final training one of several models, whose mean is registered.
type Ensemble struct {
	// Bag is how many: each is trained on the rows of all folds but one, of all splits. 1 is one model of all rows.
	// Left out, it is DefaultBag for tables that it is measured to pay for.
	Bag int `yaml:"bag" json:"bag"`
}

// DefaultBag is how many models a bag has that nobody asked for: ten were no better than five (docs/LAB.md).
const DefaultBag = 5

// Bag is how many models the final training makes.
func (s *Spec) Bag() int {
	if !s.FinalRows() || s.Ensemble == nil {
		return 1
	}
	return max(1, s.Ensemble.Bag)
}

// checkEnsemble checks the ensemble.
func (s *Spec) checkEnsemble(doc *strictyaml.Document, _ Vocabulary) error {
	e := s.Ensemble
	switch {
	case e == nil:
		return nil
	case e.Bag < 1 || e.Bag > MaxFolds:
		return doc.Errorf("ensemble.bag", "bag is %d: use 2 to %d, how many models of the winner's configuration are "+
			"merged, or 1 for one", e.Bag, MaxFolds)
	case e.Bag == 1:
		return nil
	case s.Final != nil && !s.FinalRows():
		return doc.Errorf("ensemble.bag", "its models are those of the final training; leave final out")
	}
	why := s.WithoutBag()
	if key, what := s.WithoutFinal(); why == "" && what != "" {
		why = fmt.Sprintf("its models are those of the final training, and %s has none: %s", key, what)
	}
	if why != "" {
		return doc.Errorf("ensemble.bag", "%s", why)
	}
	return nil
}

// WithoutBag says why the spec excludes a bag; empty if it does not.
func (s *Spec) WithoutBag() string {
	if s.FinalMachines() > 1 {
		return "the models of a bag are trained side by side on one machine; leave final.machines out"
	}
	return ""
}
