package report

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"coppice/blob"
	"coppice/launcher/internal/sweepview"
	"coppice/page"
	"coppice/registry"
	"coppice/sweep"
)

// mostSweeps is how many sweeps an index lists.
const mostSweeps = 200

// Index reads what reads plans again and again: a plan never changes, nor does a conclusion that is there.
type Index struct {
	sweeps   blob.Store
	registry *registry.Registry
	known    map[sweep.ID]page.IndexSweep
}

// NewIndex has read nothing yet.
func NewIndex(sweeps blob.Store, reg *registry.Registry) *Index {
	return &Index{sweeps: sweeps, registry: reg, known: map[sweep.ID]page.IndexSweep{}}
}

// stateOpen is the state of a sweep that has not been concluded.
const stateOpen = "open"

// Look reads what is new. It is used by one goroutine at a time.
func (x *Index) Look(ctx context.Context) (*page.Index, error) {
	ids, err := sweepview.List(ctx, x.sweeps)
	if err != nil {
		return nil, err
	}
	out := &page.Index{}
	if over := len(ids) - mostSweeps; over > 0 {
		ids, out.More = ids[over:], over
	}
	for _, id := range ids {
		line, ok := x.known[id]
		if !ok || line.State == stateOpen {
			if line, err = x.line(ctx, id, line); err != nil {
				return nil, err
			}
			x.known[id] = line
		}
		out.Sweeps = append(out.Sweeps, line)
	}
	slices.SortFunc(out.Sweeps, func(a, b page.IndexSweep) int { return cmp.Or(b.Planned.Compare(a.Planned), cmp.Compare(a.ID, b.ID)) })

	names, err := x.registry.Models(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m := page.IndexModel{Name: name}
		versions, err := x.registry.Versions(ctx, name)
		if err != nil && !isDamage(err) {
			return nil, err
		}
		m.Versions = len(versions)
		a, err := x.registry.Alias(ctx, name, registry.Champion)
		if err != nil && !isAbsent(err) && !isDamage(err) {
			return nil, err
		}
		m.Champion = a.Version
		out.Models = append(out.Models, m)
	}
	return out, nil
}

// line reads one sweep. One that cannot be read hides no other.
func (x *Index) line(ctx context.Context, id sweep.ID, line page.IndexSweep) (page.IndexSweep, error) {
	var damaged *sweep.DecodeError
	if line.ID == "" {
		f, err := sweepview.Open(ctx, x.sweeps, id)
		if errors.As(err, &damaged) {
			return page.IndexSweep{ID: string(id), State: "unreadable"}, nil
		}
		if err != nil {
			return line, err
		}
		p := f.Plan
		line = page.IndexSweep{ID: string(id), Dataset: p.Dataset.Name + "@" + p.Dataset.Version, Model: p.Spec.Model, State: stateOpen, Planned: p.Created, Trials: len(p.Trials)}
	}
	c, err := sweepview.Conclusion(ctx, x.sweeps, id)
	switch {
	case errors.As(err, &damaged):
		line.State = "unreadable"
	case err != nil:
		return line, err
	case c != nil:
		line.State, line.Version = string(c.Outcome), c.Version
	}
	return line, nil
}
