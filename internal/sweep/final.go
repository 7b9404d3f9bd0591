package sweep

import (
	"fmt"
	"math"
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

// MaxFinalMachines bounds those of a training: docs/LAB.md has how little more of them bring.
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
	case s.Search.breeds():
		return "method " + MethodPBT, "its models have been trained with several configurations"
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

// Own returns the trials without the final training.
func (p *Plan) Own() []Trial {
	if _, ok := p.Final(); ok {
		return p.Trials[:len(p.Trials)-1]
	}
	return p.Trials
}

// OneOrder reports whether trials see train in the first of its orders alone, before a final training, which sees all.
func (p *Plan) OneOrder() bool {
	_, final := p.Final()
	return final
}

// Of the time that is kept for the final training: how many times what is expected it is, for an estimate that is off
// or a machine that is lost; with how much less none is kept; and how many times a trial's own time it is at most,
// since without trials nothing wins: they have at least a third of the sweep. Before it begins, the others are ended
// and the table is opened: on a busy machine that takes a second.
const (
	finalSlack = 1.5
	finalLeast = 1.2
	finalMost  = 2
	finalStart = 3 * time.Second // a twentieth of the sweep at most
)

// finalPace is how many times as long as the winner's trial the quote expects the final training to take: it has more
// rows, and the threads of all tasks. It is 0 without a final training or a quote of it.
func (p *Plan) finalPace() float64 {
	if _, ok := p.Final(); !ok || p.Quote == nil {
		return 0
	}
	return p.Quote.RefitPace
}

// FinalTime is how long the final training is expected to take, by how long the winner took for its trees; 0 if that is
// not known.
func (p *Plan) FinalTime(winner *Result) time.Duration {
	trees := float64(winner.Trees) / float64(max(1, winner.TreesGrown))
	if p.Spec.Bag() > 1 && !winner.AtLimit { // its models stop by themselves
		trees = 1
	}
	seconds := max(0, p.finalPace()*trees*winner.Usage.TrainSeconds)
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/4))
}

// LateFinal is what would have let the winner's final training end; empty if that is not known.
func (p *Plan) LateFinal(winner *Result) string {
	takes := p.FinalTime(winner)
	if takes == 0 {
		return ""
	}
	return fmt.Sprintf(": it takes about %s; raise limits.sweep (%s) or fit's --minutes",
		max(takes.Round(time.Second), time.Second), p.Spec.Limits.Sweep)
}

// KeptBack is why a trial is not trained, or not to its end.
func (p *Plan) KeptBack() string {
	return fmt.Sprintf("the rest of the sweep's %s is kept for the final training", p.Spec.Limits.Sweep)
}

// BeforeFinal is how much of what is left of limits.sweep a trial may use that has trained for spent: the final
// training is to end whether this trial wins or the best so far, which is nil before the first. ok is false where no
// time is kept: without a final training or a quote, and if that of the best one cannot end any more.
func (p *Plan) BeforeFinal(left, spent time.Duration, best *Result) (share time.Duration, ok bool) {
	if p.finalPace() == 0 {
		return 0, false
	}
	times := min(finalSlack*p.finalPace(), finalMost)
	share = time.Duration((float64(left) - times*float64(spent)) / (1 + times))
	if best == nil {
		return share, true
	}
	expected := float64(p.FinalTime(best))
	keep := finalSlack * expected
	if limit := float64(p.Spec.Limits.Sweep); limit > 0 {
		keep = min(keep+min(float64(finalStart), limit/20), limit*finalMost/(1+finalMost))
	}
	return min(share, left-time.Duration(keep)), finalLeast*expected <= float64(left)
}

// FinalReserve is how much of limits.sweep the final training is expected to need; 0 if that is not known.
func (p *Plan) FinalReserve() time.Duration {
	limit := time.Duration(p.Spec.Limits.Sweep)
	share, ok := p.BeforeFinal(limit, 0, nil)
	if !ok {
		return 0
	}
	return min(limit-share, time.Duration(finalSlack*p.Quote.Refit.Expected*float64(time.Second)))
}

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

// checkEnsemble refuses a bag that is too large, or in a sweep without the final training that makes its models. A bag
// of one is always right.
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
