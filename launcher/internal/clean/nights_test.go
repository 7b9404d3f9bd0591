package clean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
)

// dated is a store in memory whose objects are as old as the test's clock says, and as large as the test says.
type dated struct {
	blob.Remover
	now     *time.Time           // the test's clock
	written map[string]time.Time // by object: when it was last written
	sizes   map[string]int64     // by object: the size that is reported in place of its own, unless 0
	// calls counts removals. If dies is above 0, the removal of that number and all later ones fail with errDead, as if
	// the process had been killed before them.
	mu          sync.Mutex
	calls, dies int
	before      func(name string) // called before each removal, unless nil
}

var errDead = errors.New("the process has died")

// newDated returns an empty store whose objects are dated by the clock now.
func newDated(now *time.Time) *dated {
	return &dated{Remover: blob.Memory().(blob.Remover), now: now, written: map[string]time.Time{},
		sizes: map[string]int64{}}
}

// redate returns a with the time of the test's clock and the size that the test has stated.
func (d *dated) redate(a blob.Attrs) blob.Attrs {
	a.Updated = d.written[a.Name]
	if n := d.sizes[a.Name]; n > 0 {
		a.Size = n
	}
	return a
}

func (d *dated) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	a, err := d.Remover.Stat(ctx, name)
	return d.redate(a), err
}

func (d *dated) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	a, err := d.Remover.Put(ctx, name, cond, r)
	if err == nil {
		d.written[name] = *d.now
	}
	return d.redate(a), err
}

func (d *dated) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for a, err := range d.Remover.List(ctx, prefix) {
			if !yield(d.redate(a), err) {
				return
			}
		}
	}
}

// Remove counts its calls and fails from the one of number d.dies on. Several goroutines may call it at once.
func (d *dated) Remove(ctx context.Context, name string, at blob.Generation) error {
	d.mu.Lock()
	d.calls++
	dead := d.dies > 0 && d.calls >= d.dies
	d.mu.Unlock()
	if d.before != nil {
		d.before(name)
	}
	if dead {
		return errDead
	}
	return d.Remover.Remove(ctx, name, at)
}

// bytes returns the sizes of all objects together.
func (d *dated) bytes(t *testing.T) (sum int64) {
	t.Helper()
	for a, err := range d.List(t.Context(), "") {
		must.Do(t, err)
		sum += a.Size
	}
	return sum
}

// The sizes of docs/run.md's night: 137,800,000 rows of 40 features, and 50 trials of 400 trees with 127 leaves.
const (
	datasetBytes = 11_700_000_000
	modelBytes   = 15_000_000 // of five
	trials       = 10
)

// estate is a deployment's buckets and registry, which nights fill with datasets, sweeps and versions.
type estate struct {
	t                          *testing.T
	now                        time.Time
	datasets, sweeps, registry *dated
	r                          *registry.Registry
	base                       *dataset.Manifest
	refs                       []string       // by version number: NAME@VERSION of its dataset; "" for 0
	live                       map[int]int    // by night: the champion's version at its end
	promoted                   []int          // version numbers, in the order of their promotions
	request                    func() Request // what Remove and Look take at the time now
}

// newEstate returns empty buckets at the beginning of 2026, without any night.
func newEstate(t *testing.T) *estate {
	e := &estate{t: t, now: time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC), refs: []string{""}, live: map[int]int{}}
	e.datasets, e.sweeps, e.registry = newDated(&e.now), newDated(&e.now), newDated(&e.now)
	e.r = registry.New(e.registry)
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 300})
	must.Get(os.Stat(filepath.Join(dir, dataset.ManifestFile)))(t)
	e.base = m
	e.request = func() Request {
		return Request{Datasets: e.datasets, Sweeps: e.sweeps, Registry: e.r, Now: e.now, Nights: Nights,
			Promoted: Promoted}
	}
	return e
}

// act is who changes the registry now, and why.
func (e *estate) act() registry.Act { return registry.Act{By: "test", Why: "because", At: e.now} }

