package program

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the help of all commands as man pages: the same words, for who has installed the program.
func manCommand(w World) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:    "man --out DIR",
		Short:  "Write man pages, one for each command",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := CheckOutFolder("--out", out); err != nil {
				return err
			}
			dir := filepath.Join(out, "man1")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // a date would make other bytes every day
			at := w.Now()
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: root.Name() + " " + w.Version,
				Manual: "Coppice", Date: &at}, dir); err != nil {
				return err
			}
			_, err := fmt.Fprintf(w.Out, "man pages are in %s: man -M %s %s\n", dir, out, root.Name())
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write into (required)")
	_ = cmd.MarkFlagRequired("out") // the flag exists
	return cmd
}
