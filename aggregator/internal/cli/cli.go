// Package cli is the aggregator's command line: the service that messages are pushed to, and one look at all sweeps.
package cli

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"coppice/aggregator/internal/conclude"
	"coppice/internal/blob"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/registry"
	"coppice/internal/telemetry"
)

// Setup is everything outside the process.
type Setup struct {
	program.World
	// Connect opens the aggregator's backends.
	Connect func(context.Context, environment.Deployment) (*Backends, error)
	// Callers creates the authenticator of the service's callers.
	Callers func(context.Context, environment.CallersEnv) (program.Callers, error)
}

// Backends are the services that the aggregator uses.
type Backends struct {
	Datasets, Sweeps, Registry blob.Store
	Jobs                       conclude.Jobs
	Channels                   []notify.Channel // for notifications of verdicts
	Close                      func() error
}

const remedy = "run it inside `localemu exec --`, or set what Terraform prints"

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, w Setup) int {
	root := &cobra.Command{Use: "aggregator", Short: "Conclude sweeps: pick, verify, calibrate and register the winner"}
	root.AddCommand(serveCommand(&w), reconcileCommand(&w))
	return program.Execute(ctx, w.World, root)
}

// withAggregator connects to the backends, calls use with an aggregator, and closes what it opened. Metrics are
// pushed to OTEL_EXPORTER_OTLP_ENDPOINT, if that is set: at the end and, unless every is 0, at that interval.
func (w *Setup) withAggregator(ctx context.Context, every time.Duration, use func(*conclude.Aggregator,
	*telemetry.Telemetry) error) (err error) {
	var env environment.Deployment
	if err := w.Environment(ctx, &env, remedy); err != nil {
		return err
	}
	b, err := w.Connect(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	log := program.Logger(w.Out, program.LogOrigin{Program: "aggregator", Version: w.Version, Project: env.Project})
	a := &conclude.Aggregator{Datasets: b.Datasets, Sweeps: b.Sweeps, Registry: registry.New(b.Registry), Jobs: b.Jobs,
		Contract: conclude.Nights{Datasets: b.Datasets},
		Notify:   &notify.Notifier{Channels: b.Channels, Now: w.Now, Log: log}, Now: w.Now, Log: log}
	measuring := telemetry.Start(ctx, telemetry.Options{Program: "aggregator", Version: w.Version, Project: env.Project,
		Endpoint: env.OTLPEndpoint,
		Log:      log, Instance: uuid.NewString(), Every: every})
	defer measuring.Close(ctx)
	if err := a.Measure(measuring.Meter()); err != nil {
		return err
	}
	return use(a, measuring)
}

// reconcileCommand returns the command that checks all open sweeps once.
func reconcileCommand(w *Setup) *cobra.Command {
	return &cobra.Command{
		Use:     "reconcile",
		Short:   "Check every open sweep once and conclude those that are over",
		Example: "  aggregator reconcile",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.withAggregator(cmd.Context(), 0, func(a *conclude.Aggregator, _ *telemetry.Telemetry) error {
				return a.Reconcile(cmd.Context())
			})
		},
	}
}