// write writes an object, which is reported with the stated size; 0 for its own.
func (e *estate) write(s *dated, name string, data string, size int64) {
	e.t.Helper()
	must.Get(s.Put(e.t.Context(), name, blob.Any, strings.NewReader(data)))(e.t)
	s.sizes[name] = size
}

// night moves the clock on by a day, stages a dataset, and writes a sweep with its results. If open is set, the sweep
// stays without a conclusion and registers nothing. Else its winner, trial n modulo trials, is registered, promoted if
// promote is set, and the sweep concluded.
func (e *estate) night(n int, promote, open bool) {
	e.t.Helper()
	ctx := e.t.Context()
	e.now = e.now.AddDate(0, 0, 1)

	// Stage a dataset: its files, the record of the night, and last the manifest and the name's newest version.
	m := *e.base
	m.Files = slices.Clone(m.Files)
	m.Files[0].Blocks = []string{fmt.Sprintf("%064x", n)} // another table
	m.Version = must.Get(m.ContentVersion())(e.t)
	for i, f := range m.Files {
		size := int64(0)
		if i == 0 {
			size = datasetBytes
		}
		e.write(e.datasets, sweep.DatasetDir(m.Name, m.Version)+f.Name, "x", size)
	}
	record := must.Get((&nights.Record{Format: 1, Dataset: m.Name, Version: m.Version, At: e.now,
		Profile: &nights.Profile{}}).Encode())(e.t)
	e.write(e.datasets, sweep.DatasetNight(m.Name, m.Version), string(record), 0)
	text := must.Get(m.Encode())(e.t)
	e.write(e.datasets, sweep.DatasetDir(m.Name, m.Version)+dataset.ManifestFile, string(text), 0)
	e.write(e.datasets, sweep.DatasetLatest(m.Name), `{"format":1,"version":"`+m.Version+`"}`, 0)

	// Write the sweep with the model and the result of each trial.
	id, ref := sweep.ID(fmt.Sprintf("night-%d", n)), m.Name+"@"+m.Version
	p := sweep.Plan{Format: 1, Sweep: id, Created: e.now, Dataset: sweep.DatasetRef{Name: m.Name, Version: m.Version},
		Heartbeat: sweep.Duration(time.Minute), Takeover: sweep.Duration(time.Hour)}
	p.Spec.Model = "ctr"
	p.Holdout = sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
		Test: sweep.Rows{Split: "test"}}
	for i := range trials {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
		o := sweep.Object{Name: sweep.Names(id).Attempt(i, 0) + "model.txt"}
		e.write(e.sweeps, o.Name, "x", modelBytes)
		must.Get(blobtest.CreateJSON(ctx, e.sweeps, sweep.Names(id).Result(i), sweep.Result{Format: 1, Sweep: id,
			Trial: i, Status: sweep.StatusDone, Score: 0.6, Trees: 400, Model: &o,
			Scores: &sweep.Scored{Calib: o, Test: o}}))(e.t)
	}
	s := sweepstore.New(e.sweeps, id)
	must.Get(s.CreatePlan(ctx, p))(e.t)
	if open {
		return
	}

	// Register its winner, and conclude it. Nothing here reads the outcome, only that there is a conclusion.
	v := must.Get(e.r.Register(ctx, "ctr", string(id), map[string][]byte{"model.txt": []byte(id)}, registry.Info{
		At:     e.now,
		By:     "aggregator",
		Labels: map[string]string{"sweep": string(id), "trial": strconv.Itoa(n % trials), "dataset": ref}}))(e.t)
	e.refs = append(e.refs, ref)
	if promote {
		must.Get(e.r.Promote(ctx, "ctr", v.Number, registry.Expect{Any: true}, e.act()))(e.t)
		e.promoted = append(e.promoted, v.Number)
	}
	if len(e.promoted) > 0 {
		e.live[n] = e.promoted[len(e.promoted)-1]
	}
	must.Get(s.CreateConclusion(ctx, sweep.Conclusion{Format: 1, Sweep: id, Outcome: sweep.OutcomeNoWinner, Reason: "x",
		At: e.now}))(e.t)
}

