package fit

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/problem"
)

// refuse says why training on this dataset cannot continue a model.
func refuse(format string, args ...any) error { return problem.New(problem.Input, format, args...) }

// maxLost is the largest share of the old dataset's rows whose category may have no bin of its own in the new one.
const maxLost = 0.01

// Input translates a model, trained on a dataset with the manifest old, to a dataset with the manifest here. The
// features it splits on must mean the same in both, since a version has one encoding for all of its trees: categories
// may be numbered differently and thresholds may be inside bins, but statistics of ids have to come from the same
// tables, or from a dataset that follows the old one. Otherwise the model is refused.
func Input(here, old *dataset.Manifest, text []byte) (*gbt.InputModel, error) {
	m, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("input model: %w", err)
	}
	if !m.Of(describe(old)) {
		return nil, refuse("the input model is said to be trained on dataset %s@%s, and has other features", old.Name,
			old.Version)
	}
	if !slices.Equal(here.Label.Classes, old.Label.Classes) {
		return nil, refuse("dataset %s@%s has the classes %q, and the input model's had %q: train from scratch",
			here.Name, here.Version, here.Label.Classes, old.Label.Classes)
	}
	if !sameTexts(here.Missing, old.Missing) {
		return nil, refuse("dataset %s@%s takes %q for missing, and the input model's took %q; stage it with the "+
			"same missing:", here.Name, here.Version, here.Missing, old.Missing)
	}

	matched := matcher{here: here, old: old, to: map[int]int{}, codes: map[int][]int{}}
	for _, f := range splitBy(m) {
		if err := matched.feature(f); err != nil {
			return nil, err
		}
	}
	return m.OnBins(describe(here), func(was int) int { return matched.to[was] },
		func(feature int) []int { return matched.codes[feature] })
}

func sameTexts(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// splitBy returns the features that some tree splits on, ascending.
func splitBy(m *gbt.Model) []int {
	var all []int
	for _, t := range m.Trees {
		all = append(all, t.Feature...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// matcher matches the features of one dataset with those of another.
type matcher struct {
	here, old *dataset.Manifest
	to        map[int]int   // for the old features checked so far, the ones here
	codes     map[int][]int // for categorical features here, the old code of each bin
}

// feature checks that the old dataset's feature i means the same here.
func (m *matcher) feature(i int) error {
	was := &m.old.Features[i]
	at := slices.IndexFunc(m.here.Features, func(f dataset.Feature) bool { return f.Name == was.Name })
	if at < 0 {
		return refuse("the input model splits by %.60q, which dataset %s@%s does not have", was.Name, m.here.Name,
			m.here.Version)
	}
	is := &m.here.Features[at]
	m.to[i] = at

	if was.Kind != is.Kind {
		return refuse("%.60q is %s in dataset %s@%s, and was %s in the input model's", is.Name, is.Kind, m.here.Name,
			m.here.Version, was.Kind)
	}
	if !m.sameOrigin(was, is) {
		return refuse("%.60q is made of other columns than in the input model's dataset %s@%s; give both the same "+
			"encodings: and derive:", is.Name, m.old.Name, m.old.Version)
	}
	if is.From != nil && is.From.Table >= 0 && !m.sameTables(was.From.Table, is.From.Table) &&
		!m.likeTables(was.From.Table, is.From.Table) {
		return refuse("%.60q is a statistic of ids, and its table is of dataset %s@%s, which is not made like the "+
			"input model's %s@%s: "+
			"its thresholds would mean other numbers; stage it with encodings: {like: MODEL@VERSION} of the input "+
			"model, train from scratch, or continue on the same dataset",
			is.Name, m.here.Name, m.here.Version, m.old.Name, m.old.Version)
	}

	if is.Kind != dataset.Categorical {
		return nil
	}
	codes, err := recode(was, is)
	m.codes[at] = codes
	return err
}

// sameOrigin reports whether two features are the same column, or derived in the same way from the same columns.
func (m *matcher) sameOrigin(was, is *dataset.Feature) bool {
	if was.From == nil || is.From == nil {
		return was.From == is.From
	}
	return was.From.What == is.From.What && slices.EqualFunc(was.From.Of, is.From.Of, dataset.Part.Same) &&
		(was.From.Table < 0) == (is.From.Table < 0)
}

// sameTables reports whether two tables of statistics, and those they fall back to, are the same rows of the same
// levels file.
func (m *matcher) sameTables(was, is int) bool {
	file := func(d *dataset.Manifest) *dataset.FileInfo {
		i := slices.IndexFunc(d.Files, func(f dataset.FileInfo) bool { return f.Name == dataset.LevelsFile })
		if i < 0 {
			return nil
		}
		return &d.Files[i]
	}

	a, b := file(m.old), file(m.here)
	if a == nil || b == nil || !reflect.DeepEqual(a, b) {
		return false
	}
	// The tables must agree in every field, including the number of the table they fall back to, and so must those.
	return was == is && reflect.DeepEqual(m.old.Tables[:was+1], m.here.Tables[:is+1])
}

// likeTables reports whether two tables, and those they fall back to, are made of the same columns in a dataset that
// follows the other: their features have the same bounds, although the rows differ.
func (m *matcher) likeTables(was, is int) bool {
	if m.here.Like != m.old.Name+"@"+m.old.Version {
		return false
	}
	for was >= 0 && is >= 0 {
		a, b := &m.old.Tables[was], &m.here.Tables[is]
		if !a.SameStatistics(b) || a.Strength != b.Strength {
			return false
		}
		was, is = a.BackOff, b.BackOff
	}
	return was < 0 && is < 0
}

// recode returns the old code of each bin of a categorical feature.
func recode(was, is *dataset.Feature) ([]int, error) {
	codeOf := make(map[string]int, len(was.Categories))
	for code, c := range was.Categories {
		codeOf[c] = code
	}

	codes := make([]int, is.Bins)
	known := map[string]bool{}
	for bin, c := range is.Categories {
		code, ok := codeOf[c]
		if !ok {
			code = was.OtherBin
		}
		codes[bin], known[c] = code, true
	}
	codes[is.OtherBin] = was.OtherBin
	if is.MissingBin >= 0 {
		codes[is.MissingBin] = was.OtherBin // nothing was missing in the old dataset
		if was.MissingBin >= 0 {
			codes[is.MissingBin] = was.MissingBin
		}
	}

	return codes, lost(was, is, known)
}

// lost rejects a feature if a category that the model has seen often no longer has a bin of its own.
func lost(was, is *dataset.Feature, known map[string]bool) error {
	var all, gone, most int64
	name := ""
	for i, c := range was.Categories {
		if i >= len(was.Counts) {
			break
		}
		n := was.Counts[i]
		all += n
		if known[c] {
			continue
		}
		gone += n
		if n > most {
			most, name = n, c
		}
	}

	if share := float64(gone) / float64(max(all, 1)); share > maxLost {
		return refuse("%.60q: %.1f %% of the rows that the input model was trained on have categories that now "+
			"count as other, mainly %.60q; train from scratch", is.Name, 100*share, name)
	}
	return nil
}
