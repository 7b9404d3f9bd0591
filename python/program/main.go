// Command coppice is all four programs in one, for Python's wheel and for installing by hand: it is the program by
// whose name it is called, or the one that its first argument names, and otherwise the launcher.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	aggregator "coppice/aggregator/command"
	launcher "coppice/launcher/command"
	localemu "coppice/localemu/command"
	task "coppice/task/command"
)

// version is set by the linker.
var version = "dev"

// programs are the four programs by name. Each function runs one with its arguments and returns its exit code.
var programs = map[string]func(version string, args []string) int{
	"launcher": launcher.RunAll, "task": task.Run, "aggregator": aggregator.Run, "localemu": localemu.RunAll,
}

// main chooses the program by the name under which it is called, then by its first argument. Without either it is the
// launcher. Called as `coppice trees THREADS`, it scores rows from standard input for the Python package; the number of
// threads is brought into 1 to 1024.
func main() {
	run, args := programs[strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")], os.Args[1:]
	if run == nil && len(args) > 0 && programs[args[0]] != nil {
		run, args = programs[args[0]], args[1:]
	}
	if run == nil && len(args) == 2 && args[0] == "trees" {
		threads, err := strconv.Atoi(args[1])
		if err == nil {
			err = trees(os.Stdin, os.Stdout, min(max(threads, 1), 1024))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "coppice: trees: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if run == nil {
		os.Exit(launcher.RunAs("coppice", version, args))
	}
	os.Exit(run(version, args))
}
