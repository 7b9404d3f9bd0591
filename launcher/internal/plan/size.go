package plan

import (
	"fmt"
	"slices"
	"strings"

	"coppice/dataset"
	"coppice/gbt"
	"coppice/machines"
	"coppice/sweep"
)

// Memory that is left to the system: the kernel, the container runtime, the logging agent.
const (
	leastReserve = 1 << 30
	reserveShare = 20 // 1/20 of the machine
)

// Size says how many tasks share a machine: as many as Batch, the vCPUs and the memory allow, with the dataset in memory
// once; and how many local SSDs the machine has: those asked for, or as few as hold the dataset. need is what Need says. Errors are
// *Error.
func Size(m sweep.Machine, t machines.Type, d *dataset.Manifest, trials int, need int64) (z sweep.Sizing, disks int, err error) {
	if disks, err = disksFor(m, t, d); err != nil {
		return z, 0, err
	}
	z, err = tasksFor(m, t, d.Bytes(), trials, need)
	return z, disks, err
}

func disksFor(m sweep.Machine, t machines.Type, d *dataset.Manifest) (int, error) {
	if m.LocalSSD == 0 {
		n, err := t.FewestDisks(d.Bytes())
		if err != nil {
			return 0, errorf("machine.local_ssd: %v", err)
		}
		return n, nil
	}
	if room := int64(m.LocalSSD) * machines.DiskBytes; d.Bytes() > room {
		return 0, errorf("the dataset has %s, %d local SSDs hold %s; raise machine.local_ssd, or leave it out", gib(d.Bytes()), m.LocalSSD, gib(room))
	}
	return int(m.LocalSSD), nil
}

func tasksFor(m sweep.Machine, t machines.Type, datasetBytes int64, trials int, need int64) (sweep.Sizing, error) {
	vcpus, memory := t.VCPUs, t.MemoryBytes
	z := sweep.Sizing{MachineType: t.Name, VCPUs: vcpus, MemoryBytes: memory, DatasetBytes: datasetBytes, TrialBytes: need,
		ReserveBytes: max(leastReserve, memory/reserveShare), VMs: m.VMs, ThreadsPerTask: m.ThreadsPerTask}
	byMemory := int((memory - z.DatasetBytes - z.ReserveBytes) / need)

	// The tightest of these limits decides.
	limits := []struct {
		tasks int
		why   string
	}{
		{sweep.MaxTasksPerVM, fmt.Sprintf("Batch runs at most %d tasks on a VM", sweep.MaxTasksPerVM)},
		{vcpus / m.ThreadsPerTask, fmt.Sprintf("%d vCPUs / %d threads", vcpus, m.ThreadsPerTask)},
		{byMemory, fmt.Sprintf("(%s - %s dataset - %s reserve) / %s per trial", gib(memory), gib(z.DatasetBytes), gib(z.ReserveBytes), gib(need))},
		{(trials + m.VMs - 1) / m.VMs, fmt.Sprintf("%d trials on %d VMs", trials, m.VMs)},
	}

	tightest := limits[0]
	for _, l := range limits[1:] {
		if l.tasks < tightest.tasks {
			tightest = l
		}
	}
	if tightest.tasks < 1 {
		return z, errorf("no trial fits a %s: %s is %d; use a larger machine or fewer threads per task", t.Name, tightest.why, tightest.tasks)
	}

	z.TasksPerVM = tightest.tasks
	z.LimitedBy = tightest.why
	if asked := int(m.TasksPerVM); asked > 0 {
		if asked > byMemory {
			return z, errorf("machine.tasks_per_vm is %d, but %s is %d; use tasks_per_vm: auto or a larger machine", asked, limits[2].why, byMemory)
		}

		z.TasksPerVM = asked
		z.LimitedBy = "machine.tasks_per_vm"
		if trialsLimit := limits[3]; trialsLimit.tasks < asked { // Batch refuses more tasks on a machine than there are in all
			z.TasksPerVM = trialsLimit.tasks
			z.LimitedBy = trialsLimit.why
		}
	}

	z.Tasks = min(z.TasksPerVM*z.VMs, trials)
	return z, nil
}

func gib(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<30)), ".0") + " GiB"
}

// Need is what the most demanding trial needs for itself, in bytes: of those that are expected, and of those that an open trial may come to.
func Need(d *dataset.Manifest, plan *sweep.Plan, expected []sweep.Trial, threads int) (int64, error) {
	rows := map[string]int{}
	for _, s := range d.Splits {
		rows[s.Name] = s.Rows
	}

	features := make([]int, len(d.Features))
	for i := range d.Features {
		features[i] = d.Features[i].Bins
	}

	of := func(params sweep.Params) (int64, error) {
		p, err := gbt.ParseParams(params)
		if err != nil {
			return 0, err
		}
		return gbt.PrivateBytes(p, rows[sweep.Train], rows[sweep.Valid], features, threads) + scoring(rows) + processBytes, nil
	}

	if plan.Open() {
		expected = append(slices.Clone(expected), sweep.Trial{Params: largest(plan, of)})
	}
	var need []int64
	for _, t := range expected {
		n, err := of(t.Params)
		if err != nil {
			return 0, err
		}
		need = append(need, n)
	}
	return slices.Max(need), nil
}

// processBytes is what a task's process needs whatever it trains: the program, its clients, their buffers.
const processBytes = 96 << 20

// scoring is what rating and scoring the held-out rows takes beside the trainer: predictions and the metrics' sorting
// space for valid, scores and their encoded form for calib and test.
func scoring(rows map[string]int) int64 {
	return 40*int64(rows[sweep.Valid]) + 24*int64(rows[sweep.Calib]+rows[sweep.Test])
}
