package plan

import (
	"cmp"
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

// SizeRequest is what decides how many tasks share a machine.
type SizeRequest struct {
	Machine      sweep.Machine
	Type         machines.Type
	DatasetBytes int64
	Trials       int // that may run at once
	Memory       Memory
}

// Size decides how many tasks share a machine: as many as Batch, vCPUs and memory allow, with the dataset in memory
// once. It also decides how many local SSDs the machine has: those requested, or as few as hold the dataset. Errors are
// of kind Input.
func Size(request SizeRequest) (z sweep.Sizing, disks int, err error) {
	if disks, err = request.countDisks(); err != nil {
		return z, 0, err
	}
	z, err = request.countTasks()
	return z, disks, err
}

// errRefit is within the error of a machine on which trials may fit, but not the refit or final training.
var errRefit = errors.New("the refit on the rows of several splits does not fit")

// countDisks returns how many local SSDs each machine has: as few as its type allows and the dataset needs or, if the
// spec asks for a number, that one. The error says that the dataset does not fit.
func (q *SizeRequest) countDisks() (int, error) {
	asked := q.Machine.LocalSSD
	if asked == 0 {
		n, err := q.Type.FewestDisks(q.DatasetBytes)
		if err != nil {
			return 0, errorf("machine.local_ssd: %v", err)
		}
		return n, nil
	}
	if room := int64(asked) * machines.DiskBytes; q.DatasetBytes > room {
		return 0, errorf("the dataset has %s, but %d local SSDs hold %s; raise machine.local_ssd, or leave it out",
			gib(q.DatasetBytes), asked, gib(room))
	}
	return int(asked), nil
}

// countTasks finds how many tasks run on a machine: the least of what memory, vCPUs, trials and Batch allow or, if the
// spec asks for a number, that one. An error says what does not fit, and what to use instead; the sizing is then
// incomplete.
func (q *SizeRequest) countTasks() (sweep.Sizing, error) {
	m, memory := &q.Machine, q.Type.MemoryBytes
	z := sweep.Sizing{MachineType: q.Type.Name, VCPUs: q.Type.VCPUs, MemoryBytes: memory, DatasetBytes: q.DatasetBytes,
		TrialBytes: q.Memory.Trial, RefitBytes: q.Memory.Refit,
		ReserveBytes: max(leastReserve, memory/reserveShare), VMs: m.VMs, ThreadsPerTask: m.ThreadsPerTask}

	// A refit has its machine to itself. One that does not fit with a task's threads fits with no more.
	if err := checkRefitFits(&z); err != nil {
		return z, err
	}

	// The tightest of these limits applies; of equal ones the first in the list below.
	type limit struct {
		tasks int
		why   string
	}
	byMemory := limit{int((memory - z.DatasetBytes - z.ReserveBytes) / z.TrialBytes),
		fmt.Sprintf("(%s - %s dataset - %s reserve) / %s per trial", gib(memory), gib(z.DatasetBytes),
			gib(z.ReserveBytes), gib(z.TrialBytes))}
	byTrials := limit{(q.Trials + m.VMs - 1) / m.VMs, fmt.Sprintf("%d trials on %d VMs", q.Trials, m.VMs)}
	byEngine := limit{q.Type.MaxTasks, fmt.Sprintf("Batch runs at most %d tasks on a VM", q.Type.MaxTasks)}
	tightest := slices.MinFunc([]limit{
		byEngine,
		{z.VCPUs / m.ThreadsPerTask, fmt.Sprintf("%d vCPUs / %d threads", z.VCPUs, m.ThreadsPerTask)},
		byMemory, byTrials,
	}, func(a, b limit) int { return cmp.Compare(a.tasks, b.tasks) })
	if tightest.tasks < 1 {
		return z, errorf("no trial fits a %s: %s is %d; use a larger machine or fewer threads per task", q.Type.Name,
			tightest.why, tightest.tasks)
	}

	// The spec may ask for more tasks than there are vCPUs, but not for more than memory or Batch allow. If it asks for
	// more than there are trials, only as many as trials are planned: Batch rejects more tasks per machine than there
	// are in total.
	if asked := int(m.TasksPerVM); asked > byMemory.tasks {
		return z, errorf("machine.tasks_per_vm is %d, but %s is %d; use tasks_per_vm: auto or a larger machine", asked,
			byMemory.why, byMemory.tasks)
	} else if asked > byEngine.tasks {
		return z, errorf("machine.tasks_per_vm is %d, but %s", asked, byEngine.why)
	} else if asked > byTrials.tasks {
		tightest = byTrials
	} else if asked > 0 {
		tightest = limit{asked, "machine.tasks_per_vm"}
	}
	z.TasksPerVM, z.LimitedBy = tightest.tasks, tightest.why
	z.Tasks = min(z.TasksPerVM*z.VMs, q.Trials)

	// The refit uses the threads of all tasks of its machine, and each thread beyond a task's own needs memory.
	z.RefitBytes += int64(z.RefitThreads()-z.ThreadsPerTask) * q.Memory.RefitThread
	return z, checkRefitFits(&z)
}

// checkRefitFits returns an error that wraps errRefit if the refit needs more memory than its machine has after the
// dataset and the reserve. Without a refit, RefitBytes is 0 and always fits.
func checkRefitFits(sizing *sweep.Sizing) error {
	if sizing.RefitBytes == 0 || sizing.RefitBytes <= sizing.MemoryBytes-sizing.DatasetBytes-sizing.ReserveBytes {
		return nil
	}
	return problem.As(problem.Input, fmt.Errorf("%w a %s: it has a copy of them and needs %s, in addition to %s "+
		"dataset and %s reserve of %s; use a larger machine, or leave validate out, or say final: {rows: train}",
		errRefit, sizing.MachineType, gib(sizing.RefitBytes), gib(sizing.DatasetBytes), gib(sizing.ReserveBytes),
		gib(sizing.MemoryBytes)))
}

// gib formats a number of bytes in GiB, with at most one decimal.
func gib(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<30)), ".0") + " GiB"
}

