package report

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// Nights adds to the page of a model its newest nights. A model without sweeps has none, which is no error.
func (d *Pages) Nights(ctx context.Context, m *page.Model) error {
	month, err := d.Month(ctx, m.Name, time.Time{})
	if problem.Is(err, problem.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	m.Month, m.Notes = *month, append(m.Notes, month.Unread...)
	return nil
}

// Month reads what became of a model's nights: its sweeps, and tables that were blocked before there was a sweep. If
// model is "", it is the newest sweep's. If since is zero, it has the newest mostNights, else those since then. It also
// says which version is live, and what there is to do. A model without any sweep is an error of kind NotFound.
func (d *Pages) Month(ctx context.Context, model string, since time.Time) (*page.Month, error) {
	if err := sweep.CheckName("model", model); err != nil && model != "" {
		return nil, err
	}
	most := mostNights
	if !since.IsZero() {
		most, d.all = 1000, true // about three years of nights
	}

	// The model's sweeps.
	newest, _, err := d.readNewest(ctx)
	if err != nil {
		return nil, err
	}
	if model == "" && len(newest) > 0 {
		model = newest[0].Model
	}
	if model == "" {
		return nil, problem.New(problem.NotFound, "there is no sweep that can be read; `launcher sweep SWEEP.yaml` "+
			"starts one, `launcher status` lists all")
	}
	if err := d.lookAtRunning(ctx, newest, model); err != nil {
		return nil, err
	}

	// The records of the datasets that it was trained on.
	m := &page.Month{Standing: sweep.Standing{Model: model}, Nights: []page.ModelNight{}}
	names, records := map[string]bool{}, []*nights.Record(nil)
	for _, s := range newest {
		if s.Model == model {
			names[s.dataset.Name] = true
		}
	}
	if len(names) == 0 {
		return nil, problem.New(problem.NotFound, "no sweep of model %s; `launcher status` lists them", model)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var unread page.DatasetPage
		some, _, err := d.records(ctx, name, "", most, &unread)
		if err != nil {
			return nil, err
		}
		m.Unread, records = append(m.Unread, unread.Notes...), append(records, some...)
	}

	// The nights, and which version was live after each. For the latter they have to be in the order in which they were
	// made; shown they are by their days.
	m.Nights = nightsOf(model, newest, records)
	m.Nights = slices.DeleteFunc(m.Nights, func(n page.ModelNight) bool { return n.At.Before(since) })
	m.Nights = m.Nights[:min(len(m.Nights), most)]
	err = d.champions(ctx, m)
	slices.SortStableFunc(m.Nights, byNight)
	m.Standing.Nights = m.InARow(m.Standing.Champion)
	m.Todo = page.Commands.Replace(m.Asks(m.Standing.Champion))
	return m, err
}

// nightsOf returns a model's nights, the one that was made last first: its sweeps among newest, with what staging found
// (records), and blocked tables of its datasets on which there was no sweep.
func nightsOf(model string, newest []seen, records []*nights.Record) (all []page.ModelNight) {
	// Nights with a sweep. trained has their places in all, by dataset version.
	trained, names := map[string][]int{}, map[string]bool{}
	for _, s := range newest {
		if s.Model == model {
			names[s.dataset.Name] = true
			trained[s.Dataset] = append(trained[s.Dataset], len(all))
			all = append(all, modelNight(s))
		}
	}

	// What staging found belongs to the sweeps on that version. A blocked version without a sweep is a night of its
	// own.
	for _, r := range records {
		ref, data := r.Dataset+"@"+r.Version, ""
		if !r.Profile.Newest.IsZero() {
			data = r.Profile.Newest.Format(time.DateOnly)
		}
		for _, i := range trained[ref] {
			all[i].Found, all[i].Data = nights.Found(r.Findings), data
		}
		if r.Blocked() && names[r.Dataset] && trained[ref] == nil {
			all = append(all, page.ModelNight{At: r.At, Data: data, LiveValue: math.NaN(), NewValue: math.NaN(),
				IndexSweep: page.IndexSweep{Model: model, Night: r.Night, Dataset: ref, Planned: r.At, At: r.At,
					Verdict: sweep.VerdictBlocked, Why: nights.Reason(r.Findings)}})
		}
	}

	// A sweep that no schedule has started has no night in its name: it is ordered by when it was made (Slot), and
	// named by its newest day of data.
	same := map[string]int{}
	for i := range all {
		all[i].Slot = cmp.Or(all[i].Night, all[i].At.Format(time.DateOnly))
		all[i].Night = cmp.Or(all[i].Night, all[i].Data, all[i].Slot)
		same[all[i].Night]++
	}

	// Nights of the same name are told apart by when they were made: ", made 2026-11-30 03:15" or, where that day is
	// the night's name, " 03:15" alone.
	for i := range all {
		if n := &all[i]; same[n.Night] > 1 {
			n.Clock = strings.TrimPrefix(n.At.UTC().Format(", made 2006-01-02 15:04"), ", made "+n.Night)
		}
	}
	slices.SortStableFunc(all, func(a, b page.ModelNight) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Dataset, b.Dataset))
	})
	return all
}

