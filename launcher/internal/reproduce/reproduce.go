// Package reproduce trains a registered version again, from its plan and its dataset, and reports whether the bytes are
// the same.
package reproduce

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// Recipe is a version with what it was trained from.
type Recipe struct {
	Plan  *sweep.Plan
	Trial int
	// Params are the parameters in the trial's result, for a trial that the plan leaves open.
	Params sweep.Params
	// Trees is how many trees a trial had grown that ended at its limit; 0 for all others.
	Trees int
	Files map[string][]byte // of the version
	Dir   string            // folder of the complete, verified dataset
	// Lineage are the space's parameters of the trials whose model the trial continues, oldest first, in a plan that
	// trains a population.
	Lineage []sweep.Params
	// OnTree, which may be nil, is called after each tree.
	OnTree  func(gbt.Progress) error
	Threads int // 0 for all CPUs; the bytes do not depend on it
}

// Remade is one file that was made again.
type Remade struct {
	Name string `json:"name"`
	Same bool   `json:"same"`
	// Differs says where the two files diverge.
	Differs string `json:"differs,omitempty"`
}

// Report is the outcome.
type Report struct {
	Dataset string   `json:"dataset"`
	Build   string   `json:"build,omitempty"` // that trained it now
	Trees   int      `json:"trees"`
	Seconds float64  `json:"seconds"`
	Files   []Remade `json:"files"`
}

// Same reports whether every file has the same bytes.
func (r *Report) Same() bool {
	return !slices.ContainsFunc(r.Files, func(f Remade) bool { return !f.Same })
}

// compared are the files that are made again, where the version has them.
var compared = []string{scorer.FileModel, scorer.FileFeatures, scorer.FileLevels, scorer.FileCalibrator}

// Run trains the version's trial again, as a worker does, makes the files that an aggregator registers, and compares
// them with the version's. It writes nothing. Files that differ are in the report, and no error.
func Run(ctx context.Context, q Recipe) (*Report, error) {
	p := q.Plan
	params, err := parameters(q)
	if err != nil {
		return nil, fmt.Errorf("%w; it was planned by build %s: reproduce it with that", err, p.Coppice)
	}
	m, err := metric.Lookup(p.Spec.Metric)
	if err != nil {
		return nil, err
	}

	// The dataset has to be the one that the version was trained on.
	ds, err := dataset.Open(q.Dir)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	if ds.Manifest.Name != p.Dataset.Name || ds.Manifest.Version != p.Dataset.Version {
		return nil, problem.New(problem.Input, "the dataset is %s@%s, but the version was trained on %s@%s",
			ds.Manifest.Name, ds.Manifest.Version, p.Dataset.Name, p.Dataset.Version)
	}

	// Train.
	threads := cmp.Or(q.Threads, runtime.GOMAXPROCS(0))
	table := fit.NewTable(ds)
	final, isFinal := p.Final()
	isFinal = isFinal && q.Trial == final
	request := fit.Request{Params: params, Metric: m, Threads: threads, Final: isFinal}
	if isFinal {
		request.Bag = p.Spec.BagOf(params.NumIterations, params.EarlyStoppingRound)
	}
	o, err := q.trainTrial(ctx, table, ds.Manifest, request)
	if err != nil {
		return nil, err
	}

	// Make the files, and compare them.
	made, err := remake(table, ds, q, o, threads, isFinal)
	if err != nil {
		return nil, err
	}
	r := &Report{Dataset: p.Dataset.Name + "@" + p.Dataset.Version, Trees: o.Model.Iterations(), Seconds: o.Seconds}
	for _, name := range compared {
		was, had := q.Files[name]
		is, has := made[name]
		if had || has {
			r.Files = append(r.Files, compare(name, was, is, had, has))
		}
	}
	return r, nil
}

// numIterations, in a lineage, is the number of trees that a trial had grown that ended at its limit.
const numIterations = "num_iterations"

// stopAt returns the OnTree of a training that has to stop after so many trees, where the original ended at its time
// limit; 0 for one that did not, since trees count from 1. It also calls q.OnTree, whose error ends the training.
func (q *Recipe) stopAt(trees int) func(gbt.Progress) error {
	return func(g gbt.Progress) error {
		if q.OnTree != nil {
			if err := q.OnTree(g); err != nil {
				return err
			}
		}
		if g.Tree == trees {
			return gbt.ErrLimit
		}
		return nil
	}
}

// trainTrial trains the recipe's trial, on its rows of the plan. In population-based training it first trains, one
// after the other, the trials of earlier generations whose models it continues (q.Lineage). A training that originally
// ended at its time limit is stopped after as many trees. request has all but rows, input and OnTree.
func (q Recipe) trainTrial(ctx context.Context, table *fit.Table, m *dataset.Manifest,
	request fit.Request) (*fit.Evaluated, error) {
	p := q.Plan
	request.Rows, request.Valid = p.RowsOf(q.Trial)
	for i, own := range q.Lineage {
		trees, _ := own[numIterations].(float64)
		request.OnTree = q.stopAt(int(trees))
		var err error
		if request.Input, err = ancestor(ctx, table, m, p.Base, own, request); err != nil {
			return nil, fmt.Errorf("generation %d: %w", i+1, err)
		}
	}
	request.OnTree = q.stopAt(q.Trees)
	return table.Train(ctx, request)
}

