package sweepstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Sweep gives access to a sweep's objects outside its trials. It is safe for concurrent use.
type Sweep struct {
	bucket blob.Store
	id     sweep.ID
	names  sweep.Names
}

// New returns the sweep id, which need not exist, in the sweeps bucket.
func New(bucket blob.Store, id sweep.ID) *Sweep { return &Sweep{bucket, id, sweep.Names(id)} }

// List yields the ids of all sweeps with a plan, readable or not. It stops at the first error.
func List(ctx context.Context, bucket blob.Store) iter.Seq2[sweep.ID, error] {
	return func(yield func(sweep.ID, error) bool) {
		for attrs, err := range bucket.List(ctx, sweep.PlansPrefix) {
			if err != nil {
				yield("", fmt.Errorf("list sweeps: %w", err))
				return
			}
			if id, ok := sweep.ParsePlanName(attrs.Name); ok && !yield(id, nil) {
				return
			}
		}
	}
}

// Newest returns the ids of all sweeps with a plan, readable or not, the newest plan first.
func Newest(ctx context.Context, bucket blob.Store) ([]sweep.ID, error) {
	type dated struct {
		id sweep.ID
		at time.Time
	}
	var all []dated
	for attrs, err := range bucket.List(ctx, sweep.PlansPrefix) {
		if err != nil {
			return nil, fmt.Errorf("list sweeps: %w", err)
		}
		if id, ok := sweep.ParsePlanName(attrs.Name); ok {
			all = append(all, dated{id, attrs.Updated})
		}
	}

	slices.SortStableFunc(all, func(a, b dated) int { return b.at.Compare(a.at) })
	ids := make([]sweep.ID, len(all))
	for i, d := range all {
		ids[i] = d.id
	}
	return ids, nil
}

// Plan reads the plan, and also returns its bytes. If there is none, the error is blob.ErrNotExist.
func (s *Sweep) Plan(ctx context.Context) (plan *sweep.Plan, text []byte, err error) {
	return planKind.read(ctx, s.bucket, s.names.Plan(), func(p *sweep.Plan) error {
		return checkOwn(p.Sweep == s.id, "sweep %s", p.Sweep)
	})
}

// HasPlan reports whether the sweep exists.
func (s *Sweep) HasPlan(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Plan())
}

// Planned returns the write time of the plan, by the store's clock.
func (s *Sweep) Planned(ctx context.Context) (time.Time, error) {
	attrs, err := s.bucket.Stat(ctx, s.names.Plan())
	if err != nil {
		return time.Time{}, fmt.Errorf("look for %s: %w", s.names.Plan(), err)
	}
	return attrs.Updated, nil
}

// CreatePlan creates the sweep. created is false if it exists already.
func (s *Sweep) CreatePlan(ctx context.Context, p sweep.Plan) (created bool, err error) {
	return create(ctx, s.bucket, s.names.Plan(), &p)
}

// Tell overwrites the object that says what holds a task of a job up. With a nil t it becomes empty: nothing does.
func (s *Sweep) Tell(ctx context.Context, job string, task int, t *sweep.Trouble) (err error) {
	var data []byte
	if t != nil {
		if data, err = json.Marshal(t); err != nil {
			return err
		}
	}
	_, err = s.bucket.Put(ctx, s.names.Trouble(job, task), blob.Any, bytes.NewReader(data))
	return err
}

// Trouble reads what holds a task up, or has ended it: the newest such object in the listing. It is nil if there is
// none, or if it is damaged, since it only informs people.
func (s *Sweep) Trouble(ctx context.Context, l Listing) (*sweep.Trouble, error) {
	if l.Trouble == "" {
		return nil, nil
	}
	t, err := troubleKind.readOptional(ctx, s.bucket, l.Trouble, func(t *sweep.Trouble) error {
		return checkOwn(t.Sweep == s.id, "sweep %s", t.Sweep)
	})
	if problem.Is(err, problem.Damaged) {
		return nil, nil
	}
	return t, err
}

// Refused reports whether a task has refused to train the plan, which a build of another version wrote, before any
// trial was begun. Then programs of the plan's version can still train it.
func (s *Sweep) Refused(ctx context.Context, l Listing) (bool, error) {
	t, err := s.Trouble(ctx, l)
	begun := slices.ContainsFunc(l.Trials, func(l Listed) bool { return len(l.Claims) > 0 })
	return t != nil && t.Refused && !begun, err
}

// Cancelled reports whether the sweep was cancelled. The object's contents do not matter.
func (s *Sweep) Cancelled(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Cancel())
}

