package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
)

// programEnv has the test be the program, to ask it for its help.
const programEnv = "COPPICE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var (
	inline  = regexp.MustCompile("`([^`]*)`")
	comment = regexp.MustCompile(`\s#.*|[|;&"].*`)
	verb    = regexp.MustCompile(`^[a-z]+$`)
	flag    = regexp.MustCompile(`(?:^| )(--[a-z][a-z-]*)`)
	other   = regexp.MustCompile(`^\s*(?:bin/)?(?:launcher|task|aggregator|localemu) [a-z]+`)
)

// TestPagesNameCommands: each `coppice VERB --flag` that a page tells a reader to type is one that the program knows.
func TestPagesNameCommands(t *testing.T) {
	helps, asked := map[string]string{}, 0
	for page, text := range pages(t) {
		var commands []string
		for _, line := range code(text) {
			if said := other.FindString(line); said != "" {
				t.Errorf("%s says %q: name the program as it is installed, coppice", page, said)
			}
			for _, part := range strings.Split(" "+line, " coppice ")[1:] {
				part, _, _ = strings.Cut(part, " -- ")
				commands = append(commands, comment.ReplaceAllString(part, ""))
			}
		}
		for _, command := range commands {
			words := strings.Fields(command)
			if len(words) == 0 || !verb.MatchString(words[0]) {
				continue // coppice alone
			}
			path := words[:1]
			parent := programs[words[0]] != nil || words[0] == "registry" || words[0] == "datasets"
			if parent && len(words) > 1 && verb.MatchString(words[1]) {
				path = words[:2]
			}
			name := strings.Join(path, " ")
			if _, found := helps[name]; !found {
				helps[name] = help(t, path)
			}
			asked++
			usage := "\n  coppice " + name
			if programs[words[0]] != nil {
				usage = "\n  " + name
			}
			if !slices.Contains(path, "help") && !strings.Contains(helps[name], usage) {
				t.Errorf("%s: there is no command `coppice %s`", page, name)
				continue
			}
			for _, m := range flag.FindAllStringSubmatch(command, -1) {
				if !regexp.MustCompile(`\s` + m[1] + `\b`).MatchString(helps[name]) {
					t.Errorf("%s: `coppice %s` has no flag %s, in %q", page, name, m[1], command)
				}
			}
		}
	}
	if asked < 100 {
		t.Errorf("only %d commands were found in pages", asked)
	}
}

// pages are the project's, but for those that tell of the past.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root, found := filepath.Join("..", ".."), map[string]string{}
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "build" || name == "bin" || strings.HasPrefix(name, ".") && name != ".."):
			return fs.SkipDir
		case filepath.Ext(path) != ".md" || name == "LAB.md" || name == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	}))
	return found
}

// code is a page's lines of code, of which Python's are left out, and what stands in backquotes.
func code(page string) (lines []string) {
	language, prose := "", []string{}
	for line := range strings.SplitSeq(page, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && language == "":
			language = line
		case fence:
			language = ""
		case language == "```python":
		case language != "" || strings.HasPrefix(line, "    "):
			lines = append(lines, strings.NewReplacer(`"`, " ", "`", " ", "(", " ").Replace(line))
		default:
			prose = append(prose, line)
		}
	}
	for _, m := range inline.FindAllStringSubmatch(strings.Join(prose, " "), -1) {
		lines = append(lines, m[1])
	}
	return lines
}

func help(t *testing.T, path []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(slices.Clone(path), "--help")...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("coppice %s --help: %v", strings.Join(path, " "), err)
	}
	return string(out)
}