// hundred returns an estate after a hundred nights. promote says whether night n's version is promoted; after, unless
// nil, is called after each night. The sweep of night 10 never ends.
func hundred(t *testing.T, promote func(n int) bool, after func(e *estate)) *estate {
	e := newEstate(t)
	for n := range 100 {
		e.night(n, promote(n), n == 10)
		if after != nil {
			after(e)
		}
	}
	return e
}

// remove calls Remove, which must succeed, and returns what went.
func (e *estate) remove(q Request) []Item {
	e.t.Helper()
	return must.Get(Remove(e.t.Context(), q))(e.t)
}

// whole returns why a dataset cannot be trained on; nil if it can.
func (e *estate) whole(ref string) error {
	m, err := stager.Resolve(e.t.Context(), e.datasets, ref)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if _, err := e.datasets.Stat(e.t.Context(), sweep.DatasetDir(m.Name, m.Version)+f.Name); err != nil {
			return err
		}
	}
	return nil
}

// broken returns an error for each promise that does not hold after a hundred nights: promoted versions and the newest
// nights can be trained again, tonight can learn from earlier sweeps and be compared with earlier tables, all ended
// sweeps have their conclusions, the open one can continue, and rolledBack's.
func (e *estate) broken() (errs []error) {
	ctx := e.t.Context()
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, n := range e.promoted {
		if err := e.whole(e.refs[n]); err != nil {
			fail("version %d cannot be trained again: %w", n, err)
		}
		if _, err := e.sweeps.Stat(ctx, e.trialOf(n)); err != nil {
			fail("the trial of version %d: %w", n, err)
		}
	}
	for k := range Nights { // none of which need have been promoted
		n := 99 - k
		if err := e.whole(e.datasetOf(n)); err != nil {
			fail("night %d cannot be trained again: %w", n, err)
		}
		if _, err := e.sweeps.Stat(ctx, sweep.Names(fmt.Sprintf("night-%d", n)).Attempt(0, 0)+"model.txt"); err != nil {
			fail("a trial's model of night %d: %w", n, err)
		}
	}

	for k := range LeastNights { // a warm start reads them
		id := sweep.ID(fmt.Sprintf("night-%d", 99-k))
		p, _, err := sweepstore.New(e.sweeps, id).Plan(ctx)
		if err != nil {
			fail("tonight learns from %s: %w", id, err)
			continue
		}
		results := map[int]sweep.Result{}
		of := sweepstore.NewTrials(e.sweeps, p)
		l, err := of.List(ctx)
		if err == nil {
			err = of.Results(ctx, l, results, nil)
		}
		if err != nil || len(results) != trials {
			fail("tonight learns from %s: %d results, %w", id, len(results), err)
		}
	}
	all, err := stager.Destination{Store: e.datasets}.Nights(ctx, "clicks")
	if err != nil || len(all) < nights.MaxNights {
		fail("tonight is compared with %d nights, %w", len(all), err)
	}
	for n := range 100 { // the gate reads how the versions before were judged; night 10 is the open sweep
		if c, err := sweepstore.New(e.sweeps, sweep.ID(fmt.Sprintf("night-%d", n))).Conclusion(ctx); n != 10 &&
			(err != nil || c == nil) {
			fail("the conclusion of night %d: %v, %w", n, c, err)
		}
	}
	if err := e.whole(e.datasetOf(10)); err != nil {
		fail("the open sweep cannot go on: %w", err)
	}
	return append(errs, e.rolledBack()...)
}

