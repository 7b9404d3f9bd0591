package command

import (
	"context"
	"errors"

	"coppice/internal/cloud/gcs"
	"coppice/internal/cloud/pubsub"
	"coppice/internal/sweep"
	"coppice/task/internal/cli"
)

// connect opens a worker's backends: the datasets and sweeps buckets and the scores topic.
func connect(ctx context.Context, env sweep.TaskEnv) (*cli.Backends, error) {
	storage, err := gcs.New(ctx)
	if err != nil {
		return nil, err
	}
	messages, err := pubsub.New(ctx, env.Project)
	if err != nil {
		return nil, errors.Join(err, storage.Close())
	}

	scores := messages.Publisher(env.ScoresTopic)
	return &cli.Backends{
		Datasets: storage.Bucket(env.DatasetsBucket), Sweeps: storage.Bucket(env.SweepsBucket), Scores: scores,
		Close: func() error {
			scores.Close()
			return errors.Join(messages.Close(), storage.Close())
		},
	}, nil
}
