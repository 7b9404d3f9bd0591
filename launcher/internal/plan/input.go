package plan

import (
	"fmt"

	"coppice/gbt"
	"coppice/sweep"
	"coppice/sweepstore"
)

// Input is a registered model that the trials start from: its files, and what the dataset's bins do to it.
type Input struct {
	Model       string
	Version     int
	Trees       int
	Cuts, Moved int
	Text        []byte // LightGBM text
	Dataset     []byte // manifest of the dataset that it was trained on
}

// inputBytes is what a trial keeps of a model's text: its trees with the bins of each node.
const inputBytes = 3

// checkRefit refuses what a refit cannot do, and a share of old values where nothing is refitted: the trials would be different in name only.
func checkRefit(s *sweep.Spec, trials []sweep.Trial) error {
	if s.Continue != nil && s.Continue.Mode == sweep.RefitMode {
		return checkSmooth(s, trials)
	}
	usual := gbt.Defaults().Map()[refitDecayRate]
	for _, t := range trials {
		if given, ok := t.Params[refitDecayRate]; ok && given != usual {
			return errorf("%s is %v in trial %d, and only a refit uses it: add continue: {from: champion, mode: refit}, or leave it out", refitDecayRate, given, t.Number)
		}
	}
	return nil
}

const (
	refitDecayRate = "refit_decay_rate"
	pathSmooth     = "path_smooth"
)

// checkSmooth refuses smoothed leaves, which a refit does not have.
func checkSmooth(s *sweep.Spec, trials []sweep.Trial) error {
	_, drawn := s.Search.Random[pathSmooth]
	for _, t := range trials {
		given, ok := t.Params[pathSmooth]
		if drawn || ok && given != gbt.Defaults().Map()[pathSmooth] {
			return errorf("%s is given, and a refit does not smooth: leave it out, or use continue: {mode: grow}", pathSmooth)
		}
	}
	return nil
}

// begin writes down which model the trials start from.
func (p *Plan) begin(in *Input, s *sweep.Spec) {
	if s.Continue == nil || in == nil {
		return
	}

	p.Format = sweep.FormatContinued
	p.Input = &sweep.Input{Model: in.Model, Version: in.Version, Mode: s.Continue.Mode, Trees: in.Trees, Cuts: in.Cuts, Moved: in.Moved,
		Text: sweepstore.InputObject(p.Sweep, in.Text), Dataset: sweepstore.InputObject(p.Sweep, in.Dataset)}

	does := map[string]string{sweep.GrowMode: "the trials add trees to it", sweep.RefitMode: "the trials renew their values"}[s.Continue.Mode]
	note := fmt.Sprintf("continues version %d of model %s, %d trees: %s", in.Version, in.Model, in.Trees, does)
	if in.Moved > 0 {
		note += fmt.Sprintf("; %d of its %d thresholds lie within a bin of this dataset and move to the nearer edge", in.Moved, in.Cuts)
	}
	p.Notes = append(p.Notes, note)
}
