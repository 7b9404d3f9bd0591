package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/localemu/internal/residency"
)

func machinesCommand(s *State) *cobra.Command {
	var data string
	var asJSON bool
	c := &cobra.Command{
		Use:   "machines --data DIR [JOB]",
		Short: "Show how much memory the tasks of a job shared",
		Long: `machines shows, for every pretend machine of a job (default: the latest job), how many tasks
ran on it at once, how much of the dataset they had mapped, what that would have taken as private copies (the
sum of RSS) and what it did take (the sum of PSS, in which shared pages count once), and the tasks' private
memory. It is measured while the job runs, at the moment with the most tasks, and on Linux only.`,
		Example: `  localemu machines --data build/cloud
  localemu machines --data build/cloud nightly-ctr-20261120 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if data == "" {
				return usage("give --data, the folder of the local cloud: localemu machines --data DIR [JOB]")
			}
			report, err := findReport(residency.Folder(data), args)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(s.out())
				enc.SetIndent("", "  ")
				return enc.Encode(report)
			}
			return printReport(s.out(), report)
		},
	}

	c.Flags().StringVar(&data, "data", "", "data folder of the local cloud")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// findReport reads the report of the named job, or the latest.
func findReport(folder string, args []string) (*residency.Report, error) {
	var job string
	if len(args) == 1 {
		job = args[0]
	} else {
		jobs, err := residency.List(folder)
		if err != nil {
			return nil, err
		}
		if len(jobs) == 0 {
			return nil, problem.New(problem.NotFound,
				"%s has no machine report: no Batch job has run there yet", folder)
		}
		job = jobs[0]
	}

	r, err := residency.Read(folder, job)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.Wrap(problem.NotFound, err, "no machine report of job %s", job)
	}
	return r, err
}

func printReport(w program.Output, r *residency.Report) error {
	if len(r.Machines) == 0 {
		why := r.Error
		switch {
		case why != "":
		case runtime.GOOS != "linux":
			why = residency.ErrUnsupported.Error()
		default:
			why = "no task was seen running"
		}
		return problem.New(problem.NotFound, "job %s was not measured: %s", r.Job, why)
	}

	state := "finished"
	if !r.Finished {
		state = "so far"
	}
	fmt.Fprintf(w, "job %s (%s), at the moment with the most tasks\n", r.Job, state)

	t := tables.Screen{Output: w}.Table("machine", "tasks at once", "dataset mapped", "as private copies (sum RSS)",
		"in memory (sum PSS)", "private, maximum per task")

	for _, m := range r.Machines {
		var most int64
		for _, p := range m.Private {
			most = max(most, p)
		}
		t.Row(m.Machine, m.Processes, size(m.Dataset), size(m.RSS), size(m.PSS), size(most))
	}

	t.Print()
	return nil
}

func size(n int64) string { return humanize.IBytes(uint64(max(0, n))) }
