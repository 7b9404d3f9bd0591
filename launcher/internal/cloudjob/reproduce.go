package cloudjob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/reproduce"
)

// Reproduce is the task of a job that trains a version again, by grow, which may tell people what it does. The report
// is part of the outcome, also of a version that has other bytes now: what that means is for the submitter to say.
func (t *Task) Reproduce(ctx context.Context, grow func(say func(string)) (*reproduce.Report, error)) error {
	return t.run(ctx, sweep.DatasetReproduction(t.Env.Dataset, t.Env.Job), func(r *reporter) (Outcome, error) {
		report, err := grow(r.say)
		return Outcome{Reproduced: report}, err
	})
}

// VersionKey identifies what a job that trains a version again depends on: everything in the version's record, and the
// build. It has 32 hexadecimal digits, as BacktestKey has.
func VersionKey(v registry.Version, build string) (string, error) {
	record, err := v.Record()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(record, build...))
	return hex.EncodeToString(sum[:16]), nil
}
