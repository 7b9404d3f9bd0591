package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/machines"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Memory reserved for the system: the kernel, the container runtime, the logging agent.
const (
	leastReserve = 1 << 30
	reserveShare = 20 // 1/20 of the machine
)

// Size decides how many tasks share a machine: as many as Batch, the vCPUs and the memory allow, with the dataset in
// memory once; and how many local SSDs the machine has: those requested, or as few as hold the dataset. need is the
// result of Need. Errors are of kind Input.
func Size(m sweep.Machine, t machines.Type, d *dataset.Manifest, trials int, need Memory) (z sweep.Sizing, disks int,
	err error) {
	if disks, err = disksFor(m, t, d); err != nil {
		return z, 0, err
	}
	z, err = tasksFor(m, t, d.Bytes(), trials, need)
	return z, disks, err
}

var errRefit = errors.New("the refit on the rows of several splits does not fit")

func disksFor(m sweep.Machine, t machines.Type, d *dataset.Manifest) (int, error) {
	if m.LocalSSD == 0 {
		n, err := t.FewestDisks(d.Bytes())
		if err != nil {
			return 0, errorf("machine.local_ssd: %v", err)
		}
		return n, nil
	}
	if room := int64(m.LocalSSD) * machines.DiskBytes; d.Bytes() > room {
		return 0, errorf("the dataset has %s, but %d local SSDs hold %s; raise machine.local_ssd, or leave it out",
			gib(d.Bytes()), m.LocalSSD, gib(room))
	}
	return int(m.LocalSSD), nil
}

func tasksFor(m sweep.Machine, t machines.Type, datasetBytes int64, trials int, needs Memory) (sweep.Sizing, error) {
	vcpus, memory, need := t.VCPUs, t.MemoryBytes, needs.Trial
	z := sweep.Sizing{MachineType: t.Name, VCPUs: vcpus, MemoryBytes: memory, DatasetBytes: datasetBytes,
		TrialBytes: need, RefitBytes: needs.Refit,
		ReserveBytes: max(leastReserve, memory/reserveShare), VMs: m.VMs, ThreadsPerTask: m.ThreadsPerTask}
	byMemory := int((memory - z.DatasetBytes - z.ReserveBytes) / need)
	refitFits := func() error {
		if z.RefitBytes == 0 || z.RefitBytes <= memory-z.DatasetBytes-z.ReserveBytes {
			return nil
		}
		return problem.As(problem.Input, fmt.Errorf("%w a %s: it has a copy of them and needs %s, in addition to %s "+
			"dataset and %s reserve of %s; use a larger machine, or leave validate out, or say final: {rows: train}",
			errRefit, t.Name, gib(z.RefitBytes), gib(z.DatasetBytes), gib(z.ReserveBytes), gib(memory)))
	}
	if err := refitFits(); err != nil {
		return z, err
	}

	// The tightest of these limits applies.
	limits := []struct {
		tasks int
		why   string
	}{
		{sweep.MaxTasksPerVM, fmt.Sprintf("Batch runs at most %d tasks on a VM", sweep.MaxTasksPerVM)},
		{vcpus / m.ThreadsPerTask, fmt.Sprintf("%d vCPUs / %d threads", vcpus, m.ThreadsPerTask)},
		{byMemory, fmt.Sprintf("(%s - %s dataset - %s reserve) / %s per trial", gib(memory), gib(z.DatasetBytes),
			gib(z.ReserveBytes), gib(need))},
		{(trials + m.VMs - 1) / m.VMs, fmt.Sprintf("%d trials on %d VMs", trials, m.VMs)},
	}

	tightest := limits[0]
	for _, l := range limits[1:] {
		if l.tasks < tightest.tasks {
			tightest = l
		}
	}
	if tightest.tasks < 1 {
		return z, errorf("no trial fits a %s: %s is %d; use a larger machine or fewer threads per task", t.Name,
			tightest.why, tightest.tasks)
	}

	z.TasksPerVM = tightest.tasks
	z.LimitedBy = tightest.why
	if asked := int(m.TasksPerVM); asked > 0 {
		if asked > byMemory {
			return z, errorf("machine.tasks_per_vm is %d, but %s is %d; use tasks_per_vm: auto or a larger machine",
				asked, limits[2].why, byMemory)
		}

		z.TasksPerVM = asked
		z.LimitedBy = "machine.tasks_per_vm"
		// Batch rejects more tasks per machine than there are in total
		if trialsLimit := limits[3]; trialsLimit.tasks < asked {
			z.TasksPerVM = trialsLimit.tasks
			z.LimitedBy = trialsLimit.why
		}
	}

	z.Tasks = min(z.TasksPerVM*z.VMs, trials)
	z.RefitBytes += int64(z.RefitThreads()-z.ThreadsPerTask) * needs.RefitThread
	return z, refitFits()
}

func gib(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<30)), ".0") + " GiB"
}

// Memory is the trials' private memory, in bytes.
type Memory struct {
	Trial       int64 // of the most demanding one
	Refit       int64 // of the refit in a cross-validated sweep, or the final training; 0 without one
	RefitThread int64 // of each thread that it has beside those of a task
}

