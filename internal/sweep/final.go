package sweep

import (
	"fmt"
	"time"

	"coppice/internal/strictyaml"
)

// Final says which rows the model is trained on that is registered, once the winner has been chosen. Left out, it is
// all where that is possible.
type Final struct {
	Rows string `yaml:"rows" json:"rows"`
	// Machines is how many train it together, at most; 0 and 1: one.
	Machines int `yaml:"machines" json:"machines,omitempty"`
}

// Values of Final.Rows.
const (
	FinalAll   = "all"   // those of all splits
	FinalTrain = "train" // those that the winner has been trained on: it is registered as it is
)

// MaxFinalMachines bounds those of a final training: docs/cost.md has how little more of them bring.
const MaxFinalMachines = 32

// checkFinal checks the final training, if the spec asks for one.
func (s *Spec) checkFinal(doc *strictyaml.Document, _ Vocabulary) error {
	if s.Final == nil {
		return nil
	}
	if m := s.Final.Machines; m != 0 && (m < 1 || m > s.Machine.VMs || m > MaxFinalMachines) {
		return doc.Errorf("final.machines", "machines is %d: the final training can have 1 to %d of the sweep's "+
			"machines; raise machine.vms for more (at most %d)", m, min(s.Machine.VMs, MaxFinalMachines),
			MaxFinalMachines)
	}
	if s.Final.Rows == "" {
		s.Final.Rows = FinalAll
	}
	if s.Final.Rows == FinalTrain {
		if s.Final.Machines > 0 {
			return doc.Errorf("final.machines", "machines has no meaning without a final training; leave out rows: %s",
				FinalTrain)
		}
		return nil
	}
	if s.Final.Rows != FinalAll {
		return doc.Errorf("final.rows", "rows is %.40q: use %s (train the winner's configuration again on the rows "+
			"of all splits, and register that) or %s", s.Final.Rows, FinalAll, FinalTrain)
	}
	if key, why := s.WithoutFinal(); why != "" {
		return doc.Errorf("final", "final cannot be combined with %s: %s; take one of them out", key, why)
	}
	return nil
}

// WithoutFinal says what in the spec excludes a final training, and why. why is empty if nothing does.
func (s *Spec) WithoutFinal() (key, why string) {
	switch {
	case s.Validate != nil:
		return "validate", "its winner is trained on train and valid already"
	case s.Continue != nil:
		return "continue", "the champion's trees would stay those of fewer rows"
	case s.Search.breeds():
		return "method " + MethodPBT, "its models have been trained with several configurations"
	case s.Search.Features != nil:
		return "search.features", "its winner is a set of columns, which is trained in a sweep of its own"
	case s.Ensemble != nil:
		return "ensemble", "its model is of several configurations"
	case s.Trials >= MaxTrials:
		return fmt.Sprintf("%d trials", s.Trials), fmt.Sprintf("a sweep can have at most %d", MaxTrials)
	}
	return "", ""
}

// FinalMachines is how many machines train the final training together, at most.
func (s *Spec) FinalMachines() int {
	if !s.FinalRows() {
		return 1
	}
	return max(1, s.Final.Machines)
}

// FinalRows reports whether the spec has a final training. A plan's spec always says so, since Build decides it where
// the user's does not.
func (s *Spec) FinalRows() bool { return s.Final != nil && s.Final.Rows == FinalAll }

// Final returns the trial that trains the winner's configuration on the rows of all splits. It is the last, and cannot
// win. ok is false in a plan without one.
func (p *Plan) Final() (trial int, ok bool) {
	trial = len(p.Trials) - 1
	return trial, p.Folds == nil && trial >= 0 && p.Trials[trial].Refit
}

// Of the time that is kept for the final training: how many times what is expected it is, for a winner larger than the
// mean trial or a machine that is lost, and at most which part of limits.sweep, since without trials nothing wins.
const (
	finalSlack = 1.5
	finalShare = 2
)

// FinalReserve is how much of limits.sweep no other trial may use, so that the final training can end: from then on no
// trial is started, and those that run end with the trees that they have. pace is how long trials have taken beside
// what the quote expects; 1 if that is not known. It is 0 without a final training or a quote of it.
func (p *Plan) FinalReserve(pace float64) time.Duration {
	if _, ok := p.Final(); !ok || p.Quote == nil || !(pace > 0) {
		return 0
	}
	kept := finalSlack * pace * p.Quote.Refit.Expected * float64(time.Second)
	return time.Duration(min(kept, float64(p.Spec.Limits.Sweep)/finalShare))
}
