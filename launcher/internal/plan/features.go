package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// resolveFeatures returns a copy of search.features in which each group lists columns of the dataset by name, in place
// of the spec's patterns. A spec without groups has each column as a group, except for the ignored ones. It returns nil
// if the spec has no search.features.
func resolveFeatures(spec *sweep.Spec, data *dataset.Manifest) (*sweep.Features, error) {
	if spec.Search.Features == nil {
		return nil, nil
	}
	columns := make([]string, len(data.Features))
	for i := range data.Features {
		columns[i] = data.Features[i].Name
	}

	// Columns that params ignore are in no set.
	f := *spec.Search.Features
	base, err := fit.Complete(spec.Base(), nil, features(data))
	if err != nil {
		return nil, errorf("params: dataset %s: %v", data.Name, err)
	}
	ignored, _ := base[sweep.IgnoreColumn].(string)
	if f.Ignored, err = gbt.ColumnList(ignored).Names(columns); err != nil {
		return nil, errorf("params.%s: dataset %s: %v", sweep.IgnoreColumn, data.Name, err)
	}

	groupOf := map[string]string{} // by column; "" for one that is ignored
	for _, c := range f.Ignored {
		if err := nameable(c, columns); err != nil {
			return nil, errorf("params.%s: dataset %s: %v", sweep.IgnoreColumn, data.Name, err)
		}
		groupOf[c] = ""
	}

	// The spec's groups or, without any, one for each other column.
	groups, err := groupColumns(&f, columns, groupOf)
	if err != nil {
		return nil, errorf("search.features.groups: dataset %s: %v", data.Name, err)
	}
	if len(f.Groups) == 0 {
		for _, c := range columns {
			if _, out := groupOf[c]; !out {
				groups[c] = []string{c}
			}
		}
	}

	// Trials list the columns of groups by name, so each has to be nameable. The rest is in every set.
	f.Rest = len(columns) - len(f.Ignored)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[name])
		f.Rest -= len(groups[name])
		for _, c := range groups[name] {
			if err := nameable(c, columns); err != nil {
				return nil, errorf("search.features: group %s: dataset %s: %v", name, data.Name, err)
			}
		}
	}
	f.Groups = groups
	return &f, nil
}

// groupColumns returns by group the columns that its names and patterns in the spec match, and adds their groups to
// groupOf. There, "" stands for a column that params ignore. An error says that a word matches no column, that a group
// is empty, or that a column is ignored or in another group.
func groupColumns(features *sweep.Features, columns []string,
	groupOf map[string]string) (map[string][]string, error) {
	groups := map[string][]string{}
	for _, name := range features.Names() {
		for _, word := range features.Groups[name] {
			found, err := gbt.ColumnNamed(word, columns)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}

			for _, c := range found {
				// A column that is taken by this very group is skipped: an earlier word has matched it.
				switch other, taken := groupOf[c]; {
				case taken && other == "":
					return nil, fmt.Errorf("%s: params.%s leaves out the column %s already; take it out of one of them",
						name, sweep.IgnoreColumn, c)
				case taken && other != name:
					return nil, fmt.Errorf("the column %s is in the groups %s and %s; a column belongs to one", c,
						other, name)
				case !taken:
					groupOf[c] = name
					groups[name] = append(groups[name], c)
				}
			}
		}

		if len(groups[name]) == 0 { // a pattern of statistics may match none
			return nil, fmt.Errorf("%s: no column that matches; take the group out", name)
		}
	}
	return groups, nil
}

// nameable returns an error if a column cannot be given by its name in a list of columns: if that, read back among all
// columns, is not exactly this one.
func nameable(column string, columns []string) error {
	if got, err := gbt.ColumnList("name:" + column).Names(columns); err != nil || !slices.Equal(got, []string{column}) {
		return fmt.Errorf("the column %.60q cannot be written in %s by its name, which has a comma or is another's "+
			"too; with search.features, leave it in every set, rename it, or drop it from the dataset", column,
			sweep.IgnoreColumn)
	}
	return nil
}

// maxLists bounds the bytes of all lists of columns in a plan: all of it may have 64 MiB (sweepstore).
const maxLists = 16 << 20

// proposeFeatures returns one trial for each set of columns that the sweep compares: the first sets with their
// parameters, and open trials for those that depend on results. most is the number of trials that the spec asks for, 0
// if it leaves it out. Plans that would have too many trials, or too long lists of columns, are rejected.
func proposeFeatures(spec *sweep.Spec, data *dataset.Manifest, most int) (search.Proposal, error) {
	f := spec.Search.Features
	sets, open, err := search.Sets(f, most, spec.Seed)
	if err != nil {
		return search.Proposal{}, err
	}
	if len(sets)+open > sweep.MaxTrials || open > 0 && len(sets)+open > sweep.MaxOpen {
		return search.Proposal{},
			errorf("search.features: %s with %d groups takes %d trials; use fewer groups, or set trials", f.Try,
				len(f.Groups), len(sets)+open)
	}

	// Each set becomes a list of ignored columns, once for each fold.
	folds := 1
	if spec.Validate != nil {
		folds = spec.Validate.Number()
	}
	var out search.Proposal
	all, bytes := features(data), 0
	for _, kept := range sets {
		own := f.Params(kept)
		if bytes += len(own[sweep.IgnoreColumn].(string)) * folds; bytes > maxLists {
			return out, errorf("search.features: %s with %d groups in %d sets: the lists of the columns that trials "+
				"ignore have over %d MiB, more than a plan may have; use fewer groups, sets or folds",
				f.Try, len(f.Groups), len(sets), maxLists>>20)
		}
		full, err := fit.Complete(spec.Base(), own, all)
		if err != nil {
			return out, errorf("search.features: %s of dataset %s: %v", f.Describe(kept), data.Name, err)
		}
		out.Trials = append(out.Trials, sweep.Trial{Number: len(out.Trials), Source: f.Try, Params: full,
			Reason: f.Describe(kept)})
	}
	for range open {
		out.Trials = append(out.Trials, sweep.Trial{Number: len(out.Trials), Source: f.Try, Open: true})
	}

	note := fmt.Sprintf("search.features: %s of %d groups: %d sets of columns", f.Try, len(f.Groups), len(out.Trials))
	switch {
	case open > 0:
		note += " at most; later steps are decided when those before have ended, and the selection ends when no " +
			"group helps"
	case len(out.Trials) < most:
		note += fmt.Sprintf("; %d were requested, and there are no more", most)
	}
	out.Notes = append(out.Notes, note)
	if f.Rest > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("search.features: %s in no group, and so in every set",
			english.Plural(f.Rest, "column", "")))
	}
	return out, nil
}

// expectFeatures completes a plan that compares sets of columns. Open trials, whose set is still to be decided, are
// expected to be like the first trial, which has all groups (search.Sets). If there are any, it also sets p.Base, to
// which their own parameters are added when their set is decided.
func (p *Planned) expectFeatures(data *dataset.Manifest) (err error) {
	p.Expected = slices.Clone(p.Trials)
	for i := range p.Expected {
		if p.Expected[i].Open {
			p.Expected[i].Params, p.Expected[i].Open = p.Trials[0].Params, false
		}
	}
	if p.Open() {
		p.Base, err = fit.Complete(p.Spec.Base(), nil, features(data))
	}
	return err
}
