// Package conclude ends sweeps: it picks a winner among the trials, registers it as a version of its model, and decides
// whether that version becomes the champion, the version in production. Every step reads objects and may be repeated by
// any process at any time with the same outcome, so the order, loss and duplication of messages do not matter.
//
//	Consider     a message or the timer: results -> board -> over? (all trials, a limit, no job left, cancelled)
//	conclude     pick -> verify (leaves) -> calibrate -> measure (test) -> does the final model agree? -> register
//	gate         priorVersions, match: tonight's rows, earlier nights' -> judge -> promote, or take back
//	conclusion   written once -> told to people; checkpoints emptied
package conclude

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otel "go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/ledger"
	"coppice/internal/notify"
	"coppice/internal/protocol"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// SweepError is an error about one sweep.
type SweepError struct {
	Sweep sweep.ID
	Err   error
}

func (e *SweepError) Error() string { return fmt.Sprintf("sweep %s: %v", e.Sweep, e.Err) }

// Unwrap returns the cause.
func (e *SweepError) Unwrap() error { return e.Err }

// Report logs an error, with its sweep if it concerns one.
func Report(log *slog.Logger, what string, err error) {
	var about *SweepError
	if errors.As(err, &about) {
		log = log.With("sweep", about.Sweep)
	}
	log.Error(what, "error", err.Error())
}

// Aggregator concludes the sweeps of one bucket. It is safe for concurrent use.
type Aggregator struct {
	Datasets blob.Store
	Sweeps   blob.Store
	Registry *registry.Registry
	Jobs     Jobs             // may be nil: then only results and limits end a sweep
	Contract Contract         // may be nil: then no dataset is blocked
	Notify   *notify.Notifier // may be nil: then verdicts are only logged
	Now      func() time.Time
	Log      *slog.Logger

	messages, conclusions, verdicts otel.Int64Counter // nil when nothing is measured

	mu    sync.Mutex
	known map[sweep.ID]*known
}

// known caches what has been read of a sweep: plan and results never change.
type known struct {
	mu       sync.Mutex // serialises all work on the sweep
	plan     *sweep.Plan
	planText []byte
	trials   *sweepstore.Trials // of the plan
	results  map[int]sweep.Result
	listing  sweepstore.Listing // from which results were last read
	planned  time.Time          // write time of the plan, by the store's clock
	latest   time.Time          // write time of the newest object at the last listing, by the store's clock
	seen     time.Time          // when that was first seen, by the aggregator's clock
	costs    *ledger.Reader     // nil before the first use
	ended    *sweep.Conclusion
	wrote    bool                     // this process wrote the conclusion
	metric   string                   // of the plan, set once the sweep has ended
	dataset  string                   // NAME@VERSION of the plan, set once the sweep has ended
	stuck    string                   // why the sweep cannot be concluded, as it was last logged
	told     bool                     // this aggregator has no more notifications to send for the sweep
	tellNext time.Time                // when to retry a failed notification
	tidied   bool                     // the sweep has no checkpoints any more
	tidyNext time.Time                // when to look for them again
	progress atomic.Pointer[progress] // nil before the plan is read and after the end
}

// Handle processes one score message. After an error the message should be redelivered; a message that is not a score
// message is logged and dropped.
func (a *Aggregator) Handle(ctx context.Context, data []byte) error {
	m, err := sweep.DecodeScoreMessage(data)
	if err != nil {
		a.Log.Warn("ignored a message", "error", err.Error())
		count(a.messages, "ignored")
		return nil
	}

	_, err = a.Consider(ctx, m.Sweep)
	if err = a.dropPermanent(m.Sweep, err); err != nil {
		count(a.messages, "failed")
		return err
	}
	count(a.messages, "handled")
	return nil
}