// byNight orders nights by their day, whenever they were made, the newest first.
func byNight(a, b page.ModelNight) int { return cmp.Compare(b.Slot, a.Slot) }

// champions sets, in the nights of m, which version was live after each, how old that was, and whether a person has
// promoted the night's own version later. It also sets which version is the champion now, and the last move. The nights
// must be in the order in which they were made, the last first. Moves that cannot be read are passed over.
func (d *Pages) champions(ctx context.Context, m *page.Month) error {
	born := map[int]time.Time{} // by version: when it was registered
	i := 0                      // the first night whose live version is not known yet
	for e, err := range d.Registry.Moves(ctx, m.Standing.Model, registry.Champion) {
		if problem.Is(err, problem.Damaged) {
			continue
		}
		if err != nil {
			return err
		}
		at, known := born[e.To]
		if !known && e.To > 0 {
			v, err := d.Registry.Get(ctx, m.Standing.Model, strconv.Itoa(e.To))
			if err != nil && !aboutObjects(err) {
				return err
			}
			at, born[e.To] = v.Info.At, v.Info.At
		}

		// Moves come newest first, so the first one tells what is live now.
		if m.Standing.Champion == 0 {
			m.Standing.Champion, m.Standing.Since, m.Move = e.To, at, e
		}
		for j := range m.Nights {
			n := &m.Nights[j]
			n.Manual = n.Manual || e.By != registry.ByGate && n.Version == e.To && n.Version > 0 && n.Held()
		}

		// The move made e.To live until the one before in this loop. So that was live at the end of all nights that are
		// left and whose next night began after the move: a night ends when the next one begins.
		for ; i < len(m.Nights) && (i == 0 || m.Nights[i-1].At.After(e.At)); i++ {
			n := &m.Nights[i]
			if n.Live = e.To; !at.IsZero() {
				n.Age = max(0, int(n.At.Sub(at).Hours()/24))
			}
		}
		if i == len(m.Nights) {
			break
		}
	}
	return nil
}

// modelNight makes a model's night of a sweep. Its metrics of the live and the new version are NaN unless the gate,
// which decides whether a version is promoted, has compared both on the night's rows.
func modelNight(s seen) page.ModelNight {
	n := page.ModelNight{IndexSweep: s.IndexSweep, At: s.Planned, LiveValue: math.NaN(), NewValue: math.NaN()}
	if c := s.conclusion; c != nil {
		check := c.Check("tonight")
		if check != nil && c.Gate.Champion > 0 && check.Rows > 0 {
			n.Judged, n.LiveValue, n.NewValue = c.Gate.Metric, check.Old, check.New
		}
	}
	return n
}
