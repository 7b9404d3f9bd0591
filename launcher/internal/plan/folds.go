package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// crossValidate replaces each configuration in p.Trials and p.Expected by one trial per fold and appends the refit,
// which trains the best configuration on all rows of train and valid, and notes how many trials that makes. It does
// nothing if validate is nil. A scheme that the dataset's folds do not support is rejected, and so are more trials than
// a sweep may have.
func (p *Planned) crossValidate(validate *sweep.Validate, data *dataset.Manifest) error {
	if validate == nil {
		return nil
	}

	scheme := fit.KFold
	switch {
	case validate.Forward > 0:
		scheme = fit.Forward
	case validate.By == sweep.ByGroup:
		scheme = fit.GroupKFold
	}
	rounds, err := fit.Folds(data, scheme, validate.Number())
	if err != nil {
		return errorf("validate: %v", err)
	}

	configurations, expected := p.Trials, p.Expected
	// Weak configurations are dropped after the first folds, but for sets of columns, which are all compared.
	p.Folds = sweep.NewFolds(string(scheme), rounds, p.Spec.Search.Features == nil)
	p.Trials = p.Folds.Expand(configurations)
	if len(p.Trials) > sweep.MaxTrials {
		return errorf("%d configurations in %d folds are %d trials including the refit; use fewer: at most %d are "+
			"possible", len(configurations), len(rounds), len(p.Trials), sweep.MaxTrials)
	}

	// The refit, the last trial, is expected to train the largest configuration, as the best is not known yet.
	p.Expected = p.Folds.Expand(expected)
	p.Expected[len(p.Trials)-1].Params = slices.MaxFunc(expected, bySize).Params
	note := fmt.Sprintf("validate: %d configurations in %d folds of train (%s) are %d trials, and one more trains "+
		"the best on all rows of train and valid",
		len(configurations), len(rounds), scheme, len(configurations)*len(rounds))
	if first := p.Folds.First; first < len(rounds) {
		note += fmt.Sprintf("; those that are behind after %d folds are not trained on the others, which is not "+
			"deducted here", first)
	}
	p.Notes = append(p.Notes, note)
	return nil
}

// addFinal appends the final training to the trials: once the winner is known, its configuration is trained on the rows
// of all splits. It is added if the spec asks for it; if the dataset then lacks the statistics that it needs, that is
// an error. If the spec does not mention it, it is added unless something excludes it, and a note says what. It is
// expected to train the largest configuration. A ranking with several machines for it is refused.
func (p *Planned) addFinal(data *dataset.Manifest) error {
	asked := p.Spec.FinalRows()
	if p.Spec.FinalMachines() > 1 && gbt.Ranks(p.Spec.Objective) {
		return errorf("final.machines: objective %s is trained by one machine, as a query's rows may be on several; "+
			"leave it out", p.Spec.Objective)
	}
	if p.Spec.Final != nil && !asked { // final: {rows: train}
		return nil
	}

	// Without a final training: the parser has refused it where the spec asks for it against another key.
	if key, why := p.Spec.WithoutFinal(); why != "" {
		p.note("final: the winner is registered as it is, without a final training on all rows, because of %s: %s",
			key, why)
		return nil
	}
	lacksStatistics := len(data.Tables) > 0 && data.FinalTables == nil
	if lacksStatistics {
		if !asked {
			p.note("final: the winner is registered as it is, since dataset %s has no statistics of ids over all "+
				"rows for a final training; encodings: {final: true} in dataset.yaml makes them", data.Name)
			return nil
		}
		return errorf("final: dataset %s@%s has no statistics of ids over all rows; stage it with encodings: "+
			"{final: true}", data.Name, data.Version)
	}

	// With one: it is the last trial.
	if p.Spec.Final == nil {
		p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
	}
	t := sweep.Trial{Number: len(p.Trials), Source: sweep.SourceFinal, Refit: true}
	p.Trials = append(slices.Clone(p.Trials), t)
	t.Params = slices.MaxFunc(p.Expected, bySize).Params
	p.Expected = append(slices.Clone(p.Expected), t)
	p.note("final: once the winner is known, trial %d trains its configuration on the rows of all splits; that model "+
		"is registered if it agrees with the one that was judged", t.Number)
	return nil
}

// bagRows is the most rows of a table that gets a bag by default: what its models gain shrinks with rows, and what they
// cost grows (docs/LAB.md).
const bagRows = 50_000

// mostBagRows is the most rows of a table that gets a bag if the spec asks for it.
const mostBagRows = 1_000_000

