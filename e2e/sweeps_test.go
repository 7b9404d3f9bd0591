//go:build e2e

package e2e

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestInteropSweepTables has the Python package read a sweep from its folder and from the bucket, and finds what the
// launcher shows: the order and scores of the leaderboard, every point of the learning curves, and the same drawing.
func TestInteropSweepTables(t *testing.T) {
	python(t)
	l := newLocal(t)
	clicks := filepath.Join(l.dir, "clicks.parquet")
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "20000", "--out", clicks).ok(t)
	l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+clicks+
		"\nlabel: is_click\ndrop: [impression_id]\nencodings: none\n"+
		"split: {by: time, column: ts, train: 0.6, valid: 0.15, calib: 0.15, test: 0.1}\n"), "--json")
	l.must("launcher", "sweep", l.file("sweep.yaml", `name: t
dataset: t
model: m
metric: log_loss
trials: 3
early_stopping_rounds: 10
params: {num_iterations: 40, learning_rate: 0.2}
search: {fixed: [{num_leaves: 4}, {num_leaves: 15}, {num_leaves: 31}]}
machine: {type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 2}
limits: {trial: 2m, sweep: 5m}
gate: {against: none}
`), "--id", "tables", "--json")

	var want sweep.Board
	decode(t, l.must("launcher", "leaderboard", "tables", "--json"), &want)
	curves := map[string][][2]float64{}
	for name, text := range l.objects() {
		if strings.HasPrefix(name, "coppice-sweeps/") && strings.Contains(name, "/curves/") {
			c, err := sweep.DecodeCurve([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, p := range sweep.JoinCurves([]sweep.Curve{*c}) {
				trial := strconv.Itoa(c.Trial)
				curves[trial] = append(curves[trial], [2]float64{float64(p.Tree), p.Score})
			}
		}
	}
	script := must.Get(filepath.Abs("python/tests/sweeps.py"))(t)

	for _, place := range []string{filepath.Join(l.data, "gcs", "coppice-sweeps"), "gs://coppice-sweeps"} {
		r := l.script("shift\nexec \"$@\"\n", python(t), script, "tables", place)
		var got struct {
			Board   [][3]float64
			Leaves  map[string]float64
			Curves  map[string][][2]float64
			Outcome string
		}
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 {
			t.Fatalf("from %s: %v, exit code %d: %s%s", place, err, r.code, r.out, r.errOut)
		}
		for i, row := range want.Rows {
			if b := got.Board[i]; int(b[0]) != row.Trial.Number || b[1] != row.Result.Score ||
				int(b[2]) != row.Result.Trees ||
				got.Leaves[strconv.Itoa(row.Trial.Number)] != row.Trial.Params["num_leaves"] {
				t.Errorf("from %s, rank %d is %v, expected trial %d with %v", place, i+1, b, row.Trial.Number,
					row.Result.Score)
			}
		}
		if len(curves) != 3 || !reflect.DeepEqual(got.Curves, curves) {
			t.Errorf("from %s, the curves are %v, expected %v", place, got.Curves, curves)
		}
		if got.Outcome != "winner" {
			t.Errorf("from %s, it ended with %q, expected a winner", place, got.Outcome)
		}
	}
}
