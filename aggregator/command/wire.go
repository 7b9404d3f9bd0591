package command

import (
	"context"
	"errors"

	"coppice/aggregator/internal/cli"
	"coppice/internal/cloud/batch"
	"coppice/internal/cloud/gcs"
	"coppice/internal/cloud/idtoken"
	"coppice/internal/cloud/pubsub"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/slurm"
)

// connect opens the aggregator's backends: the three buckets, the engine that runs jobs (Batch or Slurm), of which it
// only asks the state of jobs, and the channels for notifications. Close of the result closes all of them. After an
// error, what was opened is closed.
func connect(ctx context.Context, env environment.Deployment) (_ *cli.Backends, err error) {
	// What to close, in this order: a topic sends what it still holds before its client is closed.
	var closers []func() error
	closeAll := func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()

	storage, err := gcs.Open(ctx, env.Project)
	if err != nil {
		return nil, err
	}
	closers = append(closers, storage.Close)
	b := &cli.Backends{Datasets: storage.Bucket(env.DatasetsBucket), Sweeps: storage.Bucket(env.SweepsBucket),
		Registry: storage.Bucket(env.RegistryBucket), Close: closeAll}

	b.Jobs = slurm.New(slurm.Options(env.Slurm))
	if env.Engine == environment.EngineBatch {
		client, err := batch.New(ctx, batch.Options{Project: env.Project, Location: env.Location,
			Endpoint: env.BatchEndpoint})
		if err != nil {
			return nil, err
		}
		closers = append(closers, client.Close)
		b.Jobs = &batch.Jobs{Client: client}
	}

	if env.Project != "" && env.Verdicts.Topic != "" {
		messages, err := pubsub.New(ctx, env.Project)
		if err != nil {
			return nil, err
		}
		topic := messages.Publisher(env.Verdicts.Topic)
		// The topic and its client go to the front of what is closed.
		closers = append([]func() error{func() error { topic.Close(); return nil }, messages.Close}, closers...)
		b.Channels = append(b.Channels, notify.Topic(topic))
	}
	if env.Verdicts.Webhook != "" {
		b.Channels = append(b.Channels, notify.Webhook(env.Verdicts))
	}
	return b, nil
}

// callers authenticates callers by ID tokens signed by Google, or by the local cloud in its place.
func callers(ctx context.Context, env environment.CallersEnv) (program.Callers, error) {
	return idtoken.New(ctx, idtoken.Options{Audience: env.Audience, Callers: env.Callers,
		CloudRunChecks: env.Signatures == environment.SignaturesCloudRun, KeysURL: env.KeysURL})
}
