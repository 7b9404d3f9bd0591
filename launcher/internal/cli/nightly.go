package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/slot"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

type nightlyFlags struct {
	startFlags
	schedule, zone, at string
	table              string
	stage              stageFlags
}

func nightlyCommand(w *Setup) *cobra.Command {
	var f nightlyFlags
	cmd := &cobra.Command{
		Use:   "nightly SWEEP.yaml",
		Short: "Stage and sweep the night's table, once per scheduled slot",
		Long: `Stages the table of the sweep's dataset, then starts the sweep on that version and watches it: stage and
sweep --schedule in one command, for one entry of a scheduler. The dataset.yaml is the file NAME.yaml beside SWEEP.yaml,
where NAME is its dataset, or else dataset.yaml there, or that of --table.

A command started twice in a slot makes one sweep, and so one version: the second neither stages nor trains, but
watches. The newest day of a source with {date:2006-01-02} is the day before the slot, in the schedule's time zone. If
that day has no file yet, the table is blocked, or it is that of a night before the last one, nothing is trained, people
are notified, and the same command can be started again: the slot is still free. If the table is that of the slot
before, nothing is trained either.`,
		Example: `  launcher nightly nightly.yaml --schedule "0 3 * * *" --time-zone Europe/Berlin --batch --no-wait
  launcher nightly nightly.yaml                                # the slot is today, in UTC
  launcher nightly nightly.yaml --at 2026-11-20T03:10:00Z      # makes up for a night`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			if err := f.check(cmd); err != nil {
				return err
			}
			if err := f.stage.batch.Check(cmd); err != nil {
				return err
			}
			return runNightly(cmd.Context(), w, args[0], f)
		},
	}

	f.assumptionFlags.add(cmd)
	f.stage.batch.Add(cmd)
	f.addWatching(w, cmd)
	cmd.Flags().Float64Var(&f.budget, "budget", 0, "USD that the sweep's machines may cost (default: the spec's)")
	cmd.Flags().StringVar(&f.table, "table", "", "the dataset.yaml (default: NAME.yaml, or it, beside SWEEP.yaml)")
	cmd.Flags().StringVar(&f.schedule, "schedule", "0 0 * * *",
		"the cron schedule that starts this command: its latest time is the slot")
	cmd.Flags().StringVar(&f.zone, "time-zone", "", "time zone of --schedule, such as Europe/Berlin (default: UTC)")
	cmd.Flags().StringVar(&f.at, "at", "", "find the slot as of this time, such as 2026-11-20T03:10:00Z (default: now)")
	return cmd
}

// runNightly finds the slot, the latest time of the schedule up to now or --at, and stages and sweeps for it. The
// newest day of its data is the day before the slot. An --at in the future is refused, since that day is not over.
func runNightly(ctx context.Context, w *Setup, file string, f nightlyFlags) error {
	s, err := f.read(w, file)
	if err != nil {
		return err
	}
	t, err := tableOf(file, s.dataset, f.table)
	if problem.Is(err, problem.NotFound) {
		return fmt.Errorf("%w; give the dataset.yaml as --table", err)
	}
	if err != nil {
		return err
	}
	if t.Spec.Name != s.dataset {
		return problem.New(problem.Input, "%s: the sweep trains on dataset %q, but %s describes %q", file, s.dataset,
			t.File, t.Spec.Name)
	}

	now := w.Now()
	if f.at != "" {
		if now, err = time.Parse(time.RFC3339, f.at); err != nil {
			return program.Usagef("--at is %.40q: use a time with a zone, such as 2026-11-20T03:10:00Z", f.at)
		}
		if now.After(w.Now()) {
			return program.Usagef("--at %s is in the future: its slot would be taken before its day is over", f.at)
		}
	}
	at, err := slot.Of(f.schedule, f.zone, now)
	if err != nil {
		return err
	}
	t.Day, s.id, s.scheduled = at.AddDate(0, 0, -1), slot.ID(s.spec.Name, at), true
	return w.withCloud(ctx, func() error { return nightlyOf(ctx, w, s, t, f) })
}

// tableOf reads a sweep's dataset.yaml: the file that table names, or else NAME.yaml or dataset.yaml in the folder of
// SWEEP.yaml.
func tableOf(file, name, table string) (*stager.TableSpec, error) {
	t, err := stager.ReadTable(cmp.Or(table, filepath.Join(filepath.Dir(file), name+".yaml")))
	if problem.Is(err, problem.NotFound) && table == "" { // as fit --save-specs writes it
		t, err = stager.ReadTable(filepath.Join(filepath.Dir(file), "dataset.yaml"))
	}
	return t, err
}

// nightlyOf stages the table t and starts the sweep s of a slot on it. If that sweep has a plan, another start of this
// slot has staged: then nothing is staged, and the sweep is attached to. If staging fails, a finding blocks the table,
// or the table is that of a night before the last one, people are notified and no sweep is started.
func nightlyOf(ctx context.Context, w *Setup, s start, t *stager.TableSpec, f nightlyFlags) error {
	// A slot whose sweep has a plan is staged already.
	store := sweepstore.New(w.sweeps, s.id)
	planned, err := store.HasPlan(ctx)
	if err != nil {
		return err
	}
	if planned {
		p, _, err := store.Plan(ctx)
		if err != nil {
			return err
		}
		s.dataset = p.Dataset.Name + "@" + p.Dataset.Version
		return sweepOn(ctx, w, s)
	}

	// Stage the table; an interruption by hand is nothing to notify others of.
	dst, err := w.destination("")
	if err != nil {
		return err
	}
	f.stage.batch.Labels, f.stage.night = s.spec.Labels, sweepview.NameNight(s.id)
	staged, err := stageTable(ctx, w, t, dst, f.stage)
	if err != nil {
		if ctx.Err() == nil {
			tellNotStarted(ctx, w, s.id, s.spec.Model, t.Spec.Name, err.Error())
		}
		return err
	}
	m := staged.Manifest
	s.dataset = m.Name + "@" + m.Version
	w.log().Info("dataset staged", "dataset", s.dataset, "existed", staged.Existed, "sweep", s.id)
	if !w.asJSON {
		w.screen().Dataset(staged)
		w.screen().Findings(staged.Night, staged.Manifest)
	}

	if err := stager.CheckNight(staged.Night, w.Now(), ""); err != nil {
		tellRefused(ctx, w, s.id, s.spec.Model, err)
		return err
	}

	// A source that has gone back to the table of an earlier night would pass, since that night has. With --at a person
	// makes up for a night, whose table may be an earlier one.
	if staged.Existed && f.at == "" {
		if err := dst.CheckNewest(ctx, staged.Night); err != nil {
			tellNotStarted(ctx, w, s.id, s.spec.Model, s.dataset, err.Error())
			return err
		}
	}
	return sweepOn(ctx, w, s)
}
