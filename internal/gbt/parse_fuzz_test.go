package gbt

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// FuzzParamsJSON parses parameters from JSON. What is accepted has one canonical form that survives JSON, fits a model
// file's lines, and can be trained with: the trainer may refuse it with a typed error but never panics.
func FuzzParamsJSON(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"num_leaves": 3, "eta": 0.5, "objective": "mse"}`, `{"max_depth": -1e300, "lambda_l2": 1e300}`,
		`{"learning_rate": 100, "max_delta_step": 1e300, "min_data_in_leaf": 0}`,
		`{"ignore_column": "name:numb,cat c"}`,
		`{"ignore_column": "0,1,2"}`, `{"blacklist": [0], "seed": 9007199254740993}`,
		`{"bagging_fraction": 1e-300, "bagging_freq": 1}`,
		`{"feature_fraction": 5e-324, "feature_fraction_bynode": 0.5}`,
		`{"cat_smooth": 0, "cat_l2": 0, "min_data_per_group": 1, "max_cat_to_onehot": 1}`,
		`{"lambda_l1": 1e300}`, `{"min_gain_to_split": 1e300}`, `{"num_leaves": null, "num_leaves": true}`,
		`{"scale_pos_weight": 1e9}`,
		`{"min_sum_hessian_in_leaf": 0, "min_data_in_leaf": 0, "num_leaves": 131072, "max_bin": 2}`,
		`{"scale_pos_weight": 5e-324}`,
		`{"extra_trees": true}`, `{"path_smooth": 5e-324}`, `{"lambda_l1": 1, "max_delta_step": 0.1}`,
		`{"mc": [1, -1, 0]}`,
		`{"interaction_constraints": [[0, 2], [1]]}`, `{"feature_fraction_bynode": 0.1}`,
	} {
		f.Add(text)
	}
	d := randomTable(tableSpec{rows: 150, numerical: 2, categorical: 1, bins: 12, missing: 0.1, seed: 2})
	f.Fuzz(func(t *testing.T, text string) {
		var m map[string]any
		if json.Unmarshal([]byte(text), &m) != nil {
			return
		}
		p, err := ParseParams(m)
		var pe *ParamError
		if err != nil {
			if !errors.As(err, &pe) || pe.Name == "" && !hasKey(m, "") {
				t.Fatalf("refused with %#v; want an error that names one of the given parameters", err)
			}
			return
		}
		data, err := json.Marshal(p.Map())
		if err != nil {
			t.Fatalf("%+v cannot be written as JSON: %v", p, err)
		}
		var back map[string]any
		must.Do(t, json.Unmarshal(data, &back))
		if again, err := ParseParams(back); err != nil || again != p || !reflect.DeepEqual(again.Map(), p.Map()) {
			t.Fatalf("%s comes back as %+v, not %+v (%v)", data, again, p, err)
		}
		p.NumIterations, p.EarlyStoppingRound = min(p.NumIterations, 3), 0
		res, err := Train(t.Context(), &d.Data, p, Options{Threads: 1})
		if err != nil {
			if !errors.As(err, &pe) && !errors.Is(err, errDiverged) && !errors.Is(err, ErrData) {
				t.Fatalf("training with %+v: got %v, expected an error about a parameter, the data or divergence", p,
					err)
			}
			return
		}
		for _, line := range res.Model.Params {
			if strings.ContainsAny(line, "\n\r") || line[0] != '[' || line[len(line)-1] != ']' {
				t.Fatalf("a line of the model file: %q", line)
			}
		}
	})
}

func hasKey(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}

// FuzzModelText reads models, writes them and reads them again: the second text equals the first, byte for byte, and
// both predict the same for any row.
func FuzzModelText(f *testing.F) {
	for seed := range uint64(6) {
		trial := randomTrial(seed, fewRows)
		trial.p.NumIterations, trial.p.NumLeaves = min(trial.p.NumIterations, 2), 4 // short texts fuzz better
		f.Add(trial.train(f, Options{Threads: 1}), seed)
	}
	f.Add(tinyModel(f), uint64(9))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		m, err := ReadModel(bytes.NewReader(data))
		if err != nil {
			if !problem.Is(err, problem.Input) {
				t.Fatalf("reading a model: got %v, expected an error about the input", err)
			}
			return
		}
		first := text(t, m)
		again, err := ReadModel(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		if second := text(t, again); !bytes.Equal(second, first) {
			t.Fatalf("written twice: %s", firstDifference(second, first))
		}
		x := wildRows(seed, m.Features())
		out, back := make([]float64, 16), make([]float64, 16)
		must.Do(t, errors.Join(m.PredictAll(x, out, 1), again.PredictAll(x, back, 1)))
		for i := range out {
			if math.Float64bits(out[i]) != math.Float64bits(back[i]) && out[i] == out[i] {
				t.Fatalf("row %d: %v, and %v after a round trip", i, out[i], back[i])
			}
		}
	})
}

// wildRows returns 16 rows of values, many of them unusual.
func wildRows(seed uint64, features int) []float64 {
	rng := rand.New(rand.NewPCG(seed, 9))
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e300, -1e300, 5e-324, 1e-35,
		-1e-35, 1 << 31, 1<<31 - 1, -1, 255.5}
	x := make([]float64, 16*features)
	for i := range x {
		x[i] = odd[rng.IntN(len(odd))]
		if rng.IntN(2) == 0 {
			x[i] = float64(rng.IntN(100))
		}
	}
	return x
}
