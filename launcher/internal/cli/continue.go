package cli

import (
	"context"
	"fmt"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
)

// inputModel is the registered version that a sweep continues.
type inputModel struct {
	version       registry.Version
	text, dataset []byte
	plan          plan.Input
}

// input returns the version that the spec continues, and checks that the dataset is suitable: otherwise the sweep is
// rejected before a machine starts. It returns nil if the spec continues no version, or continues a champion and there
// is none yet.
func (c *cloud) input(ctx context.Context, s *sweep.Spec, m *dataset.Manifest) (*inputModel, error) {
	if s.Continue == nil {
		return nil, nil
	}

	v, err := c.registry.Get(ctx, s.Model, s.Continue.From)
	if s.Continue.From == sweep.Champion && problem.Of(err) == problem.NotFound {
		return nil, nil // the first night
	}
	if err != nil {
		return nil, err
	}

	in := &inputModel{version: v}
	if in.text, err = c.registry.ReadFile(ctx, v, scorer.FileModel); err != nil {
		return nil, err
	}
	if in.dataset, err = c.registry.ReadFile(ctx, v, scorer.FileDataset); err != nil {
		return nil, err
	}
	old, err := dataset.DecodeManifest(in.dataset)
	if err != nil {
		return nil, fmt.Errorf("%s of version %d of model %s: %w", scorer.FileDataset, v.Number, v.Model, err)
	}

	moved, err := fit.Input(m, old, in.text)
	if err != nil {
		return nil, fmt.Errorf("continue version %d of model %s: %w", v.Number, v.Model, err)
	}
	if was, _, _ := strings.Cut(moved.Objective, " "); was != s.Objective {
		return nil, &fit.InputError{Msg: fmt.Sprintf("version %d of model %s has objective %s, but the sweep has %s",
			v.Number, v.Model, was, s.Objective)}
	}
	in.plan = plan.Input{Model: v.Model, Version: v.Number, Trees: len(moved.Trees), Cuts: moved.Cuts,
		Moved: moved.Moved, Text: in.text, Dataset: in.dataset, Trained: old}
	return in, nil
}

// request adds the continued model, if any, to a plan's request.
func (in *inputModel) request(q plan.Request) plan.Request {
	if in != nil {
		q.Input = &in.plan
	}
	return q
}

// upload writes the continued model into the sweep's folder, since tasks cannot read the registry.
func (in *inputModel) upload(ctx context.Context, s *sweepstore.Sweep) error {
	if in == nil {
		return nil
	}
	for _, data := range [][]byte{in.text, in.dataset} {
		if _, err := s.CreateInput(ctx, data); err != nil {
			return fmt.Errorf("write the input model: %w", err)
		}
	}
	return nil
}
