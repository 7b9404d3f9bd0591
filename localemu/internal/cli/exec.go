package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/atomicfile"
	"coppice/internal/program"
	"coppice/localemu/internal/proc"
	"coppice/localemu/internal/world"
)

// Exit codes for a command that did not run, as in shells.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// commandGrace is how long the command may take to end after the local cloud has failed.
const commandGrace = 10 * time.Second

// execCommand is `localemu exec`.
func execCommand(s *State) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENTS]",
		Short: "Run a command inside the local cloud and end with its exit code",
		Long: `exec starts the local cloud, runs the command in it, stops everything when the command has ended, and
returns the command's exit code. The command finds the local cloud through its environment (COPPICE_*,
STORAGE_EMULATOR_HOST, PUBSUB_EMULATOR_HOST). Signals are passed to the command; a second one kills it (at a terminal,
where Ctrl-C reaches the command directly, the third).`,
		Example: `  localemu exec -- launcher sweep sweep.yaml
  localemu exec --data build/cloud -- sh -c 'launcher stage dataset.yaml && launcher sweep sweep.yaml'
  localemu exec --faults faults.yaml --aggregators 2 -- launcher sweep sweep.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || c.ArgsLenAtDash() != 0 {
				return usage("exec needs a command after --: localemu exec -- COMMAND [ARGUMENTS]")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return runExec(c.Context(), s, &f, args) },
	}

	f.add(c)
	c.Flags().BoolVar(&f.wait, "wait", false,
		"wait for another command that uses the --data folder, instead of failing")
	return c
}

// runExec runs a command in a local cloud of its own, which it closes afterwards. It returns nil if the command's exit
// code is 0, else an exitError with that code. args are the command's name and its arguments.
func runExec(ctx context.Context, s *State, f *flags, args []string) error {
	// A command that does not exist is reported before anything is started.
	path, err := exec.LookPath(args[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &exitError{exitNotFound, err}
	case err != nil:
		return &exitError{exitNotExecutable, err}
	}

	o, err := f.options(s)
	if err != nil {
		return err
	}
	w, err := start(ctx, s, o)
	if err != nil {
		return err
	}
	defer w.Close()
	env := w.Environ(s.Env)
	if f.data != "" { // the folder stays, and a launcher says that it left something there
		env = append(env, "COPPICE_LOCAL="+w.Data())
	}
	p, err := w.Procs().Start(proc.Command{
		Path: path, Args: args[1:], Env: env, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
		Shared: s.Terminal,
	})
	if err != nil {
		return &exitError{exitNotExecutable, err}
	}

	code, err := accompany(s, w, p)
	if err != nil || code != 0 {
		return &exitError{code, err}
	}
	return nil
}

// start starts the local cloud. With --wait that may take as long as another command uses the data folder; a signal
// ends the waiting, and the error has the exit code of a program that the signal killed.
func start(ctx context.Context, s *State, o world.Options) (*world.World, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan struct{})
	var told os.Signal
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case told = <-s.Signals:
			cancel()
		case <-started:
		}
	})
	w, err := world.Start(ctx, o)
	close(started)
	listening.Wait()
	if told == nil {
		return w, err
	}
	if err == nil { // it had started just before the signal came
		w.Close()
	}
	number, _ := told.(syscall.Signal)
	return nil, &exitError{128 + int(number), errors.New("ended before the local cloud was there")}
}

// accompany waits for the command to end and returns its exit code. Until then it passes signals on to it. If the local
// cloud fails, it stops the command and returns an error.
func accompany(s *State, w *world.World, p *proc.Process) (code int, err error) {
	asked := 0
	for {
		select {
		case <-p.Done():
			return p.ExitCode(), nil

		case err := <-w.Failed():
			select {
			case <-p.Done(): // it has just ended by itself
				return p.ExitCode(), nil
			default:
			}

			p.Stop(commandGrace)
			return program.ExitCode(context.Background(), err), fmt.Errorf("the local cloud failed, so the "+
				"command was stopped: %w", err)

		case sig := <-s.Signals:
			asked++
			passSignal(s, p, sig, asked)
		}
	}
}

// passSignal forwards a signal to the command. asked is how many signals have come so far, with this one: the second
// one kills the command, at a terminal the third. There, Ctrl-C has reached the command already and is not forwarded.
func passSignal(s *State, p *proc.Process, sig os.Signal, asked int) {
	number, ok := sig.(syscall.Signal)
	switch {
	case !ok:
	case asked > 2 || asked > 1 && !s.Terminal:
		p.Kill()
	case s.Terminal && number == syscall.SIGINT:
	default:
		p.Signal(number)
	}
}

// upCommand is `localemu up`.
func upCommand(s *State) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "up --data DIR [flags]",
		Short: "Keep the local cloud running until Ctrl-C",
		Long: `up starts the local cloud on a folder and keeps it running until Ctrl-C. It prints the settings
with which other terminals find it, and writes them to DIR/env.`,
		Example: `  localemu up --data build/cloud --port-base 9500
  . build/cloud/env && launcher sweep sweep.yaml        # in another terminal`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runUp(c.Context(), s, &f) },
	}

	f.add(c)
	return c
}

// runUp starts the local cloud, prints its settings and writes them to a file in its data folder, and keeps it until a
// signal comes or it fails. The file is removed at the end.
func runUp(ctx context.Context, s *State, f *flags) error {
	if f.data == "" {
		return usage("give --data, the folder that keeps the local cloud: localemu up --data DIR")
	}
	o, err := f.options(s)
	if err != nil {
		return err
	}
	w, err := world.Start(ctx, o)
	if err != nil {
		return err
	}
	defer w.Close()

	env, path, err := writeSettings(w)
	if err != nil {
		return err
	}
	defer os.Remove(path) // its addresses are dead by then

	fmt.Fprint(s.out(), env)
	fmt.Fprintf(s.err(), "localemu: the local cloud is up; in another terminal: . %s\nlocalemu: Ctrl-C stops it\n",
		program.ShellQuote(path))
	select {
	case err := <-w.Failed():
		return err
	case <-s.Signals:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeSettings writes the file through which other processes find the local cloud while it is up. It returns the
// file's content (env, lines for a shell) and its path.
func writeSettings(w *world.World) (env, path string, err error) {
	env, path = exports(w.Env()), filepath.Join(w.Data(), world.SettingsFile)
	if err := atomicfile.Write(path, []byte(env), 0o644); err != nil {
		return "", "", fmt.Errorf("write settings to %s: %w", path, err)
	}
	return env, path, nil
}

// exports returns the variables, NAME=VALUE, as lines for a shell, which gives each exactly this value.
func exports(env []string) string {
	var out strings.Builder
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&out, "export %s=%s\n", name, program.ShellQuote(value))
	}
	return out.String()
}
