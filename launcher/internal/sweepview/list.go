package sweepview

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/nights"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// ReadAtOnce is how many lines of a list are read at the same time.
const ReadAtOnce = 16

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
	Word    string    `json:"-"`               // that, or how many warnings there are
}

// Datasets lists the versions of a dataset, or of all datasets if the name is empty, the newest first. A damaged
// version is a line with the state NightUnreadable. A name without versions is an error of kind NotFound.
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
	group.SetLimit(ReadAtOnce)
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
			l.Word = nights.Word(night.State, night.Findings)
			return nil
		})
	}
	err = group.Wait()
	slices.SortStableFunc(all, func(a, b ListedDataset) int { return b.Staged.Compare(a.Staged) })
	return all, err
}

// NameNight returns the night of a sweep as YYYY-MM-DD: the day at the end of its id, which is that of its scheduled
// slot or one that a person has given. A late or repeated start does not change it. It is "" if the id ends in no day.
func NameNight(id sweep.ID) string {
	for _, end := range []string{"-20060102-1504", "-20060102"} {
		if at, err := time.Parse(end, string(id[max(0, len(id)-len(end)):])); err == nil {
			return at.Format(time.DateOnly)
		}
	}
	return ""
}
