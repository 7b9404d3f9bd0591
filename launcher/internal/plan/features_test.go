package plan_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// sets is a spec that compares sets of columns, with these settings of features, and other lines at its end.
func sets(t *testing.T, features string, edits ...string) *sweep.Spec {
	t.Helper()
	return parse(t, append([]string{"search:\n  fixed: [{}, {learning_rate: 0.2}]\n  random: {num_leaves: {log_int: " +
		"[15, 255]}}\n", "search: {features: " + features + "}\n", "trials: 8\n", ""}, edits...)...)
}

// columns is a dataset with these features.
func columns(names ...string) *dataset.Manifest {
	m := manifest(all...)
	m.Features = nil
	for _, n := range names {
		m.Features = append(m.Features, dataset.Feature{Name: n, Bins: 20})
	}
	return m
}

// ignored are the trials' columns to ignore, "open" for one that is still to be decided.
func ignored(p *plan.Planned) (out []string) {
	for _, t := range p.Trials {
		switch {
		case t.Open:
			out = append(out, "open")
		case t.Fold < 2 && !t.Refit:
			out = append(out, fmt.Sprint(t.Params[sweep.IgnoreColumn]))
		}
	}
	return out
}

// TestSetsOfColumns: groups by name, pattern or each column, beside columns in no group and some that the spec ignores
// anyway.
func TestSetsOfColumns(t *testing.T) {
	m := columns("age", "site", "site:count", "site:rate", "user_a", "user_b")
	for name, tc := range map[string]struct {
		spec *sweep.Spec
		want []string
	}{
		"patterns": {sets(t, `{try: drop_one, groups: {site: [site, "site:*"], user: ["user_?"]}}`),
			[]string{"", "name:site,site:count,site:rate", "name:user_a,user_b"}},
		"alone": {sets(t, `{try: add_one, groups: {user: ["user_*"], age: [age]}}`),
			[]string{"", "name:age,user_a,user_b", "name:user_a,user_b", "name:age"}},
		"each": {sets(t, `{try: drop_one}`, "params: {eta: 0.05}", `params: {ignore_column: "name:site*"}`),
			[]string{"name:site,site:count,site:rate", "name:age,site,site:count,site:rate",
				"name:site,site:count,site:rate,user_a", "name:site,site:count,site:rate,user_b"}},
		"forward": {sets(t, `{try: forward, groups: {user: ["user_*"], age: [age]}}`),
			[]string{"", "name:age,user_a,user_b", "open", "open"}},
		"folds": {sets(t, `{try: drop_one, groups: {user: ["user_*"]}}`, "machine:",
			"validate: {kfold: 5}\nmachine:"), []string{"", "name:user_a,user_b"}},
	} {
		p, err := build(tc.spec, m)
		if err != nil {
			t.Errorf("%s: the spec was planned: got error %v, want none", name, err)
			continue
		}
		if got := ignored(p); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: the trials ignore %q, want %q", name, got, tc.want)
		}
		if p.Spec.Trials != p.Configurations() || len(p.Expected) != len(p.Trials) ||
			slices.ContainsFunc(p.Expected, func(e sweep.Trial) bool { return e.Params == nil }) {
			t.Errorf("%s: %d trials, %d in the spec, %d expected; want the same number, each with parameters", name,
				p.Configurations(), p.Spec.Trials, len(p.Expected))
		}
		if p.Folds != nil && p.Folds.First != 5 {
			t.Errorf("%s: sets are dropped after %d folds, want all folds of every set", name, p.Folds.First)
		}
		readBack(t, p)
	}
}

func TestSetsOfColumnsRefused(t *testing.T) {
	m := columns("age", "a,b", "site", "site:rate")
	for want, s := range map[string]*sweep.Spec{
		`groups: dataset clicks: g: there is no column "sitr" (did you mean "site"?)`: sets(t,
			"{try: drop_one, groups: {g: [sitr]}}"),
		"the column site is in the groups g and h": sets(t,
			`{try: drop_one, groups: {g: [site], h: ["site*"]}}`),
		"no column that matches; take the group out": sets(t,
			`{try: drop_one, groups: {g: ["age:*"], h: [site]}}`),
		"params.ignore_column leaves out the column site already": sets(t,
			`{try: drop_one, groups: {g: [site]}}`, "params: {eta: 0.05}", `params: {ignore_column: "name:site"}`),
		`group a,b: dataset clicks: the column "a,b" cannot be written`: sets(t, "{try: drop_one}"),
		"drop_one with 2 groups takes at least 3 trials, and trials is 2": sets(t,
			"{try: drop_one, groups: {g: [site], h: [age]}}", "seed: 3", "seed: 3\ntrials: 2"),
		`params.ignore_column: dataset clicks: the column "a,b" cannot be written`: sets(t,
			"{try: drop_one, groups: {g: [site]}}", "params: {eta: 0.05}", `params: {ignore_column: "1"}`),
		"add_one with 400 groups in 401 sets: the lists of the columns": sets(t, "{try: add_one}"),
		"all columns are in one group": sets(t,
			`{try: drop_one, groups: {g: ["*"]}}`),
		"forward with 45 groups takes 1035 trials; use fewer groups, or set trials": sets(t, "{try: forward}"),
		"subsets of 2 groups: 4 sets of columns; 9 were requested, and there are no more": sets(t,
			"{try: subsets, groups: {g: [site], h: [age]}}", "seed: 3", "seed: 3\ntrials: 9"),
	} {
		table := m
		if strings.Contains(want, "in one group") {
			table = columns("age", "site")
		}
		var names []string
		switch {
		case strings.Contains(want, "45 groups"):
			for i := range 45 {
				names = append(names, fmt.Sprint("c", i))
			}
			table = columns(names...)
		case strings.Contains(want, "400 groups"):
			for i := range 400 {
				names = append(names, fmt.Sprintf("%0250d", i))
			}
			table = columns(names...)
		}
		p, err := build(s, table)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
			if code := program.ExitCode(t.Context(), err); code != sweep.ExitInput {
				t.Errorf("the error %v has the exit code %d, expected that of an input at fault", err, code)
			}
			continue
		}
		if !strings.Contains(strings.Join(p.Notes, "\n"), want) {
			t.Errorf("got the notes %q, want %q", p.Notes, want)
		}
	}
}

// TestMoreSubsets: a sweep of more sets begins with those of one of fewer.
func TestMoreSubsets(t *testing.T) {
	m := columns("a", "b", "c", "d", "e", "f")
	plan32 := built(t, sets(t, "{try: subsets}", "seed: 3", "seed: 3\ntrials: 32"), m)
	plan20 := built(t, sets(t, "{try: subsets}", "seed: 3", "seed: 3\ntrials: 20"), m)
	if got, want := ignored(plan20), ignored(plan32)[:20]; !reflect.DeepEqual(got, want) {
		t.Errorf("20 sets are %q, want the first of 32, %q", got, want)
	}
}
