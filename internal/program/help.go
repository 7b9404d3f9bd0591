package program

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Widths of help: that of the terminal, as far as prose is read easily, or that of a terminal that does not tell.
const (
	widestHelp = 100
	usualWidth = 80
)

// foldHelp makes root and its subcommands fold their help texts and flags to the width of the terminal, at most 100
// columns, or to 80 columns without one.
func foldHelp(w World, root *cobra.Command) {
	width := usualWidth
	if w.Width > 0 {
		width = min(w.Width, widestHelp)
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages",
		fmt.Sprintf(".FlagUsagesWrapped %d", width)))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long, cmd.Example = foldText(cmd.Long, width), foldExamples(cmd.Example, width)
		help(cmd, args)
	})
}

// foldExamples breaks commands that are wider than width, and moves a comment that follows such a command to the line
// above it.
func foldExamples(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if command, remark, found := strings.Cut(line, " # "); found && utf8.RuneCountInString(line) > width {
			lines[i] = "  # " + remark + "\n" + strings.TrimRight(command, " ")
		}
	}
	return WrapCode(strings.Join(lines, "\n"), width, ` \`)
}

// foldText folds the paragraphs of a text. One that has an indented line, such as a part of a file, stays as it is.
func foldText(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if p == "" || strings.ContainsAny(p[:1], " \t") || strings.Contains(p, "\n ") || strings.Contains(p, "\n\t") {
			continue
		}
		paragraphs[i] = Wrap(strings.Join(strings.Fields(p), " "), width)
	}
	return strings.Join(paragraphs, "\n\n")
}
