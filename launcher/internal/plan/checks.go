package plan

import (
	"fmt"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// validate returns the assignment of the held-out rows and the metrics by which every trial is measured. It sets
// p.Notes to what the assignment lacks, and rejects a spec that judges by what the dataset does not have.
func (p *Planned) validate(spec *sweep.Spec, data *dataset.Manifest) (h sweep.Holdout, metrics []string, err error) {
	if h, p.Notes, err = assignHoldout(data, gbt.Ranks(spec.Objective)); err != nil {
		return h, nil, err
	}
	if err := checkClasses(spec, data, h); err != nil {
		return h, nil, err
	}
	metrics, err = chooseMetrics(spec, data)
	return h, metrics, err
}

// assignHoldout says which held-out rows select (Valid), calibrate (Calib) and judge (Test). Where the dataset has no
// split calib or test, folds of another split are taken for it, and a note says so. Rankings (ranks) are not
// calibrated: for them Calib is all of valid, if only calib is missing. It rejects a dataset without train, valid or
// raw rows.
func assignHoldout(data *dataset.Manifest, ranks bool) (sweep.Holdout, []string, error) {
	has := func(name string) bool {
		_, ok := data.FindSplit(name)
		return ok
	}
	for _, name := range []string{sweep.Train, sweep.Valid} {
		if !has(name) {
			return sweep.Holdout{}, nil, errorf("dataset %s@%s has no %s split: a sweep trains on train and selects "+
				"on valid; add it under split: in its dataset.yaml and stage it again", data.Name, data.Version, name)
		}
	}
	if data.Sample.Rows == 0 {
		return sweep.Holdout{}, nil, errorf("dataset %s@%s has no sample of raw rows, so no model can be verified; "+
			"stage it again without sample: 0", data.Name, data.Version)
	}

	// folds are the rows of a split's folds first up to end, without end; of ten, so that each is a tenth of the rows.
	whole := func(split string) sweep.Rows { return sweep.Rows{Split: split} }
	folds := func(split string, first, end int) sweep.Rows {
		rows := whole(split)
		for f := first; f < end; f++ {
			rows.Folds = append(rows.Folds, uint8(f))
		}
		return rows
	}
	percent := func(rows sweep.Rows) string { return fmt.Sprintf("%d %%", 100*len(rows.Folds)/dataset.Folds) }

	// Each split serves its purpose, unless one is missing.
	h := sweep.Holdout{Valid: whole(sweep.Valid), Calib: whole(sweep.Calib), Test: whole(sweep.Test)}
	var missing, share, of, purpose string
	switch {
	case has(sweep.Calib) && has(sweep.Test):
		return h, nil, nil
	// There is no note, since valid still selects, and nothing is calibrated.
	case has(sweep.Test) && ranks:
		h.Calib = h.Valid
		return h, nil, nil

	case has(sweep.Test):
		h.Valid, h.Calib = folds(sweep.Valid, 0, 7), folds(sweep.Valid, 7, 10)
		missing, share, of, purpose = sweep.Calib, percent(h.Calib), sweep.Valid, "selects"
	case has(sweep.Calib): // the sample of raw rows lies in the last split, and test has to be where the sample is
		h.Calib, h.Test = folds(sweep.Calib, 0, 6), folds(sweep.Calib, 6, 10)
		missing, share, of, purpose = sweep.Test, percent(h.Test), sweep.Calib, "calibrates"
	default:
		h.Valid, h.Calib, h.Test = folds(sweep.Valid, 0, 5), folds(sweep.Valid, 5, 8), folds(sweep.Valid, 8, 10)
		missing, share = "calib or test", percent(h.Calib)+" and "+percent(h.Test)
		of, purpose = sweep.Valid, "selects"
	}
	return h, []string{fmt.Sprintf("dataset %s has no %s split: %s of %s, by fold number, is used for it and no "+
		"longer %s", data.Name, missing, share, of, purpose)}, nil
}

// chooseMetrics returns the names of the metrics by which every trial is measured: the usual ones of the objective, and
// those of the spec's metric, goals, gate and requirements. It rejects a metric that does not fit the objective, or
// that needs values which the dataset does not have.
func chooseMetrics(spec *sweep.Spec, data *dataset.Manifest) ([]string, error) {
	var names []string
	add := func(m metric.Metric) {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	for _, m := range metric.Standard(spec.Objective) {
		add(m)
	}

	// What the spec judges by. Facts, such as the number of trees, are known of every trial without measuring.
	wanted := []string{spec.Metric}
	for _, g := range spec.Goals {
		if !slices.Contains(sweep.GoalFacts(), g.Name) {
			wanted = append(wanted, g.Name)
		}
	}
	if spec.Gate != nil {
		wanted = append(wanted, spec.Gate.Metric)
	}
	require, err := search.CompileRequires(spec.Require, metric.Canonical)
	if err != nil {
		return nil, err
	}
	for _, c := range require {
		for _, name := range c.Names() {
			if !slices.Contains(search.FactNames(), name) {
				wanted = append(wanted, name)
			}
		}
	}

	// Add them if they can be measured here.
	for _, name := range wanted {
		m, err := metric.Lookup(name)
		if err != nil {
			return nil, err
		}
		// Metrics of several classes go with objectives of several classes, and only with these.
		if (m.Kind == metric.Classes) != gbt.Classes(spec.Objective) { // rmse of probabilities may be asked for
			return nil, errorf("%v", m.CheckObjective(spec.Objective))
		}
		if err := fit.CheckValue(m, data); err != nil {
			return nil, err
		}
		add(m)
	}
	return names, nil
}

// checkLabel rejects an objective that cannot learn the dataset's label.
func checkLabel(spec *sweep.Spec, data *dataset.Manifest) error {
	if spec.Objective == "binary" && data.Label.Kind != dataset.Binary {
		return errorf("objective binary needs a label of 0 and 1, but the label of dataset %s is a quantity; "+
			"stage it with positive: or above:, or use objective: regression", data.Name)
	}
	if data.Negatives > 0 && !gbt.LogOdds(spec.Objective) {
		return errorf("dataset %s has a sample of its negative rows, which is corrected in log odds, and "+
			"objective %s has none; stage it without sample.negatives", data.Name, spec.Objective)
	}
	if err := fit.CheckRanking(spec.Objective, data, spec.Validate == nil); err != nil {
		return err
	}
	return fit.CheckClasses(spec.Objective, &data.Label)
}

// numClass is the parameter that follows from the dataset.
const numClass = "num_class"

// withClasses returns the spec's parameters, for an objective of several classes with num_class set to the label's
// number of classes. A spec that states another number is rejected. The spec is not changed.
func withClasses(spec *sweep.Spec, data *dataset.Manifest) (sweep.Params, error) {
	if !gbt.Classes(spec.Objective) {
		return spec.Params, nil
	}
	n := len(data.Label.Classes)
	if said, ok := spec.Params[numClass]; ok && said != float64(n) && said != n { // a spec in Go may have an int
		return nil, errorf("params.num_class is %v, and the label of dataset %s has %d classes; leave it out", said,
			data.Name, n)
	}
	params := sweep.Params{numClass: float64(n)}
	for name, value := range spec.Params {
		if name != numClass {
			params[name] = value
		}
	}
	return params, nil
}

// features returns the names of the dataset's features and which are categorical: what parameters depend on.
func features(data *dataset.Manifest) []gbt.Feature {
	all := make([]gbt.Feature, len(data.Features))
	for i := range data.Features {
		all[i] = gbt.Feature{Name: data.Features[i].Name, Categorical: data.Features[i].Kind == dataset.Categorical}
	}
	return all
}

// checkColumns rejects a column that the dataset does not have, in each parameter of the spec that names columns, such
// as ignore_column. Each value is checked by itself, since a search that finds a choice invalid would only leave out
// its trials.
func checkColumns(spec *sweep.Spec, data *dataset.Manifest) error {
	columns := features(data)
	for g := range spec.Given() {
		if !gbt.NamesColumns(g.Name) {
			continue
		}
		p, err := gbt.ParseParams(map[string]any{g.Name: g.Value})
		if err == nil {
			_, err = p.ForTable(columns)
		}
		if err != nil {
			return errorf("%s: dataset %s: %v", g.Section, data.Name, err)
		}
	}
	return nil
}

// checkClasses rejects held-out rows of a single class, with which nothing could be selected, calibrated or judged
// hours later. If only some folds of a split serve the purpose, at least one row of the rarer class has to be expected
// in them.
func checkClasses(spec *sweep.Spec, data *dataset.Manifest, holdout sweep.Holdout) error {
	if spec.Objective != "binary" {
		return nil
	}

	for _, part := range []struct {
		sweep.Rows
		purpose string
	}{{holdout.Valid, "to select by"}, {holdout.Calib, "to calibrate by"}, {holdout.Test, "to judge by"}} {
		rows, ok := data.FindSplit(part.Split)
		class, share := "positive", rows.LabelMean
		if share > 0.5 {
			class, share = "negative", 1-share
		}

		// The rows of the rarer class in the split. One is enough for a whole split; of n of its ten folds, count*n/10
		// have to be one at least. A split that the dataset lacks is in no holdout (assignHoldout).
		count := math.Round(share * float64(rows.Rows))
		if n := len(part.Folds); !ok || count > 0 && (n == 0 || count*float64(n) >= dataset.Folds) {
			continue
		}
		few := "none"
		if count > 0 {
			few = fmt.Sprintf("only %v", count)
		}
		return errorf("%s of the %d rows of %s in dataset %s@%s is %s, so there is nothing %s; give %s more or "+
			"other rows under split: in its dataset.yaml (such as by: classes) and stage it again",
			few, rows.Rows, part.Split, data.Name, data.Version, class, part.purpose, part.Split)
	}
	return nil
}

// checkSearched rejects a search over a parameter that is accepted, since LightGBM has it, but changes nothing here.
func checkSearched(spec *sweep.Spec) error {
	for g := range spec.Given() {
		searched := g.Section == "search.grid" || g.Section == "search.random"
		if searched && !slices.Contains(gbt.ParamNames(), gbt.CanonicalName(g.Name)) {
			return spec.Errorf(g.Section+"."+g.Name, "%s has no effect here, so that there is nothing to search",
				g.Name)
		}
	}
	return nil
}