// rolledBack returns an error for each night after which another version was live, by the registry's history, than
// e.live says. It then rolls the champion back until nothing is left, and returns an error for each version on the way
// that is not the one promoted before, or whose model or dataset is missing.
func (e *estate) rolledBack() (errs []error) {
	ctx := e.t.Context()
	events, err := e.r.History(ctx, "ctr")
	if err != nil {
		return []error{err}
	}
	for n, want := range e.live {
		at := e.now.AddDate(0, 0, n-99)
		is := 0
		for _, ev := range events {
			if ev.Alias == registry.Champion && !ev.At.After(at) {
				is = ev.To
			}
		}
		if is != want {
			errs = append(errs, fmt.Errorf("after night %d version %d was live, want %d", n, is, want))
		}
	}
	for k := len(e.promoted) - 2; ; k-- {
		a, err := e.r.Rollback(ctx, "ctr", registry.Champion, 0, registry.Expect{Any: true}, e.act())
		if problem.Is(err, problem.NotFound) && k < 0 {
			return errs
		}
		if err != nil || a.Version != e.promoted[k] {
			return append(errs, fmt.Errorf("rolled back to %d, %w; want %d", a.Version, err, e.promoted[k]))
		}
		v, err := e.r.Get(ctx, "ctr", strconv.Itoa(a.Version))
		if err == nil {
			_, err = e.r.ReadFile(ctx, v, "model.txt")
		}
		if err == nil {
			err = e.whole(e.refs[a.Version])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("after a rollback to %d: %w", a.Version, err))
		}
	}
}

// nightOf returns the night that registered a version. Night 10, whose sweep is open, registered none: so from night 11
// on they have one number, and before it night n registered version n+1.
func (e *estate) nightOf(version int) int {
	if version > 10 {
		return version
	}
	return version - 1
}

// trialOf returns the object name of the model that a version's trial has trained.
func (e *estate) trialOf(version int) string {
	n := e.nightOf(version)
	return sweep.Names(fmt.Sprintf("night-%d", n)).Attempt(n%trials, 0) + "model.txt"
}

// datasetOf returns NAME@VERSION of the dataset that the night's sweep was planned with.
func (e *estate) datasetOf(night int) string {
	p, _ := must.Get2(sweepstore.New(e.sweeps, sweep.ID(fmt.Sprintf("night-%d", night))).Plan(e.t.Context()))(e.t)
	return p.Dataset.Name + "@" + p.Dataset.Version
}

// third promotes every third night.
func third(n int) bool { return n%3 == 0 }

// TestHundredNights removes after each of a hundred nights what may go. At the end at most so many datasets are stored
// as the case states, the registry was never changed, and no promise of broken is broken, with removals as without.
// docs/run.md quotes the printed sizes.
func TestHundredNights(t *testing.T) {
	t.Parallel()
	without := hundred(t, third, nil)
	before := without.datasets.bytes(t) + without.sweeps.bytes(t)
	if errs := without.broken(); len(errs) > 0 {
		t.Errorf("without clean: %v, want all that was promoted whole", errors.Join(errs...))
	}
	every := func(int) bool { return true }
	for _, c := range []struct {
		name     string
		promote  func(int) bool
		promoted int
		most     int64 // as many bytes as so many datasets have, and 5 % for all else
	}{
		// 34 promoted nights, the newest 30, of which 10 are promoted, the open sweep's, and one in reserve
		{"a third of the nights promoted", third, Promoted, 34 + 20 + 1 + 1},
		// the newest 31, to which the last 30 moves lead, and the open sweep's
		{"every night promoted, --promoted 30", every, 30, 31 + 1},
	} {
		e := hundred(t, c.promote, func(e *estate) {
			q := e.request()
			q.Promoted = c.promoted
			registered := e.registry.bytes(t)
			e.remove(q)
			if now := e.registry.bytes(t); now != registered {
				t.Fatalf("clean left %d bytes in the registry, want all %d", now, registered)
			}
		})
		after := e.datasets.bytes(t) + e.sweeps.bytes(t)
		t.Logf("%s: %.0f GB without it, %.0f GB with it", c.name, float64(before)/1e9, float64(after)/1e9)
		if after > c.most*(datasetBytes+datasetBytes/20) || before < 100*datasetBytes {
			t.Errorf("%s: %d bytes, and %d without it; want at most %d datasets", c.name, after, before, c.most)
		}
		if c.promoted == Promoted { // with only 30 moves, older promoted versions cannot be trained again
			if errs := e.broken(); len(errs) > 0 {
				t.Errorf("%s: %v, want all that was promoted whole", c.name, errors.Join(errs...))
			}
		}
	}
}

