package command

import (
	"context"
	"errors"
	"slices"

	"coppice/aggregator/internal/cli"
	"coppice/internal/cloud/batch"
	"coppice/internal/cloud/gcs"
	"coppice/internal/cloud/idtoken"
	"coppice/internal/cloud/pubsub"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/slurm"
	"coppice/internal/sweep"
)

// connect opens the aggregator's backends: three buckets and, in a project, its subscription and Batch, read only.
func connect(ctx context.Context, env sweep.Deployment) (_ *cli.Backends, err error) {
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
	var messages *pubsub.Client
	if env.Project != "" {
		if messages, err = pubsub.New(ctx, env.Project); err != nil {
			return nil, err
		}
		closers = append(closers, messages.Close)
		b.Messages = messages.Subscription(env.Subscription)
	}
	b.Jobs = slurm.New(slurm.Options(env.Slurm))
	if env.Engine == sweep.EngineBatch {
		client, err := batch.New(ctx, batch.Options{Project: env.Project, Location: env.Location,
			Endpoint: env.BatchEndpoint})
		if err != nil {
			return nil, err
		}
		closers = append(closers, client.Close)
		b.Jobs = &batch.Jobs{Client: client}
	}

	channels, closeChannels := verdicts(messages, env.Verdicts)
	closers = slices.Insert(closers, 0, closeChannels) // before the connection that they use
	b.Channels = channels
	return b, nil
}

// verdicts opens the channels for notifying people.
func verdicts(messages *pubsub.Client, env sweep.VerdictsEnv) (channels []notify.Channel, closeAll func() error) {
	closeAll = func() error { return nil }
	if env.Topic != "" && messages != nil {
		topic := messages.Publisher(env.Topic)
		closeAll = func() error { topic.Close(); return nil }
		channels = append(channels, notify.Topic(topic))
	}

	if env.Webhook != "" {
		channels = append(channels, notify.Webhook(env))
	}

	return channels, closeAll
}

// callers authenticates callers by ID tokens signed by Google.
func callers(ctx context.Context, env sweep.CallersEnv) (program.Callers, error) {
	return idtoken.New(ctx, idtoken.Options{Audience: env.Audience, Callers: env.Callers,
		CloudRunChecks: env.Signatures == sweep.SignaturesCloudRun})
}
