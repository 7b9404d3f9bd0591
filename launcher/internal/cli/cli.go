// Package cli is the launcher's command line, one file per command. A command reads its flags, opens the cloud, has the
// packages beside this one read and decide, and prints with package show:
//
//	flags ─▶ Setup.withCloud ─▶ plan, sweepview, stager, registry, ... ─▶ show, or JSON with --json
//
// The number of a command's arguments is checked by its Use line before RunE is called (program.Execute): in "show
// MODEL" args[0] is there, in "list [MODEL]" it may not be.
//
// Commands are plain functions over Setup: they touch nothing outside the process except through it, so that a test
// runs a whole command line in memory.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/notify"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/report"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// Setup is everything outside the process.
type Setup struct {
	program.World
	// Connect opens the cloud, or its emulation.
	Connect func(context.Context, Env) (*Backends, error)
	// Callers authenticates the callers of a console that other machines can reach.
	Callers func(context.Context, environment.CallersEnv) (program.Callers, error)
	// Inspect opens what the doctor examines.
	Inspect func(context.Context, Env) (doctor.Cloud, error)

	// Local continues with the command line in a local cloud on a folder, and returns only if it cannot; nil where
	// there is none.
	Local func(folder string, args []string) error

	// Name is what the program is called, if not launcher.
	Name string

	asJSON bool   // --json
	local  string // folder of the local cloud that a command makes if there is no other cloud
	*cloud        // nil unless it is open
}

// Env is the launcher's environment.
type Env struct {
	environment.Deployment
	environment.BatchEnv
}

// Backends are the services that the launcher uses.
type Backends struct {
	Bucket func(name string) blob.Store
	Jobs   SweepJobs
	Tasks  cloudjob.Jobs // jobs that run the launcher itself
	Free   bool          // jobs have no price: a cluster's
	Links  report.Links  // the engine's own pages; nil if it has none
	// Warehouse opens BigQuery; nil without a project. USDPerTiB is what it asks for reading.
	Warehouse func(context.Context) (stager.Warehouse, error)
	USDPerTiB float64
	// Verdicts opens the channels for notifying people of a night's outcome; nil if there are none.
	Verdicts func(context.Context) (channels []notify.Channel, closeAll func(), err error)
	// Conclude has the aggregator look whether sweeps are over; nil where messages tell it to.
	Conclude func(context.Context) error
	Close    func() error
}

// SweepJobs runs plans.
type SweepJobs interface {
	// Name is the full name of a sweep's job.
	Name(sweep.ID) string
	// Request is the job in the service's JSON format, for people.
	Request(*sweep.Plan) ([]byte, error)
	provision.JobRunner
}

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, outside Setup) int {
	return program.Execute(ctx, outside.World, rootCommand(&outside))
}

// Commands returns the names of all commands, as they are typed after the program's.
func Commands() []string {
	var names []string
	for _, c := range rootCommand(&Setup{}).Commands() {
		names = append(names, c.Name())
	}
	return names
}

