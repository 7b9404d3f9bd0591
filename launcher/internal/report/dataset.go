package report

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// mostNights is how many nights a page shows.
const mostNights = 30

// kept is a record in the cache, without what a page does not show.
type kept struct {
	generation blob.Generation // of the object when it was read
	record     *nights.Record  // nil if it cannot be read
	why        string          // the reason, if it cannot be read
}

// Dataset reads the page of a dataset, NAME or NAME@VERSION: its nights (up to that version), what became of each, and
// its table. A missing dataset is an error of kind NotFound. A damaged manifest or record is a note on the page.
func (d *Pages) Dataset(ctx context.Context, ref string) (*page.DatasetPage, error) {
	name, version, err := sweep.SplitDatasetRef(ref)
	if err != nil {
		return nil, err
	}
	m, err := stager.Resolve(ctx, d.Datasets, ref)
	if err != nil && !problem.Is(err, problem.Damaged) {
		return nil, err
	}
	out := &page.DatasetPage{Name: name, Pinned: version != ""}
	if err != nil {
		out.Notes = append(out.Notes, "The table's manifest cannot be read: "+err.Error())
	}

	// Its nights, each compared with the one before that counts.
	records, more, err := d.records(ctx, name, version, mostNights, out)
	if err != nil {
		return nil, err
	}
	out.More = more
	out.Table = m
	for i, r := range records {
		night := nightOf(r)
		if i > 0 {
			night.Drift = columnDrift(r.Profile, lastGood(records[:i]).Profile)
		}
		out.Nights = append(out.Nights, night)
		if m != nil && r.Version == m.Version {
			out.Stats = r.Profile.Columns
		}
	}
	return out, d.sweeps(ctx, out)
}

// lastNights adds to an index the newest night of each dataset, and returns the newest records of all datasets. Records
// that cannot be read are passed over: the page of the dataset names them.
func (d *Pages) lastNights(ctx context.Context, x *page.Index) (all []*nights.Record, err error) {
	for i := range x.Datasets {
		var unread page.DatasetPage
		// Three of the last written, since accepting an older night writes its record again. If all of them were
		// blocked, there may be more such nights in a row, which the index counts.
		name := x.Datasets[i].Name
		records, more, err := d.records(ctx, name, "", 3, &unread)
		good := func(r *nights.Record) bool { return !r.Blocked() }
		if err == nil && more > 0 && !slices.ContainsFunc(records, good) {
			records, _, err = d.records(ctx, name, "", mostNights, &unread)
		}
		if err != nil {
			return nil, err
		}
		if n := len(records); n > 0 {
			night := nightOf(records[n-1])
			x.Datasets[i].Night = &night
		}
		all = append(all, records...)
	}
	return all, nil
}

// records returns the newest records of the nights of a dataset, that of the oldest day first; up to a version, unless
// that is "" or has no record. It reads so many of the last written (limit), or all if a version is given. more is how
// many older ones there are beyond those returned. Records that cannot be read are notes in out.
func (d *Pages) records(ctx context.Context, name, version string, limit int,
	out *page.DatasetPage) (records []*nights.Record, more int, err error) {
	var all []blob.Attrs
	for attrs, err := range d.Datasets.List(ctx, sweep.DatasetNights(name)) {
		if err != nil {
			return nil, 0, fmt.Errorf("list the nights of dataset %s: %w", name, err)
		}
		v, ok := strings.CutSuffix(path.Base(attrs.Name), ".json")
		if _, _, err := sweep.SplitDatasetRef(name + "@" + v); ok && err == nil {
			all = append(all, attrs)
		}
	}

	// Read the last written ones, and sort them by day: a night may be accepted, and its record written, long after.
	slices.SortFunc(all,
		func(a, b blob.Attrs) int { return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.Name, b.Name)) })
	if version == "" && len(all) > limit {
		all, more = all[:limit], len(all)-limit
	}
	for _, attrs := range all {
		k, err := d.record(ctx, name, attrs)
		if err != nil {
			return nil, 0, err
		}
		if k.record == nil {
			out.Notes = append(out.Notes, "A night's record cannot be read: "+k.why)
			continue
		}
		records = append(records, k.record)
	}
	day := func(r *nights.Record) string { return cmp.Or(r.Night, r.At.Format(time.DateOnly)) }
	slices.SortFunc(records, func(a, b *nights.Record) int {
		return cmp.Or(cmp.Compare(day(a), day(b)), a.At.Compare(b.At), cmp.Compare(a.Version, b.Version))
	})

	// End at the version, and keep only the newest before it.
	if i := slices.IndexFunc(records, func(r *nights.Record) bool { return r.Version == version }); i >= 0 {
		records = records[:i+1]
	}
	if over := len(records) - max(limit, mostNights); over > 0 {
		records, more = records[over:], more+over
	}
	return records, more, nil
}

