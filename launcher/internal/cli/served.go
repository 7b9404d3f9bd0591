package cli

import (
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/launcher/internal/served"
)

func servedCommand(w *Setup) *cobra.Command {
	last := 24
	var then thenFlags
	var page served.Page
	cmd := &cobra.Command{
		Use:   "served MODEL",
		Short: "Show what servers were asked and answered, by hour",
		Long: `Adds up what servers with --profiles have kept of the last whole hours, and compares it with the rows on
which the version was tested, as a server does for itself: with findings the exit code is that of a bad night (8).

` + thenHelp,
		Example: `  launcher served ctr
  launcher served ctr --html day.html
  launcher served ctr --last 2 --then sweep.yaml --at-most 24h --budget 12.50   # 10 minutes after every hour`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if last < 1 || last > 31*24 {
				return program.Usagef("--last is %d: use 1 to %d", last, 31*24)
			}
			if err := page.Check(); err != nil {
				return err
			}
			return then.around(cmd, w, func() error {
				return w.with(cmd.Context(), func() error {
					past, err := served.ReadPast(cmd.Context(), w.sweeps, w.registry, args[0], last, w.Now())
					if err == nil {
						err = page.Write(args[0], past, last, w.Now())
					}
					if err != nil {
						return err
					}
					err = w.print(past, func() { w.screen().Past(args[0], past) })
					if off := served.OffPast(args[0], past.Hours); err == nil && off != nil {
						return off
					}
					return err
				})
			})
		},
	}
	cmd.Flags().IntVar(&last, "last", last, "hours to read")
	page.AddFlags(cmd)
	then.add(cmd)
	w.jsonFlag(cmd, "print JSON, and the sweep of --then as another object")
	return cmd
}
