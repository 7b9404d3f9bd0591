// Package cli is localemu's command line.
package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
	"coppice/localemu/batchemu"
	"coppice/localemu/internal/world"
)

// State is what localemu gets from its environment.
type State struct {
	Args   []string // without the program's name
	Env    []string
	Stdin  *os.File
	Stdout *os.File
	Stderr *os.File
	// standard input is a terminal; a command started there receives the terminal's signals itself
	Terminal   bool
	Signals    <-chan os.Signal // SIGINT, SIGTERM and SIGHUP
	Executable string           // localemu's own path: other binaries are expected beside it
	All        bool             // it is the other programs, too, by their names
	Called     string           // how it was started
	Version    string
}

// out and err are for localemu's own output; the command of exec gets the files.
func (s *State) out() program.Output { return program.To(s.Stdout).Renamed(s.typedCommands()) }
func (s *State) err() program.Output { return program.To(s.Stderr).Renamed(s.typedCommands()) }

// typedCommands replaces the names of commands in localemu's output by what its user types: "coppice sweep" in place of
// "launcher sweep" if it was started by the name coppice, as the executable that is all four programs. The last pair
// leaves a command that says "coppice localemu" already as it is.
func (s *State) typedCommands() *strings.Replacer {
	if !s.All || !strings.HasPrefix(filepath.Base(s.Called), "coppice") {
		return strings.NewReplacer()
	}
	var pairs []string
	for _, verb := range []string{"doctor", "fit", "serve", "stage", "sweep"} {
		pairs = append(pairs, "launcher "+verb, "coppice "+verb)
	}
	return strings.NewReplacer(append(pairs, "localemu exec", "coppice localemu exec", "localemu up",
		"coppice localemu up", "coppice localemu", "coppice localemu")...)
}

// exitError is the end of a command with an exit code of its own. Without a cause nothing is shown.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// ExitStatus returns the program's exit code.
func (e *exitError) ExitStatus() int { return e.code }

// Run executes one command line and returns the exit code.
func Run(ctx context.Context, s State) int {
	root := &cobra.Command{
		Use:   "localemu",
		Short: "The cloud on one machine: Storage, Pub/Sub and Batch for Coppice",
		Long: `localemu serves Google Cloud Storage, Pub/Sub and Batch on this machine, creates the buckets, topics and
subscriptions that Coppice expects, and runs the aggregator. Batch tasks run as processes on pretend machines, each
with its own folder as local SSD. Everything listens on 127.0.0.1 only.`,
	}

	root.AddCommand(execCommand(&s), upCommand(&s), &cobra.Command{
		Use:   "faults",
		Short: "The format of the --faults file of planned faults",
		Long: "A file for --faults. All keys are optional. In match, * stands for one part of a name and ** for " +
			"any number of parts.\n\n" + world.FaultsExample,
	})

	return program.Execute(ctx, program.World{Args: s.Args, Out: s.out(), Err: s.err(), Version: s.Version,
		Now: time.Now}, root)
}

// flags are those of the commands that bring the local cloud up.
type flags struct {
	data        string
	logDir      string
	portBase    int
	images      []string
	containers  string
	aggregator  string
	aggregators int
	faults      string
	wait        bool
}

// add adds the flags that exec and up have in common: all but wait, which exec adds.
func (f *flags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.data, "data", "",
		"folder for buckets, machines and logs (default: a temporary one, removed at the end)")
	fs.StringVar(&f.logDir, "log", "", "folder for logs, one file for every process (default DATA/logs)")
	fs.IntVar(&f.portBase, "port-base", 0,
		"first of four ports: Storage, Pub/Sub, Batch, and the REST calls of launcher doctor (default any that are "+
			"free)")
	fs.StringArrayVar(&f.images, "image", nil,
		"NAME=PATH: the program that runs in place of a container image; repeatable (default "+world.TaskImage+
			"=the task program next to localemu, "+world.LauncherImage+"=the launcher next to it)")
	fs.StringVar(&f.containers, "containers", "", "run tasks as containers with this tool: "+
		strings.Join(batchemu.ContainerTools(), ", ")+
		"; --image NAME=IMAGE then gives the tool's name for an image (needs root)")
	fs.StringVar(&f.aggregator, "aggregator", "",
		"aggregator program, run as \"PATH serve\", or none (default the one next to localemu)")
	fs.IntVar(&f.aggregators, "aggregators", 1,
		"how many aggregators to run; the result must be the same for any number")
	fs.StringVar(&f.faults, "faults", "", "YAML file with planned faults (localemu help faults)")
}

