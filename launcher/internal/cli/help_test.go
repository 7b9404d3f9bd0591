package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandLine matches a command in a list of commands.
var commandLine = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)

// commandsIn returns the commands that a part of a help text lists.
func commandsIn(text string) (names []string) {
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestHelpStartsWithSevenCommands: a newcomer sees first what makes a first model, and every command in some group.
func TestHelpStartsWithSevenCommands(t *testing.T) {
	out := newWorld(t).must("--help")
	_, rest, found := strings.Cut(out, "\nStart, in this order:\n")
	first, rest, _ := strings.Cut(rest, "\n\n")
	got := commandsIn(first)
	slices.Sort(got) // main lists them in their order, tests as cobra does
	if want := []string{"fit", "plan", "predict", "report", "stage", "sweep", "watch"}; !found ||
		!slices.Equal(got, want) {
		t.Errorf("the first group has %v, expected %v", got, want)
	}
	if _, ungrouped, _ := strings.Cut(rest, "\nAdditional Commands:\n"); !slices.Equal(commandsIn(ungrouped),
		[]string{"completion", "help"}) {
		t.Errorf("outside of all groups are %v, expected cobra's own commands", commandsIn(ungrouped))
	}
}

// TestEveryHelpHasAnExample, of the command itself.
func TestEveryHelpHasAnExample(t *testing.T) {
	w := newWorld(t)
	var visit func(path ...string)
	visit = func(path ...string) {
		out := w.must(append(slices.Clone(path), "--help")...)
		_, example, found := strings.Cut(out, "\nExamples:\n")
		if !found || !strings.Contains(example, "launcher "+strings.Join(path, " ")) {
			t.Errorf("the help of %v has no example:\n%s", path, out)
		}
		before, after, _ := strings.Cut(out, "\nExamples:\n") // which are lines to copy
		_, after, _ = strings.Cut(after, "\n\n")
		for _, line := range strings.Split(before+after, "\n") {
			if n := len([]rune(line)); n > 80 {
				t.Errorf("the help of %v has a line of %d characters, want at most the 80 of a terminal that does not "+
					"tell: %s", path, n, line)
			}
		}
		for _, line := range strings.Split(out, "\n") {
			if n := len([]rune(line)); n > 130 {
				t.Errorf("the help of %v has an example of %d characters: %s", path, n, line)
			}
		}
		if _, list, ok := strings.Cut(out, "Commands:\n"); ok && len(path) > 0 {
			list, _, _ = strings.Cut(list, "\n\n")
			for _, name := range commandsIn(list) {
				visit(append(slices.Clone(path), name)...)
			}
		}
	}
	visit()
	for _, name := range commandsIn(w.must("--help")) {
		if name != "help" && name != "completion" { // these are cobra's
			visit(name)
		}
	}
	if out := w.must("stage-task", "--help"); !strings.Contains(out, "--batch") {
		t.Errorf("the help of stage-task does not say what starts it:\n%s", out)
	}
}
