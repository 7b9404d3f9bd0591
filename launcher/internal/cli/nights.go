package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// datasetFlags locate a dataset.
type datasetFlags struct{ in string }

func (f *datasetFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.in, "in", "",
		"folder or gs://BUCKET that the dataset was staged into (default: the datasets bucket)")
}

// at opens the location of a dataset.
func (w *World) at(ctx context.Context, f datasetFlags, use func(stager.Destination) error) error {
	if f.in != "" && !stager.Remote(f.in) {
		return use(stager.Destination{Dir: f.in})
	}
	return w.with(ctx, func(c *cloud) error {
		dst, err := c.destination(f.in)
		if err != nil {
			return err
		}
		return use(dst)
	})
}

func datasetsShowCommand(w *World) *cobra.Command {
	var f datasetFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME[@VERSION]",
		Short: "Show what staging found in a night's table",
		Long: "Shows what staging found when it compared the table with those of earlier nights, and whether the " +
			"dataset may be trained on.",
		Example: `  launcher datasets show clicks
  launcher datasets show clicks@1a2b3c4d5e6f7a8b --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.at(cmd.Context(), f, func(dst stager.Destination) error {
				r, err := findNight(cmd.Context(), dst, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return w.printJSON(r)
				}
				w.showNight(r)
				return nil
			})
		},
	}

	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the night's record as JSON")
	return cmd
}

func datasetsAcceptCommand(w *World) *cobra.Command {
	var f datasetFlags
	var why string
	cmd := &cobra.Command{
		Use:   "accept NAME[@VERSION] --why REASON",
		Short: "Let a blocked night pass",
		Long: "Allows training on a dataset that staging has blocked. Who did so, and why, stays in the night's " +
			"record, and later nights are compared with it.",
		Example: `  launcher datasets accept clicks@1a2b3c4d5e6f7a8b --why "prices are in USD from today on"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.at(cmd.Context(), f, func(dst stager.Destination) error {
				r, err := findNight(cmd.Context(), dst, args[0])
				if err != nil {
					return err
				}
				return w.accept(cmd.Context(), dst, r, why)
			})
		},
	}

	f.add(cmd)
	cmd.Flags().StringVar(&why, "why", "", "the reason, for those who read the record later")
	_ = cmd.MarkFlagRequired("why") // the flag exists
	return cmd
}

// findNight returns the record of NAME or NAME@VERSION; NAME alone means the latest night.
func findNight(ctx context.Context, dst stager.Destination, ref string) (*nights.Record, error) {
	name, version, err := sweep.SplitDatasetRef(ref)
	if err != nil {
		return nil, &program.UsageError{Err: err}
	}

	var r *nights.Record
	switch {
	case version != "":
		r, err = dst.Night(ctx, name, version)
	case dst.Store != nil:
		m, resolveErr := stager.Resolve(ctx, dst.Store, name)
		if resolveErr != nil {
			return nil, resolveErr
		}
		r, err = dst.Night(ctx, name, m.Version)
	default:
		var all []*nights.Record
		if all, err = dst.Nights(ctx, name); len(all) > 0 {
			r = all[len(all)-1]
		}
	}
	if err == nil && r == nil {
		err = &noRecordError{ref}
	}
	return r, err
}

// noRecordError reports a dataset version without a night's record.
type noRecordError struct{ ref string }

func (e *noRecordError) Error() string {
	return fmt.Sprintf("there is no record for dataset %s: it was not staged here, or was staged before nights were "+
		"compared", e.ref)
}

// IsNotFound says that the record does not exist.
func (*noRecordError) IsNotFound() bool { return true }

// accept records that a person accepts a night.
func (w *World) accept(ctx context.Context, dst stager.Destination, r *nights.Record, why string) error {
	if why == "" || len(why) > maxWhy {
		return program.Usagef("the reason has %d characters; give 1 to %d", len(why), maxWhy)
	}
	if !r.Blocked() {
		fmt.Fprintf(w.Out, "dataset %s@%s is not blocked\n", r.Dataset, r.Version)
		return nil
	}

	act := w.act(why)
	if _, err := dst.Accept(ctx, r.Dataset, r.Version, nights.Acceptance{By: act.By, Why: act.Why,
		At: act.At}); err != nil {
		return err
	}
	fmt.Fprintf(w.Out, "dataset %s@%s may be trained on: %s\n", r.Dataset, r.Version, why)
	return nil
}

// maxWhy bounds the reason of an acceptance.
const maxWhy = 1000

// showNight prints a night's record.
func (w *World) showNight(r *nights.Record) {
	p := r.Profile
	rows := [][2]string{
		{"dataset", r.Dataset + "@" + r.Version},
		{"staged", r.At.Format(time.RFC3339)},
		{"rows", fmt.Sprint(p.Rows)},
		{"label", fmt.Sprintf("mean %.5g", p.Label.Mean)},
	}

	if p.TimeColumn != "" {
		rows = append(rows, [2]string{p.TimeColumn, fmt.Sprintf("%s to %s", p.Oldest.Format(time.RFC3339), p.Newest.Format(time.RFC3339))})
	}
	compared := "nothing: this is the first night of this spec"
	if n := len(r.Against); n > 0 {
		compared = fmt.Sprintf("the nights before (%d), the last of them %s", n, r.Against[n-1])
	}
	rows = append(rows, [2]string{"compared with", compared})
	if a := r.Accepted; a != nil {
		rows = append(rows, [2]string{"accepted", fmt.Sprintf("by %s at %s: %s", a.By, a.At.Format(time.RFC3339),
			a.Why)})
	}
	w.pairs(rows...)
	w.showFindings(r)
}

// showFindings prints the findings, one line each.
func (w *World) showFindings(r *nights.Record) {
	if r == nil {
		return
	}
	for _, f := range r.Findings {
		fmt.Fprintln(w.Out, f)
	}
	switch {
	case r.Blocked():
		fmt.Fprintln(w.Out, "BLOCKED: nothing will be trained on it")
	case nights.Blocked(r.Findings):
		fmt.Fprintf(w.Out, "accepted by %s: %s\n", r.Accepted.By, r.Accepted.Why)
	}
}

// allowed rejects a dataset whose night must not be trained on.
func (c *cloud) allowed(ctx context.Context, name, version string, now time.Time) error {
	r, err := stager.Destination{Store: c.datasets}.Night(ctx, name, version)
	if err != nil {
		return err
	}
	return stager.CheckNight(r, now)
}
