package clean

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
)

// mortal is a store that one process uses, until it is killed.
type mortal struct {
	*dated
	killed *atomic.Bool
}

func (m mortal) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if m.killed.Load() {
		return blob.Attrs{}, errDead
	}
	return m.dated.Put(ctx, name, cond, r)
}

func (m mortal) Remove(ctx context.Context, name string, at blob.Generation) error {
	if m.killed.Load() {
		return errDead
	}
	return m.dated.Remove(ctx, name, at)
}

func (m mortal) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	if m.killed.Load() {
		return func(yield func(blob.Attrs, error) bool) { yield(blob.Attrs{}, errDead) }
	}
	return m.dated.List(ctx, prefix)
}

// TestInterrupted: version 2 is promoted just before its dataset's manifest is removed, and the run is interrupted, in
// one of five ways, at the removal after that. The dataset is whole at once, and later runs keep what was promoted and
// remove all else.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "killed", "cannot list", "cannot remove", "taken over"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			e := listed(t) // 14 nights, of which some may go at once
			ref := e.refs[2]
			manifest := sweep.DatasetDir("clicks", strings.TrimPrefix(ref, "clicks@")) + dataset.ManifestFile

			// Which store fails: where only lists fail, the sweeps' store does, since the datasets' has to put back.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var killed atomic.Bool
			q := e.request()
			q.Datasets, q.Sweeps = mortal{e.datasets, &killed}, mortal{e.sweeps, new(atomic.Bool)}
			if how == "cannot list" {
				q.Datasets, q.Sweeps = mortal{e.datasets, new(atomic.Bool)}, mortal{e.sweeps, &killed}
			}

			// Promote before the manifest is removed, and interrupt the run at its next removal.
			promoted := false
			var once sync.Once
			e.datasets.before = func(object string) {
				if object == manifest {
					once.Do(func() {
						must.Get(e.r.Promote(t.Context(), "ctr", 2, registry.Expect{Any: true}, e.act()))(e.t)
						if how == "killed" {
							must.Do(e.t, stager.Renew(t.Context(), e.datasets, ref)) // as the launcher does
						}
						promoted = true
					})
					return
				}
				if !promoted {
					return
				}
				e.datasets.before = nil
				switch how {
				case "cancelled":
					cancel()
				case "killed", "cannot list":
					killed.Store(true)
				case "cannot remove":
					e.datasets.dies = 1 // this removal and all later ones fail
				case "taken over":
					e.remove(e.request()) // another run does everything in between
				}
			}
			_, err := Remove(ctx, q)
			if interrupted := e.datasets.before == nil; !interrupted || (err == nil) != (how == "taken over") {
				t.Fatalf("interrupted: %t, error %v; want true, and an error unless another run took over",
					interrupted, err)
			}

			// The dataset is whole at once, and the next run keeps it and all that was promoted.
			e.datasets.dies = 0
			if err := e.whole(ref); err != nil {
				t.Errorf("want the dataset whole at once: %v", err)
			}
			e.remove(e.request())
			e.promoted = append(e.promoted, 2)
			for _, n := range e.promoted {
				if err := e.whole(e.refs[n]); err != nil {
					t.Errorf("want the dataset of version %d kept: %v", n, err)
				}
				if _, err := e.sweeps.Stat(t.Context(), e.trialOf(n)); err != nil {
					t.Errorf("want the trial of version %d kept: %v", n, err)
				}
			}
			e.now = e.now.Add(2 * Grace) // what has come back meanwhile is no longer young
			e.remove(e.request())
			if err := e.whole(e.refs[3]); err == nil {
				t.Error("what nobody needs is still there")
			}
		})
	}
}

