package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coppice/dataset"
	"coppice/gbt"
	"coppice/strictyaml"
	"coppice/sweep"
)

// family is a Compute Engine machine family by the memory that comes with a vCPU, in GiB.
// Source: https://cloud.google.com/compute/docs/machine-resource, read in November 2026.
var families = map[string]float64{
	"c2-standard": 4, "c2d-standard": 4, "c2d-highmem": 8, "c3-standard": 4, "c3-highmem": 8, "c3-highcpu": 2,
	"c3d-standard": 4, "c3d-highmem": 8, "c3d-highcpu": 2, "c4-standard": 3.75, "c4-highmem": 7.75, "c4-highcpu": 2,
	"c4d-standard": 3.875, "c4d-highmem": 7.875, "e2-standard": 4, "e2-highmem": 8, "e2-highcpu": 1,
	"m3-ultramem": 30.5, "m3-megamem": 15.25, "n1-standard": 3.75, "n1-highmem": 6.5, "n2-standard": 4, "n2-highmem": 8, "n2-highcpu": 1,
	"n2d-standard": 4, "n2d-highmem": 8, "n2d-highcpu": 1, "n4-standard": 4, "n4-highmem": 8, "n4-highcpu": 2, "t2d-standard": 4,
}

var machinePattern = regexp.MustCompile(`^([a-z][a-z0-9]*-[a-z]+)-([0-9]{1,3})(-lssd)?$`)

// machine is vCPUs and memory of a machine type.
func machine(name string) (vcpus int, memory int64, err error) {
	m := machinePattern.FindStringSubmatch(name)
	if m == nil {
		return 0, 0, errorf("machine type %.60q: expected a family, a size and a number of vCPUs, such as n2-highmem-64", name)
	}
	gib, ok := families[m[1]]
	if !ok {
		var known []string
		for f := range families {
			known = append(known, f)
		}
		return 0, 0, errorf("machine type %.60q: its memory is not known%s", name, strictyaml.Suggest(m[1], known))
	}
	vcpus, err = strconv.Atoi(m[2])
	if err != nil || vcpus < 1 {
		return 0, 0, errorf("machine type %.60q: %s vCPUs", name, m[2])
	}
	if name == "n2-highmem-128" { // the one exception: 864 GB instead of 1,024
		gib = 6.75
	}
	return vcpus, int64(gib * float64(vcpus) * (1 << 30)), nil
}

// Memory that is left to the system: the kernel, the container runtime, the logging agent.
const (
	leastReserve = 1 << 30
	reserveShare = 20 // 1/20 of the machine
)

// localSSD is the size of one disk.
const localSSD = 375 << 30

// size says how many tasks share a machine: as many as Batch, the vCPUs and the memory allow, with the dataset in memory
// once.
func size(m sweep.Machine, d *dataset.Manifest, trials []sweep.Trial) (sweep.Sizing, error) {
	vcpus, memory, err := machine(m.Type)
	if err != nil {
		return sweep.Sizing{}, err
	}
	need, err := largest(d, trials, m.ThreadsPerTask)
	if err != nil {
		return sweep.Sizing{}, err
	}
	z := sweep.Sizing{MachineType: m.Type, VCPUs: vcpus, MemoryBytes: memory, DatasetBytes: d.Bytes(), TrialBytes: need,
		ReserveBytes: max(leastReserve, memory/reserveShare), VMs: m.VMs, ThreadsPerTask: m.ThreadsPerTask}
	if m.LocalSSD > 0 && z.DatasetBytes > int64(m.LocalSSD)*localSSD { // 0 leaves the number to whoever knows the machine type
		return z, errorf("the dataset has %s, %d local SSDs hold %s; raise machine.local_ssd", gib(z.DatasetBytes), m.LocalSSD, gib(int64(m.LocalSSD)*localSSD))
	}
	byMemory := int((memory - z.DatasetBytes - z.ReserveBytes) / need)
	limits := []struct {
		tasks int
		why   string
	}{
		{sweep.MaxTasksPerVM, fmt.Sprintf("Batch runs at most %d tasks on a VM", sweep.MaxTasksPerVM)},
		{vcpus / m.ThreadsPerTask, fmt.Sprintf("%d vCPUs / %d threads", vcpus, m.ThreadsPerTask)},
		{byMemory, fmt.Sprintf("(%s - %s dataset - %s reserve) / %s per trial", gib(memory), gib(z.DatasetBytes), gib(z.ReserveBytes), gib(need))},
		{(len(trials) + m.VMs - 1) / m.VMs, fmt.Sprintf("%d trials on %d VMs", len(trials), m.VMs)},
	}
	tightest := limits[0]
	for _, l := range limits[1:] {
		if l.tasks < tightest.tasks {
			tightest = l
		}
	}
	if tightest.tasks < 1 {
		return z, errorf("no trial fits a %s: %s is %d; use a larger machine or fewer threads per task", m.Type, tightest.why, tightest.tasks)
	}
	z.TasksPerVM, z.LimitedBy = tightest.tasks, tightest.why
	if asked := int(m.TasksPerVM); asked > 0 {
		if asked > byMemory {
			return z, errorf("machine.tasks_per_vm is %d, but %s is %d; use tasks_per_vm: auto or a larger machine", asked, limits[2].why, byMemory)
		}
		z.TasksPerVM, z.LimitedBy = asked, "machine.tasks_per_vm"
	}
	z.Tasks = min(z.TasksPerVM*z.VMs, len(trials))
	return z, nil
}

func gib(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<30)), ".0") + " GiB"
}

// largest is what the most demanding trial needs for itself.
func largest(d *dataset.Manifest, trials []sweep.Trial, threads int) (int64, error) {
	rows := map[string]int{}
	for _, s := range d.Splits {
		rows[s.Name] = s.Rows
	}
	features := make([]int, len(d.Features))
	for i := range d.Features {
		features[i] = d.Features[i].Bins
	}
	var need []int64
	for _, t := range trials {
		p, err := gbt.ParseParams(t.Params)
		if err != nil {
			return 0, err
		}
		need = append(need, gbt.PrivateBytes(p, rows[sweep.Train], rows[sweep.Valid], features, threads)+scoring(rows)+processBytes)
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
