package program

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// versionCommand returns the command "version", which prints which build this is: the line that --version prints, or
// one JSON object with --json. It is hidden from the help, since --version is better known.
func versionCommand(w World) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show which build this is",
		Hidden:  true,
		Example: "  launcher version --json | jq -r .version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !asJSON {
				_, err := fmt.Fprintf(w.Out, "%s version %s\n", cmd.Root().Name(), w.Version)
				return err
			}
			return json.NewEncoder(w.Out).Encode(map[string]string{"program": cmd.Root().Name(), "version": w.Version,
				"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
