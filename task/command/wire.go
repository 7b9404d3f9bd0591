package command

import (
	"context"
	"errors"

	"coppice/internal/cloud/gcs"
	"coppice/internal/cloud/pubsub"
	"coppice/internal/program/environment"
	"coppice/task/internal/cli"
)

// connect opens a worker's backends: the datasets and sweeps buckets and, if there is one, the scores topic.
func connect(ctx context.Context, env environment.TaskEnv) (*cli.Backends, error) {
	storage, err := gcs.Open(ctx, env.Project)
	if err != nil {
		return nil, err
	}
	b := &cli.Backends{Datasets: storage.Bucket(env.DatasetsBucket), Sweeps: storage.Bucket(env.SweepsBucket),
		Close: storage.Close}
	if env.Project == "" || env.ScoresTopic == "" { // the aggregator looks by itself
		return b, nil
	}

	messages, err := pubsub.New(ctx, env.Project)
	if err != nil {
		return nil, errors.Join(err, storage.Close())
	}
	scores := messages.Publisher(env.ScoresTopic)
	b.Scores = scores
	b.Close = func() error {
		scores.Close()
		return errors.Join(messages.Close(), storage.Close())
	}
	return b, nil
}
