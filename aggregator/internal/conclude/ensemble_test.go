package conclude

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/gbt"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// together is a sweep of four trials that each see a part of the columns and rows, so that their mean is better than
// any.
func together(t *testing.T, cost float64, o options) *world {
	t.Helper()
	o.leaves = []int{31, 31, 31, 31}
	o.change = func(p *sweep.Plan) {
		p.Spec.Ensemble = &sweep.Ensemble{Cost: cost}
		if !o.regression {
			p.Spec.Metric, p.Maximize = "log_loss", false
		}
		for i := range p.Trials {
			params := p.Trials[i].Params
			params["seed"], params["learning_rate"], params["num_iterations"] = float64(i+1), 0.6, 20.0
			params["feature_fraction"], params["bagging_fraction"], params["bagging_freq"] = 0.6, 0.5, 1.0
		}
	}
	o.table.Rows = 6000
	return newWorld(t, o)
}

func (w *world) version(t *testing.T) (v registry.Version, read func(string) []byte) {
	t.Helper()
	reg := registry.New(w.models)
	v, err := reg.Get(t.Context(), "ctr", "1")
	if err != nil {
		t.Fatal(err)
	}
	return v, func(name string) []byte {
		data, err := reg.ReadFile(t.Context(), v, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return data
	}
}

func (w *world) model(t *testing.T, trial int) *gbt.Model {
	t.Helper()
	text, _, err := blob.ReadAll(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Attempt(trial, 0)+"model.txt", 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAnEnsembleIsRegistered: the model is the mean of the trials' models, the results of all of them lie beside it,
// and what is measured is measured of it. A regression's is, too.
func TestAnEnsembleIsRegistered(t *testing.T) {
	for _, regression := range []bool{false, true} {
		w := together(t, 4, options{regression: regression})
		c := w.mustConclude(t)
		e := c.Ensemble
		if c.Outcome != sweep.OutcomeWinner || e == nil || !e.Registered || len(e.Trials) != 4 ||
			e.Trials[0] != c.Trial || e.Trees != 80 || !(0 < e.Low && e.Low < e.Gain && e.Gain < e.High) ||
			e.Rows == 0 {
			t.Fatalf("regression %t: the sweep's end: %+v, ensemble %+v; expected one of all four trials, better "+
				"beyond "+
				"chance", regression, c, e)
		}
		contains(t, c.Reason, fmt.Sprintf("registered as an ensemble, the mean of trials %v with 80 trees", e.Trials))

		v, read := w.version(t)
		var models []*gbt.Model
		for _, trial := range e.Trials {
			models = append(models, w.model(t, trial))
		}
		merged, err := gbt.Merge(models)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if _, err := merged.WriteTo(&want); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(scorer.FileModel), want.Bytes()) {
			t.Errorf("regression %t: model.txt is not what its members merge to", regression)
		}
		var members []sweep.Result
		if err := json.Unmarshal(read(scorer.FileMembers), &members); err != nil {
			t.Fatal(err)
		}
		var trials []int
		for _, r := range members {
			trials = append(trials, r.Trial)
		}
		if !slices.Equal(trials, e.Trials) {
			t.Errorf("regression %t: members.json has trials %v, the conclusion %v", regression, trials, e.Trials)
		}
		s, err := scorer.Open(t.Context(), registry.New(w.models), v)
		if err != nil {
			t.Fatalf("opening the version to score: %v", err)
		}
		if n := len(s.Model.Trees); n != 80 {
			t.Errorf("regression %t: the registered model has %d trees, expected 80", regression, n)
		}

		// The same trials make the same version, in another process at another time.
		again := together(t, 4, options{regression: regression})
		again.now = again.now.Add(3 * 3600e9)
		again.mustConclude(t)
		_, other := again.version(t)
		for _, name := range []string{scorer.FileModel, scorer.FileMembers, scorer.FileReport, scorer.FileTested} {
			if !bytes.Equal(read(name), other(name)) {
				t.Errorf("regression %t: %s differs between two conclusions of the same sweep", regression, name)
			}
		}
	}
}

// TestAnEnsembleIsRefused: the winner is registered alone, and the reason is said; or a member is left out.
func TestAnEnsembleIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		cost   float64
		store  func(*sweep.Result, map[string][]byte)
		trials int // merged
		want   string
	}{
		"the cost allows no second trial": {1.9, nil, 1, "none of the next best trials could be merged"},
		"the cost allows three":           {3.9, nil, 3, "registered as an ensemble"},
		"results say too few trees": {2.5, func(r *sweep.Result, _ map[string][]byte) {
			r.Trees = 1
		}, 2, "registered as an ensemble"},
		"the others' scores are not their models'": {4, func(r *sweep.Result, files map[string][]byte) {
			if r.Trial == 1 {
				raw, err := sweep.DecodeScores(files["test.scores"])
				if err != nil {
					t.Fatal(err)
				}
				for i := range raw {
					raw[i] += 0.001
				}
				files["test.scores"] = sweep.EncodeScores(raw)
			}
		}, 3, "registered as an ensemble"},
	} {
		w := together(t, tc.cost, options{store: tc.store})
		c := w.mustConclude(t)
		e := c.Ensemble
		if c.Outcome != sweep.OutcomeWinner || e == nil || len(e.Trials) != tc.trials ||
			e.Registered != (tc.trials > 1) {
			t.Errorf("%s: %+v, ensemble %+v; expected %d trials", name, c, e, tc.trials)
			continue
		}
		contains(t, e.Reason, tc.want)
	}
}

