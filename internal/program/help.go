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

// foldText folds the paragraphs of a text. Lines that are indented stay as they are.
func foldText(text string, width int) string {
	var out, paragraph []string
	end := func() {
		line := ""
		for _, word := range strings.Fields(strings.Join(paragraph, " ")) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
				out, line = append(out, line), word
			default:
				line += " " + word
			}
		}
		if line != "" {
			out = append(out, line)
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		out = append(out, line)
	}
	end()
	return strings.Join(out, "\n")
}
