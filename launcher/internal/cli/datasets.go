package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// latest, behind the name of a dataset, is its newest version.
const latest = "@latest"

func datasetsCommand(w *Setup) *cobra.Command {
	cmd := program.Group(&cobra.Command{
		Use:     "datasets",
		Short:   "Manage staged datasets",
		Long:    "A dataset is called NAME, one of its versions NAME@VERSION; NAME alone means the one staged last.",
		Example: "  launcher datasets list\n  launcher datasets show clicks",
	})
	cmd.AddCommand(datasetsListCommand(w), datasetsShowCommand(w), datasetsAcceptCommand(w))
	return cmd
}

// nightCommand completes cmd to a command about one version of a dataset, which its argument names. It adds the flag
// --in, and a RunE that opens a cloud if it needs one and calls use with the place of the dataset and the record of
// what staging found that night.
func nightCommand(w *Setup, cmd *cobra.Command,
	use func(context.Context, stager.Destination, *nights.Record) error) *cobra.Command {
	var in string
	cmd.Flags().StringVar(&in, "in", "",
		"folder or gs://BUCKET that the dataset was staged into (default: the datasets bucket)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
		ctx := cmd.Context()
		useAt := func(dst stager.Destination) error {
			r, err := dst.FindNight(ctx, strings.TrimSuffix(args[0], latest))
			if err != nil {
				return err
			}
			return use(ctx, dst, r)
		}
		if in != "" && !dataset.InBucket(in) {
			return useAt(stager.Destination{Dir: in})
		}
		return w.withCloud(ctx, func() error {
			dst, err := w.destination(in)
			if err != nil {
				return err
			}
			return useAt(dst)
		})
	}
	return cmd
}

func datasetsListCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [NAME]",
		Short:   "List the versions of a dataset, or of all, the newest first",
		Example: "  launcher datasets list\n  launcher datasets list clicks --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
				if err := sweep.CheckName("dataset", name); err != nil {
					return err
				}
			}
			return w.withCloud(cmd.Context(), func() error {
				all, err := sweepview.Datasets(cmd.Context(), w.datasets, name)
				if err != nil {
					return err
				}
				return w.print(all, func() { w.screen().Datasets(all) })
			})
		},
	}
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}

func datasetsShowCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME[@VERSION]",
		Short: "Show what staging found in a night's table",
		Long: `Shows what the columns became, what staging found when it compared the table with those of earlier
nights, and whether the dataset may be trained on.`,
		Example: `  launcher datasets show clicks
  launcher datasets show clicks@1a2b3c4d5e6f7a8b --json`,
	}
	w.jsonFlag(cmd, "print the night's record as JSON")
	return nightCommand(w, cmd, func(ctx context.Context, dst stager.Destination, r *nights.Record) error {
		// Without the version's manifest, m is nil, and only the record is shown.
		var m *dataset.Manifest
		var err error
		if dst.Store != nil {
			m, err = stager.Manifest(ctx, dst.Store, r.Dataset, r.Version)
		} else {
			m, err = dataset.ReadManifest(filepath.Join(dst.Dir, r.Dataset, r.Version))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return w.print(r, func() { w.screen().Night(r, m) })
	})
}

// maxWhy bounds the reason of an acceptance, in characters.
const maxWhy = 1000

func datasetsAcceptCommand(w *Setup) *cobra.Command {
	var why string
	var lasting bool
	cmd := &cobra.Command{
		Use:   "accept NAME[@VERSION] --why REASON",
		Short: "Accept a blocked dataset",
		Long: `Allows training on a dataset that staging has blocked, or that is too old. Who did so, and why, stays in
the night's record, and later nights are compared with it. With --lasting the night is no exception: its label rate is
usual from now on, and the gate compares its model on tonight's rows alone.`,
		Example: `  launcher datasets accept clicks@1a2b3c4d5e6f7a8b --why "prices are in USD from today on"`,
	}
	cmd.Flags().StringVar(&why, "why", "", "the reason, for later readers of the record (required)")
	cmd.Flags().BoolVar(&lasting, "lasting", false, "the change lasts, and is usual from now on")
	_ = cmd.MarkFlagRequired("why") // the flag exists
	return nightCommand(w, cmd, func(ctx context.Context, dst stager.Destination, r *nights.Record) error {
		if n := utf8.RuneCountInString(strings.TrimSpace(why)); n < 1 || n > maxWhy {
			return program.Usagef("the reason has %d characters; give 1 to %d", n, maxWhy)
		}
		if stager.CheckNight(r, w.Now(), "") == nil && !lasting { // neither blocked nor too old
			w.printf("dataset %s@%s is not blocked\n", r.Dataset, r.Version)
			return nil
		}
		if _, err := acceptNight(ctx, w, dst, r, why, lasting); err != nil {
			return err
		}
		w.printf("dataset %s@%s may be trained on: %s\n", r.Dataset, r.Version, why)
		return nil
	})
}

// acceptNight records that a person accepts the table of the night r, and why. lasting says that the change is usual
// from now on. It returns the new record.
func acceptNight(ctx context.Context, w *Setup, dst stager.Destination, r *nights.Record,
	why string, lasting bool) (*nights.Record, error) {
	act := w.actFor(why)
	return dst.Accept(ctx, r.Dataset, r.Version, nights.Acceptance{By: act.By, Why: act.Why, At: act.At,
		Lasting: lasting})
}