// TestAMembersFileIsLost: the others are merged, at once if the file is gone, and after filePatience if the store does
// not give it.
func TestAMembersFileIsLost(t *testing.T) {
	w := together(t, 4, options{})
	model := sweep.Names(w.plan.Sweep).Attempt(1, 0) + "model.txt"
	trained := w.sweeps
	w.sweeps = without(t, trained, model)
	gone := w.mustConclude(t)

	w.models = blob.Memory()
	faulty, err := blobtest.NewFaulty(t.Context(), without(t, trained), blobtest.Refused,
		func(name string) bool { return name == model })
	if err != nil || faulty.Struck() != 1 {
		t.Fatalf("%d objects are struck, %v; expected 1", faulty.Struck(), err)
	}
	w.sweeps = faulty
	if c, err := w.aggregator().Consider(t.Context(), w.plan.Sweep); !errors.Is(err, blobtest.ErrRefused) {
		t.Fatalf("at first: %+v, %v; expected to be told that the store refuses", c, err)
	}
	w.now = w.now.Add(filePatience)
	refused := w.mustConclude(t)

	for what, c := range map[string]*sweep.Conclusion{"gone": gone, "refused": refused} {
		if e := c.Ensemble; c.Trial == 1 || e == nil || !e.Registered || len(e.Trials) != 3 ||
			slices.Contains(e.Trials, 1) {
			t.Errorf("the model of trial 1 is %s: %+v, ensemble %+v; expected one of the other three", what, c, e)
		}
	}
}

// TestAnEnsembleWithinChance: trials of one configuration are the same model, and their mean gains nothing.
func TestAnEnsembleWithinChance(t *testing.T) {
	w := newWorld(t, options{leaves: []int{6, 6, 6}, change: func(p *sweep.Plan) {
		p.Spec.Ensemble = &sweep.Ensemble{Cost: 3}
	}})
	c := w.mustConclude(t)
	if e := c.Ensemble; e == nil || e.Registered || c.Version != 1 ||
		!strings.Contains(e.Reason, "is not better beyond chance") {
		t.Fatalf("three times one model: %+v, ensemble %+v; expected the winner alone", c, e)
	}
	v, read := w.version(t)
	if m, err := gbt.ReadModel(bytes.NewReader(read(scorer.FileModel))); err != nil || len(m.Trees) != 12 {
		t.Errorf("the registered model: %v; expected the winner's 12 trees", err)
	}
	if _, ok := v.File(scorer.FileMembers); ok {
		t.Error("the version of a single trial has members.json")
	}
}
