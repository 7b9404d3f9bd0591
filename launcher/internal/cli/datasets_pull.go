package cli

import (
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/launcher/internal/stager"
)

func datasetsPullCommand(w *Setup) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "pull NAME[@VERSION]",
		Short: "Copy a dataset version out of the bucket",
		Long: `Copies a version into the folder OUT/NAME/VERSION, for task train --dataset. It appears complete, with
the right checksums, or not at all.`,
		Example: "  launcher datasets pull clicks --out data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.CheckOutFolder("--out", out); err != nil {
				return err
			}
			return w.with(cmd.Context(), func() error {
				m, err := stager.Resolve(cmd.Context(), w.datasets, args[0])
				if err != nil {
					return err
				}
				bar := w.stageBar()
				place, err := (&stager.Stager{Progress: bar.Report}).Pull(cmd.Context(), w.datasets, m, out)
				bar.Finish()
				if err != nil {
					return err
				}
				w.printf("%s\n", place)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "folder to copy into")
	return cmd
}
