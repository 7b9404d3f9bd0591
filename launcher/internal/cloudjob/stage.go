package cloudjob

import (
	"context"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// Stage is the task of a staging job. Its outcome has the version.
func (t *Task) Stage(ctx context.Context, s *stager.Stager, dst stager.Destination) error {
	spec, err := dataset.ParseSpec(t.Env.File, []byte(t.Env.Spec))
	if err != nil {
		return err // without a name there is no folder for an outcome; the submitter has parsed the spec, too
	}

	return t.run(ctx, sweep.DatasetStaging(spec.Name, t.Env.Job), func(r *reporter) (Outcome, error) {
		s.Progress = r.note
		if spec.Encodings.Like = t.Env.Like; t.Env.Like != "" { // resolved by the submitter
			name, version, err := sweep.SplitDatasetRef(t.Env.Like)
			if err != nil {
				return Outcome{}, err
			}
			if s.Like, err = stager.Manifest(ctx, t.Store, name, version); err != nil {
				return Outcome{}, fmt.Errorf("dataset %s, which this one is to be like: %w", t.Env.Like, err)
			}
		}
		staged, err := s.Stage(ctx, spec, dst)
		if err != nil {
			return Outcome{}, err
		}
		return Outcome{Version: staged.Manifest.Version, Existed: staged.Existed}, nil
	})
}
