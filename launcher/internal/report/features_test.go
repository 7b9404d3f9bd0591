package report

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
	"coppice/launcher/internal/show"
)

// TestGroupsAreParameters: in a sweep over sets of columns each group is shown as a parameter with two values: a trial
// has it (0) or not (1). More than page.MaxGroups groups are one parameter together, whose values are the trials' sets.
// A trial that is not decided yet has no values. The first trial has all groups, and each of the others lacks one.
func TestGroupsAreParameters(t *testing.T) {
	for _, groups := range []int{2, page.MaxGroups + 1} {
		f := &sweep.Features{Try: sweep.TryDropOne, Groups: map[string][]string{}}
		for i := range groups {
			name := fmt.Sprintf("g%02d", i)
			f.Groups[name] = []string{name + ":count", name}
		}
		p := &sweep.Plan{Spec: sweep.Spec{Search: sweep.Search{Features: f}}}
		for left := range groups + 1 {
			kept := make([]bool, groups)
			for i := range kept {
				kept[i] = i != left-1 // trial 0 keeps all, and trial n lacks group n-1
			}
			p.Trials = append(p.Trials, sweep.Trial{Number: left, Params: f.Params(kept)})
		}

		shown := page.Differ(p)
		var got []any
		for _, q := range shown.Shown {
			got = append(got, q.Name, len(q.Categories))
		}
		// first and last are the values of the first trial and of the last, which lacks the last group. Of two groups
		// each is a parameter.
		want, first, last := []any{"g00", 2, "g01", 2}, []float64{0, 0}, []float64{0, 1}
		if groups > page.MaxGroups { // 13 groups: by the alphabet "all but g00" to "all but g12", and then "all groups"
			want, first, last = []any{"columns", groups + 1}, []float64{13}, []float64{12}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d groups are shown as %v, want %v", groups, got, want)
		}
		if v := shown.Values(p.Trials[0].Params); !reflect.DeepEqual(v, first) {
			t.Errorf("all of %d groups are shown as %v, want %v", groups, v, first)
		}
		if v := shown.Values(p.Trials[groups].Params); !reflect.DeepEqual(v, last) {
			t.Errorf("all of %d groups but the last are shown as %v, want %v", groups, v, last)
		}
		if v := shown.Values(nil); !math.IsNaN(v[0]) {
			t.Errorf("a trial that is not decided is shown as %v of %d groups, want no value", v, groups)
		}
	}
}

// TestFeaturesAsTheUserWritesThem: a page has the features' names in the table ("ad position"), and without a manifest
// those in model.txt, which LightGBM can read ("ad_position").
func TestFeaturesAsTheUserWritesThem(t *testing.T) {
	m := &gbt.Model{FeatureNames: []string{"ad_position"}, Trees: []*gbt.Tree{{Feature: []int{0}, Gain: []float64{1},
		Threshold: []float64{2}, Left: []int{-1}, Right: []int{-2}, Decision: []uint8{0}, LeafValue: []float64{0, 1},
		LeafCount: []int{1, 1}, InternalValue: []float64{0}, InternalCount: []int{2}}}}
	d := &dataset.Manifest{Features: []dataset.Feature{{Name: "ad position"}}}
	if got := importances(m, d)[0].Feature; got != "ad position" {
		t.Errorf("the chart of features has %q, expected the table's name", got)
	}
	if got := importances(m, &dataset.Manifest{})[0].Feature; got != "ad_position" {
		t.Errorf("without a manifest: got the name %q, want ad_position", got)
	}
}

// TestOneWordForOneState: a page, the terminal and JSON have the same word for how a trial ended. A page and the
// terminal have the same words for a night's verdict, and the same digits of a score.
func TestOneWordForOneState(t *testing.T) {
	for _, status := range []sweep.Status{sweep.StatusDone, sweep.StatusFailed, sweep.StatusTimedOut,
		sweep.StatusCancelled, sweep.StatusStopped} {
		r := &sweep.Result{Status: status, Reason: "because", TreesGrown: 5}
		got, _ := ending(r, sweep.Params{"num_iterations": 10.0})
		if json := strings.ReplaceAll(string(status), "_", " "); got != r.State() || got != json ||
			!slices.Contains(page.States, got) {
			t.Errorf("%s is %q on a page, %q in the terminal and %q in JSON, want one word of a page's", status, got,
				r.State(), json)
		}
	}
	for verdict, want := range map[sweep.Verdict]string{sweep.VerdictNotComparable: "not comparable", "": "running"} {
		if got := (page.IndexSweep{Verdict: verdict, State: page.Running}).Word(); got != want ||
			sweep.VerdictWords(verdict) != want {
			t.Errorf("verdict %q is %q on a page and %q elsewhere, want %q", verdict, got, sweep.VerdictWords(verdict),
				want)
		}
	}
	if got := show.Number(202611); got != "202611" {
		t.Errorf("a month is %s, want all digits of a whole number, 202611", got)
	}
	if got, want := show.Number(0.1195389), plot.Plain.Format(0.1195389); got != want || want != "0.1195" {
		t.Errorf("a score is %s in the terminal and %s on a page, want 0.1195", got, want)
	}
}

// TestAConfigurationHasItsMean: a configuration's first trial gets the mean over the folds as its score, and its other
// trials get none.
func TestAConfigurationHasItsMean(t *testing.T) {
	trials := []page.TrialRow{{Number: 0}, {Number: 1}, {Number: 2}}
	mean := 0.7
	configurations(trials,
		sweep.Board{Configurations: []sweep.Rated{{State: sweep.ConfigurationDone, Trials: []int{0, 1, 2},
			Scores: make([]*float64, 3), Mean: &mean}}}, &page.Differing{})
	if trials[0].Score != mean || !math.IsNaN(trials[1].Score) || !math.IsNaN(trials[2].Score) {
		t.Errorf("the scores are %v, %v and %v, expected the mean %v and none", trials[0].Score, trials[1].Score,
			trials[2].Score, mean)
	}
}