// Need is the private memory of the most demanding trial, among the expected ones and those that open trials may
// become.
func Need(d *dataset.Manifest, plan *sweep.Plan, expected []sweep.Trial, threads int) (Memory, error) {
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
		sample := int64(0) // its mask, while there are no scores yet
		if stop := plan.Spec.Search.Stop; stop != nil && stop.By == sweep.ByRows {
			sample = maskBytes * int64(rows[sweep.Train]/stop.OneIn)
		}
		return gbt.PrivateBytes(p, rows[sweep.Train], rows[sweep.Valid], features, threads) +
			max(scoring(rows), sample) + inheritedBytes(plan, p, rows[sweep.Train]) +
			processBytes, nil
	}
	if plan.Folds != nil {
		return needOfFolds(d, plan, expected, rows, features, threads)
	}

	if plan.Open() {
		expected = append(slices.Clone(expected), sweep.Trial{Params: largest(plan, of)})
	}
	var need Memory
	for _, t := range expected {
		n, err := of(t.Params)
		if err != nil {
			return need, err
		}
		need.Trial = max(need.Trial, n)
		if !plan.Spec.FinalRows() {
			continue
		}
		all := rows[sweep.Train] + max(1, d.Copies())*(rows[sweep.Valid]+rows[sweep.Calib]+rows[sweep.Test])
		if err := need.joined(t.Params, all, rows, features, threads, &plan.Spec); err != nil {
			return need, err
		}
	}
	return need, nil
}

// joined raises the refit's needs to those of a training on a copy of that many rows, which are of several splits, by
// so many machines, or of so many models at once.
func (m *Memory) joined(params sweep.Params, all int, rows map[string]int, features []int, threads int,
	s *sweep.Spec) error {
	p, err := gbt.ParseParams(params)
	if err != nil {
		return err
	}
	private := gbt.PrivateBytes(p, all, 0, features, threads)
	m.RefitThread = max(m.RefitThread, gbt.PrivateBytes(p, all, 0, features, threads+1)-private)
	guests := int64(0)
	if s.FinalMachines() > 1 && gbt.Ranks(p.Objective) {
		guests = gbt.GuestBytes * int64(all)
	}
	if n := int64(s.Bag()); n > 1 {
		private = n*(gbt.PrivateBytes(p, all, all, features, threads)+maskBytes*int64(all)) +
			(ratedBytes+8*int64(max(1, p.NumClass)))*int64(all)
	}
	m.Refit = max(m.Refit, private+guests+fit.JoinedBytes(all, len(features), gbt.Ranks(p.Objective))+
		scoring(map[string]int{sweep.Calib: rows[sweep.Calib], sweep.Test: rows[sweep.Test]})+processBytes)
	return nil
}

// needOfFolds is Need for a cross-validated sweep. A fold has masks of its training and evaluation rows, targets and
// predictions of the latter, and scores by row of the table; the refit has a copy of all rows.
func needOfFolds(d *dataset.Manifest, plan *sweep.Plan, expected []sweep.Trial, rows map[string]int, features []int,
	threads int) (need Memory, err error) {
	train := rows[sweep.Train]
	rated := 0
	for _, r := range plan.Folds.Rounds {
		rated = max(rated, train*len(r.Rated.Folds)/dataset.Folds)
	}
	all := train + max(1, d.Copies())*rows[sweep.Valid]
	fold := func(params sweep.Params) (int64, error) {
		p, err := gbt.ParseParams(params)
		if err != nil {
			return 0, err
		}
		return gbt.PrivateBytes(p, train, train, features, threads) + maskBytes*int64(train) + ratedBytes*int64(rated) +
			processBytes, nil
	}
	refit := func(params sweep.Params) (int64, error) {
		var m Memory
		err := m.joined(params, all, rows, features, threads, &plan.Spec)
		return m.Refit, err
	}

	if plan.Open() { // what needs most memory on some rows need not be what needs most on others
		expected = append(slices.Clone(expected), sweep.Trial{Params: largest(plan, fold)},
			sweep.Trial{Params: largest(plan, refit)})
	}
	for _, t := range expected {
		n, err := fold(t.Params)
		if err != nil {
			return need, err
		}
		need.Trial = max(need.Trial, n)
		if err := need.joined(t.Params, all, rows, features, threads, &plan.Spec); err != nil {
			return need, err
		}
	}
	return need, nil
}

const (
	maskBytes  = 4       // a row's number, in the mask of a fold
	ratedBytes = 40 + 16 // the evaluation's memory, and label, weight and group
)

// processBytes is the base memory of a task's process: the program, its clients, their buffers.
const processBytes = 96 << 20

// scoring is the memory for evaluating and scoring the held-out rows, beside the trainer's: predictions and the
// metrics' sorting space for valid, scores and their encoded form for calib and test.
func scoring(rows map[string]int) int64 {
	return 40*int64(rows[sweep.Valid]) + 24*int64(rows[sweep.Calib]+rows[sweep.Test])
}
