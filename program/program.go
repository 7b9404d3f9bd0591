// Package program is what the command lines of Coppice have in common: the world outside the process as one value, the way
// an error becomes an exit code, and the form of log lines. It knows no error of others by name: each says its class itself (see ExitCode).
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"coppice/cloud"
	"coppice/sweep"
)

// World is everything outside the process, so that a whole command line runs in memory in a test.
type World struct {
	Args     []string
	Env      envconfig.Lookuper
	In       io.Reader // who may be asked; nil where nobody can answer
	Out, Err Output
	Version  string
	Terminal bool // Out is a terminal, of so many columns
	Width    int
	Now      func() time.Time
}

// FromOS is the real world. linked is the version that the linker put into main, "dev" when it did not.
func FromOS(linked string) World {
	w := World{Args: os.Args[1:], Env: envconfig.OsLookuper(), Out: To(os.Stdout), Err: To(os.Stderr), Version: buildVersion(linked), Now: time.Now}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		w.In = os.Stdin
	}
	fd := int(os.Stdout.Fd())
	if term.IsTerminal(fd) {
		w.Terminal = true
		w.Width, _, _ = term.GetSize(fd)
	}
	return w
}

// buildVersion falls back on what the go command knows of the commit.
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

// Structured says whether what a program has to say goes to a collector of logs rather than to a person: COPPICE_LOG=json.
func (w *World) Structured() bool {
	if w.Env == nil {
		return false
	}
	form, _ := w.Env.Lookup("COPPICE_LOG")
	return form == "json"
}

// Interrupted is a context that ends with Ctrl-C and with SIGTERM, which Batch, Cloud Run and Spot machines send before
// the end.
func Interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// ErrInterrupted is wrapped by what a command has to say about having been interrupted.
var ErrInterrupted = errors.New("interrupted")

// Group makes cmd, which has commands below it, refuse words that are none of them; alone it prints its help.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// Execute runs one command line and returns the exit code.
func Execute(ctx context.Context, w World, root *cobra.Command) int {
	root.Version = w.Version
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetArgs(w.Args)
	root.SetOut(w.Out)
	root.SetErr(w.Err)
	root.SetFlagErrorFunc(wrongFlag)
	explain(root)

	err := root.ExecuteContext(ctx)
	if err == nil {
		return sweep.ExitOK
	}

	code := ExitCode(ctx, err)

	// An interruption needs no explanation, unless the command has something to say about it.
	if code == sweep.ExitInterrupt && !errors.Is(err, ErrInterrupted) {
		fmt.Fprintf(w.Err, "%s: interrupted\n", root.Name())
		return code
	}

	if w.Structured() {
		Logger(w.Err, Origin{Program: root.Name(), Version: w.Version}).Error(Brief(err.Error()), "exit_code", code)
		return code
	}

	fmt.Fprintf(w.Err, "%s: %s\n", root.Name(), Brief(Redact(err.Error())))
	return code
}

// UsageError is a wrong flag or argument.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef is a *UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Environment fills target, a struct with env tags, from the world's environment. What is missing is a *cloud.SetupError
// with the remedy, and so are credentials that are a service account's key.
func (w *World) Environment(ctx context.Context, target any, remedy string) error {
	if err := w.refuseKeys(); err != nil {
		return err
	}
	err := envconfig.ProcessWith(ctx, &envconfig.Config{Target: target, Lookuper: w.Env})
	if errors.Is(err, envconfig.ErrMissingRequired) { // without the names of our fields before it
		text := err.Error()
		err = errors.New(text[max(0, strings.LastIndex(text, envconfig.ErrMissingRequired.Error())):])
	}
	if c, ok := target.(interface{ Check() error }); ok && err == nil {
		err = c.Check() // an empty value passes envconfig's required
	}
	if err != nil {
		return &cloud.SetupError{What: "the environment is incomplete", Hint: remedy, Err: err}
	}
	return nil
}
