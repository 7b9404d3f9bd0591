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

// checkFinal checks the key final, if the spec has it, and fills in its default: the rows of all splits. A number of
// machines is for a final training only, and at most that of the sweep.
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

// FinalMachines returns how many machines share the final training, at most.
func (s *Spec) FinalMachines() int {
	if !s.FinalRows() {
		return 1
	}
	return max(1, s.Final.Machines)
}

// FinalRows reports whether the spec has a final training. The spec of a plan always says whether it does: where the
// user's leaves it open, planning decides.
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

// OneOrder reports whether trials train on one copy of the rows only. A dataset may have copies of train in several
// orders, all of which the final training sees; its trials do with the first.
func (p *Plan) OneOrder() bool {
	_, final := p.Final()
	return final
}

// Constants of the time that a sweep keeps for its final training.
const (
	// finalSlack times the expected time is kept, for an estimate that is off or a machine that is lost.
	finalSlack = 1.5
	// finalLeast times the expected time has to be left. With less, the final training would hardly end, and no time is
	// kept for it any more.
	finalLeast = 1.2
	// finalMost times a trial's own time is kept for its final training at most. So trials, without which nothing wins,
	// have at least a third of the sweep.
	finalMost = 2
	// finalStart is kept for ending the other trials and opening the table, which takes a second on a busy machine. Of
	// a short sweep it is at most a twentieth.
	finalStart = 3 * time.Second
)

// finalPace returns how many times as long as the winner's trial the quote expects the final training to take. It has
// more rows than the trial, but the threads of all tasks. It is 0 without a final training, or if it was not quoted.
func (p *Plan) finalPace() float64 {
	if _, ok := p.Final(); !ok || p.Quote == nil {
		return 0
	}
	return p.Quote.RefitPace
}

// FinalTime returns how long the final training of a winner is expected to take, from how long the winner itself took;
// 0 if that is not known. The winner grew more trees than its model keeps, until early stopping ended it. The final
// training grows only as many as the model has, unless it is of several models, which stop early as well.
func (p *Plan) FinalTime(winner *Result) time.Duration {
	trees := float64(winner.Trees) / float64(max(1, winner.TreesGrown))
	if p.Spec.BagOf(winner.Trees, 0) > 1 && !winner.AtLimit {
		trees = 1
	}
	seconds := max(0, p.finalPace()*trees*winner.Usage.TrainSeconds)
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/4)) // callers multiply and add
}

// LateFinal returns the end of a sentence that says that the final training of a winner did not end in time: how long
// it takes, and which limit to raise. It is empty if the time is not known.
func (p *Plan) LateFinal(winner *Result) string {
	takes := p.FinalTime(winner)
	if takes == 0 {
		return ""
	}
	return fmt.Sprintf(": it takes about %s; raise limits.sweep (%s) or fit's --minutes",
		max(takes.Round(time.Second), time.Second), p.Spec.Limits.Sweep)
}

// KeptBack returns the reason why a trial is not trained, or not to its end, for the sake of the final training.
func (p *Plan) KeptBack() string {
	return fmt.Sprintf("the rest of the sweep's %s is kept for the final training", p.Spec.Limits.Sweep)
}

// BeforeFinal returns how much longer a trial may train, so that the final training can still end within limits.sweep,
// whether this trial wins or the best one so far. left is what is left of limits.sweep, spent is how long the trial has
// trained, and best is the best trial so far, nil if there is none. share is below 0 if the trial has trained too long
// already. ok is false if no time is kept: without a final training or a quote of it, or if the final training of the
// best trial could not end any more.
func (p *Plan) BeforeFinal(left, spent time.Duration, best *Result) (share time.Duration, ok bool) {
	if p.finalPace() == 0 {
		return 0, false
	}

	// If this trial wins after x more, its final training takes times (spent + x): x + times (spent + x) = left.
	times := min(finalSlack*p.finalPace(), finalMost)
	share = time.Duration((float64(left) - times*float64(spent)) / (1 + times))
	if best == nil {
		return share, true
	}

	// If the best one wins, the final training takes what is expected of it, with slack. Of the whole sweep it is two
	// thirds at most.
	expected := float64(p.FinalTime(best))
	keep := finalSlack * expected
	if limit := float64(p.Spec.Limits.Sweep); limit > 0 {
		keep = min(keep+min(float64(finalStart), limit/20), limit*finalMost/(1+finalMost))
	}
	return min(share, left-time.Duration(keep)), finalLeast*expected <= float64(left)
}

// FinalReserve returns how much of limits.sweep is to be kept for the final training when the sweep is planned, before
// there is a best trial. It is at most what the quote expects, with slack, and 0 if nothing is known about it.
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
	// MostRounds is the plan's, of a bag that nobody asked for: a winner of more rounds is trained again as one model.
	// 0 is no limit.
	MostRounds int `yaml:"-" json:"most_rounds,omitempty"`
}

// DefaultBag is how many models a bag has that nobody asked for: ten were no better than five (docs/LAB.md).
const DefaultBag = 5

// MostBagTrees is the most trees of several classes in a bag that nobody asked for. The models of a long training
// differ little from each other, and each misses the rows that it leaves out (docs/LAB.md).
const MostBagTrees = 2500

// Bag is how many models the final training makes at most.
func (s *Spec) Bag() int {
	if !s.FinalRows() || s.Ensemble == nil {
		return 1
	}
	return max(1, s.Ensemble.Bag)
}

// BagOf is how many models a final training makes, by its own parameters. They have the winner's number of rounds, and
// no early stopping, if it is of one model. It may be of several even so.
func (s *Spec) BagOf(rounds, earlyStopping int) int {
	if e := s.Ensemble; e != nil && e.MostRounds > 0 && rounds > e.MostRounds && earlyStopping == 0 {
		return 1
	}
	return s.Bag()
}

// checkEnsemble checks ensemble.bag, if the spec has it. More than one model needs a final training, which makes them,
// and whatever excludes that or a bag is refused. A bag of one is always right.
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