// options checks the flags and turns them into the local cloud's options. It reads the file of faults, but starts
// nothing.
func (f *flags) options(s *State) (world.Options, error) {
	o := world.Options{
		Data: f.data, LogDir: f.logDir, PortBase: f.portBase, Aggregators: f.aggregators, Environ: s.Env,
		Stderr: s.err(), Version: s.Version,
	}

	for flag, folder := range map[string]string{"--data": f.data, "--log": f.logDir} {
		if err := program.CheckOutFolder(flag, folder); folder != "" && err != nil {
			return o, problem.As(problem.Usage, err)
		}
	}
	if f.portBase < 0 || f.portBase > 65532 { // the last of four ports is 65535; 0 is any that are free
		return o, usage("--port-base %d: use 1 to 65532", f.portBase)
	}
	if f.aggregators < 1 || f.aggregators > 20 {
		return o, usage("--aggregators %d: use 1 to 20; --aggregator none runs none", f.aggregators)
	}
	if f.containers != "" && !slices.Contains(batchemu.ContainerTools(), f.containers) {
		return o, usage("--containers %q: use one of %s", f.containers, strings.Join(batchemu.ContainerTools(), ", "))
	}

	o.Containers, o.Wait = f.containers, f.wait
	var err error
	if o.Images, err = f.imageMap(s); err != nil {
		return o, err
	}
	if o.Aggregator, err = f.aggregatorPath(s); err != nil {
		return o, err
	}

	o.Names = s.programNames(o)
	if f.faults != "" {
		data, err := strictyaml.ReadFile(f.faults)
		if err != nil {
			return o, fmt.Errorf("--faults: %w", err)
		}
		if o.Faults, err = world.ParseFaults(f.faults, data); err != nil {
			return o, err
		}
	}
	return o, nil
}

func usage(format string, args ...any) error {
	return problem.New(problem.Usage, format, args...)
}

// imageMap returns what each container image stands for: a local program or, with --containers, the tool's name of an
// image. Images that --image does not name get the task program and the launcher next to localemu. Without a task
// program it warns; jobs with the task image will then be refused. With --containers, an image that is not named has
// its own name in the tool, too, and is left out.
func (f *flags) imageMap(s *State) (map[string]string, error) {
	images := map[string]string{}
	for _, entry := range f.images {
		name, path, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, usage("--image %q: use NAME=PATH", entry)
		}

		if f.containers != "" {
			images[name] = path
			continue
		}
		path, err := executable(path)
		if err != nil {
			return nil, usage("--image %s: %v", name, err)
		}
		images[name] = path
	}
	if f.containers != "" {
		return images, nil
	}

	// The launcher's image is needed only to stage in the cloud. A job that needs it and finds none is refused with a
	// message that says what to do, so there is no warning here.
	if images[world.LauncherImage] == "" {
		if path, err := s.beside("launcher"); err == nil {
			images[world.LauncherImage] = path
		}
	}
	if images[world.TaskImage] != "" {
		return images, nil
	}

	path, err := s.beside("task")
	if err != nil {
		fmt.Fprintf(s.err(), "localemu: no task program (%v): Batch jobs with the image %s will be refused\n", err,
			world.TaskImage)
		return images, nil
	}
	images[world.TaskImage] = path
	return images, nil
}

// aggregatorPath is the program that --aggregator names, or the one next to localemu; empty, without an error, for
// none.
func (f *flags) aggregatorPath(s *State) (found string, err error) {
	switch path := f.aggregator; path {
	case "none":
		return "", nil
	case "":
		found, err = s.beside(world.AggregatorName)
	default:
		found, err = executable(path)
	}
	if err != nil {
		return "", usage("no aggregator: %v; build it next to localemu, or give --aggregator PATH or --aggregator none",
			err)
	}
	return found, nil
}

// beside returns the path of another of the four programs, next to localemu's own executable; that executable itself
// if it is all four.
func (s *State) beside(name string) (string, error) {
	if s.All {
		return s.Executable, nil
	}
	return executable(filepath.Join(filepath.Dir(s.Executable), name))
}

// programNames returns by which name (argv[0]) to start each image's program and the aggregator, as far as they are the
// one executable that is all four programs. Others need no name and are left out.
func (s *State) programNames(o world.Options) map[string]string {
	names := map[string]string{}
	for key, name := range map[string]string{world.TaskImage: "task", world.LauncherImage: "launcher"} {
		if s.All && o.Images[key] == s.Executable {
			names[key] = name
		}
	}
	if s.All && o.Aggregator == s.Executable {
		names[world.AggregatorName] = world.AggregatorName
	}
	return names
}

// executable returns the absolute path of a program, or an error if there is no regular file at path that may be
// executed. On Windows, ".exe" is added to a path without an extension, and no mode is looked at.
func executable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if runtime.GOOS == "windows" && filepath.Ext(path) == "" {
		path += ".exe"
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 && runtime.GOOS != "windows" {
		return "", fmt.Errorf("%s is not a program", path)
	}
	return path, nil
}
