package cli

import (
	"github.com/spf13/cobra"

	"coppice/internal/program"
)

func nightsCommand(w *Setup) *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use:   "nights [MODEL]",
		Short: "Show a month of a model's nights",
		Long: `Shows what became of each night: the day of its slot and of its newest row, its table, its version, the
verdict and the reason, and which version was live afterwards, with its age in days. Tables that were blocked before a
sweep have a line, too. Without a name it is the model of the newest sweep.`,
		Example: "  launcher nights ctr\n  launcher nights ctr --days 7 --json | jq .standing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if days < 1 || days > 366 {
				return program.Usagef("--days is %d: use 1 to 366", days)
			}
			return w.withCloud(cmd.Context(), func() error {
				// Without an argument the model is "", which Month reads as that of the newest sweep.
				m, err := w.pages().Month(cmd.Context(), append(args, "")[0], w.Now().UTC().AddDate(0, 0, -days))
				if err != nil {
					return err
				}
				return w.print(m, func() { w.screen().Month(m, w.Now()) })
			})
		},
	}
	cmd.Flags().IntVar(&days, "days", 31, "how many days back")
	w.jsonFlag(cmd, "print JSON")
	return cmd
}
