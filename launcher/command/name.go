package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"coppice/internal/page"
	"coppice/internal/program"
	"coppice/launcher/internal/cli"
)

// RunAs is RunAll for a program of another name.
func RunAs(name, version string, args []string) int { return run(name, version, args, true) }

// calledEnv carries what the caller typed to the process that a command becomes in the local cloud, which hands down
// nothing that begins with COPPICE_.
const calledEnv = "_COPPICE_CALLED"

// typed returns how a program's commands are to be typed, given how it was called: as the same relative path, such as
// bin/launcher, else by its name. Absolute paths are those of scripts and images, which no one types; one with blanks
// or quotes would not survive a shell.
func typed(called, name string) string {
	if filepath.IsAbs(called) || !strings.Contains(called, "/") || strings.ContainsAny(called, " '\"\\$`") {
		return name
	}
	return called
}

// called is how this program was called.
func called(w *program.World) string {
	if was, ok := w.Env.Lookup(calledEnv); ok {
		return was
	}
	return os.Args[0]
}

// rename replaces the commands in what the program prints, `launcher watch`, by how they are to be typed, `coppice
// watch` or `bin/launcher watch`: in its errors, its pages and, unless that is JSON, its output. A line may end between
// the program's name and the verb's.
func rename(w *program.World, as string) {
	commands := regexp.MustCompile(`launcher(\s+(?:` + strings.Join(cli.Commands(), "|") + `)\b)`)
	names := replaced{commands, strings.ReplaceAll(as, "$", "$$") + "$1"}
	page.Commands = names
	w.Err = w.Err.Renamed(names)
	asJSON := func(arg string) bool { return arg == "--json" || strings.HasPrefix(arg, "--json=") }
	if !slices.ContainsFunc(w.Args, asJSON) { // that is data
		w.Out = w.Out.Renamed(names)
	}
}

// replaced are names that a pattern finds.
type replaced struct {
	*regexp.Regexp
	by string
}

// Replace returns text with the new name in place of each that the pattern finds.
func (r replaced) Replace(text string) string { return r.ReplaceAllString(text, r.by) }
