package conclude

import (
	"context"
	"errors"
	"strconv"
	"time"

	"coppice/internal/notify"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

const (
	// tellOthers is how long the writer of a conclusion has to send the notification before other aggregators assume
	// that it cannot.
	tellOthers = 3 * time.Minute
	// tellFor is how long a notification is attempted; after that it is no longer news.
	tellFor = 6 * time.Hour
	// tellAgain is the pause after a failed attempt.
	tellAgain = 5 * time.Minute
)

// sendNotification sends the notification of a sweep that has ended, on the channels that have not had it. It must be
// known to have ended (known.ended). A failure does not affect the sweep; it is retried, after a pause, when the
// sweep is next considered. If another aggregator wrote the conclusion, that one gets tellOthers to send it first.
func (a *Aggregator) sendNotification(ctx context.Context, id sweep.ID) {
	k := a.remember(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.ended
	age := a.Now().Sub(c.At)
	switch {
	case k.told:
		return
	case a.Notify.Silent() || age > tellFor: // no channel, or no news any more
		k.told = true
		return
	case !k.wrote && age < tellOthers: // the writer's turn
		return
	case a.Now().Before(k.tellNext): // an attempt has just failed
		return
	}

	metric, dataset := a.trainedOn(ctx, c.Sweep, k)
	k.told = a.Notify.Tell(ctx, notify.ConcludedMessage(c, metric, dataset, k.planned),
		a.sweep(c.Sweep).Told(sweep.OccasionConcluded))
	if !k.told {
		k.tellNext = a.Now().Add(tellAgain) // counted from the end of the attempt, which may have taken long
	}
}

// warnedOf returns the most serious warning of staging about the sweep's table. It is empty if there is none, or if the
// record of staging cannot be read now: a conclusion does not wait for it.
func (a *Aggregator) warnedOf(ctx context.Context, k *known) string {
	if k.plan == nil {
		return ""
	}
	r, err := a.record(ctx, k.plan.Dataset.Name, k.plan.Dataset.Version)
	if err != nil || r == nil {
		return ""
	}
	return r.Warned()
}

// standingOf returns, for a sweep that has not made a new champion, which version is the champion, when that was
// registered, and for how many nights, with this one, no version has replaced it. It is nil if there is no champion or
// it cannot be read now, and for a sweep that was cancelled or has no plan that can be read.
func (a *Aggregator) standingOf(ctx context.Context, k *known, c *sweep.Conclusion) *sweep.Standing {
	v := c.Verdict()
	if v == sweep.VerdictPromoted || v == sweep.VerdictCancelled || k.plan == nil {
		return nil
	}
	model := k.plan.Spec.Model
	now, err := a.readChampion(ctx, model)
	if err != nil || now.Version == 0 {
		return nil // the conclusion does not wait for it
	}
	champion, err := a.Registry.Get(ctx, model, strconv.Itoa(now.Version))
	if err != nil {
		return nil
	}
	s := &sweep.Standing{Model: model, Champion: now.Version, Since: champion.Info.At}

	// Nights are counted by the versions since the last new champion, which are numbered one after the other. A version
	// that was champion until it was rolled back was a new champion, too. A sweep without a version looks for the last
	// one, and adds its own night. A version older than that new champion, as of a sweep that ended late, counts its
	// own night alone.
	live := max(now.Version, now.Last.From)
	last := max(c.Version, live)
	for c.Version == 0 && last-live < maxPrior {
		if _, err := a.Registry.Get(ctx, model, strconv.Itoa(last+1)); err != nil && !errors.As(err,
			new(*registry.DeletedError)) {
			break
		}
		last++
	}
	s.Nights = last - live
	if c.Version <= live { // this night is not among those counted
		s.Nights++
	}
	return s
}

// trainedOn returns a sweep's metric and dataset: those in k, or else those of its plan, as when this process has found
// the sweep concluded. Both are empty if the plan cannot be read.
func (a *Aggregator) trainedOn(ctx context.Context, id sweep.ID, k *known) (metric, dataset string) {
	if k.dataset != "" {
		return k.metric, k.dataset
	}
	p, _, err := a.sweep(id).Plan(ctx)
	if err != nil {
		return "", ""
	}
	return p.Spec.Metric, p.Dataset.Name + "@" + p.Dataset.Version
}
