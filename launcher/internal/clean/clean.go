// Package clean decides what is no longer needed in the buckets and removes it, and says why the rest is needed.
// Whether it only lists or also removes, Look decides:
//
//	registry: what was promoted ─┐
//	sweeps: what is open ────────┼▶ Look ─▶ Items ─▶ Remove: record, remove
//	datasets: what is newest ────┘
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
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
)

// The defaults and bounds of what is kept.
const (
	// Nights is how many of the newest versions of each dataset, and of the newest sweeps of each model, are kept
	// whatever became of them. LeastNights is the lowest number allowed: a warm start reads so many earlier sweeps.
	Nights      = 30
	LeastNights = sweep.MaxEarlier
	// Promoted is how many of each alias's last moves keep their versions reproducible. A rollback can lead as far
	// back.
	Promoted = registry.MaxPast
	// Grace is how long everything that was written is kept, since a staging or a sweep may still be writing: longer
	// than any of them runs.
	Grace = 7 * 24 * time.Hour
	// Notice is the least time between the run that lists an item and the run that removes it, so that a schedule that
	// fires twice at once removes nothing.
	Notice = 12 * time.Hour
)

// Request says where to look.
type Request struct {
	Datasets, Sweeps blob.Store
	Registry         *registry.Registry
	Now              time.Time
	Nights           int // how many of the newest versions of each dataset, and sweeps of each model, are kept
	Promoted         int // of how many of each alias's last moves, and versions to roll back to, the versions are kept
}

// Item is a dataset version, a sweep, a part of one, or a deleted version.
type Item struct {
	Kind    string       `json:"kind"` // dataset, sweep, trial, records or deleted versions
	Name    string       `json:"name"`
	Newest  time.Time    `json:"newest"` // of its objects
	Bytes   int64        `json:"bytes"`
	HeldBy  []string     `json:"held_by,omitempty"` // why it is kept; if empty, it may be removed
	Why     string       `json:"why,omitempty"`     // it may be removed
	Removed bool         `json:"removed,omitempty"`
	Bucket  string       `json:"bucket"`
	Objects []blob.Attrs `json:"-"`
	URLs    []string     `json:"urls,omitempty"` // of deleted versions' files; here the objects' names
	Plan    *sweep.Plan  `json:"-"`              // of a sweep whose plan may go, too; in what is written down

	head blob.Attrs // a dataset's manifest, or a sweep's plan, without which it is none; may be missing
}

// The deployment's buckets.
const (
	Datasets = "datasets"
	Sweeps   = "sweeps"
	Registry = "registry"
)

// MayGo reports whether nothing needs it.
func (i *Item) MayGo() bool { return len(i.HeldBy) == 0 }

func (i *Item) add(objects ...blob.Attrs) {
	i.Objects = append(i.Objects, objects...)
	for _, o := range objects {
		i.Bytes += o.Size
	}
}

// Look lists everything in the buckets: for each item either what needs it (HeldBy) or why nothing does (Why). It
// changes nothing. Versions and sweeps are looked at first, since they say which datasets are needed.
func Look(ctx context.Context, q Request) ([]Item, error) {
	h := &holders{datasets: map[string][]string{}, idle: map[string][]string{}, winners: map[sweep.ID]winner{}}
	leftovers, err := h.addVersions(ctx, q)
	if err != nil {
		return nil, err
	}
	sweeps, err := h.lookAtSweeps(ctx, q)
	if err != nil {
		return nil, err
	}
	datasets, err := h.lookAtDatasets(ctx, q)
	return slices.Concat(datasets, sweeps, leftovers), err
}

// holders records what is needed, and by what.
type holders struct {
	datasets map[string][]string // by NAME@VERSION: reasons to keep the dataset
	idle     map[string][]string // by NAME@VERSION: models trained on it that are no reason to keep it
	winners  map[sweep.ID]winner
	// anyDataset lists reasons to keep every dataset: something needs one, but it cannot be told which.
	anyDataset []string
}

// winner is the version that a sweep ended with, and its trial if it stays reproducible, else -1.
type winner struct {
	version string
	trial   int
}

// addVersions records what the registered versions of all models need. It returns an item for each model of which
// deleted versions have left objects behind.
func (h *holders) addVersions(ctx context.Context, q Request) ([]Item, error) {
	models, err := q.Registry.Models(ctx)
	if err != nil {
		return nil, err
	}

	var items []Item
	for _, model := range models {
		promoted, err := q.promoted(ctx, model)
		if err != nil {
			return nil, err
		}
		versions, err := q.Registry.Versions(ctx, model)
		if err != nil {
			return nil, err // it is unknown what an unreadable version needs
		}
		for _, v := range versions {
			h.addVersion(v, promoted[v.Number])
		}

		objects, err := q.Registry.Leftover(ctx, model)
		if err != nil {
			return nil, err
		}
		if len(objects) > 0 {
			items = append(items, Item{Kind: "deleted versions", Name: model, Bucket: Registry, Why: "deleted",
				URLs: objects})
		}
	}
	return items, nil
}

