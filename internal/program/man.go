package program

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
			root.DisableAutoGenTag = true // which has the date
			if err := writePages(root, root.Name()+" "+w.Version, dir); err != nil {
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

// writePages writes the page of a command, and those of its subcommands. The pages are dated by the version alone: a
// date would make other bytes every month.
func writePages(cmd *cobra.Command, source, dir string) error {
	for _, child := range cmd.Commands() {
		if !child.IsAvailableCommand() || child.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := writePages(child, source, dir); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	never := time.Time{}
	if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: source, Manual: "Coppice", Date: &never},
		&page); err != nil {
		return err
	}
	text := strings.Replace(page.String(), never.Format("Jan 2006"), "", 1)
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
}
