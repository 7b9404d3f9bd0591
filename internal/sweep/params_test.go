package sweep_test

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestAliasesAreResolved: a parsed spec has one name for each parameter, and equals the same spec under canonical names
// except for the keys of its draws.
func TestAliasesAreResolved(t *testing.T) {
	rename := strings.NewReplacer(
		"learning_rate: 0.05", "eta: 0.05", "learning_rate: 0.03", "shrinkage_rate: 0.03", "{num_leaves: 31}",
		"{max_leaves: 31}", "grid: {num_leaves:", "grid: {max_leaves:", `"num_leaves <= 2`, `"max_leaves <= 2`)
	canonical := must.Get(sweep.ParseSpec("sweep.yaml", []byte(good), words()))(t)
	aliased := must.Get(sweep.ParseSpec("sweep.yaml", []byte(rename.Replace(good)), words()))(t)
	want, _ := json.Marshal(canonical)
	if got, _ := json.Marshal(aliased); string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	drawn := must.Get(sweep.ParseSpec("sweep.yaml",
		[]byte(strings.Replace(good, "lambda_l2: {choice", "reg_lambda: {choice", 1)), words()))(t)
	if d, ok := drawn.Search.Random["lambda_l2"]; !ok || d.DrawnAs != "reg_lambda" ||
		len(drawn.Search.Random) != len(canonical.Search.Random) {
		t.Errorf("random: %+v", drawn.Search.Random)
	}
}

// TestNoAliasGetsRound the reserved names, or another name of the same parameter.
func TestNoAliasGetsRound(t *testing.T) {
	const say = "; say it there, and take it out here"
	for name, tc := range map[string]struct{ old, new, want string }{
		"objective": {"num_iterations: 2000", "loss: regression",
			"8:16: loss is another name of objective, which is set by the spec's key objective" + say},
		"stopping": {"num_iterations: 2000", "n_iter_no_change: 3",
			"8:28: n_iter_no_change is another name of early_stopping_round, which is set by the spec's key " +
				"early_stopping_rounds" + say},
		"stopping, fixed": {"{num_leaves: 31}", "{n_iter_no_change: 3}",
			"10:30: n_iter_no_change is another name of early_stopping_round, which"},
		"objective, grid": {"min_data_in_leaf: [20, 200]", "app: [regression]",
			"11:42: app is another name of objective, which"},
		"stopping, random": {"lambda_l2: {choice: [0, 1, 10]}", "n_iter_no_change: {int: [1, 9]}",
			"16:24: n_iter_no_change is another name of early_stopping_round, which"},
		"threads": {"num_iterations: 2000", "n_jobs: 64",
			"8:18: n_jobs is another name of num_threads, which is set by the spec's key machine.threads_per_task" +
				say},
		"metric": {"num_iterations: 2000", "metrics: auc",
			"8:19: metrics is another name of metric, which is set by the spec's key metric" + say},
		"twice": {"num_iterations: 2000", "eta: 0.1",
			"8:35: learning_rate is given twice: here as learning_rate, and as eta in line 8; keep one of them"},
		"twice, lines": {"params: {num_iterations: 2000, learning_rate: 0.05}",
			"params:\n  learning_rate: 0.05\n  eta: 0.1",
			"10:8: learning_rate is given twice: here as eta, and as learning_rate in line 9; keep one of them"},
		"two aliases": {"num_iterations: 2000, learning_rate: 0.05", "shrinkage_rate: 0.1, eta: 0.2",
			"8:36: learning_rate is given twice: here as eta, and as shrinkage_rate in line 8"},
		"twice, fixed": {"{num_leaves: 63,", "{num_leaves: 63, max_leaves: 31,",
			"10:58: num_leaves is given twice: here as max_leaves"},
		"twice, grid": {"min_data_in_leaf: [20, 200]", "max_leaves: [20, 200]",
			"11:49: num_leaves is given twice: here as max_leaves"},
		"twice, random": {"lambda_l2: {choice", "eta: {choice",
			"16:11: learning_rate is given twice: here as eta, and as learning_rate in line 13"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, tc.old, tc.new, "sweep.yaml:"+tc.want)
		})
	}
}
