package conclude

import (
	"context"
	"errors"
	"fmt"

	"coppice/blob"
	"coppice/contract"
	"coppice/sweep"
)

// Nights is the Contract that staging has written down beside the datasets. The launcher starts no sweep on a blocked night; this is for
// sweeps that were started before, or by other means.
type Nights struct{ Datasets blob.Store }

// Blocked says why the night of the plan's dataset is blocked, if it is. A night of which nothing is known is not.
func (n Nights) Blocked(ctx context.Context, p *sweep.Plan) ([]string, error) {
	name, version := p.Dataset.Name, p.Dataset.Version
	text, _, err := blob.ReadAll(ctx, n.Datasets, sweep.DatasetNight(name, version), contract.MaxRecord)
	switch {
	case errors.Is(err, blob.ErrNotExist):
		return nil, nil
	case errors.Is(err, blob.ErrTooLong):
		return []string{fmt.Sprintf("the record of the night %s@%s is too long to be one; stage it again", name, version)}, nil
	case err != nil:
		return nil, err
	}

	r, err := contract.DecodeRecord(text, name, version)
	if err != nil {
		return []string{err.Error()}, nil //nolint:nilerr // a damaged record is no good one
	}
	if !r.Blocked() {
		return nil, nil
	}
	return []string{contract.Reason(r.Findings)}, nil
}