// rootCommand returns the launcher's command line: all commands, in the groups that the help shows, and the hidden one
// that Batch jobs run.
func rootCommand(w *Setup) *cobra.Command {
	root := &cobra.Command{
		Use:   cmp.Or(w.Name, "launcher"),
		Short: "Train fifty candidates on one copy of the data, and keep the best",
		Long: `Coppice stages a table as a binned dataset, trains many gradient-boosted candidates on one mapped copy
of it per machine, picks, verifies and calibrates the best, and registers it.

Exit codes: 0 done, 1 unexpected error, 2 wrong flag or argument, 3 unusable spec or data, 4 not found, 5 conflict
with what exists, 6 environment or credentials incomplete, 7 the sweep ended without a winner, 8 tonight's table is
blocked, 9 the winner did not become the champion, 75 a passing fault: run it again, 130 interrupted.`,
		Example: `  launcher fit clicks.csv --label is_click
  launcher stage dataset.yaml
  launcher plan sweep.yaml
  launcher sweep sweep.yaml --budget 12.50
  launcher report nightly-ctr-1a2b3c4d --out sweep.html
  launcher predict --model ctr --in today.parquet --out clicks.csv`,
	}

	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"start", "Start, in this order:", []*cobra.Command{fitCommand(w), stageCommand(w), planCommand(w),
			sweepCommand(w), watchCommand(w), reportCommand(w), predictCommand(w)}},
		{"look", "Look at sweeps:", []*cobra.Command{statusCommand(w), nightsCommand(w),
			leaderboardCommand(w), billCommand(w), consoleCommand(w)}},
		{"decide", "Decide what happens to a sweep, and in the next night:", []*cobra.Command{cancelCommand(w),
			nightlyCommand(w)}},
		{"keep", "Keep models, datasets and the deployment in order:", []*cobra.Command{serveCommand(w),
			registryCommand(w), datasetsCommand(w), doctorCommand(w), cleanCommand(w)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(stageTaskCommand(w))
	return root
}

// cloud is the launcher's connection to all services.
type cloud struct {
	*Backends
	env      Env
	datasets blob.Store
	sweeps   blob.Store
	registry *registry.Registry
}

const remedy = "run it where `launcher fit` has run, with what `terraform output` prints or, to begin in a new " +
	"folder of this machine, as `COPPICE_LOCAL=coppice-data launcher stage DATASET.yaml`"

// withCloud opens the cloud that the environment names, sets w.cloud, calls use and closes the cloud. If the command
// belongs into a local cloud instead (takesLocal), the whole command line is run again there, and use is not called
// here.
func (w *Setup) withCloud(ctx context.Context, use func() error) (err error) {
	c := &cloud{}
	if folder := w.takesLocal(); folder != "" {
		return w.Local(folder, w.Args)
	}

	// A folder that is named, but in which no command has made a cloud, is a mistake in the environment.
	if folder, _ := w.Env.Lookup("COPPICE_LOCAL"); folder != "" && w.local != inCloud && w.namesNoCloud() {
		return problem.New(problem.Environment, "there is no local cloud yet in %q, which COPPICE_LOCAL names: "+
			"`launcher fit` and `launcher stage` make one", folder)
	}

	if err := w.Environment(ctx, &c.env, remedy); err != nil {
		return err
	}
	if c.Backends, err = w.Connect(ctx, c.env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.datasets = c.Bucket(c.env.DatasetsBucket)
	c.sweeps = c.Bucket(c.env.SweepsBucket)
	c.registry = registry.New(c.Bucket(c.env.RegistryBucket))
	w.cloud = c
	return use()
}

// inCloud is the Setup.local of a command that is to run in the cloud of its environment.
const inCloud = "-"

// takesLocal returns the folder of the local cloud in which the command line has to be run again; "" if it runs where
// it should: in Google's cloud, or in the local one already (emulated). A command that asks for a local cloud (w.local)
// gets it, whatever the environment names. Others get one that exists, if the environment names no other cloud.
func (w *Setup) takesLocal() string {
	_, emulated := w.Env.Lookup("COPPICE_BATCH_ENDPOINT")
	switch {
	case w.Local == nil || w.local == inCloud || emulated:
		return ""
	case w.local != "":
		return w.local
	case w.namesNoCloud():
		return w.localFolder()
	}
	return ""
}

// namesNoCloud reports whether the environment names no cloud at all.
func (w *Setup) namesNoCloud() bool {
	for _, name := range []string{"COPPICE_PROJECT", "COPPICE_DATASETS_BUCKET", "COPPICE_SWEEPS_BUCKET",
		"COPPICE_REGISTRY_BUCKET"} {
		if _, ok := w.Env.Lookup(name); ok {
			return false
		}
	}
	return true
}

// namedFolder is the folder of the local cloud, whether it is there or not.
func (w *Setup) namedFolder() string {
	folder, _ := w.Env.Lookup("COPPICE_LOCAL")
	return cmp.Or(folder, LocalFolder)
}

// localFolder is the folder of the local cloud that an earlier command has made; empty if there is none.
func (w *Setup) localFolder() string {
	folder := w.namedFolder()
	if _, err := os.Stat(filepath.Join(folder, "lock")); err != nil { // localemu's, in every folder that it has made
		return ""
	}
	return folder
}

// readSweep opens the cloud and the sweep that args[0] names, or the newest one if args are empty, which it then names
// to people. It reads the sweep once and calls use with its view and state.
func (w *Setup) readSweep(ctx context.Context, args []string, use func(*sweepview.View, sweepview.State) error) error {
	return w.withCloud(ctx, func() error {
		name := append(args, sweepview.Latest)[0] // the latest, if there is no argument before it
		id, err := sweepview.Find(ctx, w.sweeps, name)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			w.say("%s, the newest sweep:\n", id)
		}
		s, err := sweepview.Open(ctx, w.sweeps, id)
		if err != nil {
			return err
		}
		st, err := s.Look(ctx)
		if err != nil {
			return err
		}
		return use(s, st)
	})
}

// emulated reports whether jobs run in a local cloud, and paid whether their machines cost anything.
func (c *cloud) emulated() bool { return c.env.BatchEndpoint != "" }
func (c *cloud) paid() bool     { return !c.emulated() && !c.Free }

// bucket opens a bucket by its name, for the stager.
func (c *cloud) bucket(_ context.Context, name string) (blob.Store, error) {
	return c.Bucket(name), nil
}

// log writes to the error output for a log collector, when the launcher runs as a Cloud Run job (COPPICE_LOG=json);
// people read what the commands print.
func (w *Setup) log() *slog.Logger {
	if !w.Structured() {
		return slog.New(slog.DiscardHandler)
	}
	return program.Logger(w.Err, program.LogOrigin{Program: "launcher", Version: w.Version, Project: w.env.Project})
}

// screen writes tables for people, as wide as their terminal.
func (w *Setup) screen() show.Printer {
	return show.Printer{Screen: tables.On(w.World), Home: w.cloud != nil && w.emulated()}
}

// stageBar shows the progress of staging, unless the output is JSON.
func (w *Setup) stageBar() *show.StageBar {
	return &show.StageBar{World: w.World, Quiet: w.asJSON}
}

// jsonFlag adds --json to a command.
func (w *Setup) jsonFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVar(&w.asJSON, "json", false, usage)
}

