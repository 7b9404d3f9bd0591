package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/ledger"
	"coppice/internal/sweep"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/sweepview"
)

func billCommand(w *Setup) *cobra.Command {
	var attempts bool
	cmd := &cobra.Command{
		Use:   "bill SWEEP",
		Short: "Show what a sweep has cost, by trial, compared with its quote",
		Long: `Calculates machine-hours from the sweep's own objects (which task ran on which host, and when) and the
cost from the price recorded when the sweep was planned. It is not an invoice: what machines cost before their first
trial is assumed, and storage, messages and network are not included.`,
		Example: `  launcher bill nightly-ctr-1a2b3c4d
  launcher bill nightly-ctr-1a2b3c4d --attempts
  launcher bill nightly-ctr-1a2b3c4d --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				return printBill(cmd.Context(), w, s.Plan, st, attempts)
			})
		},
	}

	cmd.Flags().BoolVar(&attempts, "attempts", false, "show every attempt at a trial")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

func printBill(ctx context.Context, w *Setup, p *sweep.Plan, st sweepview.State, attempts bool) error {
	results := map[int]sweep.Result{}
	for _, row := range st.Board.Rows {
		if row.Result != nil {
			results[row.Trial.Number] = *row.Result
		}
	}
	r := ledger.Reader{Store: w.sweeps, Plan: p}
	if st.Conclusion != nil {
		r.Ended = st.Conclusion.At
	}
	l, err := r.Read(ctx, results, w.Now())
	if err != nil {
		return err
	}
	b := bill.Make(p, &l, results)
	return w.print(b, func() { w.screen().Bill(b, p.Dataset.Rows[sweep.Train], attempts) })
}