// TestPlantedFault shows that broken finds faults: where no move of the alias keeps its versions (Promoted is 0), what
// was promoted before the champion is removed, and broken says so. The first two promoted versions are 1 and 4, of the
// nights 0 and 3.
func TestPlantedFault(t *testing.T) {
	t.Parallel()
	e := hundred(t, third, func(e *estate) {
		q := e.request()
		q.Promoted = 0
		e.remove(q)
	})
	said := fmt.Sprint(e.broken())
	for _, want := range []string{"version 1 cannot be trained again", "the trial of version 1",
		"after a rollback to 4"} {
		if !strings.Contains(said, want) {
			t.Errorf("want %q among what is broken: %.2000s", want, said)
		}
	}
}

// listed returns an estate of 14 nights of which some may go at once: an earlier run has listed them Notice ago.
func listed(t *testing.T) *estate {
	e := unlisted(t)
	e.remove(e.request())
	e.now = e.now.Add(Notice)
	return e
}

// unlisted returns an estate of 14 nights, more than a week old, of which every fifth was promoted. Its requests keep
// LeastNights, so that some may go once a run has listed them.
func unlisted(t *testing.T) *estate {
	e := newEstate(t)
	for n := range 14 {
		e.night(n, n%5 == 0, n == 10)
	}
	e.now = e.now.AddDate(0, 0, 8)
	e.request = func() Request {
		return Request{Datasets: e.datasets, Sweeps: e.sweeps, Registry: e.r, Now: e.now, Nights: LeastNights,
			Promoted: Promoted}
	}
	return e
}