// dropPermanent returns nil for an error that a retry would not fix, and err otherwise. Such an error is a damaged
// object of the sweep; it is logged when it is new. Once the object is repaired, the next reconciliation concludes
// the sweep. Damage to the registry is not dropped: it concerns all sweeps of a model, so that the reconciliation
// fails until it is repaired.
func (a *Aggregator) dropPermanent(id sweep.ID, err error) error {
	if !errors.As(err, new(*sweep.DecodeError)) {
		return err
	}
	k := a.remember(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	if text := err.Error(); k.stuck != text {
		k.stuck = text
		a.Log.Error("a sweep cannot be concluded", "sweep", id, "error", text)
	}
	return nil
}

// Reconcile checks every sweep of the bucket: messages may be lost, and a sweep whose tasks have gone silent sends
// none. If the sweeps cannot be listed, it checks none; after an error about one it continues, and it returns all of
// these but those that dropPermanent has logged. Notifications come last, since a slow channel must not delay the next
// sweep.
func (a *Aggregator) Reconcile(ctx context.Context) error {
	var ids, ended []sweep.ID
	for id, err := range sweepstore.List(ctx, a.Sweeps) {
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	a.recall(ctx, ids)

	var failed []error
	for _, id := range ids {
		c, err := a.concludeIfOver(ctx, id)
		if a.dropPermanent(id, err) != nil {
			failed = append(failed, err)
		}
		if c != nil {
			ended = append(ended, id)
		}
	}

	for _, id := range ended {
		a.tidyCheckpoints(ctx, id)
		a.sendNotification(ctx, id)
	}
	return errors.Join(failed...)
}

// recallAtOnce is how many conclusions are read at a time.
const recallAtOnce = 32

// recall reads the conclusions of sweeps that this process does not know yet. After its start these are all sweeps in
// the bucket, so it reads several at a time: one after the other, a thousand would take a minute. It skips what cannot
// be read; concludeIfOver deals with that.
func (a *Aggregator) recall(ctx context.Context, ids []sweep.ID) {
	var group errgroup.Group
	group.SetLimit(recallAtOnce)
	for _, id := range ids {
		k := a.remember(id)
		group.Go(func() error {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.plan == nil && k.ended == nil {
				k.ended, _ = a.sweep(id).Conclusion(ctx)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}

// Consider concludes the sweep if it is over and sends the notification. It returns the conclusion, or nil while the
// sweep continues.
func (a *Aggregator) Consider(ctx context.Context, id sweep.ID) (*sweep.Conclusion, error) {
	c, err := a.concludeIfOver(ctx, id)
	if c != nil {
		a.sendNotification(ctx, id)
	}
	return c, err
}

// concludeIfOver concludes the sweep if it is over, and returns its conclusion. It returns nil, nil while the sweep
// continues, and for a sweep that does not exist. A conclusion is kept in memory, so that later calls read nothing;
// what else was cached for the sweep is then freed. Errors are of the type SweepError.
func (a *Aggregator) concludeIfOver(ctx context.Context, id sweep.ID) (*sweep.Conclusion, error) {
	k := a.remember(id)
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.ended != nil {
		return k.ended, nil
	}

	c, err := a.consider(ctx, id, k)
	if err != nil {
		return nil, &SweepError{id, err}
	}

	if k.plan == nil && c == nil {
		a.forget(id) // a message can name any sweep
	}
	k.ended = c
	if c != nil {
		k.progress.Store(nil)
		if k.plan != nil {
			k.metric, k.dataset = k.plan.Spec.Metric, k.plan.Dataset.Name+"@"+k.plan.Dataset.Version
		}
		// free the memory: an aggregator lives for months
		k.plan, k.planText, k.trials, k.results, k.listing, k.costs = nil, nil, nil, nil, sweepstore.Listing{}, nil
	}

	return c, nil
}

// remember returns the cache of a sweep, which it creates at the first call. The caller locks its mu.
func (a *Aggregator) remember(id sweep.ID) *known {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[sweep.ID]*known{}
	}
	if a.known[id] == nil {
		a.known[id] = &known{results: map[int]sweep.Result{}}
	}
	return a.known[id]
}

// forget drops the cache of a sweep.
func (a *Aggregator) forget(id sweep.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, id)
}

// sweep gives access to the sweep's own objects.
func (a *Aggregator) sweep(id sweep.ID) *sweepstore.Sweep { return sweepstore.New(a.Sweeps, id) }

// consider returns the sweep's conclusion. If none is written yet, it concludes from the sweep's objects or, if these
// are damaged, from the version in the registry. It is nil while the sweep continues. The caller holds k.mu.
func (a *Aggregator) consider(ctx context.Context, id sweep.ID, k *known) (*sweep.Conclusion, error) {
	if c, err := a.sweep(id).Conclusion(ctx); c != nil || err != nil {
		return c, err
	}
	c, err := a.fromObjects(ctx, id, k)
	if err == nil {
		return c, nil
	}

	// If another process has written its conclusion meanwhile, that one holds.
	if c, err = a.orRegistered(ctx, id, k, c, err); err != nil {
		return nil, err
	}
	created, err := a.writeConclusion(ctx, k, c)
	if created || err != nil {
		return c, err
	}
	return a.sweep(id).Conclusion(ctx)
}

// fromObjects concludes from the sweep's objects. It carries out the actions of protocol.Ender one after the other,
// from looking for an ending to writing the conclusion. The result is nil while the sweep continues. With an error,
// it may be a conclusion that could not be completed, which orRegistered uses.
func (a *Aggregator) fromObjects(ctx context.Context, id sweep.ID, k *known) (*sweep.Conclusion, error) {
	if err := a.readPlan(ctx, id, k); err != nil || k.plan == nil {
		return nil, err
	}

	o := &concluding{a: a, k: k, jobs: &jobHistory{a: a, plan: k.plan}}
	e, first := protocol.Ender{Trials: len(k.plan.Trials)}.Begin()
	_, err := protocol.Run(e, first, func(a protocol.Action) (protocol.Answer, error) { return o.do(ctx, a) })
	return o.conclusion, err
}

// concluding carries out the actions of protocol.Ender.
type concluding struct {
	a    *Aggregator
	k    *known
	jobs *jobHistory

	spent      string        // why the budget counts as spent
	state      engine.Phase  // of the newest job
	ending     *sweep.Ending // the results that count
	won        *won
	conclusion *sweep.Conclusion
}

// do carries out one action of protocol.Ender and answers it. What later actions need is kept in o. With an error the
// answer does not count.
func (o *concluding) do(ctx context.Context, do protocol.Action) (answer protocol.Answer, err error) {
	a, k := o.a, o.k
	switch do.Do {
	case protocol.LookForConclusion: // consider has looked already

	case protocol.ReadResults: // foldResults(nil) counts all results: there is no ending yet to leave some out
		err = a.readResults(ctx, k)
		k.recordProgress()
		b := k.foldResults(nil)
		answer.Results = len(b.Rows) - b.Waiting

	case protocol.LookForEnding, protocol.ReadEnding:
		o.ending, err = a.readEnding(ctx, k)
		answer.Yes = o.ending != nil

	case protocol.LookForCancel:
		answer.Yes, err = a.sweep(k.plan.Sweep).Cancelled(ctx)

	case protocol.AskAge:
		answer.Yes = k.age(a.Now()).Reached(time.Duration(k.plan.Spec.Limits.Sweep))

	case protocol.AskBudget:
		o.spent, err = a.explainSpent(ctx, k, o.jobs)
		answer.Yes = o.spent != ""

	case protocol.AskJob:
		if a.Jobs != nil { // without an engine to ask, the answer stays no: the job may still run
			answer.Yes, o.state, err = o.jobs.haveEnded(ctx)
		}
		// If the tasks were of another version and could not train the plan, those of the right one still can.
		if answer.Yes && err == nil {
			var refused bool
			refused, err = a.sweep(o.k.plan.Sweep).Refused(ctx, o.k.listing)
			answer.Yes = !refused
		}

	case protocol.CreateEnding:
		answer.Yes, err = o.writeEnding(ctx, do.Why)

	case protocol.Register:
		o.conclusion, o.won, err = a.conclude(ctx, k, k.foldResults(o.ending), o.ending)
		answer.Yes = o.won != nil

	case protocol.Decide:
		o.conclusion.Gate, err = a.decidePromotion(ctx, k.plan, o.won.version, o.won.winner, o.won.holdout)

	case protocol.CreateConclusion:
		if o.conclusion, err = a.orRegistered(ctx, k.plan.Sweep, k, o.conclusion, nil); err == nil {
			answer.Yes, err = a.writeConclusion(ctx, k, o.conclusion)
		}

	case protocol.ReadConclusion:
		o.conclusion, err = a.sweep(k.plan.Sweep).Conclusion(ctx)
	}
	return answer, err
}

// writeEnding writes the ending, and keeps it in o.ending: why the sweep ends, and which results count, those read so
// far. created is false if another aggregator has written one, which then holds.
func (o *concluding) writeEnding(ctx context.Context, why protocol.Why) (created bool, err error) {
	// The reason, with the last error of a task and what machines were missing, if these may explain it.
	p := o.k.plan
	b := o.k.foldResults(nil)
	t, err := o.a.sweep(p.Sweep).Trouble(ctx, o.k.listing)
	if err != nil {
		return false, err
	}
	e := explainEnding(why, b, p, o.spent, o.state)
	if t != nil && (why == protocol.AtLimit || why == protocol.JobOver) {
		e.Early += fmt.Sprintf(" (task %d: %s)", t.Task, t.Text)
	}
	if o.a.Jobs != nil && (why == protocol.AtLimit || why == protocol.JobOver) {
		e.Early += o.jobs.missingMachines(ctx)
	}

	// Trials that the stopping rule would have stopped, and those that were never started.
	if why != protocol.AllEnded {
		if e.Behind, err = o.a.listBeaten(ctx, o.k); err != nil {
			return false, err
		}
	}
	if n := len(e.Behind); n > 0 && e.Early != "" {
		e.Early += fmt.Sprintf("; %d of them were paused by the stopping rule and count as stopped", n)
	}

	// Early may still be empty, which is why a leading separator is cut off.
	if left := countUntrained(p, b); left != "" && !e.Cancelled {
		e.Early = strings.TrimPrefix(e.Early+"; "+left, "; ")
	}

	e.Format, e.Sweep, e.At, e.Trials = sweep.FormatVersion, p.Sweep, o.a.Now().UTC(),
		slices.Sorted(maps.Keys(o.k.results))
	o.ending = e
	return o.a.sweep(p.Sweep).CreateEnding(ctx, *e)
}

// readEnding reads the ending, and any results it counts that have not been read yet. It is nil if there is no ending.
func (a *Aggregator) readEnding(ctx context.Context, k *known) (*sweep.Ending, error) {
	e, err := a.sweep(k.plan.Sweep).Ending(ctx, len(k.plan.Trials))
	if e == nil || err != nil {
		return nil, err
	}

	// Another aggregator may have written the ending from results that this one has not seen.
	for _, trial := range e.Trials {
		if _, have := k.results[trial]; have {
			continue
		}

		r, damage, err := k.trials.Result(ctx, trial)
		if errors.Is(err, blob.ErrNotExist) { // it was there when the ending was written, so it counts as damaged
			r, damage, err = k.trials.Unreadable(trial, err), err, nil
		}
		if err != nil {
			return nil, err
		}

		if damage != nil {
			a.damaged(k.plan, trial, damage)
		}
		k.results[trial] = *r
	}

	return e, nil
}

// readPlan reads the plan into k, once. k.plan stays nil, without an error, if there is no such sweep: a message may
// name any.
func (a *Aggregator) readPlan(ctx context.Context, id sweep.ID, k *known) error {
	if k.plan != nil {
		return nil
	}

	plan, text, err := a.sweep(id).Plan(ctx)
	if errors.Is(err, blob.ErrNotExist) {
		a.Log.Warn("there is no such sweep", "sweep", id)
		return nil
	}
	if err != nil {
		return err
	}

	planned, err := a.sweep(id).Planned(ctx)
	if err != nil {
		return err
	}

	if why := plan.Trainable(); why != nil {
		a.Log.Warn("concludes what another build plans", "sweep", id, "error", why.Error())
	}
	k.plan, k.planText, k.trials = plan, text, sweepstore.NewTrials(a.Sweeps, plan)
	k.planned, k.latest, k.seen = planned, planned, a.Now()
	return nil
}

// readResults adds the results that are new since the last call to k.results, and notes the listing and when the sweep
// last wrote an object. A damaged result is logged and fails its trial.
func (a *Aggregator) readResults(ctx context.Context, k *known) error {
	l, err := k.trials.List(ctx)
	if err != nil {
		return err
	}
	if l.Latest.After(k.latest) {
		k.latest, k.seen = l.Latest, a.Now()
	}
	k.listing = l
	return k.trials.Results(ctx, l, k.results, func(trial int, why error) { a.damaged(k.plan, trial, why) })
}

// age returns the times by which package protocol tells how long the sweep has run. Clocks of machines differ, so it
// has those of the store and of this aggregator.
func (k *known) age(now time.Time) protocol.Age {
	return protocol.Age{Planned: k.planned, Latest: k.latest, Watched: now.Sub(k.seen), Created: k.plan.Created,
		Now: now}
}

// damaged logs that a result cannot be read, which fails its trial.
func (a *Aggregator) damaged(p *sweep.Plan, trial int, why error) {
	a.Log.Error("damaged result", "sweep", p.Sweep, "trial", trial, "error", why.Error())
}

// foldResults makes the board, the ranked table of trials, from the results that count in e, or from all if e is nil.
func (k *known) foldResults(e *sweep.Ending) sweep.Board {
	results := make([]sweep.Result, 0, len(k.results))
	for trial, r := range k.results {
		if e == nil || slices.Contains(e.Trials, trial) {
			results = append(results, r)
		}
	}
	return sweep.MakeBoard(k.plan, results)
}

// writeConclusion completes c with cost, age of the champion and warnings, empties the sweep's checkpoints, creates the
// conclusion, and then counts and logs it. created is false if another aggregator was first.
func (a *Aggregator) writeConclusion(ctx context.Context, k *known, c *sweep.Conclusion) (created bool, err error) {
	c.Cost, c.Standing, c.Warned = a.costOfSweep(ctx, k, c), a.standingOf(ctx, k, c), a.warnedOf(ctx, k)
	// Tasks see the ending by now, and a reader of the conclusion must find no checkpoint.
	a.emptyCheckpoints(ctx, c.Sweep)
	k.tidyNext = a.Now().Add(tidyAgain)
	if created, err = a.sweep(c.Sweep).CreateConclusion(ctx, *c); err != nil || !created {
		return false, err
	}
	k.wrote = true
	count(a.conclusions, string(c.Outcome))
	if a.verdicts != nil {
		a.verdicts.Add(ctx, 1, otel.WithAttributes(attribute.String("verdict", string(c.Verdict()))))
	}
	words := []any{"sweep", c.Sweep, "outcome", c.Outcome, "verdict", c.Verdict(), "model", c.Model, "version",
		c.Version, "reason", c.Reason}
	if c.Outcome == sweep.OutcomeWinner {
		words = append(words, "trial", c.Trial) // without a winner, Trial is 0 and would read as trial 0
	}
	a.Log.Info("sweep concluded", words...)

	// A night that needs attention gets a line of its own with the gate's reason.
	if v := c.Verdict(); v != sweep.VerdictPromoted && v != sweep.VerdictCancelled {
		words := []any{"sweep", c.Sweep, "verdict", v, "model", c.Model, "version", c.Version, "reason", c.Why()}
		if s := c.Standing; s != nil {
			words = append(words, "nights", s.Nights, "standing", s.Text(c.At))
		}
		a.Log.Warn("not promoted", words...)
	}
	return true, nil
}
