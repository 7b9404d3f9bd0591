package cloudjob

import (
	"context"

	"coppice/dataset"
	"coppice/launcher/internal/stager"
	"coppice/sweep"
)

// Stage is the task of a staging job. The version that it makes is in its outcome.
func (t *Task) Stage(ctx context.Context, s *stager.Stager, dst stager.Destination) error {
	spec, err := dataset.ParseSpec(t.Env.File, []byte(t.Env.Spec))
	if err != nil {
		return err // without a name there is no place for an outcome, and whoever submitted the job has parsed it, too
	}

	return t.run(ctx, sweep.DatasetStaging(spec.Name, t.Env.Job), func(r *reporter) (Outcome, error) {
		s.Progress = r.note
		staged, err := s.Stage(ctx, spec, dst)
		if err != nil {
			return Outcome{}, err
		}
		return Outcome{Version: staged.Manifest.Version, Existed: staged.Existed}, nil
	})
}
