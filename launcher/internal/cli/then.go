package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/machines"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/slot"
)

// thenFlags say which sweep findings start, and how often. The sweep is submitted and not watched.
type thenFlags struct {
	startFlags
	file  string
	every time.Duration
}

// thenHelp is for the long help of commands with --then.
const thenHelp = `With --then SWEEP.yaml findings start that sweep on its dataset's latest version, at most one of its
name within --at-most, whoever looks, and only with a budget (--budget, or that of the spec). Give all watchers of a
spec the same --at-most. The exit code stays 8 if the sweep was started, or one had been; if it is refused, for its
budget or because the night is blocked, the error says so. Nothing is trained if that version has been
trained with the same spec.`

func (f *thenFlags) add(cmd *cobra.Command) {
	f.noWait, f.Assumptions = true, quote.Assumed()
	cmd.Flags().StringVar(&f.file, "then", "", "sweep.yaml of the sweep that findings start")
	cmd.Flags().DurationVar(&f.every, "at-most", 24*time.Hour, "least time between two sweeps of --then")
	cmd.Flags().Float64Var(&f.budget, "budget", 0, "USD that its machines may cost (default: the spec's)")
}

// around has judge look for findings, and starts the sweep if it ends with them. Without --then it only judges.
func (f *thenFlags) around(cmd *cobra.Command, w *Setup, judge func() error) error {
	if f.file == "" {
		if cmd.Flags().Changed("at-most") || cmd.Flags().Changed("budget") {
			return program.Usagef("--at-most and --budget need --then")
		}
		return judge()
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.every < time.Hour || f.every%time.Minute != 0 {
		return program.Usagef("--at-most is %s: use whole minutes, at least 1h", f.every)
	}
	spec, prices, err := f.read(w, f.file)
	if err != nil {
		return err
	}
	if spec.Budget == 0 {
		return program.Usagef("--then needs --budget, or `budget:` in %s: nobody is there to look at the cost", f.file)
	}

	return w.with(cmd.Context(), func() error {
		findings := judge()
		if findings == nil || program.ExitCode(cmd.Context(), findings) != sweep.ExitBlocked {
			return findings
		}
		if err := f.start(cmd.Context(), w, spec, prices); err != nil {
			return fmt.Errorf("%s; no sweep was started: %w", findings.Error(), err)
		}
		return findings
	})
}

func (f *thenFlags) start(ctx context.Context, w *Setup, spec *sweep.Spec, prices machines.Prices) error {
	id, since, err := slot.Found(ctx, w.sweeps, spec.Name, f.every, w.Now())
	if err != nil {
		return err
	}
	if !since.IsZero() {
		w.say("findings have started sweep %s already; the next one may start at %s\n", id,
			since.Add(f.every).Format("2006-01-02 15:04 MST"))
		// If that start was interrupted before the job was submitted, this one submits it, as it was planned.
		p, _, err := sweepstore.New(w.sweeps, id).Plan(ctx)
		if err == nil {
			err = startSweep(ctx, w, &plan.Planned{Plan: p}, nil, true, f.startFlags)
		}
		if err != nil {
			w.say("note: %v\n", err)
		}
		return nil
	}
	return sweepOn(ctx, w, spec, spec.Dataset, id, true, prices, f.startFlags)
}
