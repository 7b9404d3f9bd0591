package report

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"coppice/internal/gbt"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/explain"
)

// Model reads the page of a model: its versions and features from the registry, and its newest nights. What is damaged
// is noted on the page, which shows the rest.
func (d *Pages) Model(ctx context.Context, name string) (*page.Model, error) {
	m, err := d.versions(ctx, name)
	if err != nil {
		return nil, err
	}
	return m, d.Nights(ctx, m)
}

// versions reads a model's versions, moves and features. What cannot be read is a note on the page rather than an
// error, unless nothing can.
func (d *Pages) versions(ctx context.Context, name string) (*page.Model, error) {
	reg := d.Registry
	versions, err := reg.Versions(ctx, name)
	if err != nil && len(versions) == 0 {
		return nil, err
	}
	m := &page.Model{Name: name}
	note(m, err)

	// Aliases, and who has moved them.
	aliases, err := reg.Aliases(ctx, name)
	note(m, err)
	tags := map[int][]string{}
	for _, a := range aliases {
		tags[a.Version] = append(tags[a.Version], a.Name)
		if a.Name == registry.Champion {
			m.Champion, m.Past = a.Version, a.Past
		}
	}
	events, err := reg.History(ctx, name)
	note(m, err)
	for _, e := range events {
		if e.Kind != registry.Registered {
			m.Moves = append(m.Moves, e)
		}
	}

	// Versions, the newest last. Features are those of the champion or, without one, of the newest: shown moves on to
	// each version until it is the champion.
	var shown registry.Version
	for _, v := range versions {
		m.Versions = append(m.Versions, page.VersionView{Version: v, Tag: strings.Join(tags[v.Number], ", ")})
		if shown.Number != m.Champion || m.Champion == 0 {
			shown = v
		}
	}
	if shown.Number == 0 {
		return m, nil
	}
	m.Of = shown.Number
	var why string
	m.Features, m.Effects, why, err = readFeatures(ctx, reg, shown)
	if why != "" {
		m.Notes = append(m.Notes, why)
	}
	if aboutObjects(err) { // any other error is one of storage
		note(m, err)
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

// readIfThere decodes a version's JSON file into a value. If the file is missing or damaged, the value stays as it is
// (or is filled in part), which is no error: people look at it, and nothing depends on it. Errors of storage are
// returned.
func readIfThere(ctx context.Context, reg *registry.Registry, v registry.Version, name string, into any) error {
	text, err := reg.ReadFile(ctx, v, name)
	if aboutObjects(err) {
		return nil
	} else if err != nil {
		return err
	}
	_ = json.Unmarshal(text, into)
	return nil
}

// note adds an error to the page.
func note(m *page.Model, err error) {
	if err != nil {
		m.Notes = append(m.Notes, err.Error())
	}
}

// Limits on the SHAP values of a page: viewing it should not read hundreds of MB, nor take seconds of CPU time.
const (
	effectRows     = 120
	effectFeatures = 15
	effectBytes    = 64 << 20  // of levels and rows
	effectSteps    = 500 << 20 // of the walks through the trees: about a second
)

// effects computes the SHAP values of some of the test rows that a version keeps, with its model; nil if it keeps none.
// If that would take too much, or the model has several classes, why says which command shows them.
func effects(ctx context.Context, reg *registry.Registry, v registry.Version, model *gbt.Model) (found []page.Effect,
	why string, err error) {
	rows, ok := v.File(scorer.FileReference)
	if !ok {
		return nil, "", nil
	}

	// Are they not to be drawn?
	levels, _ := v.File(scorer.FileLevels)
	switch {
	case model.Outputs() > 1:
		why = "Contributions are drawn of one score a row, not of several classes."
	case rows.Bytes+levels.Bytes > effectBytes || effectCost(model) > effectSteps:
		why = fmt.Sprintf("Contributions are not drawn, because version %d is large.", v.Number)
	}
	if why != "" {
		return nil, fmt.Sprintf("%s launcher registry explain %s@%d shows them.", why, v.Model, v.Number), nil
	}

	data, err := reg.ReadFile(ctx, v, scorer.FileReference)
	if err != nil {
		return nil, "", err
	}
	reference, err := scorer.DecodeReference(data)
	if err != nil {
		return nil, "", registry.Damaged(rows.Object, err)
	}
	s, err := scorer.Open(ctx, reg, v)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	found, err = explain.Effects(explain.Request{Scorer: s, Rows: reference, Most: effectRows}, effectFeatures)
	if err != nil {
		return nil, "", registry.Damaged(rows.Object, err)
	}
	return found, "", nil
}

// effectCost estimates the number of steps for the SHAP values of effectRows rows. A tree takes, for each leaf, the
// square of its depth, which is assumed to be twice that of a balanced tree with as many leaves.
func effectCost(model *gbt.Model) int {
	steps := 0
	for _, t := range model.Trees {
		depth := 2 // and 2 more for each halving of the leaves: a balanced tree would have half of that
		for n := t.Leaves(); n > 1; n /= 2 {
			depth += 2
		}
		steps += t.Leaves() * depth * depth
	}
	return effectRows * steps
}
