//go:build e2e

package e2e

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

const measuredSweep = `
dataset: flights
model: MODEL
metric: average_precision
trials: 50
seed: SEED
early_stopping_rounds: 0
params: {num_iterations: 135}
search:
  METHOD
  random:
    learning_rate: {log_uniform: [0.01, 0.5]}
    num_leaves: {log_int: [4, 160]}
    min_data_in_leaf: {log_int: [5, 1000]}
    feature_fraction: {uniform: [0.3, 1.0]}
    lambda_l2: {log_uniform: [0.01, 100]}
machine: {type: n2-highmem-2, vms: 2, threads_per_task: 1, tasks_per_vm: 2}
limits: {trial: 20m, sweep: 2h, quorum: 0.1}
gate: {against: none}
`

// TestSearchMeasured compares sweeps of fifty trials on a part of a real table, four tasks at once: drawn at random and
// trained to the end, decided when they are claimed, and with ASHA at two etas as well, by trees and by rows.
// COPPICE_SEARCH_SEEDS says how many seeds,
// COPPICE_SEARCH_ROWS how many rows, COPPICE_SEARCH_METRIC what chooses, and COPPICE_SEARCH_WAYS are parts of the names
// of those to compare, joined by +.
func TestSearchMeasured(t *testing.T) {
	l := newLocal(t)
	table := l.file("flights.csv", headOf(t, realData(t, "nycflights13_337k.csv.gz"),
		number(t, "COPPICE_SEARCH_ROWS", 60000)))
	l.must("launcher", "stage", l.file("dataset.yaml", "name: flights\nsource: "+table+realTables["flights"].dataset),
		"--json")

	ways := []struct{ name, method string }{
		{"random", "method: random"}, {"auto", "method: auto"},
		{"asha, eta 3", "method: auto\n  stop: {rule: asha, by: trees}"},
		{"asha, eta 4", "method: auto\n  stop: {rule: asha, by: trees, eta: 4}"},
		{"asha, thirty trials", "method: auto\n  stop: {rule: asha, by: trees}"},
		{"asha by rows", "method: auto\n  stop: {rule: asha, by: rows}"},
		{"asha by rows, eta 4", "method: auto\n  stop: {rule: asha, by: rows, eta: 4}"},
		{"halving", "method: auto\n  stop: {rule: halving, by: trees}"},
		{"halving by rows", "method: auto\n  stop: {rule: halving, by: rows}"},
	}
	if only := os.Getenv("COPPICE_SEARCH_WAYS"); only != "" {
		wanted := strings.Split(only, "+")
		ways = slices.DeleteFunc(ways, func(w struct{ name, method string }) bool {
			return !slices.ContainsFunc(wanted, func(part string) bool { return strings.Contains(w.name, part) })
		})
	}
	metric := cmp.Or(os.Getenv("COPPICE_SEARCH_METRIC"), "average_precision")
	best, trees := map[string][]float64{}, map[string][]float64{}
	for seed := range number(t, "COPPICE_SEARCH_SEEDS", 3) {
		for i, way := range ways {
			name := fmt.Sprintf("way-%d-%d", i, seed)
			text := strings.NewReplacer("MODEL", name, "SEED", strconv.Itoa(seed), "METHOD", way.method,
				"average_precision", metric).Replace(measuredSweep)
			if strings.Contains(way.name, "thirty") {
				text = strings.Replace(text, "trials: 50", "trials: 30", 1)
			}
			c := conclusion(t, l.must("launcher", "sweep", l.file(name+".yaml", "name: "+name+"\n"+text), "--json"))
			objects, grown := l.objects(), 0
			for n := range 50 {
				text, has := objects["coppice-sweeps/"+sweep.Names(c.Sweep).Result(n)]
				if !has && n >= 30 && strings.Contains(way.name, "thirty") {
					break
				}
				r := must.Get(sweep.DecodeResult([]byte(text)))(t)
				grown += r.TreesGrown
				if strings.Contains(way.method, sweep.ByRows) {
					grown += sampled(t, objects, c.Sweep, r)
				}
			}
			v := c.Valid[metric]
			best[way.name], trees[way.name] = append(best[way.name], v), append(trees[way.name], float64(grown))
			t.Logf("seed %d, %-11s: best on valid %.5f, %d trees, %d done", seed, way.name, v, grown, c.Done)
		}
	}
	for _, way := range ways {
		m, e := meanAndError(best[way.name])
		n, _ := meanAndError(trees[way.name])
		t.Logf("%-11s: best on valid %.5f, standard error %.5f, %.0f trees", way.name, m, e, n)
	}
}

