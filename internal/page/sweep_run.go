package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"coppice/internal/sweep"
)

// Measure is a metric of the winner on valid, and on test as it is registered; Alone is what the shares of the classes
// score. What is not known is NaN.
type Measure struct {
	Name                   string
	Valid, Test, SE, Alone float64
}

// MetricNames returns the keys of the map: those that first lists, in its order, and then all others by name.
func MetricNames[V any](of map[string]V, first ...string) []string {
	place := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	return slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
}

// Measures returns all metrics of the winner, on valid and on test; the one named first comes first. On test they are
// of calibrated predictions if the winner is calibrated. Numbers that are not known are NaN.
func (w *Winner) Measures(first string) (all []Measure) {
	c := sweep.Calibration{}
	if w.Calibration != nil {
		c = *w.Calibration
	}
	names := map[string]float64{}
	for _, m := range []map[string]float64{w.Valid, w.Test, c.After} {
		maps.Copy(names, m)
	}
	for _, name := range MetricNames(names, first) {
		valid, validated := w.Valid[name]
		test, tested := c.After[name]
		if !tested {
			test, tested = w.Test[name]
		}
		all = append(all, Measure{Name: name, Valid: orNaN(valid, validated), Test: orNaN(test, tested),
			SE: w.Within.ErrorOf(name), Alone: w.alone(name)})
	}
	return all
}

// alone is what a model without features scores on the test rows; NaN if that is unknown.
func (w *Winner) alone(name string) float64 { return orNaN(w.Tested.OfConstant(name)) }

// used returns the features that some split of the model uses, at most mostFeatures of them, and a sentence that sums
// them up. features has all of the model's, the one of the largest gain first.
func used(features []Importance) (kept []Importance, text string) {
	kept = slices.DeleteFunc(slices.Clone(features), func(f Importance) bool { return f.Splits == 0 })
	if len(kept) > 0 {
		text = fmt.Sprintf("%d of %d features are used; %s contributes most. By the share of the gain of all splits: "+
			"there are no SHAP values.", len(kept), len(features), kept[0].Feature)
	}
	return kept[:min(len(kept), mostFeatures)], text
}

// mostFeatures is how many features a table of importances has.
const mostFeatures = 200
