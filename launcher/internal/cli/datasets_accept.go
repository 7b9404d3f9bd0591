package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/launcher/internal/stager"
)

// maxWhy bounds the reason of an acceptance.
const maxWhy = 1000

func datasetsAcceptCommand(w *Setup) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "accept NAME[@VERSION] --why REASON",
		Short: "Accept a blocked dataset",
		Long: `Allows training on a dataset that staging has blocked. Who did so, and why, stays in the night's
record, and later nights are compared with it.`,
		Example: `  launcher datasets accept clicks@1a2b3c4d5e6f7a8b --why "prices are in USD from today on"`,
	}
	cmd.Flags().StringVar(&why, "why", "", "the reason, for later readers of the record (required)")
	_ = cmd.MarkFlagRequired("why") // the flag exists
	return nightCommand(w, cmd, func(ctx context.Context, dst stager.Destination, r *nights.Record) error {
		if why == "" || len(why) > maxWhy {
			return program.Usagef("the reason has %d characters; give 1 to %d", len(why), maxWhy)
		}
		if !r.Blocked() {
			w.printf("dataset %s@%s is not blocked\n", r.Dataset, r.Version)
			return nil
		}
		if _, err := acceptNight(ctx, w, dst, r, why); err != nil {
			return err
		}
		w.printf("dataset %s@%s may be trained on: %s\n", r.Dataset, r.Version, why)
		return nil
	})
}

// acceptNight records that a person accepts a night.
func acceptNight(ctx context.Context, w *Setup, dst stager.Destination, r *nights.Record,
	why string) (*nights.Record, error) {
	act := w.act(why)
	return dst.Accept(ctx, r.Dataset, r.Version, nights.Acceptance{By: act.By, Why: act.Why, At: act.At})
}
