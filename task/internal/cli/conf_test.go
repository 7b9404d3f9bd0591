package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// conf is shortened from LightGBM's examples/binary_classification/train.conf.
const conf = `# task type, support train and predict
task = train

boosting_type = gbdt
objective = binary
metric = log_loss,auc
data = binary.train
valid_data = binary.test
num_trees = 100   # trees
learning_rate = 0.1
num_leaves = 63
min_sum_hessian_in_leaf = 5.0
is_enable_sparse = true
use_two_round_loading = false
output_model = LightGBM_model.txt
`

// examples have the keys of LightGBM's six examples besides those of conf.
var examples = map[dataset.LabelKind]string{
	dataset.Binary: "objective = binary\nmetric = binary_logloss,auc\nmetric_freq = 1\nis_training_metric = true\n" +
		"label_column = 0\ntree_learner = feature\nnum_machines = 2\nlocal_listen_port = 12400\n" +
		"machine_list_file = mlist.txt\nis_save_binary_file = false\nbagging_freq = 5\nbagging_fraction = 0.8\n",
	dataset.Regression: "objective = rank_xendcg\nmetric = ndcg\nndcg_eval_at = 1,3,5\nnum_threads = 1\n" +
		"objective_seed = 7\nfeature_fraction = 1.0\ntree_learner = serial\nnum_machines = 1\nlocal_listen_port = 12400\n",
	dataset.Classes: "objective = multiclass\nmetric = multi_logloss,auc_mu\nauc_mu_weights = 0,1,2,0\nnum_class = 2\n" +
		"early_stopping = 10\nmax_bin = 255\n",
}

// TestConfOfExamples: the keys of LightGBM's examples are read, what has no effect is noted, and all refusals come at
// once.
func TestConfOfExamples(t *testing.T) {
	file := filepath.Join(t.TempDir(), "train.conf")
	for kind, text := range examples {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		label := &dataset.LabelInfo{Kind: kind}
		if kind == dataset.Classes {
			label.Classes = []string{"a", "b"}
		}
		var notes []string
		_, metrics, err := readParams(file, label, func(n string) { notes = append(notes, n) })
		_, first, _ := strings.Cut(text, "metric = ")
		if err != nil || len(notes) < 2 || !strings.HasPrefix(first, metrics[0].Name) && metrics[0].Name != "log_loss" {
			t.Errorf("%s: error %v, metrics %v, notes %q; expected notes and its first metric", text, err, metrics,
				notes)
		}
	}

	wrong := "num_leaves = 1\nlinear_tree = true\nlocal_listen_port = 1\nlearning_rat = 1\n"
	must.Do(t, os.WriteFile(file, []byte(wrong), 0o600))
	_, _, err := readParams(file, &dataset.LabelInfo{Kind: dataset.Binary}, func(string) {})
	if err == nil || strings.Count(err.Error(), "train.conf:") != 3 || problem.Of(err) != problem.Input {
		t.Errorf("got %v, expected the refusals of lines 1, 2 and 4, of kind input", err)
	}
}

// TestConf: a LightGBM parameter file means what the same parameters mean in YAML, and what has no effect is said.
func TestConf(t *testing.T) {
	read := func(name, text string) (gbt.Params, []string, error) {
		file := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		var notes []string
		p, metrics, err := readParams(file, &dataset.LabelInfo{Kind: dataset.Binary},
			func(n string) { notes = append(notes, n) })
		if err == nil && (metrics[0].Name != "log_loss" || metrics[1].Name != "auc") {
			t.Errorf("%s: got the metrics %s and %s, want log_loss and auc", name, metrics[0].Name, metrics[1].Name)
		}
		return p, notes, err
	}
	got, notes := must.Get2(read("train.conf", conf))(t)
	want, _, err := read("params.yaml", "objective: binary\nmetric: [log_loss, auc]\nnum_iterations: 100\n"+
		"learning_rate: 0.1\nnum_leaves: 63\nmin_sum_hessian_in_leaf: 5\n")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v (%v)", got, want, err)
	}
	if text := strings.Join(notes, "\n"); len(notes) != 7 || !strings.Contains(text, "data has no effect here") {
		t.Errorf("got the notes %q, want one for each of task, boosting_type, data, valid_data, is_enable_sparse, "+
			"use_two_round_loading and output_model", notes)
	}

	for text, want := range map[string]string{
		"num_leaves = 31\nlearning rate\n":        `train.conf:2: "learning rate": a LightGBM parameter`,
		"\n\nnum_leaves = many\n":                 "train.conf:3:",
		"linear_tree = true\n":                    "LightGBM has it, Coppice does not",
		"num_leaves = 31\nnum_leaves = 15\n":      "train.conf:2:",
		"num_leaves = 31 # more\nnum_leafs = 3\n": "train.conf:2:",
	} {
		if _, _, err := read("train.conf", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}
