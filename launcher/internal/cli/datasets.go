package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

func datasetsCommand(w *Setup) *cobra.Command {
	cmd := program.Group(&cobra.Command{
		Use:   "datasets",
		Short: "Manage staged datasets",
		Long: "A dataset is called NAME, one of its versions NAME@VERSION; NAME alone means the version staged " +
			"last.",
		Example: "  launcher datasets list\n  launcher datasets show clicks",
	})
	cmd.AddCommand(datasetsListCommand(w), datasetsShowCommand(w), datasetsAcceptCommand(w), datasetsPullCommand(w))
	return cmd
}

// nightCommand makes a command about one night's record, which use gets with the place where its dataset is.
func nightCommand(w *Setup, cmd *cobra.Command,
	use func(context.Context, stager.Destination, *nights.Record) error) *cobra.Command {
	var in string
	cmd.Flags().StringVar(&in, "in", "",
		"folder or gs://BUCKET that the dataset was staged into (default: the datasets bucket)")
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		at := func(dst stager.Destination) error {
			r, err := findNight(ctx, dst, args[0])
			if err != nil {
				return err
			}
			return use(ctx, dst, r)
		}
		if in != "" && !dataset.InBucket(in) {
			return at(stager.Destination{Dir: in})
		}
		return w.with(ctx, func() error {
			dst, err := w.destination(in)
			if err != nil {
				return err
			}
			return at(dst)
		})
	}
	return cmd
}

// findNight returns the record of NAME or NAME@VERSION; NAME alone means the latest night.
func findNight(ctx context.Context, dst stager.Destination, ref string) (*nights.Record, error) {
	name, version, err := sweep.SplitDatasetRef(ref)
	if err != nil {
		return nil, problem.As(problem.Usage, err)
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
		err = problem.New(problem.NotFound, "there is no record for dataset %s: it was not staged here", ref)
	}
	return r, err
}
