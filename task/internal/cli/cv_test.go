package cli

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
)

func TestCrossValidation(t *testing.T) {
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 2000, Encodings: "none"})
	p := params(t, "num_iterations: 20\nnum_leaves: 7\nearly_stopping_round: 5\nmetric: auc\n")
	code, out, errOut := run(t, nil, "train", "--dataset", dir, "--params", p, "--cv", "kfold", "--folds", "5")
	if code != 0 {
		t.Fatalf("cross-validated: exit code %d, error output %s; want 0", code, errOut)
	}
	for _, part := range []string{"fold 1 of 5:", "fold 5 of 5:", "tree     1", "valid auc", "rows rated",
		"standard deviation", "log_loss", "private"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	code, out, errOut = run(t, nil, "train", "--dataset", dir, "--params", p, "--cv", "kfold", "--folds", "5", "--json",
		"--threads", "2")
	var got crossValidated
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("cross-validated: exit code %d (error %v), output %s%s; want 0 and JSON", code, err, out, errOut)
	}
	train, _ := m.FindSplit(dataset.TrainSplit)
	rated, mean := 0, 0.0
	for _, f := range got.Folds {
		rated += f.RatedRows
		mean += f.Metrics["auc"] / 5
		if f.TrainRows+f.RatedRows != train.Rows || f.Trees < 1 || len(f.TrainFolds) != 8 || len(f.RatedFolds) != 2 {
			t.Errorf("a round of folds is %+v; want trees, all rows used, 8 folds trained on and 2 evaluated", f)
		}
	}
	auc := got.Summary["auc"]
	if len(got.Folds) != 5 || rated != train.Rows || got.Metric != "auc" || auc.Folds != 5 ||
		math.Abs(auc.Mean-mean) > 1e-12 || auc.SD == nil || *auc.SD <= 0 || auc.Mean < 0.6 {
		t.Errorf("got %+v; want 5 folds that rate every row once, and their mean auc above 0.6", got)
	}
}

func TestCrossValidationForward(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 1200, Encodings: "none",
		Split: "{by: time, column: day, train: 0.8, test: 0.2}"})
	p := params(t, "num_iterations: 5\nnum_leaves: 7\n")
	code, out, errOut := run(t, nil, "train", "--dataset", dir, "--params", p, "--cv", "forward", "--folds", "2",
		"--json")
	var got crossValidated
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("validated forward: exit code %d (error %v), output %s%s; want 0 and JSON", code, err, out, errOut)
	}
	if len(got.Folds) != 1 || got.Summary["log_loss"].SD != nil || got.Summary["log_loss"].Mean <= 0 {
		t.Errorf("validated forward: got %+v; want one fold, its log loss, and no standard deviation", got)
	}
}

func TestCrossValidationRefuses(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 500, Encodings: "none"})
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"scheme":      {[]string{"--cv", "loo"}, sweep.ExitUsage, "--cv loo: use kfold, group, forward"},
		"folds alone": {[]string{"--folds", "5"}, sweep.ExitUsage, "add --cv"},
		"one fold":    {[]string{"--cv", "kfold", "--folds", "1"}, sweep.ExitUsage, "use 2 to 10"},
		"out": {[]string{"--cv", "kfold", "--out", "m.txt"}, sweep.ExitUsage,
			"--out cannot be used with --cv"},
		"checkpoint": {[]string{"--cv", "kfold", "--checkpoint", "c"}, sweep.ExitUsage, "cannot be used with --cv"},
		"no groups":  {[]string{"--cv", "group"}, sweep.ExitInput, "has no groups"},
		"no time":    {[]string{"--cv", "forward"}, sweep.ExitInput, "split by hash"},
		"no dataset": {[]string{"--cv", "kfold", "--dataset", "nowhere"}, sweep.ExitNotFound, "nowhere"},
		"parameter": {[]string{"--cv", "kfold", "--params", params(t, "num_leafs: 3\n")}, sweep.ExitInput,
			"params.yaml:1:12"},
		"column": {[]string{"--cv", "kfold", "--params", params(t, "ignore_column: name:campaigns_id\n")},
			sweep.ExitInput, `did you mean "campaign_id"?`},
		"threads of cv": {[]string{"--cv", "kfold", "--threads", "0"}, sweep.ExitUsage, "--threads is 0"},
	} {
		code, _, errOut := run(t, nil, append([]string{"train", "--dataset", dir}, tc.args...)...)
		if code != tc.code || !strings.Contains(errOut, tc.says) {
			t.Errorf("%s: %d, want %d and %q: %s", name, code, tc.code, tc.says, errOut)
		}
	}
}