// WithoutBag takes a bag that is only the default out of the plan, with the note about it, and reports whether there
// was one. A bag that the spec asks for stays.
func (p *Planned) WithoutBag() bool {
	if !p.bagged || p.Spec.Bag() == 1 {
		return false
	}
	p.Spec.Ensemble = &sweep.Ensemble{Bag: 1}
	p.Notes = slices.DeleteFunc(p.Notes, func(note string) bool { return strings.HasPrefix(note, "ensemble: ") })
	return true
}

// makeBag makes the final training a bag: several models, each without one fold of the rows, that are merged. It does
// so if the spec asks for it, or by default for a table of at most bagRows whose spec bounds no cost of predictions. If
// something excludes a bag, or the table has more than mostBagRows, one that is asked for is an error, and otherwise
// there is none.
func (p *Planned) makeBag(data *dataset.Manifest) error {
	s := &p.Spec

	// The rows by which the table is large or small. The copies of train that random orders make count as rows. Those
	// of an order of groups count once, so that a ranking has the same bag with statistics of ids as without them.
	groups := data.Order != nil && data.Order.By == dataset.OrderGroup
	rows := 0
	for _, r := range data.Splits {
		if groups {
			rows += data.TableRows(r.Name)
		} else {
			rows += r.Rows
		}
	}

	// Why there can be none: the spec's other keys (WithoutBag), or the dataset.
	why, asked := s.WithoutBag(), s.Ensemble != nil
	switch {
	case !s.FinalRows():
		why = "there is no final training"
	case why != "": // the spec's reason stands
	case data.ByTime():
		why = "rows are divided by time, and folds would stop on rows that are older than those they learn from"
	case data.Order != nil && !groups && data.Split.By == dataset.SplitByHash:
		why = "statistics of ids have seen the keys of every fold; stage the dataset with encodings: none"
	case data.Negatives > 0:
		why = "the dataset has a sample of its negative rows"
	case asked && rows > mostBagRows:
		why = fmt.Sprintf("the dataset has %d rows, and a bag, which saves nothing on the way, at most %d", rows,
			mostBagRows)
	}

	// What the spec asks for is made or refused; what it leaves open is made if nothing excludes it.
	switch {
	case asked && s.Ensemble.Bag == 1: // asked for a single model
		return nil
	case asked && why != "":
		return errorf("ensemble.bag: %s", why)
	case !asked && (why != "" || rows > bagRows || p.boundsCost()):
		return nil
	case !asked:
		// bagged says that this is only the default: the quote may take it out again (WithoutBag).
		s.Ensemble, p.bagged = &sweep.Ensemble{Bag: sweep.DefaultBag}, true
		if n := len(data.Label.Classes); n > 0 {
			s.Ensemble.MostRounds = max(1, sweep.MostBagTrees/(sweep.DefaultBag*n))
		}
	}
	var unless string
	if n := s.Ensemble.MostRounds; n > 0 {
		unless = fmt.Sprintf(", unless the winner has more than %d rounds", n)
	}
	p.note("ensemble: the final training is of %d models, each without one fold of the rows, which are merged%s: "+
		"predictions take %d times as long, and conditions judge the winner alone (ensemble: {bag: 1} trains one)",
		s.Ensemble.Bag, unless, s.Ensemble.Bag)
	return nil
}

// boundsCost reports whether the spec's requirements or goals mention what a prediction costs: trees, leaves or bytes
// of the model, of which a bag has several times as many.
func (p *Planned) boundsCost() bool {
	cost := regexp.MustCompile(`\b(trees|leaves|model_bytes)\b`)
	return slices.ContainsFunc(p.Spec.Require, cost.MatchString) ||
		slices.ContainsFunc(p.Spec.Goals, func(g sweep.Goal) bool { return cost.MatchString(g.Name) })
}

// withoutFinal takes the final training, the last trial, out of the plan, and notes why.
func (p *Planned) withoutFinal(why error) {
	last := len(p.Trials) - 1
	p.Trials, p.Expected, p.Spec.Final = p.Trials[:last], p.Expected[:len(p.Expected)-1], nil
	p.Notes = slices.DeleteFunc(p.Notes, func(note string) bool { return strings.HasPrefix(note, "final: ") })
	p.note("final: the winner is registered as it is: %v", why)
}

// bySize compares configurations by their trees and, among equal ones, by their leaves: these mostly decide how long a
// training takes. A parameter that is no number counts as 0.
func bySize(a, b sweep.Trial) int {
	number := func(t sweep.Trial, name string) float64 {
		n, _ := t.Params[name].(float64)
		return n
	}
	return cmp.Or(cmp.Compare(number(a, "num_iterations"), number(b, "num_iterations")),
		cmp.Compare(number(a, "num_leaves"), number(b, "num_leaves")))
}