// all returns the names of all datasets' and sweeps' objects, without the records of what was removed.
func (e *estate) all() (names []string) {
	for _, s := range []*dated{e.datasets, e.sweeps} {
		for a, err := range s.List(e.t.Context(), "") {
			must.Do(e.t, err)
			if !strings.HasPrefix(a.Name, "cleaned/") {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

// TestDeathBetweenRemovals kills Remove at one of its removals, in about thirty runs each at another one (at every one
// if COPPICE_FULL is set). Every dataset and sweep that can still be found is whole, and the next run leaves what an
// undisturbed one leaves.
func TestDeathBetweenRemovals(t *testing.T) {
	t.Parallel()
	undisturbed := listed(t)
	gone := undisturbed.remove(undisturbed.request())
	if len(gone) < 4 {
		t.Fatalf("only %d items went; want at least 4, so that a death has something to fall between", len(gone))
	}
	want := undisturbed.all()
	removals := undisturbed.datasets.calls + undisturbed.sweeps.calls

	step := max(1, removals/30)
	if os.Getenv("COPPICE_FULL") != "" {
		step = 1
	}
	died := 0
	for at := 1; at <= removals; at += step {
		e := listed(t)
		e.datasets.dies, e.sweeps.dies = at, at
		if _, err := Remove(t.Context(), e.request()); err == nil {
			continue // neither store had so many removals
		}
		died++
		e.datasets.dies, e.sweeps.dies = 0, 0

		// What can be found is whole. Only the sweep of night 10 has no conclusion.
		for _, ref := range e.refs[1:] { // versions count from 1
			if err := e.whole(ref); err != nil && !problem.Is(err, problem.NotFound) {
				t.Errorf("death at removal %d: %s is found and is not whole, want it whole or gone: %v", at, ref, err)
			}
		}
		for id, err := range sweepstore.List(t.Context(), e.sweeps) {
			must.Do(e.t, err)
			c, err := sweepstore.New(e.sweeps, id).Conclusion(t.Context())
			if err != nil || (c == nil) != (id == "night-10") {
				t.Errorf("death at removal %d: %s is found with the conclusion %v (error %v); want one for all but "+
					"night-10", at, id, c, err)
			}
		}

		e.remove(e.request())
		if got := e.all(); !slices.Equal(got, want) {
			t.Errorf("death at removal %d: then %d objects are left, want %d", at, len(got), len(want))
		}
	}
	if died < 10 {
		t.Errorf("it died %d times, want at least 10", died)
	}
}

// TestTogether: three runs at once leave what one run leaves, but for their records, which all() does not list.
func TestTogether(t *testing.T) {
	t.Parallel()
	alone, e := listed(t), listed(t)
	alone.remove(alone.request())
	var group sync.WaitGroup
	for k := range 3 {
		// Each run has a clock of its own, and its own map of the dates that dated gives to objects, which has no lock.
		q := e.request()
		q.Now = q.Now.Add(time.Duration(k) * time.Second) // their records are named by the time
		q.Datasets = &dated{Remover: e.datasets.Remover, now: &q.Now, written: maps.Clone(e.datasets.written)}
		q.Sweeps = &dated{Remover: e.sweeps.Remover, now: &q.Now, written: maps.Clone(e.sweeps.written)}
		group.Go(func() {
			if _, err := Remove(t.Context(), q); err != nil {
				t.Errorf("a run beside two others: %v, want no error", err)
			}
		})
	}
	group.Wait()
	if got, want := e.all(), alone.all(); !slices.Equal(got, want) {
		t.Errorf("three runs at once left %d objects %q, want the %d that one leaves, %q", len(got), got, len(want),
			want)
	}
}

// TestNeededMeanwhile: just before a dataset's manifest is removed, a sweep is planned on the dataset, its version is
// promoted, or it is staged anew. In each case the dataset stays, whole. Its version's trial stays only if the version
// was promoted.
func TestNeededMeanwhile(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(e *estate, ref string){
		"nothing": func(*estate, string) {},
		"planned": func(e *estate, ref string) {
			p, _ := must.Get2(sweepstore.New(e.sweeps, "night-13").Plan(e.t.Context()))(e.t)
			p.Sweep, p.Dataset.Version = "again", strings.TrimPrefix(ref, "clicks@")
			must.Get(sweepstore.New(e.sweeps, "again").CreatePlan(e.t.Context(), *p))(e.t)
			must.Do(e.t, stager.Renew(e.t.Context(), e.datasets, ref)) // as the launcher does
		},
		"promoted": func(e *estate, ref string) { // by an aggregator, which renews nothing
			must.Get(e.r.Promote(e.t.Context(), "ctr", slices.Index(e.refs, ref), registry.Expect{Any: true},
				e.act()))(e.t)
		},
		"staged": func(e *estate, ref string) {
			for _, f := range e.base.Files {
				e.write(e.datasets, sweep.DatasetDir("clicks", strings.TrimPrefix(ref, "clicks@"))+f.Name, "anew", 0)
			}
		},
	} {
		e := listed(t)
		ref := e.refs[2] // of a version that was not promoted
		manifest := sweep.DatasetDir("clicks", strings.TrimPrefix(ref, "clicks@")) + dataset.ManifestFile
		text, _ := must.Get2(blob.ReadAll(t.Context(), e.datasets, manifest, dataset.MaxManifest))(e.t)
		var once sync.Once
		e.datasets.before = func(object string) {
			if object == manifest {
				once.Do(func() { do(e, ref) })
			}
		}
		e.remove(e.request())
		if name == "staged" { // what a staging writes last
			must.Get(blob.Create(t.Context(), e.datasets, manifest, text))(e.t)
		}
		if err := e.whole(ref); (err == nil) != (name != "nothing") {
			t.Errorf("%s: the dataset: %v; want it whole unless nothing holds it", name, err)
		}
		if _, err := e.sweeps.Stat(t.Context(), e.trialOf(2)); (err == nil) != (name == "promoted") {
			t.Errorf("%s: the trial: %v; want it there if its version was promoted, and only then", name, err)
		}
	}
}