// Memory is the trials' private memory, in bytes: without the dataset, which all tasks of a machine share.
type Memory struct {
	Trial       int64 // of the most demanding one
	Refit       int64 // of the refit in a cross-validated sweep, or the final training; 0 without one
	RefitThread int64 // of each thread that the refit has in addition to those of one task
}

// Need returns the private memory of the most demanding trial and of the refit, among the expected trials and the
// largest configurations that open trials may become. threads are those of a task.
func Need(data *dataset.Manifest, plan *sweep.Plan, expected []sweep.Trial, threads int) (need Memory, err error) {
	f := footprint{plan: plan, rows: map[string]int{}, bins: make([]int, len(data.Features)), threads: threads}
	for _, s := range data.Splits {
		f.rows[s.Name] = s.Rows
	}
	for i := range data.Features {
		f.bins[i] = data.Features[i].Bins
	}

	// A refit trains on train and other splits: with folds on valid, else on all. Train has its rows once per copy (for
	// each of their orders), and the others are copied as often.
	trial, joined := f.trialBytes, f.rows[sweep.Valid]
	if plan.Folds != nil {
		trial = f.foldBytes
	} else {
		joined += f.rows[sweep.Calib] + f.rows[sweep.Test]
	}
	f.all = f.rows[sweep.Train] + max(1, data.Copies())*joined

	// An open trial may become the largest configuration: as a trial, and on more rows as the refit, for which another
	// configuration may be the largest.
	if plan.Open() {
		expected = append(slices.Clone(expected), sweep.Trial{Params: largestConfiguration(plan, trial)})
		if plan.Folds != nil || plan.Spec.FinalRows() {
			expected = append(expected, sweep.Trial{Params: largestConfiguration(plan, f.refitBytes)})
		}
	}

	// The most that any of them needs.
	for _, t := range expected {
		params, err := gbt.ParseParams(t.Params)
		if err != nil {
			return need, err
		}
		need.Trial = max(need.Trial, trial(params))
		if plan.Folds != nil || plan.Spec.FinalRows() {
			need.Refit = max(need.Refit, f.refitBytes(params))
			need.RefitThread = max(need.RefitThread, f.private(params, f.all, 0, threads+1)-
				f.private(params, f.all, 0, threads))
		}
	}

	// Where train has copies of queries, package fit gives the queries of each copy numbers of their own, 8 bytes for
	// each row of train: a refit reads train as trials do.
	if o := data.Order; o != nil && o.By == dataset.OrderGroup && o.Copies > 1 {
		need.Trial += 8 * int64(f.rows[sweep.Train])
		if need.Refit > 0 {
			need.Refit += 8 * int64(f.rows[sweep.Train])
		}
	}
	return need, nil
}