// Cancel asks all tasks to stop. created is false if the sweep was cancelled before.
func (s *Sweep) Cancel(ctx context.Context, at time.Time) (created bool, err error) {
	return create(ctx, s.bucket, s.names.Cancel(), &sweep.Cancellation{Format: sweep.FormatVersion, Sweep: s.id,
		At: at})
}

// HasEnding reports whether the ending was written, readable or not: results that come later do not count.
func (s *Sweep) HasEnding(ctx context.Context) (bool, error) {
	return exists(ctx, s.bucket, s.names.Ending())
}

// Ending reads the ending of a sweep with that many trials; nil if there is none yet.
func (s *Sweep) Ending(ctx context.Context, trials int) (*sweep.Ending, error) {
	k := kind[sweep.Ending]{"ending", 16 << 20, func(data []byte) (*sweep.Ending, error) {
		return sweep.DecodeEnding(data, trials)
	}}
	return k.readOptional(ctx, s.bucket, s.names.Ending(), func(e *sweep.Ending) error {
		return checkOwn(e.Sweep == s.id, "sweep %s", e.Sweep)
	})
}

// CreateEnding writes the ending. created is false if there is one already.
func (s *Sweep) CreateEnding(ctx context.Context, e sweep.Ending) (created bool, err error) {
	return create(ctx, s.bucket, s.names.Ending(), &e)
}

// Conclusion reads the conclusion; nil if there is none yet.
func (s *Sweep) Conclusion(ctx context.Context) (*sweep.Conclusion, error) {
	return conclusionKind.readOptional(ctx, s.bucket, s.names.Conclusion(), func(c *sweep.Conclusion) error {
		return checkOwn(c.Sweep == s.id, "sweep %s", c.Sweep)
	})
}

// CreateConclusion concludes the sweep. created is false if it was concluded before.
func (s *Sweep) CreateConclusion(ctx context.Context, c sweep.Conclusion) (created bool, err error) {
	return create(ctx, s.bucket, s.names.Conclusion(), &c)
}

// Told records the notifications sent on one occasion.
type Told struct {
	bucket blob.Store
	mark   func(channel string) string // the object that says so
}

// Told returns those for the sweep on an occasion.
func (s *Sweep) Told(on sweep.Occasion) Told {
	return Told{s.bucket, func(channel string) string { return s.names.Told(on, channel) }}
}

// ToldOfTable returns those about a blocked version of a dataset, which are in the datasets bucket.
func ToldOfTable(datasets blob.Store, name, version string) Told {
	return Told{datasets, func(channel string) string { return sweep.DatasetTold(name, version, channel) }}
}

// Has reports whether the notification was sent on the channel.
func (t Told) Has(ctx context.Context, channel string) (bool, error) {
	return exists(ctx, t.bucket, t.mark(channel))
}

// Put records that it was sent. Recording it again is harmless.
func (t Told) Put(ctx context.Context, id, channel string, at time.Time) error {
	_, err := create(ctx, t.bucket, t.mark(channel), &sweep.Mark{Format: sweep.FormatVersion, ID: id,
		Channel: channel, At: at.UTC()})
	return err
}

// Weight is all objects of a sweep.
type Weight struct {
	Sweep   sweep.ID
	Newest  time.Time            // write time of the newest object
	Plan    blob.Attrs           // without a name if there is none: it is yet to be written, or was removed first
	Trials  map[int][]blob.Attrs // their models, scores and checkpoints
	Records []blob.Attrs         // all others: the plan, the ending, results, claims, decisions and so on
}

// Weigh lists all objects in the bucket and returns them by sweep, in the order of the sweeps' ids. Objects that belong
// to no sweep are left out.
func Weigh(ctx context.Context, bucket blob.Store) (all []Weight, err error) {
	at := map[sweep.ID]*Weight{}
	for a, err := range bucket.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("list sweeps: %w", err)
		}
		id, ok := sweep.ParseSweepObject(a.Name)
		if ok && at[id] == nil {
			at[id] = &Weight{Sweep: id, Trials: map[int][]blob.Attrs{}}
		}
		if ok {
			at[id].add(a)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(at)) {
		all = append(all, *at[id])
	}
	return all, nil
}

// add adds an object to the trial that it is a file or checkpoint of, or else to the records. The plan is a record, and
// is remembered as the plan as well.
func (w *Weight) add(a blob.Attrs) {
	if a.Updated.After(w.Newest) {
		w.Newest = a.Updated
	}
	names := sweep.Names(w.Sweep)
	trial, part, _, ok := names.ParseTrialObject(a.Name)
	switch {
	case a.Name == names.Plan():
		w.Plan, w.Records = a, append(w.Records, a)
	case ok && (part == sweep.PartOther || part == sweep.PartCheckpoint):
		w.Trials[trial] = append(w.Trials[trial], a)
	default:
		w.Records = append(w.Records, a)
	}
}
