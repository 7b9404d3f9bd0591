package scorer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"coppice/internal/metric"
	"coppice/internal/registry"
)

// FileTested has a summary of the predictions for the test rows (metric.Tested), for pages to draw. Predicting does not
// need it, and versions of earlier builds lack it.
const FileTested = "tested.json"

// maxTested is the most bytes of FileTested.
const maxTested = 1 << 20

// ReadTested returns a version's summary of its test rows; nil without an error if it has none. A damaged one is an
// error of kind Damaged.
func ReadTested(ctx context.Context, r *registry.Registry, v registry.Version) (*metric.Tested, error) {
	f, ok := v.File(FileTested)
	if !ok {
		return nil, nil
	}
	if f.Bytes > maxTested {
		return nil, registry.Damaged(f.Object, fmt.Errorf("it has %d bytes", f.Bytes))
	}
	text, err := r.ReadFile(ctx, v, FileTested)
	if err != nil {
		return nil, err
	}
	t, err := DecodeTested(text)
	if err != nil {
		return nil, registry.Damaged(f.Object, err)
	}
	return t, nil
}

// DecodeTested decodes FileTested. It returns an error if numbers that pages divide by or draw are not possible.
func DecodeTested(text []byte) (*metric.Tested, error) {
	t := &metric.Tested{}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("%s: %w", FileTested, err)
	}
	if t.Format != 1 {
		return nil, fmt.Errorf("%s: format %d; this build reads 1", FileTested, t.Format)
	}

	for i, b := range t.Bins {
		if b.Rows <= 0 || b.Weight < 0 {
			return nil, fmt.Errorf("%s: bin %d has %d rows of weight %v", FileTested, i, b.Rows, b.Weight)
		}
	}
	for i, c := range t.Classes {
		if len(c.Taken) != len(t.Classes) || c.Rows < 0 || !(c.Weight >= 0) ||
			slices.ContainsFunc(c.Taken, func(w float64) bool { return w < 0 }) {
			return nil, fmt.Errorf("%s: class %d of %d has %d rows of weight %v, predicted as %d classes", FileTested,
				i, len(t.Classes), c.Rows, c.Weight, len(c.Taken))
		}
	}
	return t, nil
}
