package program_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"coppice/internal/program"
)

// TestHelpFitsTheTerminal: paragraphs and flags are folded to the terminal's width, and to 80 if it does not tell; what
// has an indented line stays as it is.
func TestHelpFitsTheTerminal(t *testing.T) {
	verbatim := "seed: 7\nlist:\n  key: " + strings.Repeat("x", 100) + "\nmore: 1\n"
	long := strings.Repeat("Many words of a help text, ", 12) + "\nand the end.\n\n" + verbatim
	for width, most := range map[int]int{0: 80, 75: 75, 120: 100, 300: 100} {
		var out bytes.Buffer
		root := &cobra.Command{Use: "tool", Long: long, RunE: func(*cobra.Command, []string) error { return nil }}
		root.Flags().String("name", "", strings.Repeat("words of a flag ", 20))
		w := program.World{Args: []string{"--help"}, Out: program.To(&out), Err: program.To(&out), Width: width}
		if code := program.Execute(t.Context(), w, root); code != 0 {
			t.Fatalf("tool --help: exit code %d", code)
		}
		longest := 0
		for line := range strings.SplitSeq(out.String(), "\n") {
			if !strings.HasPrefix(line, "  key:") {
				longest = max(longest, len(line))
			}
		}
		if longest > most || longest < most-15 {
			t.Errorf("on a terminal of %d columns the longest line has %d, want about %d:\n%s", width, longest, most,
				out.String())
		}
		if !strings.Contains(out.String(), "\n"+verbatim) {
			t.Errorf("on a terminal of %d columns a part of a file is folded:\n%s", width, out.String())
		}
	}
}