// promoted returns the numbers of the model's versions that stay reproducible: of each alias the one that it points at,
// the last q.Promoted of those that a rollback can lead to (Past), and those that its last q.Promoted moves went from
// and to. The moves tell of more than Past, since a rollback takes versions out of Past. 0 (no version) may be in it.
func (q *Request) promoted(ctx context.Context, model string) (map[int]bool, error) {
	aliases, err := q.Registry.Aliases(ctx, model)
	if err != nil {
		return nil, err
	}
	promoted := map[int]bool{}
	for _, a := range aliases {
		promoted[a.Version] = true
		for _, n := range a.Past[max(0, len(a.Past)-q.Promoted):] {
			promoted[n] = true
		}
		looked := 0
		for e, err := range q.Registry.Moves(ctx, model, a.Name) { // the newest first
			if err != nil {
				return nil, err
			}
			if looked == q.Promoted {
				break
			}
			looked++
			promoted[e.From], promoted[e.To] = true, true // 0 for an alias that was made or removed
		}
	}
	return promoted, nil
}

// addVersion records what a registered version needs. A promoted one stays reproducible: it needs its dataset and the
// files of its trial. Any other needs neither; its dataset lists it as idle. A version without the name of its dataset
// may need any of them, promoted or not.
func (h *holders) addVersion(v registry.Version, promoted bool) {
	name := v.Called()
	switch ref := v.Info.Labels["dataset"]; {
	case ref == "":
		h.anyDataset = append(h.anyDataset, name+" may need it: it does not say what it was trained on")
	case promoted:
		h.datasets[ref] = append(h.datasets[ref], "used to train "+name+", which was promoted")
	default:
		h.idle[ref] = append(h.idle[ref], name)
	}

	trial, err := strconv.Atoi(v.Info.Labels["trial"])
	if err != nil || !promoted {
		trial = -1
	}

	// Two versions may come from one sweep: the promoted one counts.
	id := sweep.ID(v.Info.Labels["sweep"])
	if _, seen := h.winners[id]; !seen || promoted {
		h.winners[id] = winner{name, trial}
	}
}

// young returns the reason to keep what was written at newest, or nil if that is more than Grace ago.
func (q *Request) young(newest time.Time) []string {
	if q.Now.Sub(newest) < Grace {
		return []string{"younger than " + english.Plural(int(Grace.Hours()/24), "day", "")}
	}
	return nil
}

// lookAtSweeps returns the items of every sweep, those with the newest plans first, and records the datasets that open
// sweeps need. It needs the winners that addVersions has recorded.
func (h *holders) lookAtSweeps(ctx context.Context, q Request) ([]Item, error) {
	sweeps, err := sweepstore.Weigh(ctx, q.Sweeps)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(sweeps, func(a, b sweepstore.Weight) int { return b.Plan.Updated.Compare(a.Plan.Updated) })

	var items []Item
	newer := map[string]int{} // by model: how many sweeps with a plan have been seen
	for _, w := range sweeps {
		p, held, err := h.openSweep(ctx, sweepstore.New(q.Sweeps, w.Sweep), w)
		if err != nil {
			return nil, err
		}
		held = append(held, q.young(w.Newest)...)

		// The model's newest sweeps are kept. For the others, why counts the newer ones. Those whose plan cannot be
		// read are of the model "".
		why, model := "it has no plan", ""
		if p != nil {
			model = p.Spec.Model
		}
		if w.Plan.Name != "" {
			if newer[model]++; newer[model] <= q.Nights {
				held = append(held, fmt.Sprintf("one of the newest %d of model %s", q.Nights, model))
			}
			why = fmt.Sprintf("%s of model %s", english.Plural(newer[model]-1, "newer sweep", ""), model)
		}
		winner, registered := h.winners[w.Sweep]
		if registered && winner.trial < 0 {
			why += "; " + winner.version + " is not among those last promoted"
		}
		items = append(items, h.itemsOf(w, p, held, why)...)
	}
	return items, nil
}

// itemsOf divides a sweep into at most three items:
//
//   - the trial of a promoted version, which is kept;
//   - the sweep's records, if its winner is registered. They are small, explain the version, and are kept;
//   - the rest, which is kept if held gives reasons, and else may go because of why.
//
// p is the sweep's plan; nil if it cannot be read.
func (h *holders) itemsOf(w sweepstore.Weight, p *sweep.Plan, held []string, why string) (items []Item) {
	winner, registered := h.winners[w.Sweep]
	rest := Item{Kind: "sweep", Name: string(w.Sweep), Newest: w.Newest, HeldBy: held, Bucket: Sweeps}
	keep := func(kind, name, by string, objects []blob.Attrs) {
		i := Item{Kind: kind, Name: name, Newest: w.Newest, HeldBy: append([]string{by}, held...), Bucket: Sweeps}
		i.add(objects...)
		items = append(items, i)
	}
	for trial, objects := range w.Trials {
		if registered && trial == winner.trial {
			keep("trial", fmt.Sprintf("%s, trial %d", w.Sweep, trial), "the winner, "+winner.version, objects)
		} else {
			rest.add(objects...)
		}
	}
	if registered {
		keep("records", string(w.Sweep), "its winner is registered", w.Records)
	} else {
		rest.add(w.Records...)
		rest.head = w.Plan
	}
	if rest.MayGo() {
		rest.Why = why
		if !registered {
			rest.Plan = p
		}
	}
	if len(rest.Objects) > 0 {
		items = append(items, rest)
	}
	return items
}

