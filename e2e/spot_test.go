//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/sweep"
)

const (
	spotVMs    = 2
	spotEvery  = 30 * time.Second // of machine time
	spotLosses = 40               // beyond what a sweep of these lasts
)

// TestSpotMachinesLost trains a sweep twice, side by side, so that what else runs here slows both: on machines that
// stay, and on machines of which one vanishes without notice after every 30 s of machine time. It says how much longer
// the second takes and how much of it was trained twice. `make chaos-spot` runs it; it is no part of `make e2e`, since
// it measures time.
func TestSpotMachinesLost(t *testing.T) {
	trials := number(t, "COPPICE_SPOT_TRIALS", 6)
	iterations := number(t, "COPPICE_SPOT_ITERATIONS", 1500)

	calm := newLocal(t)
	execute(t, calm.dir, nil, binaryOf(t, "clicks"), "--rows", "60000", "--out",
		filepath.Join(calm.dir, "clicks.parquet")).ok(t)
	ds := calm.file("dataset.yaml",
		"name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\ncategorical: "+
			"[campaign_id, publisher_id]\n"+
			"split: {by: hash, key: user_id, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n")
	calm.must("launcher", "stage", ds, "--json")
	calm.file("sweep.yaml",
		fmt.Sprintf("name: spot\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: %d\nseed: 3\nparams: "+
			"{num_iterations: %d, learning_rate: 0.01, num_leaves: 31}\n"+
			"search: {random: {feature_fraction: {uniform: [0.5, 1]}, lambda_l2: {uniform: [0, 10]}}}\n"+
			"machine: {type: n2-highmem-2, vms: %d, threads_per_task: 1, tasks_per_vm: 1}\nlimits: {trial: 10m, "+
			"sweep: 3h}\n", trials, iterations, spotVMs))
	calm.file("follow.sh", strings.ReplaceAll(follow, "chaos", "spot"))

	lost := &local{t: t, dir: t.TempDir()}
	lost.data = filepath.Join(lost.dir, "cloud")
	execute(t, calm.dir, nil, "sh", "-c",
		fmt.Sprintf("mkdir -p %s/gcs && cp -a cloud/gcs/coppice-datasets cloud/gcs/.records %s/gcs/ && cp "+
			"sweep.yaml follow.sh %s/", lost.data, lost.data, lost.dir)).ok(t)
	losses := make([][]string, spotVMs)
	for i := range spotLosses {
		losses[i%spotVMs] = append(losses[i%spotVMs], (time.Duration(i+1) * spotEvery / spotVMs).String())
	}
	faults := "lose_machine:\n"
	for vm, after := range losses {
		faults += fmt.Sprintf("  %d: [%s]\n", vm, strings.Join(after, ", "))
	}
	lost.args = []string{"--faults", lost.file("faults.yaml", faults)}

	// Side by side, each with its own time.
	var group sync.WaitGroup
	var runs [2]spotRun
	for i, l := range []*local{calm, lost} {
		group.Go(func() { runs[i] = l.spot(trials) })
	}
	group.Wait()
	for i, r := range runs {
		if r.wrong != "" {
			t.Fatalf("sweep %d: %s", i, r.wrong)
		}
	}

	stays, vanishes := runs[0], runs[1]
	ratio, twice := vanishes.took.Seconds()/stays.took.Seconds(), float64(vanishes.twice)/float64(vanishes.trees)
	t.Logf("%d trials of %d trees on %d machines: %.0f s on machines that stay; %.0f s, %.2f times as long, with "+
		"one lost after every %s of machine time: %d claims lost, %d of %d trees (%.1f %%) grown twice",
		trials, iterations, spotVMs, stays.took.Seconds(), vanishes.took.Seconds(), ratio, spotEvery,
		vanishes.claims-trials, vanishes.twice, vanishes.trees, 100*twice)

	if stays.model != vanishes.model {
		t.Error("the sweep on vanishing machines has another model")
	}
	if vanishes.claims == trials {
		t.Errorf("no machine was lost in %s: the sweep is too short (COPPICE_SPOT_ITERATIONS)", vanishes.took)
	}
	if ratio > 1.35 {
		t.Errorf("it took %.2f times as long; want 1.35 at most", ratio)
	}
	if twice >= 0.1 {
		t.Errorf("%.1f %% of the trees were grown twice; want less than 10 %%", 100*twice)
	}
}

// spotRun is what came of a sweep.
type spotRun struct {
	took         time.Duration // from the first claim to the last result
	model        string
	claims       int
	trees, twice int
	wrong        string
}

func (l *local) spot(trials int) (run spotRun) {
	args := append([]string{"exec", "--data", l.data}, l.args...)
	r := execute(l.t, l.dir, nil, binaryOf(l.t, "localemu"), append(args, "--", "sh", filepath.Join(l.dir, "follow.sh"),
		binaryOf(l.t, "launcher"))...)
	if r.code != 0 {
		return spotRun{wrong: fmt.Sprintf("it ended with %d: %.2000s", r.code, r.errOut)}
	}
	if c := conclusion(l.t, r.out); c.Outcome != sweep.OutcomeWinner || c.Done != trials {
		return spotRun{wrong: fmt.Sprintf("%s, %d of %d trials done", c.Outcome, c.Done, trials)}
	}

	var first, last time.Time
	names, objects := sweep.Names("spot"), l.objects()
	saved := l.savedTrees()
	for trial := range trials {
		for claim := 0; ; claim++ {
			c, err := sweep.DecodeClaim([]byte(objects["coppice-sweeps/"+names.Claim(trial, claim)]))
			if err != nil {
				break
			}
			run.claims++
			if first.IsZero() || c.At.Before(first) {
				first = c.At
			}

			// What the holder had grown by its last sign of life beyond what it had saved, another grew again.
			h, err := sweep.DecodeHeartbeat([]byte(objects["coppice-sweeps/"+names.Heartbeat(trial, claim)]))
			_, followed := objects["coppice-sweeps/"+names.Claim(trial, claim+1)]
			if err == nil && followed {
				run.twice += max(0, h.Trees-saved[[2]int{trial, claim}])
			}
		}

		result, err := sweep.DecodeResult([]byte(objects["coppice-sweeps/"+names.Result(trial)]))
		if err != nil {
			return spotRun{wrong: err.Error()}
		}
		run.trees += result.TreesGrown
		if result.Ended.After(last) {
			last = result.Ended
		}
	}
	run.took = last.Sub(first)
	run.model = objects["coppice-registry/registry/ctr/versions/1/model.txt"]
	return run
}

// savedTrees is how many trees each claim of a trial had saved, as the tasks' logs say.
func (l *local) savedTrees() map[[2]int]int {
	saved := map[[2]int]int{}
	logs, _ := filepath.Glob(filepath.Join(l.data, "logs", "spot", "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			l.t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			var entry struct {
				Message             string
				Trial, Claim, Trees int
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "checkpoint saved" {
				at := [2]int{entry.Trial, entry.Claim}
				saved[at] = max(saved[at], entry.Trees)
			}
		}
	}
	return saved
}
