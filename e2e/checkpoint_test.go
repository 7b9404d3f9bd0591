//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
)

// life runs a program until it is over or killed reports true, kills it then with SIGKILL, and says whether it had
// ended by itself.
func life(t *testing.T, dir string, killed func() bool, program string, args ...string) (ended bool, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !killed() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()

	var o, e bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &o, &e
	// At the very end of its span a life may have ended well, and Run still says that its time is over.
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || !cmd.ProcessState.Success()) {
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != -1 { // not by a signal
			t.Fatalf("the task ended with %v, expected by the signal:\n%s\n%s", err, &o, &e)
		}
		return false, ""
	}
	return true, o.String()
}

// after reports true once span has passed since its first call.
func after(span time.Duration) func() bool {
	var start time.Time
	return func() bool {
		if start.IsZero() {
			start = time.Now()
		}
		return time.Since(start) >= span
	}
}

// savedThen reports true a span after a checkpoint in folder was written anew.
func savedThen(folder string, span time.Duration) func() bool {
	newest := func() (at time.Time) {
		files, _ := filepath.Glob(filepath.Join(folder, "checkpoint-*"))
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.ModTime().After(at) {
				at = info.ModTime()
			}
		}
		return at
	}
	before, wait := newest(), after(span)
	return func() bool { return newest().After(before) && wait() }
}

// TestE2EKilledTrainingSameBytes kills `task train --checkpoint` without notice, at first at any moment and then at
// random moments after each life has saved something, until one ends before that or ten were killed.
func TestE2EKilledTrainingSameBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	l := newLocal(t)
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "60000", "--out",
		filepath.Join(l.dir, "clicks.parquet")).ok(t)
	dir := l.stageHere(l.file("dataset.yaml",
		"name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\ncategorical: "+
			"[campaign_id, publisher_id]\n"+
			"split: {by: hash, key: user_id, train: 0.8, valid: 0.2}\n"))
	params := l.file("params.yaml",
		"num_iterations: 150\nnum_leaves: 63\nlearning_rate: 0.03\nbagging_fraction: 0.7\nbagging_freq: "+
			"2\nfeature_fraction: 0.8\nearly_stopping_round: 200\n")
	command := []string{"train", "--dataset", dir, "--params", params, "--json", "--out"}
	start := time.Now()
	if ended, _ := life(t, l.dir, func() bool { return false }, binaryOf(t, "task"),
		append(command, "calm.txt")...); !ended {
		t.Fatal("the undisturbed training takes more than ten minutes")
	}
	calm := time.Since(start)

	command = append(command, "model.txt", "--checkpoint", "saved", "--checkpoint-every", "50ms")
	var got struct {
		Grown   int `json:"trees_grown"`
		Resumed int `json:"resumed_trees"`
	}
	kills := 0
	for {
		moment := time.Duration(float64(calm) * 0.2 * rng.Float64())
		killed := savedThen(filepath.Join(l.dir, "saved"), moment)
		switch kills {
		case 0:
			killed = after(moment)
		case 10:
			killed = func() bool { return false }
		}
		ended, out := life(t, l.dir, killed, binaryOf(t, "task"), command...)
		if ended {
			decode(t, out, &got)
			break
		}
		kills++
	}
	t.Logf("seed %d: undisturbed %s; %d kills, the last life went on from tree %d of %d", seed, calm, kills,
		got.Resumed, got.Grown)
	if kills < 2 || got.Resumed == 0 {
		t.Errorf("seed %d: nothing was resumed", seed)
	}
	read := func(name string) []byte {
		data := must.Get(os.ReadFile(filepath.Join(l.dir, name)))(t)
		return data
	}
	if !bytes.Equal(read("calm.txt"), read("model.txt")) {
		t.Errorf("seed %d: another model than undisturbed", seed)
	}
	if left, _ := filepath.Glob(filepath.Join(l.dir, "saved", "checkpoint-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestE2ECancelledCheckpoints: of the trees that tasks had saved when their sweep was cancelled, nothing stays.
func TestE2ECancelledCheckpoints(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	l.stageClicks(20000)
	l.file("sweep.yaml", "name: long\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: 2\n"+
		"params: {num_iterations: 5000, learning_rate: 0.001}\nsearch: {fixed: [{}, {num_leaves: 15}]}\n"+
		"machine: {type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 2}\n"+
		"limits: {trial: 8m, sweep: 15m}\n")
	r := l.script(`saved() {
  find "$2/gcs/coppice-sweeps/sweeps/long" -path '*/checkpoints/*' -type f -size +8k | grep .
}
"$1" sweep sweep.yaml --id long --no-wait
until saved "$@" 2>/dev/null; do sleep 0.1; done
"$1" cancel long
until [ -e "$2/gcs/coppice-sweeps/sweeps/long/conclusion.json" ]; do sleep 0.1; done
`, l.data)
	r.ok(t)
	for name, data := range l.objects() {
		if strings.Contains(name, "/checkpoints/") && data != "" {
			t.Errorf("%s holds %d bytes after a sweep that was cancelled", name, len(data))
		}
	}
}
