package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/strictyaml"
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

// TestConf: a LightGBM parameter file means what the same parameters mean in YAML, and what has no effect is said.
func TestConf(t *testing.T) {
	read := func(name, text string) (gbt.Params, []string, error) {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var notes []string
		p, metrics, err := readParams(file, &dataset.LabelInfo{Kind: dataset.Binary},
			func(n string) { notes = append(notes, n) })
		if err == nil && (metrics[0].Name != "log_loss" || metrics[1].Name != "auc") {
			t.Errorf("%s: got the metrics %s and %s, want log_loss and auc", name, metrics[0].Name, metrics[1].Name)
		}
		return p, notes, err
	}
	got, notes, err := read("train.conf", conf)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := read("params.yaml", "objective: binary\nmetric: [log_loss, auc]\nnum_iterations: 100\n"+
		"learning_rate: 0.1\nnum_leaves: 63\nmin_sum_hessian_in_leaf: 5\n")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v (%v)", got, want, err)
	}
	if text := strings.Join(notes, "\n"); len(notes) != 6 || !strings.Contains(text, "data has no effect here") {
		t.Errorf("got the notes %q, want one for each of task, data, valid_data, is_enable_sparse, "+
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

// FuzzConf: whatever the file holds, it is refused, or becomes YAML of as many lines that can be read.
func FuzzConf(f *testing.F) {
	f.Add([]byte(conf))
	f.Add([]byte("a = \"x\n: - {\nb=1,,e\r\nc = -\x00\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		yaml, err := fromConf("x.conf", text)
		if err != nil {
			return
		}
		if got, want := strings.Count(string(yaml), "\n"), strings.Count(string(text), "\n"); got-want > 1 ||
			got < want {
			t.Errorf("got %d lines, want %d", got, want)
		}
		values := map[string]any{}
		_, err = strictyaml.Decode("x.conf", yaml, &values)
		if err != nil && !strings.Contains(err.Error(), "twice") && !strings.Contains(err.Error(), "duplicate") &&
			len(yaml) < 1<<16 {
			t.Errorf("%q: got %v, want values", yaml, err)
		}
	})
}
