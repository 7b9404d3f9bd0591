package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

func TestTheFinalTrainingIsTheLastTrial(t *testing.T) {
	with := []string{"final: {rows: train}", "final: {rows: all}"}
	p := built(t, parse(t, with...), manifest(all...))
	data := must.Get(json.Marshal(p.Plan))(t)
	read, err := sweep.DecodePlan(data)
	if err != nil {
		t.Fatalf("the plan is refused by its reader: %v", err)
	}
	final, ok := read.Final()
	if !ok || final != 8 || len(read.Own()) != 8 || read.Configurations() != 8 || len(p.Expected) != 9 ||
		p.Expected[8].Params == nil || p.Sizing.RefitBytes <= p.Sizing.TrialBytes {
		t.Errorf("the final training is trial %d (%t) of %d, sizing %+v; expected 8 of 9", final, ok, len(read.Trials),
			p.Sizing)
	}
	if rows, rated := read.RowsOf(8); len(rows) != 4 || rated != nil {
		t.Errorf("it trains on %v, rated on %v; expected four splits and none", rows, rated)
	}

	for name, break_ := range map[string]func(*sweep.Plan){
		"not in the spec":    func(p *sweep.Plan) { p.Spec.Final.Rows = sweep.FinalTrain },
		"not among trials":   func(p *sweep.Plan) { p.Trials = p.Trials[:8] },
		"not the last trial": func(p *sweep.Plan) { p.Trials[0].Refit = true },
		"with parameters":    func(p *sweep.Plan) { p.Trials[8].Params = p.Trials[0].Params },
	} {
		bad := must.Get(sweep.DecodePlan(data))(t)
		break_(bad)
		text := must.Get(json.Marshal(bad))(t)
		if _, err := sweep.DecodePlan(text); err == nil {
			t.Errorf("a final training that is %s was read; expected it to be refused", name)
		}
	}

	m := manifest(all...)
	m.Tables = []dataset.LevelTable{{}}
	refused(t, "encodings: {final: true}", parse(t, with...), m)
}

func TestFinalIsRefused(t *testing.T) {
	for edit, want := range map[string]string{
		"final: {rows: most}":                      `rows is "most": use all`,
		"final: {rows: all}\nvalidate: {kfold: 5}": "final cannot be combined with validate",
		"final: {row: all}":                        `did you mean "rows"`,
	} {
		unread(t, want, strings.Replace(spec, "final: {rows: train}", edit, 1))
	}
}

// TestARankingOfSeveralMachinesNeedsMore: one of them may have the first rows of all queries.
func TestARankingOfSeveralMachinesNeedsMore(t *testing.T) {
	for objective, perRow := range map[string]int64{"lambdarank": gbt.GuestBytes, "regression_l1": 0} {
		var final []int64
		all := 0
		for machines := range 2 {
			s, m := parse(t), manifest("train", "valid", "test")
			m.Label.Kind = dataset.Regression
			s.Objective, s.Metric = objective, "mae"
			s.Final = &sweep.Final{Rows: sweep.FinalAll, Machines: 1 + machines}
			if gbt.Ranks(objective) {
				s.Metric, m.Group, m.Order = "ndcg@10", "query", nil
			}
			p := built(t, s, m)
			final, all = append(final, p.Sizing.RefitBytes), 0
			for _, split := range m.Splits {
				all += split.Rows
			}
		}
		if got, want := final[1]-final[0], perRow*int64(all); got != want {
			t.Errorf("%s: the final training needs %d bytes more on two machines, want %d", objective, got, want)
		}
	}
}

func TestFinalIsTheDefault(t *testing.T) {
	plain := []string{"final: {rows: train}", ""}
	encoded := manifest(all...)
	encoded.Tables = []dataset.LevelTable{{}}
	for name, tc := range map[string]struct {
		edits []string
		m     *dataset.Manifest
		final bool
		note  string
	}{
		"nothing asked for": {plain, manifest(all...), true,
			"trial 8 trains its configuration on the rows of all splits"},
		"too large for the machine": {append(slices.Clone(plain), "n2-highmem-64", "n2-standard-4",
			"num_leaves: {log_int: [15, 255]}", "num_leaves: {log_int: [2, 4]}"), manifest(all...), false,
			"the winner is registered as it is: the refit on the rows of several splits does not fit"},
		"train":                {nil, manifest(all...), false, ""},
		"no statistics":        {plain, encoded, false, "encodings: {final: true} in dataset.yaml makes them"},
		"train, no statistics": {nil, encoded, false, ""},
		"folds": {[]string{"final: {rows: train}", "validate: {kfold: 2}"}, manifest(all...), false,
			"because of validate: its winner is trained on train and valid already"},
	} {
		p := built(t, parse(t, tc.edits...), tc.m)
		_, ok := p.Final()
		if notes := strings.Join(p.Notes, "\n"); ok != tc.final || p.Spec.FinalRows() != tc.final ||
			!strings.Contains(notes, tc.note) || tc.note == "" && strings.Contains(notes, "final") {
			t.Errorf("%s: a final training %t, spec %+v, notes\n%s\nexpected %t and the note %q", name, ok,
				p.Spec.Final, notes, tc.final, tc.note)
		}
	}
}