// sampled is how many trees cost as much as a trial's samples, beyond those that its result counts.
func sampled(t *testing.T, objects map[string]string, id sweep.ID, r *sweep.Result) int {
	t.Helper()
	trees := 0
	for name, text := range objects {
		if !strings.HasPrefix(name, "coppice-sweeps/"+sweep.Names(id).Trial(r.Trial)+"rungs/") {
			continue
		}
		rung := must.Get(sweep.DecodeRung([]byte(text)))(t)
		trees += rung.Step
	}
	if r.Status == sweep.StatusStopped {
		trees -= r.TreesGrown
	}
	return trees
}

// TestSearchFoldsMeasured compares cross-validated sweeps of twenty configurations in five folds, on a part of a real
// table: drawn at random, and decided when they are claimed. None is dropped, so that both grow the same number of
// trees. The settings are those of TestSearchMeasured.
func TestSearchFoldsMeasured(t *testing.T) {
	l := newLocal(t)
	table := l.file("flights.csv", headOf(t, realData(t, "nycflights13_337k.csv.gz"),
		number(t, "COPPICE_SEARCH_ROWS", 10000)))
	l.must("launcher", "stage", l.file("dataset.yaml", "name: flights\nsource: "+table+realTables["flights"].dataset+
		"encodings: none\n"), "--json")

	ways := slices.DeleteFunc([]string{"random", "auto"},
		func(way string) bool { return !strings.Contains(way, os.Getenv("COPPICE_SEARCH_WAYS")) })
	folds, test := map[string][]float64{}, map[string][]float64{}
	for seed := range number(t, "COPPICE_SEARCH_SEEDS", 3) {
		for _, way := range ways {
			name := fmt.Sprintf("%s-%d", way, seed)
			text := strings.NewReplacer("MODEL", name, "SEED", strconv.Itoa(seed), "METHOD", "method: "+way,
				"trials: 50", "trials: 20\nvalidate: {kfold: 5}").Replace(measuredSweep)
			c := conclusion(t, l.must("launcher", "sweep", l.file(name+".yaml", "name: "+name+"\n"+text), "--json"))
			mean, held := c.Valid["average_precision"], c.Test["average_precision"]
			folds[way], test[way] = append(folds[way], mean), append(test[way], held)
			t.Logf("seed %d, %-6s: best mean over folds %.5f, on test %.5f, %d done", seed, way, mean, held, c.Done)
		}
	}
	for _, way := range ways {
		m, e := meanAndError(folds[way])
		n, f := meanAndError(test[way])
		t.Logf("%-6s: best mean over folds %.5f, standard error %.5f; on test %.5f, standard error %.5f", way, m, e, n,
			f)
	}
}

// headOf is the beginning of a compressed text, without cutting a line.
func headOf(t *testing.T, file string, lines int) string {
	t.Helper()
	in := must.Get(os.Open(file))(t)
	defer in.Close()
	z := must.Get(gzip.NewReader(in))(t)
	var out strings.Builder
	for scan := bufio.NewScanner(z); lines >= 0 && scan.Scan(); lines-- {
		out.WriteString(scan.Text() + "\n")
	}
	return out.String()
}

func meanAndError(of []float64) (mean, err float64) {
	for _, v := range of {
		mean += v / float64(len(of))
	}
	for _, v := range of {
		err += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(err / float64(max(1, len(of)-1)) / float64(len(of)))
}