// TestARecordHasThePlan: the record of a run contains the plan of each sweep that goes as a whole, even if the run is
// killed after it has removed the plan. The sweep here, loser, registered no version, so that none of it is kept.
func TestARecordHasThePlan(t *testing.T) {
	t.Parallel()
	// The sweep loser, of a model of its own, has ended without a winner.
	e := listed(t)
	p, _, err := sweepstore.New(e.sweeps, "night-1").Plan(t.Context())
	must.Do(e.t, err)
	p.Sweep, p.Spec.Model = "loser", "other"
	_, err = sweepstore.New(e.sweeps, "loser").CreatePlan(t.Context(), *p)
	must.Do(e.t, err)
	_, err = sweepstore.New(e.sweeps, "loser").CreateConclusion(t.Context(), sweep.Conclusion{Format: 1, Sweep: "loser",
		Outcome: sweep.OutcomeNoWinner, Reason: "x", At: e.now})
	must.Do(e.t, err)
	for n := range LeastNights { // newer ones of its model, so that it is not kept as one of the newest
		p.Sweep = sweep.ID(fmt.Sprintf("newer-%d", n))
		e.now = e.now.Add(time.Second)
		must.Get(sweepstore.New(e.sweeps, p.Sweep).CreatePlan(t.Context(), *p))(e.t)
	}
	e.now = e.now.Add(2 * Grace)

	// Kill the run at its second removal among the sweeps, when the plan has been removed, and let another run end it.
	e.sweeps.dies = 2
	if _, err := Remove(t.Context(), e.request()); !errors.Is(err, errDead) {
		t.Fatalf("it ended with %v; want the planted death", err)
	}
	e.sweeps.dies = 0
	e.now = e.now.Add(time.Hour)
	e.remove(e.request())
	// Of all records together, the plans: only that of loser, once.
	said := ""
	for a, err := range e.datasets.List(t.Context(), "cleaned/") {
		must.Do(e.t, err)
		text, _ := must.Get2(blob.ReadAll(t.Context(), e.datasets, a.Name, 1<<30))(e.t)
		var record struct{ Items []recorded }
		must.Do(e.t, json.Unmarshal(text, &record))
		for _, i := range record.Items {
			if i.Plan != nil {
				said += fmt.Sprintln(i.Name, i.Plan.Spec.Model, i.Plan.Dataset.Version == p.Dataset.Version,
					len(i.Plan.Trials))
			}
		}
	}
	if want := fmt.Sprintln("loser", "other", true, trials); said != want {
		t.Errorf("the records have the plans %q, want %q", said, want)
	}
	for a, err := range e.sweeps.List(t.Context(), "") {
		if must.Do(e.t, err); strings.Contains(a.Name, "loser") {
			t.Errorf("%s is left, want it removed", a.Name)
		}
	}
}

// TestNothingIsLeftToPutBack: where the second look has succeeded (known) and found nothing of a dataset, another run
// has removed it, and its manifest is not put back. Where the second look has failed, the manifest is put back.
func TestNothingIsLeftToPutBack(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		e := listed(t)
		q := e.request()
		manifest := sweep.DatasetDir("clicks", "0123456789abcdef") + dataset.ManifestFile
		must.Do(e.t, q.putBack(t.Context(), map[string][]byte{"clicks@0123456789abcdef": []byte("{}")}, nil, known))
		if _, err := e.datasets.Stat(t.Context(), manifest); (err == nil) == known {
			t.Errorf("a second look: %t; the manifest is there: %t, want the opposite", known, err == nil)
		}
	}
}

