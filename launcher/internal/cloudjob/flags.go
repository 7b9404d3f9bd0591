package cloudjob

import (
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/machines"
	"coppice/internal/problem"
)

// Flags select the machine for --batch.
type Flags struct {
	On       bool
	Machine  string
	Spot     bool
	LocalSSD int
	Labels   map[string]string // of the sweep that the job is for
}

// DefaultMachine is the machine of --batch, unless --machine names another.
const DefaultMachine = "n2-highmem-8"

// limit bounds a job.
const limit = 24 * time.Hour

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.On, "batch", false, "stage in the cloud, as a Batch job with one task next to the data; "+
		"Ctrl-C cancels the job, unless it was already running")
	cmd.Flags().StringVar(&f.Machine, "machine", DefaultMachine, "machine type for --batch")
	cmd.Flags().BoolVar(&f.Spot, "spot", false, "use a Spot machine for --batch")
	cmd.Flags().IntVar(&f.LocalSSD, "local-ssd", 0, "local SSDs for --batch (default: as few as it should need)")
}

// Check rejects flags that have no effect with --batch or without it, and a negative number of disks. cmd knows which
// flags were given. Errors are of kind Usage.
func (f Flags) Check(cmd *cobra.Command) error {
	where, others := "with", []string{"out", "threads"} // what only applies to this machine
	if !f.On {
		where, others = "without", []string{"machine", "spot", "local-ssd"}
	}

	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return problem.New(problem.Usage, "--%s has no effect %s --batch", name, where)
		}
	}

	if f.LocalSSD < 0 {
		return problem.New(problem.Usage, "--local-ssd is %d: use 0 or more", f.LocalSSD)
	}
	return nil
}

// MachineType is the type of --machine, checked against --local-ssd.
func (f Flags) MachineType() (machines.Type, error) {
	t, err := machines.Find(f.Machine)
	if err != nil {
		return t, problem.New(problem.Usage, "--machine: %v", err)
	}
	if f.LocalSSD > 0 {
		if err := t.CheckDisks(f.LocalSSD); err != nil {
			return t, problem.New(problem.Usage, "--local-ssd: %v", err)
		}
	}
	return t, nil
}

// Disks returns the number of local SSDs: that of --local-ssd or, without it, the smallest number that the type t can
// have and that holds need, the most bytes that the work may take. If no number holds these, it is the type's largest,
// since few sources take the most. If that does not even hold least, the bytes that every source takes, it is an error.
func (f Flags) Disks(t machines.Type, need, least int64) (int, error) {
	if f.LocalSSD > 0 {
		return f.LocalSSD, nil
	}
	if n, err := t.FewestDisks(need); err == nil {
		return n, nil
	}
	_, err := t.FewestDisks(least)
	if err != nil {
		return 0, problem.New(problem.Usage, "--machine: %v", err)
	}
	return t.Disks[len(t.Disks)-1], nil
}

// Request describes a job on the machine, without its work.
func (f Flags) Request(t machines.Type, disks int) Work {
	return Work{Machine: t.Name, VCPUs: t.VCPUs, Memory: t.MemoryBytes, Spot: f.Spot, LocalSSD: disks,
		Limit: limit, Labels: f.Labels}
}