// parameters returns those that the trial was trained with: the plan's or, for a refit and for an open trial, whose
// parameters were decided while the sweep ran, those in its result. A trial or lineage that cannot be is an error.
func parameters(q Recipe) (gbt.Params, error) {
	p := q.Plan
	if q.Trial < 0 || q.Trial >= len(p.Trials) {
		return gbt.Params{}, problem.New(problem.Input, "the version is of trial %d, but its plan has %d trials",
			q.Trial, len(p.Trials))
	}
	given := p.Trials[q.Trial].Params
	if p.Trials[q.Trial].Open || p.Trials[q.Trial].Refit {
		given = q.Params
	}
	if len(given) == 0 {
		return gbt.Params{},
			problem.New(problem.Input, "the configuration of trial %d was decided when it was claimed, but "+
				"the version's result does not contain it", q.Trial)
	}
	if err := checkLineage(q); err != nil {
		return gbt.Params{}, err
	}
	return gbt.ParseParams(given)
}

// checkLineage rejects a lineage that cannot be that of the trial: one of another length than its generation has, or
// with parameters that the sweep does not search. Training it would make another model, or take as long as whoever
// wrote the result likes.
func checkLineage(q Recipe) error {
	generation := 0
	if q.Plan.Breeds() {
		generation = q.Plan.Generation(q.Trial)
	}
	if len(q.Lineage) != generation {
		return problem.New(problem.Input, "trial %d is of generation %d, but the version's result has a lineage of %d",
			q.Trial, generation+1, len(q.Lineage))
	}
	for i, own := range q.Lineage {
		for name := range own {
			if name == numIterations { // harmless: training ends with the plan's number of trees at the latest
				continue
			}
			if _, drawn := q.Plan.Spec.Search.Random[name]; !drawn {
				return problem.New(problem.Input,
					"the version's result has a lineage with %.60q in generation %d, which "+
						"the sweep does not search", name, i+1)
			}
		}
	}
	return nil
}

// ancestor trains one model of the lineage, whose parameters are own in addition to base, and returns it as the input
// of the next. It continues request.Input, unless that is nil. num_iterations is left out of own: there it is where the
// training was cut (trainTrial), and base has the trees of every trial.
func ancestor(ctx context.Context, table *fit.Table, m *dataset.Manifest, base, own sweep.Params,
	request fit.Request) (*gbt.InputModel, error) {
	own = maps.Clone(own)
	delete(own, numIterations)
	complete, err := table.Complete(base, own)
	if err != nil {
		return nil, err
	}
	if request.Params, err = gbt.ParseParams(complete); err != nil {
		return nil, err
	}

	o, err := table.Train(ctx, request)
	if err != nil {
		return nil, err
	}

	var text bytes.Buffer
	if _, err := o.Model.WriteTo(&text); err != nil {
		return nil, err
	}
	return fit.Input(m, text.Bytes())
}

// remake returns by name the files that depend on the trees of o, made as an aggregator makes them: model, levels of
// ids, features and, for a binary objective, the calibrator. final says that it is the final training's model.
func remake(table *fit.Table, ds *dataset.Dataset, q Recipe, o *fit.Evaluated, threads int,
	final bool) (map[string][]byte, error) {
	p, model := q.Plan, o.Model
	var text bytes.Buffer
	if _, err := model.WriteTo(&text); err != nil {
		return nil, err
	}
	made := map[string][]byte{scorer.FileModel: text.Bytes()}

	// Features and levels, of which only those stay that some tree uses.
	var levels *dataset.Levels
	all, file := ds.Manifest.Encoding(), dataset.LevelsFile
	if final {
		all, file = ds.Manifest.FinalEncoding()
	}
	if slices.ContainsFunc(ds.Manifest.Files, func(f dataset.FileInfo) bool { return f.Name == file }) {
		var err error
		if levels, err = dataset.OpenLevels(filepath.Join(q.Dir, file), all.Tables); err != nil {
			return nil, err
		}
		defer levels.Close()
	}
	encoding, kept := scorer.Compact(model, all, levels)
	if kept != nil {
		made[scorer.FileLevels] = kept.Encode()
	}
	features, err := json.MarshalIndent(encoding, "", "  ")
	if err != nil {
		return nil, err
	}
	made[scorer.FileFeatures] = append(features, '\n')

	// The calibrator.
	if p.Spec.Objective != "binary" {
		return made, nil
	}
	c, err := fitCalibrator(table, q, o, threads, final)
	if err != nil {
		return nil, err
	}
	calibrator, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	made[scorer.FileCalibrator] = append(calibrator, '\n')
	return made, nil
}

