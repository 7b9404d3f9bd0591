package plan_test

import (
	"errors"
	"strings"
	"testing"

	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// TestTrialsOfSeveralMachines: each machine has one task, which has all of it unless the spec says otherwise, and there
// are as many as can have work.
func TestTrialsOfSeveralMachines(t *testing.T) {
	for _, tc := range []struct {
		machine, trials string
		tasks, threads  int
	}{
		{"{type: n2-highmem-64, vms: 4}", "trials: 8", 4, 64},
		{"{type: n2-highmem-64, vms: 4, threads_per_task: 48}", "trials: 8", 4, 48},
		{"{type: n2-highmem-64, vms: 7}", "trials: 3", 6, 64},
	} {
		s := parse(t, "{type: n2-highmem-64}", tc.machine+"\ntrial: {machines: 2}", "trials: 8", tc.trials)
		p, err := build(s, manifest("train", "valid", "calib", "test"))
		if err != nil {
			t.Fatalf("%s, %s: %v", tc.machine, tc.trials, err)
		}
		if z := p.Sizing; z.Tasks != tc.tasks || z.TasksPerVM != 1 || z.ThreadsPerTask != tc.threads {
			t.Errorf("%s, %s: %d tasks, %d on a VM, with %d threads; want %d, one, %d", tc.machine, tc.trials, z.Tasks,
				z.TasksPerVM, z.ThreadsPerTask, tc.tasks, tc.threads)
		}
	}
}

// TestFallbackOfSharedTrials: threads left out are all of each machine's, those written stay as they are.
func TestFallbackOfSharedTrials(t *testing.T) {
	const machine = "{type: n2-highmem-64, vms: 4, fallback: [{type: n2-highmem-32}, {type: n2-highmem-80}]"
	for _, tc := range []struct {
		threads string
		want    []int
	}{
		{"}", []int{64, 32, 80}},
		{", threads_per_task: 20}", []int{20, 20, 20}},
	} {
		p, err := build(parse(t, "{type: n2-highmem-64}", machine+tc.threads+"\ntrial: {machines: 2}"),
			manifest("train", "valid", "calib", "test"))
		if err != nil {
			t.Fatalf("%s: %v", tc.threads, err)
		}
		for n, want := range tc.want {
			if z := p.Placed(n).Sizing; z.ThreadsPerTask != want || z.TasksPerVM != 1 {
				t.Errorf("%s, choice %d: %d tasks of %d threads, want one of %d", tc.threads, n, z.TasksPerVM,
					z.ThreadsPerTask, want)
			}
		}
		if small, large := p.Placed(1).Sizing, p.Sizing; len(tc.threads) == 1 && small.TrialBytes >= large.TrialBytes {
			t.Errorf("a trial of 32 threads needs %d bytes, of 64 %d; want less", small.TrialBytes, large.TrialBytes)
		}
	}
}

func TestTrialMachinesAreRefused(t *testing.T) {
	for edit, want := range map[string]string{
		"vms: 4}\ntrial: {machines: 0}":                                   "machines is 0: a trial can have 1 to 4",
		"vms: 4}\ntrial: {machines: 5}":                                   "machines is 5: a trial can have 1 to 4",
		"vms: 90}\ntrial: {machines: 33}":                                 "machines is 33: a trial can have 1 to 32",
		"vms: 4, tasks_per_vm: 2}\ntrial: {machines: 2}":                  "have one task each",
		"vms: 4}\ntrial: {machines: 2}\ncontinue: {from: 1, mode: refit}": "refit grows no trees",
	} {
		text := strings.Replace(spec, "n2-highmem-64}", "n2-highmem-64, "+edit, 1)
		_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if !errors.As(err, new(*strictyaml.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; expected ... %s ...", edit, err, want)
		}
	}
}
