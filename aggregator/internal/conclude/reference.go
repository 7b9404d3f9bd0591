package conclude

import (
	"context"

	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
)

// A version keeps some of its test rows, raw and with that night's labels. Later nights compare models on them:
// whatever happens to a later night's labels, these stay as they were.

// maxReference bounds the rows that a version keeps.
const maxReference = 20_000

// reference holds test rows of one night, for models to be compared on.
type reference struct {
	version int // the version that keeps them
	sample  *dataset.Sample
	targets dataset.Targets
}

// referenceOf returns the test rows that are in the holdout's sample: if these are more than limit, so many of them,
// evenly spread. It is nil if there are none.
func referenceOf(h *holdout, limit int) *reference {
	places := h.testRows
	if len(places) == 0 {
		return nil
	}
	n := min(len(places), limit)
	rows, parts := make([]int, n), make([]uint32, n)
	for i := range rows {
		p := places[i*len(places)/n]
		rows[i], parts[i] = p.sample, uint32(p.part)
	}
	return &reference{sample: h.sample.Select(rows), targets: h.test.Pick(parts)}
}

// encode writes the reference in the form that a version keeps.
func (r *reference) encode() ([]byte, error) {
	return (&scorer.Reference{Sample: r.sample, Targets: r.targets}).Encode()
}

// readReference reads the rows that a version keeps. It is nil, without an error, if the version has none, or if they
// are damaged, which is logged.
func (a *Aggregator) readReference(ctx context.Context, v registry.Version) (*reference, error) {
	if _, ok := v.File(scorer.FileReference); !ok { // none of its test rows was in the sample
		return nil, nil
	}
	data, err := a.Registry.ReadFile(ctx, v, scorer.FileReference)
	if err == nil {
		var rows *scorer.Reference
		if rows, err = scorer.DecodeReference(data); err == nil {
			return &reference{version: v.Number, sample: rows.Sample, targets: rows.Targets}, nil
		}
		err = registry.Damaged(scorer.FileReference, err)
	}
	if !isUnusable(err) {
		return nil, err
	}
	a.Log.Warn("a version's reference rows cannot be used", "model", v.Model, "version", v.Number, "error", err.Error())
	return nil, nil
}

// isUnusable reports whether an error is about something in the registry that is damaged or missing.
func isUnusable(err error) bool {
	return problem.Is(err, problem.Damaged) || problem.Is(err, problem.NotFound)
}

// thinRows returns the rows: if they are more than limit, so many of them, evenly spread.
func (r *reference) thinRows(limit int) reference {
	n := len(r.sample.Row)
	if n <= limit {
		return *r
	}
	rows := make([]int, limit)
	for i := range rows {
		rows[i] = i * n / limit
	}
	return r.selectRows(rows)
}

// selectRows returns some of the rows, given by ascending indices.
func (r *reference) selectRows(rows []int) reference {
	parts := make([]uint32, len(rows))
	for i, row := range rows {
		parts[i] = uint32(row)
	}
	return reference{r.version, r.sample.Select(rows), r.targets.Pick(parts)}
}
