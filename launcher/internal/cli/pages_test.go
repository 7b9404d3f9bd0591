package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan  = regexp.MustCompile("(?s)`([^`]+)`")
	typedHere = regexp.MustCompile(`(?:^|[ /&|;(])(?:coppice|launcher) ([a-z-]+(?: .*)?)$`)
	flagHere  = regexp.MustCompile(`(?:^| )--([a-z][a-z-]*)`)
)

// TestPagesNameCommands: what the pages say to type has verbs and flags that exist. LAB.md and CHANGELOG.md tell of
// those that are gone.
func TestPagesNameCommands(t *testing.T) {
	const root = "../../.."
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") && name != ".." || name == "build"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || name == "LAB.md" || name == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, code := range codeOf(string(text)) {
			if m := typedHere.FindStringSubmatch(code); m != nil {
				found++
				if wrong := wrongCommand(m[1]); wrong != "" {
					t.Errorf("%s: `%s`: %s", strings.TrimPrefix(path, root+"/"), m[0], wrong)
				}
			}
		}
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d commands were found in pages (%v), expected at least 100", found, err)
	}
}

// codeOf are the lines of a page's blocks and the spans within its paragraphs, of one line each.
func codeOf(page string) (code []string) {
	lines := func(block string) {
		for _, line := range strings.Split(block, "\n") {
			if !strings.HasPrefix(line, "import ") { // of Python
				code = append(code, strings.Join(strings.Fields(line), " "))
			}
		}
	}
	page = fenced.ReplaceAllStringFunc(page, func(block string) string {
		lines(block)
		return ""
	})
	for _, paragraph := range strings.Split(page, "\n\n") {
		if strings.HasPrefix(paragraph, "    ") {
			lines(paragraph)
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(paragraph, -1) {
			code = append(code, strings.Join(strings.Fields(m[1]), " "))
		}
	}
	return code
}

// wrongCommand says which verb or flag of a command line does not exist.
func wrongCommand(line string) string {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " && ")
	words := strings.Fields(line)
	if slices.Contains([]string{"task", "aggregator", "localemu"}, words[0]) {
		return "" // another program
	}
	command := rootCommand(&Setup{})
	command.InitDefaultCompletionCmd()
	for len(words) > 0 && command.HasSubCommands() {
		i := slices.IndexFunc(command.Commands(), func(c *cobra.Command) bool { return c.Name() == words[0] })
		if i < 0 {
			if command.HasParent() && !regexp.MustCompile(`^[a-z]+$`).MatchString(words[0]) {
				break
			}
			return "there is no command " + words[0]
		}
		command, words = command.Commands()[i], words[1:]
	}
	for _, m := range flagHere.FindAllStringSubmatch(strings.Join(words, " "), -1) {
		if name := m[1]; name != "help" && command.Flags().Lookup(name) == nil {
			return command.Name() + " has no flag --" + name
		}
	}
	return ""
}
