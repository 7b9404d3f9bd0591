package sweepview

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"coppice/internal/blob"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// ListedNight is one line of a model's month: a sweep, or a table that was blocked before one.
type ListedNight struct {
	// Night is the day of the sweep's slot, or else of its newest row, and Data the latter: neither depends on when
	// it ran.
	Night   string        `json:"night"`
	Data    string        `json:"data,omitempty"`
	At      time.Time     `json:"at"` // when the sweep was planned, or the table staged
	Dataset string        `json:"dataset"`
	Sweep   sweep.ID      `json:"sweep,omitempty"`
	Version int           `json:"version,omitempty"`
	Verdict sweep.Verdict `json:"verdict,omitempty"` // empty while the sweep is open
	Why     string        `json:"why,omitempty"`
	// Champion is the version that was live after the night, and Age its age then, in days; 0 for none.
	Champion int `json:"champion,omitempty"`
	Age      int `json:"age,omitempty"`
}

// Month is what became of a model's nights, newest first.
type Month struct {
	Standing sweep.Standing `json:"standing"` // now; without a champion, that is 0
	Nights   []ListedNight  `json:"nights"`
}

// NightsOf lists a model's nights since a time.
func NightsOf(ctx context.Context, sweeps, datasets blob.Store, reg *registry.Registry, model string,
	since time.Time) (*Month, error) {
	if err := sweep.CheckName("model", model); err != nil {
		return nil, err
	}
	all, err := Describe(ctx, sweeps)
	if err != nil {
		return nil, err
	}
	m := &Month{Standing: sweep.Standing{Model: model}, Nights: []ListedNight{}}
	trained := map[string]bool{}
	names, days := map[string]bool{}, map[string]string{} // days of the newest rows, by dataset
	for _, l := range all {
		if l.Model != model {
			continue
		}
		if name, _, err := sweep.SplitDatasetRef(l.Dataset); err == nil {
			names[name] = true
		}
		trained[l.Dataset] = true
		if l.Created.Before(since) {
			continue
		}
		n := ListedNight{At: l.Created, Dataset: l.Dataset, Sweep: l.Sweep, Version: l.Version}
		c, err := Conclusion(ctx, sweeps, l.Sweep)
		switch {
		case problem.Is(err, problem.Damaged):
			n.Why = err.Error()
		case err != nil:
			return nil, err
		case c != nil:
			n.Verdict, n.Why = c.Verdict(), c.Why()
		}
		m.Nights = append(m.Nights, n)
	}
	if len(names) == 0 {
		return nil, problem.New(problem.NotFound, "no sweep of model %s; `launcher status` lists them", model)
	}

	for _, name := range slices.Sorted(maps.Keys(names)) {
		versions, err := Datasets(ctx, datasets, name)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			ref := v.Dataset + "@" + v.Version
			if !v.Newest.IsZero() {
				days[ref] = v.Newest.Format(time.DateOnly)
			}
			if v.State != NightBlocked || trained[ref] || v.Staged.Before(since) {
				continue
			}
			m.Nights = append(m.Nights, ListedNight{At: v.Staged, Dataset: ref, Verdict: sweep.VerdictBlocked,
				Why: nights.Reason(NightOf(ctx, datasets, v.Dataset, v.Version).Findings)})
		}
	}
	for i := range m.Nights {
		n := &m.Nights[i]
		n.Data = days[n.Dataset]
		n.Night = cmp.Or(NameNight(n.Sweep), n.Data, n.At.Format(time.DateOnly))
	}
	slices.SortStableFunc(m.Nights, func(a, b ListedNight) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Dataset, b.Dataset))
	})
	return m, m.champions(ctx, reg)
}

// NameNight is the night of a sweep, which a late or repeated start does not change: its slot, or a day at the end of
// its id. It is empty if the id has neither.
func NameNight(id sweep.ID) string {
	for _, end := range []string{"-20060102-1504", "-20060102"} {
		if at, err := time.Parse(end, string(id[max(0, len(id)-len(end)):])); err == nil {
			return at.Format(time.DateOnly)
		}
	}
	return ""
}

// champions fills in which version was live after each night, and how many nights in a row have not changed that.
func (m *Month) champions(ctx context.Context, reg *registry.Registry) error {
	born := map[int]time.Time{}
	registered := func(version int) (time.Time, error) {
		if at, known := born[version]; known || version == 0 {
			return at, nil
		}
		v, err := reg.Get(ctx, m.Standing.Model, strconv.Itoa(version))
		if err != nil && !problem.Is(err, problem.Damaged) && !problem.Is(err, problem.NotFound) {
			return time.Time{}, err
		}
		born[version] = v.Info.At
		return v.Info.At, nil
	}

	i := 0
	for e, err := range reg.Moves(ctx, m.Standing.Model, registry.Champion) {
		if problem.Is(err, problem.Damaged) {
			continue
		}
		if err != nil {
			return err
		}
		if m.Standing.Champion == 0 {
			m.Standing.Champion = e.To
			if m.Standing.Since, err = registered(e.To); err != nil {
				return err
			}
		}
		// a night ends when the next one begins
		for ; i < len(m.Nights) && (i == 0 || m.Nights[i-1].At.After(e.At)); i++ {
			n := &m.Nights[i]
			at, err := registered(e.To)
			if err != nil {
				return err
			}
			if n.Champion = e.To; !at.IsZero() {
				n.Age = max(0, int(n.At.Sub(at).Hours()/24))
			}
		}
		if i == len(m.Nights) {
			break
		}
	}
	for _, n := range m.Nights {
		switch n.Verdict {
		case sweep.VerdictPromoted:
			return nil
		case "", sweep.VerdictCancelled:
		default:
			m.Standing.Nights++
		}
	}
	return nil
}
