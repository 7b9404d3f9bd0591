package main

import (
	"context"

	"coppice/internal/cloud/inspect"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cli"
	"coppice/launcher/internal/doctor"
)

// examine opens what `launcher doctor` examines.
func examine(ctx context.Context, env cli.Env) (doctor.Cloud, error) {
	client, err := inspect.New(ctx, inspect.Options{Project: env.Project, Location: env.Location,
		Endpoint: env.InspectEndpoint})
	if err != nil {
		return nil, err
	}
	return client, nil
}

// LocalSSDs is the number of local SSDs per machine of a plan.
func (j *jobs) LocalSSDs(p *sweep.Plan) (int, error) {
	return int(p.Spec.Machine.LocalSSD), nil
}