// print writes v as JSON if the command has --json, and otherwise has text write it for people.
func (w *Setup) print(v any, text func()) error {
	if w.asJSON {
		return w.printJSON(v)
	}
	text()
	return nil
}

// printJSON writes v, indented, as the whole output of a command.
func (w *Setup) printJSON(v any) error {
	e := json.NewEncoder(w.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printf writes sentences to the output.
func (w *Setup) printf(format string, args ...any) { tables.On(w.World).Printf(format, args...) }

// warn writes a sentence to the error output.
func (w *Setup) warn(format string, args ...any) {
	fmt.Fprint(w.Err, program.Wrap(fmt.Sprintf(format, args...), w.ErrWidth))
}

// say writes a sentence for people, who do not read with --json.
func (w *Setup) say(format string, args ...any) {
	if !w.asJSON {
		w.printf(format, args...)
	}
}

// actFor returns who changes something that keeps a history, why ("by hand" if that is empty), and when. It is the
// operating system's user, or "launcher" if that is unknown.
func (w *Setup) actFor(why string) registry.Act {
	if why == "" {
		why = "by hand"
	}
	by := "launcher"
	if u, err := user.Current(); err == nil && u.Username != "" {
		by = u.Username
	}
	return registry.Act{By: by, Why: why, At: w.Now().UTC()}
}

// confirm prints what is going to happen and asks a person to type the name. It returns an error of kind Usage if
// another text was typed, or if there is no input to ask on.
func (w *Setup) confirm(what, name string) error {
	if w.In == nil {
		return program.Usagef("cannot ask here; use --yes")
	}
	w.printf("%s\nType %s to continue: ", what, name)
	line, _ := bufio.NewReader(w.In).ReadString('\n') // at the end of the input, what was typed until then
	if strings.TrimSpace(line) != name {
		return program.Usagef("that is not %s; nothing was changed", name)
	}
	return nil
}