// openSweep returns a sweep's plan, nil if it has none or none that can be read, and why the sweep has to be kept:
// because it has no conclusion, or none that can be read. Such a sweep's dataset is recorded as needed; without a
// readable plan all datasets are. A sweep without a plan, or with a conclusion, is not held. Records that are damaged
// are no error.
func (h *holders) openSweep(ctx context.Context, s *sweepstore.Sweep, w sweepstore.Weight) (p *sweep.Plan,
	held []string, err error) {
	if w.Plan.Name == "" {
		return nil, nil, nil
	}
	p, _, unread := s.Plan(ctx)
	if unread != nil {
		p = nil
	}
	end, err := s.Conclusion(ctx)
	switch {
	case err != nil && !problem.Is(err, problem.Damaged):
		return nil, nil, err
	case err == nil && end != nil:
		return p, nil, nil
	case p != nil:
		ref := p.Dataset.Name + "@" + p.Dataset.Version
		h.datasets[ref] = append(h.datasets[ref], fmt.Sprintf("needed by open sweep %s", w.Sweep))
	default:
		h.anyDataset = append(h.anyDataset, fmt.Sprintf("sweep %s may need it: its plan cannot be read", w.Sweep))
	}
	if err != nil {
		return p, []string{"unreadable conclusion"}, nil //nolint:nilerr // unreadable records keep it
	}
	return p, []string{"open"}, nil
}

// lookAtDatasets returns an item for every version of every dataset, by name. A version is held by what addVersions and
// lookAtSweeps have recorded, if the dataset's name leads to it ("newest version"), if it is among the q.Nights that
// were staged last, or if it is young. Whoever uses a version writes its manifest anew, and it counts as young from
// then on, but not as staged again.
func (h *holders) lookAtDatasets(ctx context.Context, q Request) ([]Item, error) {
	versions := map[string][]*Item{} // by the dataset's name
	for a, err := range q.Datasets.List(ctx, sweep.DatasetVersions("")) {
		if err != nil {
			return nil, err
		}
		parts := strings.SplitN(strings.TrimPrefix(a.Name, sweep.DatasetVersions("")), "/", 3)
		if len(parts) < 3 || sweep.CheckName("dataset", parts[0]) != nil {
			continue // in no version's folder, or of no name that a dataset may have: nothing of ours to remove
		}
		name, ref := parts[0], parts[0]+"@"+parts[1]
		if _, _, err := sweep.SplitDatasetRef(ref); err != nil {
			continue // reports of staging jobs, inputs, and records of nights
		}

		// A new version begins. The list is in the order of names, so the objects of one follow each other.
		of := versions[name]
		if len(of) == 0 || of[len(of)-1].Name != ref {
			of = append(of, &Item{Kind: "dataset", Name: ref, Bucket: Datasets})
			versions[name] = of
		}
		i := of[len(of)-1]
		i.add(a)
		if parts[2] == dataset.ManifestFile {
			i.head = a // written anew by who uses it, which makes it no newer version
		} else if a.Updated.After(i.Newest) {
			i.Newest = a.Updated
		}
	}

	// The reasons to keep each version. Where the name leads to no version, none is the newest.
	var items []Item
	for name, of := range versions {
		m, err := stager.Resolve(ctx, q.Datasets, name)
		if err == nil {
			ref := name + "@" + m.Version
			h.datasets[ref] = append(h.datasets[ref], "newest version")
		} else if !problem.Is(err, problem.NotFound) {
			return nil, err
		}

		// From the newest to the oldest; one of which only the manifest is left is as old as that.
		for _, i := range of {
			if i.Newest.IsZero() {
				i.Newest = i.head.Updated
			}
		}
		slices.SortStableFunc(of, func(a, b *Item) int { return b.Newest.Compare(a.Newest) })
		for newer, i := range of {
			used := slices.MaxFunc([]time.Time{i.Newest, i.head.Updated}, time.Time.Compare)
			i.HeldBy = slices.Concat(h.datasets[i.Name], h.anyDataset, q.young(used))
			if newer < q.Nights {
				i.HeldBy = append(i.HeldBy, fmt.Sprintf("one of the newest %d", q.Nights))
			}
			if i.MayGo() {
				i.Why = english.Plural(newer, "newer version", "")
				if idle := h.idle[i.Name]; len(idle) > 0 {
					i.Why += "; " + english.WordSeries(idle, "and") + " not among those last promoted"
				}
			}
			items = append(items, *i)
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.Name, b.Name) })
	return items, nil
}
