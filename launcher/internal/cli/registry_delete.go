package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
)

func registryDeleteCommand(w *Setup) *cobra.Command {
	var why string
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete MODEL@VERSION --why TEXT",
		Short: "Delete a version for good, unless an alias points at it",
		Long: `Hides a version for good: it is no longer listed or found, and neither its number nor its sweep is
used again. A version that an alias points at is never deleted. The history records who, why and when. The files
stay in the bucket until its owner removes them: launcher clean lists them. Asks first, unless --yes is
given.`,
		Example: `  launcher registry delete ctr@4 --why "trained on data that had to go"`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			return w.changeVersion(cmd.Context(), args[0], func(v registry.Version) error {
				name := fmt.Sprintf("%s@%d", v.Model, v.Number)
				if args[0] != name {
					return program.Usagef("%q: give the version's number, %s", args[0], name)
				}
				if !yes {
					if err := w.confirm(fmt.Sprintf("%s, registered %s by %s, will be gone for good.", name,
						v.Info.At.Format(time.DateTime), v.Info.By), name); err != nil {
						return err
					}
				}
				if err := w.registry.Delete(cmd.Context(), v.Model, v.Number, w.actFor(why)); err != nil {
					return err
				}
				w.printf("%s is deleted\n", v.Called())
				return nil
			})
		},
	}
	requireWhy(cmd, &why)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
