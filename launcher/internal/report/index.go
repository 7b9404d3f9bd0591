package report

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/engine"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// mostSweeps is how many sweeps an index lists.
const mostSweeps = 200

// seen is what is cached of a sweep: its line in an index, and what is read with it.
type seen struct {
	page.IndexSweep
	dataset    sweep.DatasetRef
	hourly     float64           // USD, of the planned machines; 0 if unknown
	conclusion *sweep.Conclusion // nil if there is none yet
	view       *sweepview.View   // of a sweep that runs
}

// mostRunning is the most running sweeps of which an index says how far they are, since that is read anew each time,
// with a question to the engine.
const mostRunning = 8

// readNewest returns the newest sweeps, the newest first, or all if d.all is set. It reads those that are new or had
// not ended, and takes the others from the cache. more is the number of sweeps left out. A sweep that cannot be read is
// returned with the state Unreadable, and read again the next time.
func (d *Pages) readNewest(ctx context.Context) (newest []seen, more int, err error) {
	ids, err := sweepstore.Newest(ctx, d.Sweeps)
	if err != nil {
		return nil, 0, err
	}
	if over := len(ids) - mostSweeps; over > 0 && !d.all {
		ids, more = ids[:mostSweeps], over
	}

	newest = make([]seen, len(ids))
	var group errgroup.Group
	group.SetLimit(sweepview.ReadAtOnce)
	for i, id := range ids {
		line, ok := d.seen[id]
		newest[i] = line
		if !ok || line.State == page.Running {
			group.Go(func() (err error) {
				newest[i], err = d.readLine(ctx, id, line)
				if err != nil && ctx.Err() == nil { // the others are shown all the same
					newest[i].ID, newest[i].State, newest[i].Why = string(id), page.Unreadable, err.Error()
					err = nil
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}

	for i, id := range ids {
		if newest[i].State != page.Unreadable {
			d.seen[id] = newest[i]
		}
	}
	slices.SortFunc(newest,
		func(a, b seen) int { return cmp.Or(b.Planned.Compare(a.Planned), cmp.Compare(a.ID, b.ID)) })
	return newest, more, nil
}

// Index reads the list of all sweeps, datasets and models, and how they stand. Of sweeps it has only the newest unless
// all is set. A sweep that cannot be read says so in its line, and does not keep the rest from being shown; nor does a
// damaged record or alias, whose line has less. If a bucket cannot be listed, that is an error.
func (d *Pages) Index(ctx context.Context, all bool) (*page.Index, error) {
	// Sweeps.
	d.all = d.all || all
	newest, more, err := d.readNewest(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.lookAtRunning(ctx, newest, ""); err != nil {
		return nil, err
	}
	out := &page.Index{Sweeps: []page.IndexSweep{}, More: more}
	for _, s := range newest {
		out.Sweeps = append(out.Sweeps, s.IndexSweep)
	}

	// Datasets, with their newest night.
	if out.Datasets, err = d.listDatasets(ctx); err != nil {
		return nil, err
	}
	records, err := d.lastNights(ctx, out)
	if err != nil {
		return nil, err
	}

	// Models: the champion, the last night, for how many nights no version was promoted, and what a running sweep asks.
	names, err := d.Registry.Models(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m := page.IndexModel{Name: name}
		versions, err := d.Registry.Numbers(ctx, name)
		if err != nil {
			return nil, err
		}
		m.Versions = len(versions)
		a, err := d.Registry.Alias(ctx, name, registry.Champion)
		if err != nil && !aboutObjects(err) {
			return nil, err
		}
		m.Champion, m.Since = a.Version, a.Last.At
		month := page.Month{Nights: nightsOf(name, newest, records)}
		slices.SortStableFunc(month.Nights, byNight)
		if last := month.Last(); last != nil {
			m.Last, m.Held = &last.IndexSweep, month.InARow(m.Champion)
		}
		for _, s := range out.Sweeps {
			if s.Model == name && s.Running && s.Asks.Due() && !m.Asked.Due() { // the newest one
				m.Asked = s.Asks
			}
		}
		out.Models = append(out.Models, m)
	}
	return out, nil
}

// lookAtRunning reads how far sweeps are that have not ended, and what they ask of a person, and sets that in their
// lines in newest. It does so for the newest mostRunning, of one model or, if that is "", of all. A sweep that cannot
// be read is left as it is.
func (d *Pages) lookAtRunning(ctx context.Context, newest []seen, model string) error {
	var group errgroup.Group
	for i, n := 0, 0; i < len(newest) && n < mostRunning; i++ {
		if s := newest[i]; s.view != nil && (model == "" || s.Model == model) {
			n++
			group.Go(func() error {
				if state, err := s.view.Look(ctx); err == nil {
					snap := s.view.Snapshot(state, d.Job.ask(ctx, s.view.Plan))
					newest[i].IndexSweep = runningLine(s, state, snap)
				}
				return ctx.Err()
			})
		}
	}
	return group.Wait()
}

// Asks returns what a sweep asks of a person: after its conclusion what that says, before it whether it may exceed its
// budget or was interrupted. live is the version that is live now, 0 if unknown.
func (d *Pages) Asks(v *sweepview.View, state sweepview.State, snap sweepview.Snapshot, live int) sweep.Todo {
	p := v.Plan
	if state.Conclusion != nil {
		return state.Conclusion.Todo(p.Dataset.Name+"@"+p.Dataset.Version, live)
	}
	s := seen{IndexSweep: page.IndexSweep{ID: string(p.Sweep), Planned: p.Created}, view: v, hourly: d.hourly(p)}
	return runningLine(s, state, snap).Asks
}

// isStopped reports whether a sweep was interrupted: its job is gone, while trials are left and nobody has cancelled or
// ended it. In the first minute it is not, since a job may not be visible right after its creation.
func isStopped(p *sweep.Plan, state sweepview.State, snap sweepview.Snapshot) bool {
	return snap.Job.State == engine.Gone && snap.Waiting > 0 && !state.Ending && !state.Cancelled &&
		state.Listing.Began.Sub(p.Created) > time.Minute
}

// hourly returns what all machines of a sweep cost an hour, in USD; 0 if that is unknown, or nothing is paid.
func (d *Pages) hourly(p *sweep.Plan) float64 {
	if p.Quote == nil || !d.Online {
		return 0
	}
	return p.Quote.Hourly * float64(max(p.Sizing.VMs, 1))
}

// runningLine returns the line of a sweep that has not ended, with how far it is and what it asks. s needs view and
// hourly.
func runningLine(s seen, state sweepview.State, snap sweepview.Snapshot) page.IndexSweep {
	line := s.IndexSweep
	line.Running, line.Ended, line.Best, line.AsOf = true, snap.Ended(), math.NaN(), state.Listing.Latest
	line.Price, line.Budget = s.hourly, s.view.Plan.Spec.Budget
	line.Left = sweep.Range{Low: snap.LeftLow, Expected: snap.Left, High: snap.LeftHigh}
	if snap.Best != nil {
		line.Best = snap.Best.Score
	}
	line.Asks = sweep.Todo{Sweep: line.ID, OverBudget: line.Pace().Over(), Stopped: isStopped(s.view.Plan, state, snap)}
	return line
}

// listDatasets returns all datasets that have a version, by name, with their number of versions and the time at which
// the last was stored. It takes one listing of the bucket. With an error it returns what was listed before it.
func (d *Pages) listDatasets(ctx context.Context) (out []page.IndexDataset, err error) {
	versions, err := stager.Versions(ctx, d.Datasets, "")
	for _, v := range versions { // those of one dataset follow each other
		m := v.Manifest
		if _, _, err := sweep.SplitDatasetRef(m.Name + "@" + m.Version); err != nil {
			continue // under a name that nothing could refer to
		}
		if n := len(out); n == 0 || out[n-1].Name != m.Name {
			out = append(out, page.IndexDataset{Name: m.Name})
		}
		last := &out[len(out)-1]
		last.Versions++
		if v.Stored.After(last.Staged) {
			last.Staged = v.Stored
		}
	}
	slices.SortFunc(out, func(a, b page.IndexDataset) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// readLine reads one sweep's plan, unless line is the sweep's from an earlier call, and its conclusion. With an error
// it returns as much as could be read.
func (d *Pages) readLine(ctx context.Context, id sweep.ID, line seen) (seen, error) {
	if line.ID == "" {
		f, err := sweepview.Open(ctx, d.Sweeps, id)
		if err != nil {
			return line, err
		}
		p := f.Plan
		line = seen{dataset: p.Dataset, view: f,
			IndexSweep: page.IndexSweep{ID: string(id), Dataset: p.Dataset.Name + "@" + p.Dataset.Version,
				Metric: p.Spec.Metric, Model: p.Spec.Model, State: page.Running, Planned: p.Created,
				Night:  sweepview.NameNight(id),
				Trials: len(p.Own())}, hourly: d.hourly(p)}
	}
	c, err := sweepstore.New(d.Sweeps, id).Conclusion(ctx)
	if err != nil {
		return line, err
	}
	if c != nil {
		line.State, line.Version, line.conclusion = string(c.Outcome), c.Version, c
		line.Verdict, line.Why, line.At, line.view = c.Verdict(), c.Why(), c.At, nil
		line.Caution, line.Asks = c.Caution() != "", c.Todo(line.Dataset, 0)
		if v, ok := c.Test[line.Metric]; ok {
			line.Score, line.SE = &v, c.Within.ErrorOf(line.Metric)
		}
	}
	return line, nil
}
