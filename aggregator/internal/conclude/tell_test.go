package conclude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/notify"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// told is a channel for notifications that records its messages, or fails.
type told struct {
	heard []notify.VerdictMessage
	tries int   // messages, and failures
	fail  error // with which it fails; nil to record
}

// notifier returns a notifier with this channel alone.
func (t *told) notifier(now func() time.Time) *notify.Notifier {
	send := func(_ context.Context, m *notify.VerdictMessage) error {
		t.tries++
		if t.fail == nil {
			t.heard = append(t.heard, *m)
		}
		return t.fail
	}
	return &notify.Notifier{Channels: []notify.Channel{{Name: "webhook", Send: send}}, Now: now,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// aggregator returns a new aggregator that tells this channel.
func (t *told) aggregator(w *world) *Aggregator {
	a := w.aggregator()
	a.Notify = t.notifier(a.Now)
	return a
}

// ids returns the ids of the recorded messages.
func (t *told) ids() (ids []string) {
	for _, m := range t.heard {
		ids = append(ids, m.ID)
	}
	return ids
}

// TestVerdictIsToldOnce: the aggregator that concludes a sweep sends one notification at once. No other is sent, by
// this aggregator, another one or a new one, however often they reconcile.
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
		t.Errorf("told %+v; want version 1 of ctr promoted, its dataset and the reason", m)
	}
}

// TestVerdictIsToldByAnother: if the aggregator that concluded has not sent the notification, another one sends it
// after tellOthers, once, but no longer after tellFor.
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

