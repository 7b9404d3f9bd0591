package sweepview

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// readAtOnce is how many lines of a list are read at the same time.
const readAtOnce = 16

// ListedSweep is one line of a list of sweeps.
type ListedSweep struct {
	Sweep   sweep.ID      `json:"sweep"`
	Created time.Time     `json:"created"`
	Dataset string        `json:"dataset"`
	Trials  int           `json:"trials"`
	Outcome sweep.Outcome `json:"outcome"` // of the conclusion, or "running"
	Verdict sweep.Verdict `json:"verdict,omitempty"`
	Model   string        `json:"model"`
	Version int           `json:"version,omitempty"`
}

// Describe lists all sweeps, newest first; one that cannot be read says so as its outcome and hides no other.
func Describe(ctx context.Context, store blob.Store) ([]ListedSweep, error) {
	ids, err := List(ctx, store)
	if err != nil {
		return nil, err
	}
	all := make([]ListedSweep, len(ids))
	var group errgroup.Group
	group.SetLimit(readAtOnce)
	for i, id := range ids {
		group.Go(func() (err error) {
			all[i], err = describe(ctx, store, id)
			if err != nil && ctx.Err() == nil { // one unreadable sweep must not hide the others
				all[i].Sweep, all[i].Outcome, err = id, sweep.Outcome("unreadable: "+err.Error()), nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}

	// Newest first; those whose plan is unreadable have no time and come last.
	slices.SortStableFunc(all, func(a, b ListedSweep) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Sweep, b.Sweep))
	})
	return all, nil
}

// describe describes a sweep. With an error it describes it as far as it can be read.
func describe(ctx context.Context, store blob.Store, id sweep.ID) (l ListedSweep, err error) {
	s, err := Open(ctx, store, id)
	if err != nil {
		return l, err
	}
	p := s.Plan
	l = ListedSweep{Sweep: id, Created: p.Created, Dataset: p.Dataset.Name + "@" + p.Dataset.Version,
		Trials: len(p.Own()), Outcome: "running", Model: p.Spec.Model}
	end, err := Conclusion(ctx, store, id)
	if err != nil {
		return l, err
	}
	if end != nil {
		l.Outcome, l.Verdict, l.Version = end.Outcome, end.Verdict(), end.Version
	}
	return l, nil
}

// ListedDataset is one line of a list of dataset versions.
type ListedDataset struct {
	Dataset string    `json:"dataset"`
	Version string    `json:"version"`
	Latest  bool      `json:"latest"`
	Rows    int       `json:"rows"`
	Bytes   int64     `json:"bytes"`
	Staged  time.Time `json:"staged,omitzero"` // unknown if the night's record cannot be read
	Newest  time.Time `json:"newest,omitzero"` // row, if rows have times
	State   string    `json:"state"`           // of its Night
}

// Datasets lists the versions of a dataset, or of all datasets if the name is empty. A damaged version is one line with
// the state NightUnreadable.
func Datasets(ctx context.Context, store blob.Store, name string) ([]ListedDataset, error) {
	versions, err := stager.List(ctx, store, name)
	if err != nil {
		return nil, err
	}
	if name != "" && len(versions) == 0 {
		return nil, stager.NotStaged(name)
	}

	all := make([]ListedDataset, len(versions))
	var group errgroup.Group
	group.SetLimit(readAtOnce)
	for i, v := range versions {
		m, l := v.Manifest, &all[i]
		*l = ListedDataset{Dataset: m.Name, Version: m.Version, Latest: v.Latest, State: NightUnreadable}
		if v.Damaged != nil {
			continue
		}
		l.Bytes = m.Bytes()
		for _, s := range m.Splits {
			l.Rows += m.TableRows(s.Name)
		}
		group.Go(func() error {
			night := NightOf(ctx, store, m.Name, m.Version)
			l.State, l.Staged, l.Newest = night.State, night.Staged, night.Newest
			return nil
		})
	}
	return all, group.Wait()
}
