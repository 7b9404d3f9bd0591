package sweep

import "coppice/internal/strictyaml"

// Final says which rows the model is trained on that is registered, once the winner has been chosen.
type Final struct {
	Rows string `yaml:"rows" json:"rows"`
}

// Values of Final.Rows.
const (
	FinalAll   = "all"   // those of all splits
	FinalTrain = "train" // those that the winner has been trained on: it is registered as it is
)

// checkFinal checks the final training, and drops one that would change nothing.
func (s *Spec) checkFinal(doc *strictyaml.Document, _ Vocabulary) error {
	switch f := s.Final; {
	case f == nil:
		return nil
	case f.Rows == FinalTrain:
		s.Final = nil
		return nil
	case f.Rows != FinalAll:
		return doc.Errorf("final.rows", "rows is %.40q: use %s (train the winner's configuration again on the rows "+
			"of all splits, and register that) or %s", f.Rows, FinalAll, FinalTrain)
	case s.Validate != nil:
		return doc.Errorf("final",
			"final cannot be combined with validate, which trains its winner on train and valid "+
				"already; take one of them out")
	case s.Continue != nil:
		return doc.Errorf("final",
			"final cannot be combined with continue: the champion's trees would stay those of fewer "+
				"rows; take one of them out")
	case s.Search.breeds():
		return doc.Errorf("final",
			"final cannot be combined with method %s: its models have been trained with several "+
				"configurations; take one of them out", MethodPBT)
	case s.Search.Features != nil:
		return doc.Errorf("final", "final cannot be combined with search.features, whose winner is a set of columns; "+
			"train it with final in a sweep of its own")
	case s.Trials >= MaxTrials:
		return doc.Errorf("trials", "%d trials and the final training are more than %d, the most that a sweep can "+
			"have; use fewer", s.Trials, MaxTrials)
	}
	return nil
}

// Final returns the trial that trains the winner's configuration on the rows of all splits. It is the last, and cannot
// win. ok is false in a plan without one.
func (p *Plan) Final() (trial int, ok bool) {
	trial = len(p.Trials) - 1
	return trial, p.Folds == nil && trial >= 0 && p.Trials[trial].Refit
}