// TestFailingChannelFailsNothing: if the channel fails, the sweep is concluded and its winner promoted without an
// error. The notification is sent, once, when the channel works again.
func TestFailingChannelFailsNothing(t *testing.T) {
	w, ch := newWorld(t, options{}), &told{fail: errors.New("no answer")}
	a := ch.aggregator(w)
	c, err := a.Consider(t.Context(), w.plan.Sweep)
	if err != nil || c == nil || !c.Gate.Promoted {
		t.Fatalf("concluded with %+v, %v; want a promotion", c, err)
	}
	if err := a.Reconcile(t.Context()); err != nil {
		t.Errorf("reconciled after a promotion: %v; want no error", err)
	}
	ch.fail = nil
	w.now = w.now.Add(tellAgain)
	for range 2 {
		if err := a.Reconcile(t.Context()); err != nil {
			t.Errorf("reconciled to tell again: %v; want no error", err)
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
		after time.Duration // since the step before
		tries int           // attempts in all, after this step
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

// TestMarkThatCannotBeWritten: over a store that loses half of the answers to writes, the mark that a notification was
// sent may be missing. Then the same notification is sent again, and the sweep is still concluded.
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

// TestSweepsAreConcludedBeforeAnythingIsTold: when the first notification is sent, both sweeps have been concluded, so
// that a channel that does not answer delays no conclusion.
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

// TestNightsSayWhatIsBlocked: a blocked night blocks, an accepted or unknown one does not, and a damaged record does
// not pass as good.
func TestNightsSayWhatIsBlocked(t *testing.T) {
	p := &sweep.Plan{Dataset: sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"}}
	found := []nights.Finding{{Code: nights.CodeInverted, Level: nights.Blocking,
		Text: "positive and negative look swapped"}}
	record := func(change func(*nights.Record)) string {
		r := &nights.Record{Format: 1, Dataset: p.Dataset.Name, Version: p.Dataset.Version, Profile: &nights.Profile{},
			Findings: found}
		change(r)
		text := must.Get(r.Encode())(t)
		return string(text)
	}

	for name, tc := range map[string]struct {
		record string // empty for no record
		want   string // part of the reason; empty: not blocked
	}{
		"unknown": {"", ""},
		"blocked": {record(func(*nights.Record) {}), "look swapped"},
		"accepted": {record(func(r *nights.Record) {
			r.Accepted = &nights.Acceptance{By: "ann", Why: "so it is", At: time.Unix(0, 0)}
		}), ""},
		"good":    {record(func(r *nights.Record) { r.Findings = nil }), ""},
		"damaged": {"{", "damaged"},
		"another's": {strings.ReplaceAll(record(func(*nights.Record) {}), p.Dataset.Version, "fedcba9876543210"),
			"damaged"},
	} {
		store := blob.Memory()
		if tc.record != "" {
			must.Get(store.Put(t.Context(), sweep.DatasetNight("clicks", p.Dataset.Version), blob.Absent,
				strings.NewReader(tc.record)))(t)
		}
		got, err := Nights{store}.Blocked(t.Context(), p)
		if err != nil || (len(got) > 0) != (tc.want != "") || !strings.Contains(strings.Join(got, "; "), tc.want) {
			t.Errorf("%s: blocked for %q, %v; want %q", name, got, err, tc.want)
		}
	}
}

// overwrite replaces an object's bytes.
func overwrite(t *testing.T, s blob.Store, name, text string) {
	t.Helper()
	must.Get(s.Put(t.Context(), name, blob.Any, strings.NewReader(text)))(t)
}

// reworded returns a registry that has the world's version with another wording of its report, as of another build.
func (w *world) reworded(t *testing.T) blob.Store {
	t.Helper()
	old := registry.New(w.models)
	v := must.Get(old.Find(t.Context(), "ctr", string(w.plan.Sweep)))(t)
	files := filesOf(t, old, v)
	files[scorer.FileReport] = bytes.Replace(files[scorer.FileReport], []byte("has the highest"),
		[]byte("is the best by"), 1)

	out := blob.Memory()
	must.Get(registry.New(out).Register(t.Context(), "ctr", string(w.plan.Sweep), files, v.Info))(t)
	return out
}

// TestDamageAfterRegistering: an aggregator stops between registering and concluding, before or after moving the
// champion, and something is damaged before the next one runs. The sweep still has a winner, because the registry has
// its version.
func TestDamageAfterRegistering(t *testing.T) {
	clean := newWorld(t, options{})
	want := clean.mustConclude(t)
	names := sweep.Names(clean.plan.Sweep)
	data := sweep.DatasetDir(clean.plan.Dataset.Name, clean.plan.Dataset.Version)

	for name, tc := range map[string]struct {
		spoil    func(*testing.T, *world)
		promotes bool // expected if not promoted before
		unread   bool // the version's record cannot be read, and so neither can the report
	}{
		"nothing": {func(*testing.T, *world) {}, true, false},
		"sample":  {func(t *testing.T, w *world) { flip(t, w.datasets, data+dataset.SampleFile) }, false, false},
		"winner's result": {func(t *testing.T, w *world) { overwrite(t, w.sweeps, names.Result(want.Trial), "{") },
			true, false},
		"winner's model": {func(t *testing.T, w *world) {
			flip(t, w.sweeps, names.Attempt(want.Trial, 0)+"model.txt")
		}, true, false},
		"plan":   {func(t *testing.T, w *world) { overwrite(t, w.sweeps, names.Plan(), "{") }, true, false},
		"ending": {func(t *testing.T, w *world) { overwrite(t, w.sweeps, names.Ending(), "{") }, true, false},
		"key": {func(t *testing.T, w *world) {
			overwrite(t, w.models, "registry/ctr/keys/"+string(w.plan.Sweep)+".json", "{")
		}, true, false},
		"another's wording": {func(t *testing.T, w *world) { w.models = merged(t, w.models, w.reworded(t)) }, true,
			false},
		"version": {func(t *testing.T, w *world) {
			overwrite(t, w.models, "registry/ctr/versions/1/version.json", "{")
		}, false, true},
	} {
		for _, promoted := range []bool{true, false} {
			when := ", not promoted yet"
			if promoted {
				when = ", promoted"
			}
			t.Run(name+when, func(t *testing.T) {
				w := clean.fork(t)
				w.sweeps = without(t, w.sweeps, names.Conclusion())
				if !promoted {
					w.models = without(t, w.models, "registry/ctr/aliases/champion.json",
						"registry/ctr/history/champion/00000001.json")
				}
				tc.spoil(t, w)

				c, err := w.aggregator().Consider(t.Context(), w.plan.Sweep)
				if err != nil || c == nil {
					t.Fatalf("concluding gives %+v and %v; want a winner", c, err)
				}
				if c.Outcome != sweep.OutcomeWinner || c.Version != 1 || c.Model != "ctr" {
					t.Fatalf("concluded with %s, version %d of %q (%s); want version 1 of ctr as winner", c.Outcome,
						c.Version, c.Model, c.Reason)
				}
				if !tc.unread && (c.Trial != want.Trial || c.Test["auc"] != want.Test["auc"] || c.Verified == nil ||
					c.Calibration == nil) {
					t.Errorf("concluded with trial %d, auc %v; want trial %d, auc %v, as registered", c.Trial,
						c.Test["auc"], want.Trial, want.Test["auc"])
				}
				if moved := promoted || tc.promotes; c.Gate == nil || c.Gate.Promoted != moved {
					t.Errorf("the gate says %+v; want the version promoted: %t", c.Gate, moved)
				}

				// The next aggregator finds what this one left.
				again, err := w.aggregator().Consider(t.Context(), w.plan.Sweep)
				if err != nil || again == nil || again.Version != 1 {
					t.Errorf("asked again: %+v, %v; want the same conclusion", again, err)
				}
			})
		}
	}
}

// fork returns a world with copies of the objects.
func (w *world) fork(t *testing.T) *world {
	t.Helper()
	out := *w
	out.datasets, out.sweeps, out.models = without(t, w.datasets), without(t, w.sweeps), without(t, w.models)
	return &out
}

// merged returns a store with the objects of both, and those of b where both have one of a name.
func merged(t *testing.T, a, b blob.Store) blob.Store {
	t.Helper()
	out := without(t, a)
	for name, text := range state(t, b, "") {
		overwrite(t, out, name, text)
	}
	return out
}

// TestTheQuorumCountsAtTheEnd: if fewer trials than the quorum, half of them, have a model, there is no winner,
// although all have ended.
func TestTheQuorumCountsAtTheEnd(t *testing.T) {
	fail := func(r *sweep.Result, _ map[string][]byte) {
		if r.Trial > 0 {
			r.Status, r.Reason = sweep.StatusFailed, "no luck"
		}
	}
	for trials, want := range map[int]sweep.Outcome{2: sweep.OutcomeWinner, 3: sweep.OutcomeNoWinner} {
		c := newWorld(t, options{leaves: []int{4, 8, 6}[:trials], store: fail}).mustConclude(t)
		if c.Outcome != want {
			text, _ := json.Marshal(c)
			t.Errorf("1 of %d trials is done, and the quorum is half of them: %s; want %s", trials, text, want)
		}
	}
}

// TestAQuorumIsExact: the quorum is the least whole number of trials that is not below their share, also where the
// product of the two is not exact: .55 * 20 and .56 * 25 are a little more than 11 and 14. It is at least 1.
func TestAQuorumIsExact(t *testing.T) {
	for _, tc := range []struct {
		share        float64
		trials, want int
	}{{0.55, 20, 11}, {0.56, 25, 14}, {0.57, 100, 57}, {0.5, 3, 2}, {1, 7, 7}, {0.01, 3, 1}} {
		p := &sweep.Plan{Trials: make([]sweep.Trial, tc.trials)}
		p.Spec.Limits.Quorum = tc.share
		if got := quorum(p, sweep.MakeBoard(p, nil), &sweep.Ending{}); got != tc.want {
			t.Errorf("%v of %d trials: got a quorum of %d, want %d", tc.share, tc.trials, got, tc.want)
		}
	}
}

// TestStoppedTrialsNeedNoQuorum: trials stopped because others were better do not count against the quorum.
func TestStoppedTrialsNeedNoQuorum(t *testing.T) {
	stop := func(r *sweep.Result, _ map[string][]byte) {
		if r.Trial > 0 {
			r.Status, r.Reason = sweep.StatusStopped, "at 4 trees: rank 3 of 3"
		}
	}
	c := newWorld(t, options{leaves: []int{4, 8, 6}, store: stop}).mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Trial != 0 || c.Done != 1 || c.Failed != 0 {
		t.Errorf("one trial is done and two were stopped: outcome %s, trial %d, %d done, %d failed; want trial 0 to "+
			"win, and none failed", c.Outcome, c.Trial, c.Done, c.Failed)
	}
}