// fitCalibrator returns the calibrator of the model o. A model of folds or of a bag has its own already. A final model
// has that of the judged model, from the version's files, shifted to its own mean prediction. Any other model's is
// fitted on calib.
func fitCalibrator(table *fit.Table, q Recipe, o *fit.Evaluated, threads int,
	final bool) (*calibrate.Calibrator, error) {
	p := q.Plan
	switch {
	case o.Calibrator != nil:
		return o.Calibrator, nil
	case final:
		judged, err := calibrate.Decode(q.Files[scorer.FileJudgedCalibrator])
		if err != nil {
			return nil, problem.As(problem.Damaged, fmt.Errorf("%s: %w", scorer.FileJudgedCalibrator, err))
		}
		params, err := parameters(q)
		if err != nil {
			return nil, err
		}
		return table.Level(o.Model, &params, judged, threads, p.Holdout.Calib, p.Holdout.Test)
	}
	calib, err := table.Select(p.Holdout.Calib)
	if err != nil {
		return nil, err
	}
	raw, err := o.Model.PredictBinned(&calib.Data, threads)
	if err != nil {
		return nil, err
	}
	choice, err := calibrate.Choose(raw, calib.Label, calib.Weight, table.ByTime())
	return choice.Calibrator, err
}

// compare says whether a file that was made again (is) has the bytes of the registered one (was) and, if not, where the
// two differ first. had and has say whether there are such files at all.
func compare(name string, was, is []byte, had, has bool) Remade {
	f := Remade{Name: name, Same: had && has && bytes.Equal(was, is)}
	switch {
	case f.Same:
	case !had:
		f.Differs = "the version has no such file"
	case !has:
		f.Differs = "training it again makes no such file"
	case name == scorer.FileModel:
		f.Differs = treesApart(was, is)
	case name == scorer.FileLevels:
		f.Differs = lengthsApart(was, is)
	default:
		f.Differs = linesApart(was, is)
	}

	return f
}

// treesApart says in which tree two models, registered (was) and made again (is), differ first, and whether in its
// splits or only in its leaf values; or that one has more trees. If all splits and leaf values are the same, as where a
// gain or the head differs, and for texts that are no models, it says in which line they differ.
func treesApart(was, is []byte) string {
	a, errA := gbt.ReadModel(bytes.NewReader(was))
	b, errB := gbt.ReadModel(bytes.NewReader(is))
	if errA != nil || errB != nil {
		return linesApart(was, is)
	}

	for i := range min(len(a.Trees), len(b.Trees)) {
		x, y := a.Trees[i], b.Trees[i]
		switch {
		case !sameSplits(x, y):
			return fmt.Sprintf("from tree %d of %d on: its splits are others", i+1, len(a.Trees))
		case !slices.Equal(x.LeafValue, y.LeafValue):
			return fmt.Sprintf("from tree %d of %d on: the same splits, other leaf values; %s", i+1, len(a.Trees),
				linesApart(was, is))
		}
	}

	if len(a.Trees) != len(b.Trees) {
		return fmt.Sprintf("%d trees were registered, %d were grown, and the first %d are the same", len(a.Trees),
			len(b.Trees), min(len(a.Trees), len(b.Trees)))
	}
	return "all splits and leaf values are the same; " + linesApart(was, is)
}

// sameSplits reports whether two trees divide all rows alike: by the same columns and thresholds or sets of categories,
// with missing values on the same side (Decision), into the same children.
func sameSplits(x, y *gbt.Tree) bool {
	return slices.Equal(x.Feature, y.Feature) && slices.Equal(x.Threshold, y.Threshold) &&
		slices.Equal(x.Decision, y.Decision) && slices.Equal(x.Left, y.Left) && slices.Equal(x.Right, y.Right) &&
		slices.Equal(x.CatBoundaries, y.CatBoundaries) && slices.Equal(x.CatThreshold, y.CatThreshold)
}

// longest is how many bytes of a line are shown.
const longest = 80

// linesApart shows the first line in which two texts differ. A long line is shown from shortly before the first byte
// that differs. A line that only one of them has is "" in the other; if that is all, the lengths are shown.
func linesApart(was, is []byte) string {
	a, b := strings.Split(string(was), "\n"), strings.Split(string(is), "\n")
	for i := range max(len(a), len(b)) {
		x, y := line(a, i), line(b, i)
		if x == y {
			continue
		}

		// Show a long line from where the two diverge.
		at := 0
		for at < len(x) && at < len(y) && x[at] == y[at] {
			at++
		}
		from := max(0, at-longest/2)
		return fmt.Sprintf("line %d was %q and is %q", i+1, cut(x, from), cut(y, from))
	}
	return lengthsApart(was, is) // only line breaks at the end differ
}

// lengthsApart says how long two contents are that cannot be compared by lines.
func lengthsApart(was, is []byte) string {
	return fmt.Sprintf("%d bytes were registered, %d were made", len(was), len(is))
}

// line returns line i; "" after the last one.
func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// cut returns at most longest bytes of s, from a place on.
func cut(s string, from int) string {
	s = s[min(from, len(s)):]
	return s[:min(len(s), longest)]
}
