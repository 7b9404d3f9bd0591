package command

import (
	"io"
	"slices"
	"strings"

	"coppice/internal/program"
	"coppice/launcher/internal/cli"
)

// RunAs is Run for a program of another name, by which it calls itself in what it says: `coppice watch`, where launcher
// says `launcher watch`.
func RunAs(name, version string, args []string) int {
	return run(name, version, args, true, func(w *program.World) {
		var pairs []string
		for _, command := range cli.Commands() {
			pairs = append(pairs, "launcher "+command, name+" "+command)
		}
		names := strings.NewReplacer(pairs...)
		w.Err = program.To(&renaming{w.Err.Raw(), names})
		if !slices.Contains(args, "--json") { // what programs read is data, whatever it looks like
			w.Out = program.To(&renaming{w.Out.Raw(), names})
		}
	})
}

// renaming writes text with other names of commands. None is split between two writes.
type renaming struct {
	to    io.Writer
	names *strings.Replacer
}

func (r *renaming) Write(text []byte) (int, error) {
	if _, err := r.names.WriteString(r.to, string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
