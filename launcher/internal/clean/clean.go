// Package clean finds what is no longer needed in the buckets, and what the rest is needed for. It removes nothing.
package clean

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
)

// Request says where to look.
type Request struct {
	Datasets, Sweeps blob.Store
	Registry         *registry.Registry
	Now              time.Time
	Age              time.Duration // anything younger is kept
}

// Item is a dataset version, a sweep, a part of one, or a deleted version.
type Item struct {
	Kind    string    `json:"kind"` // dataset, sweep, trials or deleted version
	Name    string    `json:"name"`
	Newest  time.Time `json:"newest"` // of its objects
	Bytes   int64     `json:"bytes"`
	HeldBy  []string  `json:"held_by,omitempty"` // why it is kept; if empty, it may be removed
	Bucket  Bucket    `json:"bucket"`
	Objects []string  `json:"objects"`
}

// Bucket is one of the deployment's buckets.
type Bucket string

// The buckets.
const (
	Datasets Bucket = "datasets"
	Sweeps   Bucket = "sweeps"
	Registry Bucket = "registry"
)

// MayGo reports whether nothing needs it.
func (i *Item) MayGo() bool { return len(i.HeldBy) == 0 }

// Look lists everything and what needs it.
func Look(ctx context.Context, q Request) ([]Item, error) {
	h := &holders{datasets: map[string][]string{}, trials: map[sweep.ID]map[int]string{}}
	leftovers, err := h.ofVersions(ctx, q)
	if err != nil {
		return nil, err
	}

	sweeps, err := h.lookAtSweeps(ctx, q)
	if err != nil {
		return nil, err
	}

	datasets, err := h.lookAtDatasets(ctx, q)
	if err != nil {
		return nil, err
	}
	return slices.Concat(datasets, sweeps, leftovers), nil
}

// holders records what is needed, and by what.
type holders struct {
	datasets map[string][]string         // by NAME@VERSION
	trials   map[sweep.ID]map[int]string // the trials that became versions
	// anyDataset lists reasons to keep every dataset: something needs one, but it cannot be told which.
	anyDataset []string
}

// ofVersions records what registered versions need, and returns the remains of deleted ones.
func (h *holders) ofVersions(ctx context.Context, q Request) ([]Item, error) {
	models, err := q.Registry.Models(ctx)
	if err != nil {
		return nil, err
	}

	var items []Item
	for _, model := range models {
		versions, err := q.Registry.Versions(ctx, model)
		if err != nil {
			return nil, err // it is unknown what an unreadable version needs
		}
		for _, v := range versions {
			name := fmt.Sprintf("%s@%d", model, v.Number)
			if ref := v.Info.Labels["dataset"]; ref != "" {
				h.datasets[ref] = append(h.datasets[ref], "used to train "+name)
			} else {
				h.anyDataset = append(h.anyDataset, name+" may need it: it does not say what it was trained on")
			}
			if trial, err := strconv.Atoi(v.Info.Labels["trial"]); err == nil {
				h.trials[sweep.ID(v.Info.Labels["sweep"])] = map[int]string{trial: "the winner, " + name}
			}
		}

		objects, err := q.Registry.Leftover(ctx, model)
		if err != nil {
			return nil, err
		}
		if len(objects) > 0 {
			items = append(items, Item{Kind: "deleted versions", Name: model, Bucket: Registry, Objects: objects})
		}
	}
	return items, nil
}

// young returns the reason to keep something young.
func (q *Request) young(newest time.Time) []string {
	if q.Now.Sub(newest) < q.Age {
		return []string{"younger than " + english.Plural(int(q.Age.Hours()/24), "day", "")}
	}
	return nil
}

