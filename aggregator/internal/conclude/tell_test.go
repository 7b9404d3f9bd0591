package conclude

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// told is a channel that records its messages, or fails.
type told struct {
	heard []notify.VerdictMessage
	tries int
	fail  error
}

func (t *told) notifier(now func() time.Time) *notify.Notifier {
	send := func(_ context.Context, m *notify.VerdictMessage) error {
		if t.tries++; t.fail == nil {
			t.heard = append(t.heard, *m)
		}
		return t.fail
	}
	return &notify.Notifier{Channels: []notify.Channel{{Name: "webhook", Send: send}}, Now: now,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func (t *told) aggregator(w *world) *Aggregator {
	a := w.aggregator()
	a.Notify = t.notifier(a.Now)
	return a
}

func (t *told) ids() (ids []string) {
	for _, m := range t.heard {
		ids = append(ids, m.ID)
	}
	return ids
}

// TestVerdictIsToldOnce: at once, by the aggregator that concludes, and by no other, however often the sweep is
// considered.
func TestVerdictIsToldOnce(t *testing.T) {
	w, ch := newWorld(t, options{}), &told{}
	first, second := ch.aggregator(w), ch.aggregator(w)
	for _, a := range []*Aggregator{first, first, second, first} {
		must.Do(t, a.Reconcile(t.Context()))
	}
	w.now = w.now.Add(time.Hour)
	for _, a := range []*Aggregator{first, second, ch.aggregator(w)} {
		must.Do(t, a.Reconcile(t.Context()))
	}

	if want := []string{"sweep/night-1/concluded"}; !slices.Equal(ch.ids(), want) {
		t.Fatalf("told %q, want %q", ch.ids(), want)
	}
	if m := ch.heard[0]; m.Verdict != sweep.VerdictPromoted || m.Model != "ctr" || m.Version != 1 ||
		m.Dataset != w.plan.Dataset.Name+"@"+w.plan.Dataset.Version || m.Reason == "" {
		t.Errorf("told %+v", m)
	}
}

// TestVerdictIsToldByAnother: if the aggregator that concluded could not notify, another does after a while, unless it
// is too late.
func TestVerdictIsToldByAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		times int
	}{
		"too early":   {tellOthers - time.Second, 0},
		"in time":     {tellOthers, 1},
		"no news now": {tellFor + time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, ch := newWorld(t, options{}), &told{}
			w.mustConclude(t) // without any channel, as if it had died at this point
			w.now = w.now.Add(tc.after)
			a := ch.aggregator(w)
			for range 3 {
				must.Do(t, a.Reconcile(t.Context()))
			}
			if len(ch.heard) != tc.times {
				t.Errorf("told %d times %s after the conclusion, want %d", len(ch.heard), tc.after, tc.times)
			}
		})
	}
}

// TestFailingChannelFailsNothing: the sweep is concluded and its winner promoted all the same, and the notification is
// sent later.
func TestFailingChannelFailsNothing(t *testing.T) {
	w, ch := newWorld(t, options{}), &told{fail: errors.New("no answer")}
	a := ch.aggregator(w)
	c, err := a.Consider(t.Context(), w.plan.Sweep)
	if err != nil || c == nil || !c.Gate.Promoted {
		t.Fatalf("concluded with %+v, %v; want a promotion", c, err)
	}
	if err := a.Reconcile(t.Context()); err != nil {
		t.Errorf("reconcile: %v", err)
	}
	ch.fail = nil
	w.now = w.now.Add(tellAgain)
	for range 2 {
		if err := a.Reconcile(t.Context()); err != nil {
			t.Errorf("reconcile: %v", err)
		}
	}
	if len(ch.heard) != 1 {
		t.Errorf("told %d times once the channel works, want 1", len(ch.heard))
	}
}

// TestFailingChannelIsLeftAlone: a failing channel is not retried for some minutes, since an attempt may take most of a
// minute, during which no other sweep is considered.
func TestFailingChannelIsLeftAlone(t *testing.T) {
	w, ch := newWorld(t, options{}), &told{fail: errors.New("no answer")}
	a := ch.aggregator(w)
	for _, step := range []struct {
		after time.Duration // the previous attempt
		tries int           // attempts by then
	}{
		{0, 1}, {0, 1}, {time.Minute, 1}, {tellAgain - time.Minute - time.Second, 1}, {time.Second, 2}, {time.Second,
			2}, {tellAgain, 3},
	} {
		w.now = w.now.Add(step.after)
		must.Do(t, a.Reconcile(t.Context()))
		if ch.tries != step.tries {
			t.Fatalf("%s after the look before, the channel was tried %d times in all; want %d", step.after, ch.tries,
				step.tries)
		}
	}
}

// TestMarkThatCannotBeWritten: the notification is sent again, and nothing else happens.
func TestMarkThatCannotBeWritten(t *testing.T) {
	w, ch := newWorld(t, options{}), &told{}
	a := ch.aggregator(w)
	a.Sweeps = blobtest.NewLossy(w.sweeps, 1, 0.5)
	for range 40 {
		_, _ = a.Consider(t.Context(), w.plan.Sweep) // until it succeeds
	}
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c == nil {
		t.Fatalf("considered after 40 attempts: got %v, %v; want the conclusion", c, err)
	}
	if ids := slices.Compact(ch.ids()); !slices.Equal(ids, []string{"sweep/night-1/concluded"}) {
		t.Errorf("told %q; want one id, however often", ids)
	}
}

// TestSweepsAreConcludedBeforeAnythingIsTold: a channel that does not answer delays no other sweep's conclusion.
func TestSweepsAreConcludedBeforeAnythingIsTold(t *testing.T) {
	w := newWorld(t, options{})
	other := newWorld(t, options{sweep: "night-2", into: w}).plan

	a := w.aggregator()
	var open []sweep.ID // sweeps without a conclusion when a notification was sent
	a.Notify = (&told{}).notifier(a.Now)
	a.Notify.Channels[0].Send = func(ctx context.Context, _ *notify.VerdictMessage) error {
		for _, id := range []sweep.ID{w.plan.Sweep, other.Sweep} {
			if c, err := sweepstore.New(w.sweeps, id).Conclusion(ctx); c == nil || err != nil {
				open = append(open, id)
			}
		}
		return nil
	}
	must.Do(t, a.Reconcile(t.Context()))
	if len(open) > 0 {
		t.Errorf("when verdicts were told, %v had not been concluded; want both to be", open)
	}
}
