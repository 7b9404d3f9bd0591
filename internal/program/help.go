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

// fold has help texts and flags folded to the width of the terminal. Examples stay lines to copy.
func fold(w World, root *cobra.Command) {
	width := usualWidth
	if w.Width > 0 {
		width = min(w.Width, widestHelp)
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages",
		fmt.Sprintf(".FlagUsagesWrapped %d", width)))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = foldText(cmd.Long, width)
		help(cmd, args)
	})
}

// foldText folds the paragraphs of a text. One that has an indented line, such as a part of a file, stays as it is.
func foldText(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if p == "" || strings.ContainsAny(p[:1], " \t") || strings.Contains(p, "\n ") || strings.Contains(p, "\n\t") {
			continue
		}
		var lines []string
		line := ""
		for _, word := range strings.Fields(p) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
				lines, line = append(lines, line), word
			default:
				line += " " + word
			}
		}
		paragraphs[i] = strings.Join(append(lines, line), "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}
