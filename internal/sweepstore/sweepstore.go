// Package sweepstore reads and writes the objects of a sweep: the plan, what tasks write, and how it ends. It is the
// only place that knows each object's contents, its size limit, and what it means if it cannot be read
// (internal/sweep/WIRE.md), so that a task, the aggregator and an observer see the same sweep.
//
// It contains no policy. Who may claim a trial, when a holder counts as dead and when a sweep is over is decided by its
// users, who declare interfaces with the few methods that they need.
package sweepstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
)

// kind is what all objects of one kind have in common.
type kind[T any] struct {
	name   string
	limit  int64 // bytes; a longer object is damaged
	decode func([]byte) (*T, error)
}

// The kinds of objects. A plan and a conclusion name up to sweep.MaxTrials trials; a decision, a rung, a promotion and
// an end by rule name all that they were based on.
var (
	planKind          = kind[sweep.Plan]{"plan", 64 << 20, sweep.DecodePlan}
	conclusionKind    = kind[sweep.Conclusion]{"conclusion", 64 << 20, sweep.DecodeConclusion}
	claimKind         = kind[sweep.Claim]{"claim", 1 << 20, sweep.DecodeClaim}
	troubleKind       = kind[sweep.Trouble]{"trouble", 64 << 10, sweep.DecodeTrouble}
	heartbeatKind     = kind[sweep.Heartbeat]{"heartbeat", 1 << 20, sweep.DecodeHeartbeat}
	curveKind         = kind[sweep.Curve]{"learning curve", 64 << 10, sweep.DecodeCurve}
	resultKind        = kind[sweep.Result]{"result", 16 << 20, sweep.DecodeResult}
	decisionKind      = kind[sweep.Decision]{"decision", 16 << 20, sweep.DecodeDecision}
	configurationKind = kind[sweep.Configuration]{"configuration", 64 << 10, sweep.DecodeConfiguration}
	rungKind          = kind[sweep.Rung]{"rung", 16 << 20, sweep.DecodeRung}
	promotionKind     = kind[sweep.Promotion]{"promotion", 16 << 20, sweep.DecodePromotion}
)

// damaged returns the error, of kind problem.Damaged, that an object is not what its name says: it is too long, has a
// wrong checksum, is not JSON of its kind or of a format that this build reads, or is about another sweep, trial or
// claim.
func (k kind[T]) damaged(object string, why error) error {
	if !errors.As(why, new(*sweep.DecodeError)) {
		why = sweep.NotA(k.name, why)
	}
	return problem.Wrap(problem.Damaged, why, "%s", object)
}

// checkOwn returns nil if own is true. Otherwise it returns the error that an object belongs to something else than its
// name says, which the format describes.
func checkOwn(own bool, format string, args ...any) error {
	if own {
		return nil
	}
	return fmt.Errorf("it belongs to "+format, args...)
}

// read returns an object, without its write id, which only the writer needs, and its bytes. check, which may be nil,
// compares the object with its name. The error about a missing object is blob.ErrNotExist, and the one about a damaged
// object is of kind problem.Damaged. Other errors are the store's.
func (k kind[T]) read(ctx context.Context, s blob.Store, object string, check func(*T) error) (*T, []byte, error) {
	data, _, err := blob.ReadAll(ctx, s, object, k.limit)
	if problem.Is(err, problem.Damaged) {
		return nil, nil, k.damaged(object, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", object, err)
	}

	v, err := k.decode(data)
	if err == nil && check != nil {
		err = check(v)
	}
	if err != nil {
		return nil, nil, k.damaged(object, err)
	}
	if once, ok := any(v).(interface{ ForgetWrite() }); ok {
		once.ForgetWrite()
	}
	return v, data, nil
}

// readOptional is read, except that a missing object is nil and no error.
func (k kind[T]) readOptional(ctx context.Context, s blob.Store, object string, check func(*T) error) (*T, error) {
	v, _, err := k.read(ctx, s, object, check)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	return v, err
}

// exists reports whether an object exists, whatever its contents.
func exists(ctx context.Context, s blob.Store, object string) (bool, error) {
	_, err := s.Stat(ctx, object)
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", object, err)
	}
	return true, nil
}