// lookAtSweeps checks every sweep, and records the datasets of open ones.
func (h *holders) lookAtSweeps(ctx context.Context, q Request) ([]Item, error) {
	var items []Item
	for id, err := range sweepstore.List(ctx, q.Sweeps) {
		if err != nil {
			return nil, err
		}
		s := sweepstore.New(q.Sweeps, id)
		w, err := s.Weigh(ctx)
		if err != nil {
			return nil, err
		}

		held, err := h.openSweep(ctx, s, id)
		if err != nil {
			return nil, err
		}
		held = append(held, q.young(w.Newest)...)

		rest := Item{Kind: "sweep", Name: string(id), Newest: w.Newest, HeldBy: held, Bucket: Sweeps}
		kept := h.trials[id]
		for trial, objects := range w.Trials {
			to := &rest
			if by, ok := kept[trial]; ok {
				items = append(items, Item{Kind: "trial", Name: fmt.Sprintf("%s, trial %d", id, trial),
					Newest: w.Newest, HeldBy: append([]string{by}, held...), Bucket: Sweeps})
				to = &items[len(items)-1]
			}
			to.add(objects)
		}
		if len(kept) > 0 { // the plan and the ending explain the version
			items = append(items, Item{Kind: "records", Name: string(id), Newest: w.Newest,
				HeldBy: append([]string{"its winner is registered"}, held...), Bucket: Sweeps})
			items[len(items)-1].add(w.Others)
		} else {
			rest.add(w.Others)
		}
		if len(rest.Objects) > 0 {
			slices.Sort(rest.Objects)
			items = append(items, rest)
		}
	}
	return items, nil
}

func (i *Item) add(objects []sweepstore.Weighed) {
	for _, o := range objects {
		i.Objects = append(i.Objects, o.Object)
		i.Bytes += o.Bytes
	}
}

// openSweep says why to keep a sweep that has not ended, or whose records cannot be read, and records its dataset.
func (h *holders) openSweep(ctx context.Context, s *sweepstore.Sweep, id sweep.ID) ([]string, error) {
	end, err := s.Conclusion(ctx)
	if err != nil && !problem.Is(err, problem.Damaged) {
		return nil, err
	}
	if end != nil && err == nil {
		return nil, nil
	}

	p, _, unread := s.Plan(ctx)
	if unread == nil {
		ref := p.Dataset.Name + "@" + p.Dataset.Version
		h.datasets[ref] = append(h.datasets[ref], fmt.Sprintf("needed by open sweep %s", id))
	} else {
		h.anyDataset = append(h.anyDataset, fmt.Sprintf("sweep %s may need it: its plan cannot be read", id))
	}
	if err != nil {
		return []string{"unreadable conclusion"}, nil //nolint:nilerr // unreadable records keep it
	}
	return []string{"open"}, nil
}

// lookAtDatasets checks every version of every dataset.
func (h *holders) lookAtDatasets(ctx context.Context, q Request) ([]Item, error) {
	found := map[string]*Item{}
	names := map[string]bool{}
	for a, err := range q.Datasets.List(ctx, datasetsRoot) {
		if err != nil {
			return nil, err
		}
		parts := strings.SplitN(strings.TrimPrefix(a.Name, datasetsRoot), "/", 3)
		if len(parts) < 3 || sweep.CheckName("dataset", parts[0]) != nil {
			continue
		}
		ref := parts[0] + "@" + parts[1]
		if _, _, err := sweep.SplitDatasetRef(ref); err != nil {
			continue // reports of staging jobs, and inputs
		}

		names[parts[0]] = true
		i := found[ref]
		if i == nil {
			i = &Item{Kind: "dataset", Name: ref, Bucket: Datasets}
			found[ref] = i
		}
		i.Bytes += a.Size
		i.Objects = append(i.Objects, a.Name)
		if a.Updated.After(i.Newest) {
			i.Newest = a.Updated
		}
	}

	for name := range names {
		m, err := stager.Resolve(ctx, q.Datasets, name)
		if problem.Is(err, problem.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ref := name + "@" + m.Version
		h.datasets[ref] = append(h.datasets[ref], "newest version")
	}

	var items []Item
	for ref, i := range found {
		i.HeldBy = slices.Concat(h.datasets[ref], h.anyDataset, q.young(i.Newest))
		items = append(items, *i)
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Or(cmp.Compare(a.Name, b.Name)) })
	return items, nil
}

const datasetsRoot = "datasets/"
