// Package program is what Coppice's command lines share: the world outside the process as one value, the mapping from
// errors to exit codes, and the form of log lines. It does not know other packages' errors by name: each error states
// its own class (see ExitCode).
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"coppice/internal/cloud"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// World is everything outside the process, so that a test can run a whole command line in memory.
type World struct {
	Args     []string
	Env      envconfig.Lookuper
	In       io.Reader // for questions; nil if there is no one to answer
	Out, Err Output
	Version  string
	Terminal bool // Out is a terminal with this many columns
	Width    int
	ErrWidth int        // columns of the terminal that Err is, or 0
	Columns  func() int // those of Out now, as its window may have another size than at the start; may be nil
	Now      func() time.Time
}

// FromOS returns the real world. linked is the version that the linker set in main, or "dev".
func FromOS(linked string) World {
	w := World{Args: os.Args[1:], Env: envconfig.OsLookuper(), Out: To(os.Stdout), Err: To(os.Stderr),
		Version: buildVersion(linked), Now: time.Now}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		w.In = os.Stdin
	}
	fd := int(os.Stdout.Fd())
	if term.IsTerminal(fd) {
		w.Terminal = true
		w.Columns = func() int { return terminalWidth(fd) }
		w.Width = w.Columns()
	}
	w.ErrWidth = terminalWidth(int(os.Stderr.Fd()))
	return w
}

// terminalWidth returns how many columns a terminal has, or 0 if the file is not a terminal.
func terminalWidth(fd int) int {
	width, _, err := term.GetSize(fd)
	if err != nil {
		return 0
	}
	return width
}

// buildVersion returns the version that the linker set. If none was set ("dev"), it adds the first 12 digits of the
// commit, where the go command has recorded one.
func buildVersion(linked string) string {
	info, ok := debug.ReadBuildInfo()
	if linked != "dev" || !ok {
		return linked
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "dev-" + s.Value[:min(len(s.Value), 12)]
		}
	}
	return linked
}

// Structured reports whether messages go to a log collector rather than to a person: COPPICE_LOG=json.
func (w *World) Structured() bool {
	if w.Env == nil {
		return false
	}
	form, _ := w.Env.Lookup("COPPICE_LOG")
	return form == "json"
}

// Interrupted returns a context that ends with Ctrl-C or SIGTERM, which Batch, Cloud Run and Spot machines send before
// they stop a process.
func Interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// ErrInterrupted is wrapped by errors that explain an interruption to the user.
var ErrInterrupted = errors.New("interrupted")

// Group makes cmd, a parent command, reject unknown subcommands; without arguments it prints its help.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// Execute runs the command line w.Args with the commands below root, and returns the exit code. It changes root: how it
// prints help and which errors it makes of wrong arguments. An error is printed here and nowhere else, on w.Err, with
// long values cut and secrets removed: as one line of JSON if logs are JSON (see Structured), else in words.
func Execute(ctx context.Context, w World, root *cobra.Command) int {
	root.Version = w.Version
	root.SilenceUsage, root.SilenceErrors, root.DisableSuggestions = true, true, true
	root.SetArgs(w.Args)
	root.SetOut(w.Out)
	root.SetErr(w.Err)
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(versionCommand(w))
	foldHelp(w, root)
	explain(root)

	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return sweep.ExitOK
	}
	err = missingFlags(cmd, unknownCommand(cmd, err))

	code := ExitCode(ctx, err)
	if err.Error() == "" { // the program's child has said why
		return code
	}

	// An interruption is not explained, unless the command's error does so.
	if code == sweep.ExitInterrupt && !errors.Is(err, ErrInterrupted) {
		fmt.Fprintf(w.Err, "%s: interrupted\n", root.Name())
		return code
	}

	if w.Structured() {
		Logger(w.Err, LogOrigin{Program: root.Name(), Version: w.Version}).Error(Brief(err.Error()), "exit_code", code)
		return code
	}

	fmt.Fprintln(w.Err, Wrap(root.Name()+": "+Brief(Redact(err.Error())), w.ErrWidth))
	return code
}

// Usagef returns an error about a wrong flag or argument.
func Usagef(format string, args ...any) error {
	return problem.As(problem.Usage, fmt.Errorf(format, args...))
}

// Environment fills target, a pointer to a struct with env tags, from the world's environment. COPPICE_PROJECT has to
// be set if target has a NeedsProject that says so, and its Check is called if it has one. Missing or wrong variables
// are a *cloud.SetupError with the remedy, and so are credentials that are a service account key.
func (w *World) Environment(ctx context.Context, target any, remedy string) error {
	if err := w.refuseKeys(); err != nil {
		return err
	}

	// envconfig names one missing variable at a time. Each is set to "0" for the next try, until none is missing, so
	// that the error can name all of them.
	missing, lacked := map[string]string{}, envconfig.ErrMissingRequired.Error()+": "
	env := envconfig.MultiLookuper(w.Env, envconfig.MapLookuper(missing))
	err := envconfig.ProcessWith(ctx, &envconfig.Config{Target: target, Lookuper: env})
	for errors.Is(err, envconfig.ErrMissingRequired) {
		missing[err.Error()[strings.LastIndex(err.Error(), lacked)+len(lacked):]] = "0"
		err = envconfig.ProcessWith(ctx, &envconfig.Config{Target: target, Lookuper: env})
	}

	// What only the target can tell, once it is filled: whether it needs a project, and whether its values are right.
	if p, ok := target.(interface{ NeedsProject() bool }); ok && err == nil && p.NeedsProject() {
		missing["COPPICE_PROJECT"] = ""
	}
	if len(missing) > 0 {
		err = errors.New(lacked + strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	if c, ok := target.(interface{ Check() error }); ok && err == nil {
		err = c.Check() // envconfig's required accepts an empty value
	}
	if err != nil {
		return &cloud.SetupError{What: "the environment is incomplete", Hint: remedy, Err: err}
	}
	return nil
}