// create writes v as indented JSON if the object does not exist. It gives v a write id of its own first. created is
// false if the object exists already. If the answer to the write is lost, it finds out: see createBytes.
func create(ctx context.Context, s blob.Store, object string, v interface{ MarkWrite(id string) }) (created bool,
	err error) {
	v.MarkWrite(rand.Text())
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return false, fmt.Errorf("write %s: %w", object, err)
	}
	return createBytes(ctx, s, object, append(data, '\n'))
}

// createBytes is create for bytes that no other writer writes.
//
// The answer to a write may be lost. Then the storage client either repeats the write and hears that the object exists,
// or gives up with an error. In both cases the object may be the one written here. So only a write that the store
// confirms counts at once. After any other outcome the object is read, to see whose it is.
func createBytes(ctx context.Context, s blob.Store, object string, data []byte) (created bool, err error) {
	_, err = s.Put(ctx, object, blob.Absent, bytes.NewReader(data))
	if err == nil {
		return true, nil
	}

	look, cancel := lastLook(ctx)
	defer cancel()
	own, unsettled := holds(look, s, object, data)
	if created, known := (protocol.Creation{Read: unsettled == nil, Own: own}).Settled(); known {
		return created, nil
	}
	if errors.Is(err, blob.ErrPrecondition) { // the object exists, but it cannot be told whose it is
		return false, fmt.Errorf("write %s: it exists, and could not be compared with what was written: %w", object,
			unsettled)
	}
	return false, fmt.Errorf("write %s: %w", object, err)
}

// LookLimit is how long a process that was told to stop checks the outcome of a write: a small part of the time it has
// left.
const LookLimit = 1500 * time.Millisecond

// lastLook returns a context for checking the outcome of a write: ctx, or a short one of its own if ctx has ended. Even
// then the write may have succeeded, and a process that is stopping has to know that it has a claim to release.
func lastLook(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), LookLimit)
}

// holds reports whether an object's contents are data. A missing object is blob.ErrNotExist.
func holds(ctx context.Context, s blob.Store, object string, data []byte) (bool, error) {
	there, _, err := blob.ReadAll(ctx, s, object, int64(len(data)))
	if problem.Is(err, problem.Damaged) { // longer than data, or with a wrong checksum: not what was written
		return false, nil
	}
	return bytes.Equal(there, data), err
}

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

// Course has the records of the jobs after the first that a sweep has had so far, ascending.
type Course []sweep.JobRecord

// Course reads the records of the sweep's jobs after the first. It is an error if one cannot be read, since it is not
// known then on which machines the sweep runs.
func (s *Sweep) Course(ctx context.Context, p *sweep.Plan) (c Course, err error) {
	var jobs []int
	for attrs, err := range s.bucket.List(ctx, s.names.Jobs()) {
		if err != nil {
			return nil, fmt.Errorf("list the jobs of sweep %s: %w", s.id, err)
		}
		if n, ok := s.names.ParseJobRecord(attrs.Name); ok && n <= p.LastJob() { // others are not of this plan
			jobs = append(jobs, n)
		}
	}
	slices.Sort(jobs)
	for _, n := range jobs {
		r, err := s.Job(ctx, p, n)
		if err != nil {
			return nil, err
		}
		if r != nil { // it may have been deleted, with the sweep
			c = append(c, *r)
		}
	}
	return c, nil
}

// Current returns the number of the sweep's newest job.
func (c Course) Current() int {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].Number
}

// Numbers returns the numbers of the sweep's jobs, ascending.
func (c Course) Numbers() []int {
	numbers := []int{0} // the plan's own job, which has no record
	for _, r := range c {
		numbers = append(numbers, r.Number)
	}
	return numbers
}

// Job reads the record of job n, from 1; nil if there is none yet.
func (s *Sweep) Job(ctx context.Context, p *sweep.Plan, n int) (*sweep.JobRecord, error) {
	k := kind[sweep.JobRecord]{"job record", 64 << 10, func(data []byte) (*sweep.JobRecord, error) {
		return sweep.DecodeJobRecord(data, p, n)
	}}
	return k.readOptional(ctx, s.bucket, s.names.JobRecord(n), nil)
}

// HasJob reports whether job n is recorded, readable or not.
func (s *Sweep) HasJob(ctx context.Context, n int) (bool, error) {
	return exists(ctx, s.bucket, s.names.JobRecord(n))
}

// CreateJob records job r.Number. created is false if it is recorded already.
func (s *Sweep) CreateJob(ctx context.Context, r sweep.JobRecord) (created bool, err error) {
	return create(ctx, s.bucket, s.names.JobRecord(r.Number), &r)
}