// record returns one record, from the cache if its object has not changed. A damaged record is kept with the reason.
// What pages do not show is dropped, since many records stay in memory.
func (d *Pages) record(ctx context.Context, name string, attrs blob.Attrs) (kept, error) {
	if k, ok := d.nights[attrs.Name]; ok && k.generation == attrs.Generation {
		return k, nil
	}

	k := kept{generation: attrs.Generation}
	r, err := stager.Destination{Store: d.Datasets}.Night(ctx, name, strings.TrimSuffix(path.Base(attrs.Name), ".json"))
	switch {
	case problem.Is(err, problem.Damaged):
		k.why = err.Error()
	case err != nil:
		return k, err
	case r == nil:
		k.why = "it disappeared"
	default:
		r.Profile.Prints, r.Profile.Bare, r.Profile.Ties = nil, nil, nil
		for i := range r.Profile.Columns {
			r.Profile.Columns[i].Prints, r.Profile.Columns[i].Middles = nil, nil
		}
		k.record = r
	}

	d.nights[attrs.Name] = k
	return k, nil
}

// nightOf converts a record for a page. What became of the night (Sweep, Value, SE and Ratio) and its Drift are left
// for the caller; numbers that are not known are NaN.
func nightOf(r *nights.Record) page.Night {
	none := math.NaN()
	n := page.Night{Version: r.Version, At: r.At, State: r.State(), Rows: float64(r.Profile.Rows),
		LabelRate: r.Profile.Label.Mean, Positive: r.Profile.Label.Positive, Findings: r.Findings,
		Value: none, Ratio: none}
	if !r.Profile.Newest.IsZero() {
		n.Day = r.Profile.Newest.Format(time.DateOnly)
	}
	if r.Accepted != nil {
		n.Accepted = r.Accepted.By + ": " + r.Accepted.Why
	}
	return n
}

// lastGood returns the last of the records that is not blocked or, if all are, the last one. There must be one.
func lastGood(records []*nights.Record) *nights.Record {
	for _, r := range slices.Backward(records) {
		if !r.Blocked() {
			return r
		}
	}
	return records[len(records)-1]
}

// columnDrift returns by column how far tonight's values are from those before (nights.Distance). Times, and columns
// that are new, of another kind than before or without values (kind None), are left out.
func columnDrift(tonight, before *nights.Profile) map[string]float64 {
	old := map[string]*nights.Column{}
	for i := range before.Columns {
		old[before.Columns[i].Name] = &before.Columns[i]
	}
	out := map[string]float64{}
	for i := range tonight.Columns {
		c := &tonight.Columns[i]
		if o := old[c.Name]; o != nil && c.Kind == o.Kind && c.Kind != nights.Time && c.Kind != nights.None {
			out[c.Name] = nights.Distance(c, o)
		}
	}
	return out
}

// sweeps sets, in each night of out, the sweep that trained on it with its metric and calibration, if it is among the
// sweeps that readNewest reads and has ended. Of several it is the newest one with a winner, else the newest: a later
// sweep that has found nothing better does not undo what one before it found.
func (d *Pages) sweeps(ctx context.Context, out *page.DatasetPage) error {
	newest, _, err := d.readNewest(ctx)
	if err != nil {
		return err
	}

	outcomes := map[string]seen{} // by version of the dataset
	for _, s := range newest {
		if s.dataset.Name != out.Name || s.conclusion == nil {
			continue
		}
		out.Metric = cmp.Or(out.Metric, s.Metric)
		won := func(s seen) bool { return s.conclusion.Outcome == sweep.OutcomeWinner }
		if newer, ok := outcomes[s.dataset.Version]; !ok || won(s) && !won(newer) {
			outcomes[s.dataset.Version] = s
		}
	}

	for i := range out.Nights {
		n := &out.Nights[i]
		s, ok := outcomes[n.Version]
		if !ok {
			continue
		}
		n.Sweep = s.IndexSweep
		if v, ok := s.conclusion.Test[out.Metric]; ok {
			n.Value, n.SE = v, s.conclusion.Within.ErrorOf(out.Metric)
		}
		if k := s.conclusion.Check("calibration"); k != nil {
			n.Ratio = k.Value
		}
	}
	return nil
}