// TestAFirstRunLists does a row of runs, each some time after the one before. A run removes only if another has listed
// at least Notice (12 hours) ago, and neither that one nor any since kept more. Else it writes down what would go: the
// first run, those soon after it, as of a schedule that fires twice, and one that keeps less than the runs before.
func TestAFirstRunLists(t *testing.T) {
	t.Parallel()
	e := unlisted(t)
	for _, c := range []struct {
		after            time.Duration
		nights, promoted int
		removes          bool
	}{
		{0, 13, Promoted, false},              // the first
		{time.Minute, 13, Promoted, false},    // a schedule that fires twice
		{11 * time.Hour, 13, Promoted, false}, // the first has listed 11 hours and a minute ago
		{time.Hour, 13, Promoted, true},       // though one has listed an hour ago
		{time.Minute, 12, Promoted, false},    // those 12 hours ago have kept 13 nights
		{time.Minute, 12, Promoted, false},
		{12 * time.Hour, 12, Promoted, true},
		{12 * time.Hour, 12, 0, false},          // the one before has kept moves
		{11 * time.Hour, 11, Promoted, false},   // of those 12 hours ago the newest has kept 12 nights
		{time.Hour, 12, 0, false},               // one has kept more moves since
		{12 * time.Hour, LeastNights, 0, false}, // the one before has kept 12 nights
		{12 * time.Hour, LeastNights, 1, true},
	} {
		e.now = e.now.Add(c.after)
		q := e.request()
		q.Nights, q.Promoted = c.nights, c.promoted
		before := len(e.all())
		gone := e.remove(q)
		if len(gone) == 0 || gone[0].Removed != c.removes || (len(e.all()) < before) != c.removes {
			t.Errorf("%+v: of %d objects %d are left, and it says %+v; want fewer only if it removes", c, before,
				len(e.all()), gone)
		}
		var record struct {
			OnlyListed bool `json:"only_listed"`
			Items      []Item
		}
		_, err := blob.ReadJSON(t.Context(), e.datasets, "cleaned/"+e.now.Format(time.RFC3339Nano)+".json", &record)
		if err != nil || record.OnlyListed == c.removes || len(record.Items) != len(gone) {
			t.Errorf("%+v: written down are %+v, %v; want %d items", c, record, err, len(gone))
		}
	}
}

// TestUndone: removed objects that are put back, as Cloud Storage restores them (written now), are whole and stay for a
// week, in which somebody can promote the version. Restored datasets count as new, so that with as many nights as
// before others would go in their place: the runs of that week keep 14 nights.
func TestUndone(t *testing.T) {
	t.Parallel()
	e := listed(t)
	was := map[*dated]map[string][]byte{e.datasets: {}, e.sweeps: {}}
	for s, objects := range was {
		for a, err := range s.List(t.Context(), "") {
			must.Do(e.t, err)
			text, _ := must.Get2(blob.ReadAll(t.Context(), s, a.Name, 1<<30))(e.t)
			objects[a.Name] = text
		}
	}
	before := e.all()
	if gone := e.remove(e.request()); len(gone) == 0 || e.whole(e.refs[2]) == nil {
		t.Fatalf("%d items went; want version 2's dataset among them", len(gone))
	}

	// Put all back: for a week nothing goes.
	for s, objects := range was {
		for name, text := range objects {
			must.Get(blob.Create(t.Context(), s, name, text))(e.t)
		}
	}
	q := e.request()
	for _, wait := range []time.Duration{0, Grace - time.Hour} {
		e.now = e.now.Add(wait)
		q.Now, q.Nights = e.now, 14
		if gone := e.remove(q); len(gone) > 0 || !slices.Equal(e.all(), before) {
			t.Errorf("after %v %d objects are left, want %d, and %+v went", wait, len(e.all()), len(before), gone)
		}
		if err := e.whole(e.refs[2]); err != nil {
			t.Errorf("after %v: want what was restored whole: %v", wait, err)
		}
	}

	// After that only what was promoted meanwhile stays.
	must.Get(e.r.Promote(t.Context(), "ctr", 2, registry.Expect{Any: true}, e.act()))(e.t)
	e.now = e.now.Add(2 * Grace)
	if gone := e.remove(e.request()); len(gone) == 0 || e.whole(e.refs[2]) != nil {
		t.Errorf("a week later %d items went, and the promoted version's dataset: %v; want some to go, and it whole",
			len(gone), e.whole(e.refs[2]))
	}
}
