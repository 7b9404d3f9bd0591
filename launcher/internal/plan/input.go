package plan

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// Continued is a registered model that the trials start from: its files, and how the dataset's bins affect it.
type Continued struct {
	Model       string
	Version     int
	Trees       int
	Cuts, Moved int
	Text        []byte // LightGBM text
	Dataset     []byte // manifest of its training dataset

	Trained *dataset.Manifest // the same, decoded
}

// TrainedOn reads the manifest of a version's dataset.
func TrainedOn(ctx context.Context, models *registry.Registry,
	version registry.Version) (*dataset.Manifest, []byte, error) {
	text, err := models.ReadFile(ctx, version, scorer.FileDataset)
	if err != nil {
		return nil, nil, err
	}
	m, err := dataset.DecodeManifest(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s of version %d of model %s: %w", scorer.FileDataset, version.Number,
			version.Model, err)
	}
	return m, text, nil
}

// NoChampion says that a model has no champion yet, as on its first night.
func NoChampion(ref string, err error) bool {
	return ref == sweep.Champion && problem.Of(err) == problem.NotFound
}

// ReadInput returns the version that the spec continues, and checks that the dataset is suitable: otherwise the sweep
// is rejected before a machine starts. It returns nil if the spec continues no version, or continues a champion and
// there is none yet.
func ReadInput(ctx context.Context, models *registry.Registry, spec *sweep.Spec,
	data *dataset.Manifest) (*Continued, error) {
	if spec.Continue == nil {
		return nil, nil
	}

	v, err := models.Get(ctx, spec.Model, spec.Continue.From)
	if err != nil && NoChampion(spec.Continue.From, err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := models.ReadFile(ctx, v, scorer.JudgedModel(v))
	if err != nil {
		return nil, err
	}
	old, manifest, err := TrainedOn(ctx, models, v)
	if err != nil {
		return nil, err
	}

	moved, err := fit.Input(data, old, text)
	if err != nil {
		return nil, fmt.Errorf("continue version %d of model %s: %w", v.Number, v.Model, err)
	}
	if was, _, _ := strings.Cut(moved.Objective, " "); was != spec.Objective {
		return nil, problem.New(problem.Input, "version %d of model %s has objective %s, but the sweep has %s",
			v.Number, v.Model, was, spec.Objective)
	}
	return &Continued{Model: v.Model, Version: v.Number, Trees: moved.Iterations(), Cuts: moved.Cuts,
		Moved: moved.Moved,
		Text:  text, Dataset: manifest, Trained: old}, nil
}

// inputBytes is a trial's memory per byte of a model's text: its trees with the bins of each node.
const inputBytes = 3

// begin records which model the trials start from.
func (p *Planned) begin(in *Continued, now *dataset.Manifest) {
	if p.Spec.Continue == nil || in == nil {
		return
	}

	p.Input = &sweep.Input{Model: in.Model, Version: in.Version, Trees: in.Trees, Cuts: in.Cuts, Moved: in.Moved,
		Text: sweepstore.InputObject(p.Sweep, in.Text), Dataset: sweepstore.InputObject(p.Sweep, in.Dataset)}

	note := fmt.Sprintf("continues version %d of model %s, %d trees: the trials add trees to it", in.Version, in.Model,
		in.Trees)
	if in.Moved > 0 {
		note += fmt.Sprintf("; %d of its %d thresholds lie within a bin of this dataset and move to the nearer edge",
			in.Moved, in.Cuts)
	}
	p.Notes = append(p.Notes, note)

	if why := explainMixedRows(in.Trained, now); why != "" {
		p.note("rows that version %d was trained on may be in valid, calib and test: %s. It has memorised "+
			"these rows, so metrics, calibration and gate look too good; split by time or by a hash of an id, the "+
			"same way in all versions of the dataset, or leave continue out", in.Version, why)
	}
}

// explainMixedRows says why rows of one dataset's train may be among the other's held-out rows; empty if nothing
// suggests it.
func explainMixedRows(old, now *dataset.Manifest) string {
	if old == nil || old.Version == now.Version {
		return ""
	}
	was, is := old.Split, now.Split
	switch {
	case is.By == dataset.SplitByRandom || is.By == dataset.SplitByClasses:
		return "this dataset is split at random by row number, and the version was trained on another"
	case was.By != is.By || was.Column != is.Column:
		return fmt.Sprintf("its dataset was split by %s, but this one is split by %s", rule(was), rule(is))
	case is.By == dataset.SplitByHash && !maps.Equal(was.Shares, is.Shares):
		return fmt.Sprintf("its dataset was split into other shares, %v, than this one, %v", was.Shares, is.Shares)
	case is.By == dataset.SplitByTime && was.Until[dataset.TrainSplit] > is.Until[dataset.TrainSplit]:
		return "its dataset's train ends later than that of this one"
	}
	return ""
}

// rule describes how a dataset is split, as in a spec.
func rule(split dataset.SplitRule) string {
	if split.Column == "" {
		return split.By
	}
	return split.By + " of " + split.Column
}

// Provenance is a registered version with what it was made of.
type Provenance struct {
	registry.Version
	Manifest *dataset.Manifest
	Plan     *sweep.Plan // nil if the version does not record it
}

// Name is the version's, such as ctr@3.
func (v Provenance) Name() string { return fmt.Sprintf("%s@%d", v.Model, v.Number) }

// ProvenanceOf reads a version's dataset and plan.
func ProvenanceOf(ctx context.Context, models *registry.Registry, version registry.Version) (of Provenance, err error) {
	of.Version = version
	if of.Manifest, _, err = TrainedOn(ctx, models, version); err != nil {
		return of, err
	}
	if _, ok := version.File(scorer.FilePlan); !ok {
		return of, nil
	}
	text, err := models.ReadFile(ctx, version, scorer.FilePlan)
	if err != nil {
		return of, err
	}
	of.Plan, err = sweep.DecodePlan(text)
	return of, err
}

// FollowLike resolves the model in the spec's encodings.like to its dataset, and replaces it by that in the spec,
// because the dataset's contents depend on it. It returns nil, and leaves a spec without like, if that names no model,
// or a champion and there is none yet.
func FollowLike(ctx context.Context, models *registry.Registry, spec *dataset.Spec) (*dataset.Manifest, error) {
	if spec.Encodings.Like == "" {
		return nil, nil
	}

	model, ref, err := sweep.SplitModelRef(spec.Encodings.Like)
	if err != nil {
		return nil, spec.Errorf("encodings.like", "%v", err)
	}
	v, err := models.Get(ctx, model, ref)
	if err != nil && NoChampion(ref, err) {
		spec.Encodings.Like = ""
		return nil, nil
	}
	var old *dataset.Manifest
	if err == nil {
		old, _, err = TrainedOn(ctx, models, v)
	}
	if err != nil {
		return nil, fmt.Errorf("encodings.like: %w", err)
	}
	spec.Encodings.Like = old.Name + "@" + old.Version
	return old, nil
}
