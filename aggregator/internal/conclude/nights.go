package conclude

import (
	"context"
	"errors"
	"fmt"

	"coppice/internal/blob"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Nights is the Contract that staging records in the bucket of datasets. The launcher does not start a sweep on a
// blocked night; this check covers sweeps that were started before, or by other means.
type Nights struct{ Datasets blob.Store }

// Blocked says in a sentence why the night of the plan's dataset is blocked; it is nil if it is not. A night without a
// record is not blocked, one with a damaged record is. An error is one of the store.
func (n Nights) Blocked(ctx context.Context, p *sweep.Plan) ([]string, error) {
	name, version := p.Dataset.Name, p.Dataset.Version
	text, _, err := blob.ReadAll(ctx, n.Datasets, sweep.DatasetNight(name, version), nights.MaxRecord)
	switch {
	case errors.Is(err, blob.ErrNotExist):
		return nil, nil
	case problem.Is(err, problem.Damaged):
		return []string{fmt.Sprintf("the record of the night cannot be read: %v; stage %s@%s again", err, name,
			version)}, nil
	case err != nil:
		return nil, err
	}

	r, err := nights.DecodeRecord(text, name, version)
	if err != nil {
		return []string{err.Error()}, nil //nolint:nilerr // a damaged record must not pass as good
	}
	if !r.Blocked() {
		return nil, nil
	}
	return []string{nights.Reason(r.Findings)}, nil
}