// footprint computes the private memory of trainings on a dataset.
type footprint struct {
	plan    *sweep.Plan
	rows    map[string]int // by split
	all     int            // rows of a refit
	bins    []int          // by feature
	threads int
}

// private returns the bytes that a training needs for itself, with so many rows of train and valid and so many threads.
func (f *footprint) private(params gbt.Params, train, valid, threads int) int64 {
	return gbt.PrivateBytes(params, train, valid, f.bins, threads)
}

// trialBytes is the private memory of a trial without folds. Where search.stop has it begin on a sample of train, the
// sample's mask is needed before the scores are: the larger of both counts.
func (f *footprint) trialBytes(params gbt.Params) int64 {
	train, sample := f.rows[sweep.Train], int64(0)
	if stop := f.plan.Spec.Search.Stop; stop != nil && stop.By == sweep.ByRows {
		sample = maskBytes * int64(train/stop.OneIn)
	}
	return f.private(params, train, f.rows[sweep.Valid], f.threads) + max(f.scoring(f.rows[sweep.Valid]), sample) +
		inheritedBytes(f.plan, params, train) + processBytes
}

// foldBytes is the private memory of a trial on a fold: the trainer's, masks of the fold's training and evaluation
// rows, which together are at most all rows of train, and targets and predictions of the evaluation rows.
func (f *footprint) foldBytes(params gbt.Params) int64 {
	train, rated := f.rows[sweep.Train], 0
	for _, r := range f.plan.Folds.Rounds {
		rated = max(rated, train*len(r.Rated.Folds)/dataset.Folds)
	}
	return f.private(params, train, train, f.threads) + maskBytes*int64(train) + ratedBytes*int64(rated) + processBytes
}

// refitBytes is the private memory of a refit or final training: the trainer's, a copy of its rows, which come from
// several splits, and scoring the held-out rows. The models of a bag are in memory at once: each with the trainer's
// memory and its fold's mask, and all together with their evaluation and a sum of predictions.
func (f *footprint) refitBytes(params gbt.Params) int64 {
	spec, ranks, all := &f.plan.Spec, gbt.Ranks(params.Objective), int64(f.all)
	private := f.private(params, f.all, 0, f.threads)
	if n := int64(spec.Bag()); n > 1 {
		private = n*(f.private(params, f.all, f.all, f.threads)+maskBytes*all) +
			(ratedBytes+8*int64(max(1, params.NumClass)))*all
	}
	return private + fit.JoinedBytes(f.all, len(f.bins), ranks) + f.scoring(0) + processBytes
}

// scoring returns the memory for evaluating and scoring the held-out rows, in addition to the trainer's: predictions
// and the metrics' sorting space for those of valid, scores and their encoded form for calib and test.
func (f *footprint) scoring(valid int) int64 {
	return 40*int64(valid) + 24*int64(f.rows[sweep.Calib]+f.rows[sweep.Test])
}

const (
	maskBytes  = 4       // per row: its number, in the mask of a fold
	ratedBytes = 40 + 16 // per evaluated row: the evaluation's memory, and label, weight and group

	processBytes = 96 << 20 // the program, its clients, their buffers
)
