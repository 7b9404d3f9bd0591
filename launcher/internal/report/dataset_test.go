package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/report"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// stagedNights stages the tables of n nights into the store, a day apart, and returns their records. In the night of
// number bad, if there is one, a column is empty, which blocks it.
func stagedNights(t *testing.T, store blob.Store, n, bad int) []*nights.Record {
	t.Helper()
	at := nightstest.First
	s := &stager.Stager{Scratch: t.TempDir(), Now: func() time.Time { at = at.Add(24 * time.Hour); return at }}
	stream := nightstest.Stream{Seed: 2, Rows: 1500}
	var out []*nights.Record
	for i := range n {
		table := stream.Night(i)
		if i == bad {
			for r := range table.Rows {
				table.Rows[r][5] = ""
			}
		}
		file := filepath.Join(t.TempDir(), "night.csv")
		must.Do(t, os.WriteFile(file, table.CSV(), 0o600))
		spec := must.Get(dataset.ParseSpec("dataset.yaml", append(nightstest.Spec(file), "encodings: none\n"...)))(t)
		staged := must.Get(s.Stage(t.Context(), spec, stager.Destination{Store: store, URL: "gs://d"}))(t)
		out = append(out, staged.Night)
	}
	return out
}

// plannedOn writes the plan of a sweep on the record's version of a dataset, an hour later.
func plannedOn(t *testing.T, store blob.Store, id sweep.ID, r *nights.Record) sweep.Plan {
	t.Helper()
	p := sweep.Plan{Format: 1, Sweep: id, Created: r.At.Add(time.Hour), Heartbeat: sweep.Duration(time.Second),
		Takeover: sweep.Duration(time.Minute),
		Spec:     sweep.Spec{Name: "night", Model: "ctr", Metric: "log_loss"},
		Dataset:  sweep.DatasetRef{Name: r.Dataset, Version: r.Version},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "valid"},
			Test: sweep.Rows{Split: "valid"}},
		Trials: []sweep.Trial{{Number: 0, Params: sweep.Params{}}}, Quote: &sweep.Quote{Hourly: 2},
		Sizing: sweep.Sizing{VMs: 2}}
	must.Get(sweepstore.New(store, id).CreatePlan(t.Context(), p))(t)
	return p
}

// swept writes such a sweep, and a conclusion with a winner and the gate's verdict.
func swept(t *testing.T, store blob.Store, id sweep.ID, r *nights.Record, verdict sweep.Verdict) {
	t.Helper()
	p := plannedOn(t, store, id, r)
	c := sweep.Conclusion{Format: 1, Sweep: id, Outcome: sweep.OutcomeWinner, Reason: "because", Model: "ctr",
		Version: 1, Test: map[string]float64{"log_loss": 0.11}, At: p.Created.Add(30 * time.Minute),
		Gate: &sweep.GateDecision{Verdict: verdict, Promoted: verdict == sweep.VerdictPromoted,
			Reason: "the gate's reason",
			Metric: "log_loss", Champion: 1,
			Checks: []sweep.GateCheck{{Name: "tonight", Old: 0.12, New: 0.11, Rows: 900},
				{Name: "calibration", Value: 1.02, Low: 0.9, High: 1.1},
				{Name: "calibration", Value: 3}}}}
	if verdict == sweep.VerdictNotComparable {
		c.Gate.Checks = []sweep.GateCheck{{Name: "tonight", Reason: c.Gate.Reason}}
	}
	if verdict != sweep.VerdictPromoted { // of a later build
		c.Cost = &sweep.Cost{USD: 1.25, MachineHours: 0.3}
	}
	s := sweepstore.New(store, id)
	must.Get(s.CreateConclusion(t.Context(), c))(t)
}

// TestAsks: a sweep that has run for an hour, and takes another, at 4 USD an hour, asks whether to cancel it if it has
// a budget below that, 8 USD; 0 means none. Without a job it asks to be started again, unless no trial is left or it
// was created just now.
func TestAsks(t *testing.T) {
	at := time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)
	state := sweepview.State{Listing: sweepstore.Listing{Latest: at}}
	for budget, due := range map[float64]bool{0: false, 5: true, 9: false} { // two machines at 2 USD, for two hours: 8
		p := &sweep.Plan{Sweep: "night-1", Created: at.Add(-time.Hour), Spec: sweep.Spec{Budget: budget},
			Quote: &sweep.Quote{Hourly: 2}, Sizing: sweep.Sizing{VMs: 2}}
		d := report.New(blob.Memory(), blob.Memory(), registry.New(blob.Memory()), true)
		got := d.Asks(&sweepview.View{Plan: p}, state, sweepview.Snapshot{Left: 3600}, 0)
		if got.Due() != due || due && !strings.Contains(got.String(), "launcher cancel night-1") {
			t.Errorf("with a budget of %v USD: %s; want the question whether to cancel only where it will not "+
				"suffice", budget, got)
		}

		// Without a job nothing goes on, unless all trials have ended or it was created just now.
		gone := sweepview.Snapshot{Job: provision.SweepJob{JobStatus: engine.JobStatus{State: engine.Gone}},
			Tally: sweep.Tally{Waiting: 1}}
		// The listing is made so long after at. The sweep was created an hour before at.
		for began, want := range map[time.Duration]bool{time.Hour: true, -time.Hour: false} {
			state.Listing.Began = at.Add(began)
			if got := d.Asks(&sweepview.View{Plan: p}, state, gone, 0); got.Stopped != want {
				t.Errorf("%v after its creation without a job: asks %q, stopped %t; want stopped %t", began+time.Hour,
					got, got.Stopped, want)
			}
		}
		gone.Waiting = 0
		if got := d.Asks(&sweepview.View{Plan: p}, state, gone, 0); got.Stopped {
			t.Errorf("without a job and without trials: asks %q; want nothing about a stop", got)
		}
	}
}

// TestAGoneJobIsToldEverywhere: if the job of a sweep is gone while trials are left, the index, `status`, `nights` and
// the sweep's page say in the same sentence what to do, and call it interrupted. If the job runs, none of them does. An
// earlier night has ended.
func TestAGoneJobIsToldEverywhere(t *testing.T) {
	sweeps, reg := blob.Memory(), registry.New(blob.Memory())
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	record := &nights.Record{Dataset: "clicks", Version: "0123456789abcdef", At: at}
	swept(t, sweeps, "night-1", record, sweep.VerdictNotPromoted)
	record.At = at.AddDate(0, 0, 1)
	plannedOn(t, sweeps, "night-2", record)
	must.Get(reg.Register(t.Context(), "ctr", "night-1", map[string][]byte{scorer.FileModel: trained(t)},
		registry.Info{At: at, By: "aggregator", Why: "best"}))(t)
	for state, want := range map[engine.Phase]string{
		engine.Gone:    "To do: run the command that started night-2 once more, which continues it",
		engine.Running: ""} {
		d := report.New(sweeps, blob.Memory(), reg, true)
		d.Job = func(context.Context, *sweep.Plan) (provision.SweepJob, error) {
			return provision.SweepJob{JobStatus: engine.JobStatus{State: state}, Finished: state == engine.Gone}, nil
		}
		index := must.Get(d.Index(t.Context(), true))(t)
		month := must.Get(d.Month(t.Context(), "ctr", time.Time{}))(t)
		var home, own bytes.Buffer
		must.Do(t, index.Write(&home))
		must.Do(t, must.Get(d.Sweep(t.Context(), "night-2"))(t).Write(&own))
		for on, text := range map[string]string{"home": home.String(), "the sweep's page": own.String(),
			"status": index.Sweeps[0].Asks.String(), "nights": month.Todo} {
			if on == "home" && state == engine.Gone && strings.Contains(text, "Nothing to do") {
				t.Errorf("its job is %s: home also says that there is nothing to do; want only what to do", state)
			}
			if !strings.Contains(text, want) || strings.Contains(text, "once more") != (state == engine.Gone) {
				t.Errorf("its job is %s, %s: want %q in %.3000s", state, on, want,
					text[max(0, strings.Index(text, "<main")):])
			}
		}
		word := map[bool]string{true: "interrupted", false: "running"}[state == engine.Gone]
		if got := index.Sweeps[0].Word(); got != word || month.Nights[0].Word() != word ||
			!strings.Contains(own.String(), ">"+word+"</span></h1>") {
			t.Errorf("its job is %s: it is %q in status and %q in nights, expected %s there and on its page", state,
				got, month.Nights[0].Word(), word)
		}
	}
}

// TestNightsOfOneDay: two nights of one day are told apart by when they were made, on the model's page and in `nights`.
// A night alone on its day has only the day. Times are in UTC, an hour later than in the zone of at, and a night's time
// is that of its sweep, which swept plans an hour after the table was staged: of 02:00 it becomes 04:00.
func TestNightsOfOneDay(t *testing.T) {
	sweeps := blob.Memory()
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.FixedZone("", -3600))
	for i, hours := range []int{0, 1, 30} { // made at 04:00, at 05:00, and at 10:00 of the next day
		swept(t, sweeps, sweep.ID(fmt.Sprintf("n-%d", i)), &nights.Record{Dataset: "clicks",
			Version: "0123456789abcdef", At: at.Add(time.Duration(hours) * time.Hour)}, sweep.VerdictNotPromoted)
	}
	month := must.Get(report.New(sweeps, blob.Memory(), registry.New(blob.Memory()), true).Month(t.Context(), "ctr",
		time.Time{}))(t)
	var html, terminal bytes.Buffer
	must.Do(t, (&page.Model{Name: "ctr", Month: *month}).Write(&html))
	show.Printer{Screen: tables.Screen{Output: program.To(&terminal)}}.Month(month, at)
	for on, text := range map[string]string{"page": html.String(), "terminal": terminal.String()} {
		for _, want := range []string{"2026-11-21", "2026-11-20 05:00", "2026-11-20 04:00"} {
			if !strings.Contains(text, want) || strings.Contains(text, "2026-11-21 ,") {
				t.Errorf("%s: want %q, and no comma after a day without a time, in\n%.5000s", on, want,
					text[max(0, strings.Index(text, "<main")):])
			}
		}
	}
}

// TestDataset: the page of a dataset shows its nights with what staging found, how far the columns have moved since the
// last night that was not blocked, and what became of each. NAME@VERSION shows the nights up to that version.
func TestDataset(t *testing.T) {
	store, sweeps := blob.Memory(), blob.Memory()
	records := stagedNights(t, store, 4, 2) // four nights, of which number 2, the third, is blocked
	swept(t, sweeps, "night-1", records[0], sweep.VerdictPromoted)
	swept(t, sweeps, "night-2", records[1], sweep.VerdictNotPromoted)
	reg := registry.New(blob.Memory())
	d := report.New(sweeps, store, reg, false)
	v := must.Get(d.Dataset(t.Context(), records[0].Dataset))(t)

	if len(v.Nights) != 4 || v.Metric != "log_loss" || len(v.Notes) != 0 {
		t.Fatalf("%d nights by %q, notes %q; want four by log loss, and no note", len(v.Nights), v.Metric, v.Notes)
	}
	first, second, blocked, last := v.Nights[0], v.Nights[1], v.Nights[2], v.Nights[3]
	if first.Sweep.Verdict != "promoted" || first.Value != 0.11 || first.Ratio != 1.02 ||
		first.Sweep.ID != "night-1" || first.Drift != nil {
		t.Errorf("the first night is %+v; want it promoted, with log loss .11, and no drift yet", first)
	}
	if second.Sweep.Verdict != "not_promoted" || second.Sweep.Why != "the gate's reason" || len(second.Drift) < 5 {
		t.Errorf("the second night is %+v; want it not promoted, with the gate's reason, and drift of five columns "+
			"or more", second)
	}
	if blocked.State != "blocked" || len(blocked.Findings) == 0 || !math.IsNaN(blocked.Value) ||
		blocked.Sweep.ID != "" {
		t.Errorf("the third night is %+v; want it blocked, with findings and without a sweep", blocked)
	}
	// From the blocked night, in which the column is empty, it would be much farther than from the one before.
	column := blocked.Findings[0].Column
	if drift, ok := last.Drift[column]; last.State != "good" || !ok || drift > 0.2 {
		t.Errorf("the last night is %s, and its column %s is %v from the night before; want it good, and compared "+
			"with the last night that was not blocked", last.State, column, drift)
	}
	if m := v.Table; m == nil || m.Version != records[3].Version || len(v.Stats) < 5 || len(m.Features) < 5 ||
		len(m.Splits) < 2 {
		t.Errorf("the table is %+v; want that of the fourth night, with its splits and features", v.Table)
	}

	// Read a second time, with records from the cache, it is the same.
	var one, two bytes.Buffer
	must.Do(t, v.Write(&one))
	again, err := d.Dataset(t.Context(), records[0].Dataset)
	if err == nil {
		err = again.Write(&two)
	}
	if err != nil || one.String() != two.String() {
		t.Errorf("looked at twice, the page has other bytes (%v), want the same", err)
	}

	// A version shows the nights up to it.
	v, err = d.Dataset(t.Context(), records[1].Dataset+"@"+records[1].Version)
	if err != nil || len(v.Nights) != 2 || v.Table.Version != records[1].Version {
		t.Errorf("the second version has %+v, %v; want two nights, and its own table", v, err)
	}
	var old bytes.Buffer
	if err := v.Write(&old); err != nil || strings.Contains(old.String(), "newest version") ||
		!strings.Contains(old.String(), "<p class=\"fine\">version "+records[1].Version) {
		t.Errorf("the page of a version that was asked for (%v) calls it the newest, or does not name it; expected "+
			"<p class=\"fine\">version %s", err, records[1].Version)
	}
	if want := "<p class=\"fine\">newest version " + records[3].Version; !strings.Contains(one.String(), want) {
		t.Errorf("the page of the dataset does not have %s, want it to name the newest version so", want)
	}
	if _, err := d.Dataset(t.Context(), "nobody"); !problem.Is(err, problem.NotFound) {
		t.Errorf("a dataset that does not exist: got error %v, want one of kind NotFound", err)
	}
}

// TestNightsOfAModel: a model's nights are its sweeps, with the metric of the live and of the new version, and tables
// that were blocked before a sweep. The index has the same last night, by its day, and counts the nights in a row
// without a new champion. Records that cannot be read are notes, always in the same order.
func TestNightsOfAModel(t *testing.T) {
	store, sweeps, reg := blob.Memory(), blob.Memory(), registry.New(blob.Memory())
	records := stagedNights(t, store, 4, 2) // four nights, of which number 2, the third, is blocked
	swept(t, sweeps, "night-1", records[0], sweep.VerdictPromoted)
	swept(t, sweeps, "night-2", records[1], sweep.VerdictNotPromoted)
	m := &page.Model{Name: "ctr"}
	must.Do(t, report.New(sweeps, store, reg, false).Nights(t.Context(), m))
	if len(m.Nights) != 3 || m.Nights[0].Verdict != sweep.VerdictBlocked || m.Nights[0].ID != "" ||
		!strings.Contains(m.Nights[0].Why, records[2].Findings[0].Column) {
		t.Fatalf("got %+v; want three nights, the newest a table that was blocked because of a column", m.Nights)
	}

	// The index. The night before the blocked one was not promoted, and the one before that was: two without a
	// champion.
	must.Get(reg.Register(t.Context(), "ctr", "night-1", map[string][]byte{scorer.FileModel: trained(t)},
		registry.Info{At: records[0].At, By: "aggregator"}))(t)
	home := must.Get(report.New(sweeps, store, reg, false).Index(t.Context(), false))(t)
	if last := home.Models[0].Last; last.Verdict != sweep.VerdictBlocked || last.Why != m.Nights[0].Why {
		t.Errorf("at home the last night is %+v, want the blocked one of the model's page", last)
	}
	if held := home.Models[0].Held; held != 2 {
		t.Errorf("at home %d nights in a row made no champion, want the blocked one and the one before", held)
	}
	late := *records[2] // a night of long ago, made up last
	late.Version, late.Night, late.At = "00000000000000ff", "2020-01-01", records[3].At.Add(time.Hour)
	must.Get(store.Put(t.Context(), sweep.DatasetNight(late.Dataset, late.Version), blob.Any,
		bytes.NewReader(must.Get(json.Marshal(late))(t))))(t)
	home = must.Get(report.New(sweeps, store, reg, false).Index(t.Context(), false))(t)
	if last, night := home.Models[0].Last.Dataset, home.Datasets[0].Night.Version; last != m.Nights[0].Dataset ||
		night != records[3].Version {
		t.Errorf("at home the last night is of %s and the newest table %s, want %s and %s: by their days", last, night,
			m.Nights[0].Dataset, records[3].Version)
	}
	// The two values are those that swept writes into every conclusion.
	if n := m.Nights[1]; n.ID != "night-2" || n.LiveValue != 0.12 || n.NewValue != 0.11 ||
		n.Why != "the gate's reason" {
		t.Errorf("got %+v; want night-2 with log_loss 0.12 of version 1 and 0.11 of the new one", n)
	}

	// Two more datasets, whose records cannot be read.
	for name, data := range map[string]string{"clicks-2": "no JSON", "clicks-3": "neither"} {
		r := *records[3]
		r.Dataset = name
		swept(t, sweeps, sweep.ID("night-of-"+name), &r, sweep.VerdictNotComparable)
		must.Get(store.Put(t.Context(), sweep.DatasetNight(name, r.Version), blob.Any, strings.NewReader(data)))(t)
	}
	for range 8 { // a map's order would differ sooner or later
		m = &page.Model{Name: "ctr"}
		must.Do(t, report.New(sweeps, store, reg, false).Nights(t.Context(), m))
		if len(m.Notes) != 2 || !strings.Contains(m.Notes[0], "clicks-2") || !strings.Contains(m.Notes[1], "clicks-3") {
			t.Fatalf("got notes %q, want clicks-2 before clicks-3", m.Notes)
		}
	}
	if n := m.Nights[0]; n.Verdict != sweep.VerdictNotComparable || !math.IsNaN(n.LiveValue) ||
		!math.IsNaN(n.NewValue) {
		t.Errorf("got %+v; want no numbers of versions that could not be compared", n)
	}
	other := &page.Model{Name: "ctr2"}
	if err := report.New(sweeps, store, reg, false).Nights(t.Context(), other); err != nil || len(other.Nights) != 0 {
		t.Errorf("of another model got %+v, %v; want no night", other.Nights, err)
	}
}

// TestABlockedWeekIsCountedAtHome: at home as on the model's page, all nights in a row without a new champion are
// counted, also if all of them were blocked: here five, of which home reads three at first.
func TestABlockedWeekIsCountedAtHome(t *testing.T) {
	store, sweeps, reg := blob.Memory(), blob.Memory(), registry.New(blob.Memory())
	records := stagedNights(t, store, 3, 2) // three nights, of which number 2, the third, is blocked
	swept(t, sweeps, "night-1", records[0], sweep.VerdictPromoted)
	must.Get(reg.Register(t.Context(), "ctr", "night-1", map[string][]byte{scorer.FileModel: trained(t)},
		registry.Info{At: records[0].At, By: "aggregator"}))(t)
	for i := range 4 { // and so are four more
		r := *records[2]
		r.Version, r.At = fmt.Sprintf("%016x", i), r.At.AddDate(0, 0, 1+i)
		must.Get(store.Put(t.Context(), sweep.DatasetNight(r.Dataset, r.Version), blob.Any,
			bytes.NewReader(must.Get(json.Marshal(r))(t))))(t)
	}
	pages := report.New(sweeps, store, reg, false)
	home := must.Get(pages.Index(t.Context(), false))(t)
	month := must.Get(pages.Month(t.Context(), "ctr", time.Time{}))(t)
	if got, want := home.Models[0].Held, month.Standing.Nights; got != want || want != 5 {
		t.Errorf("%d nights in a row at home and %d on the model's page, want 5 on both", got, want)
	}
}

// TestNoSweepYet: without any sweep, there is no newest one whose model's nights could be shown; the error says how to
// start one.
func TestNoSweepYet(t *testing.T) {
	_, err := report.New(blob.Memory(), blob.Memory(), registry.New(blob.Memory()), false).Month(t.Context(), "",
		time.Time{})
	if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "there is no sweep that can be read") {
		t.Errorf("got error %v, want one of kind NotFound that says that there is no sweep", err)
	}
}

// TestDamagedDataset: a damaged record and a damaged manifest are notes on the page, which shows the rest.
func TestDamagedDataset(t *testing.T) {
	store := blob.Memory()
	records := stagedNights(t, store, 2, -1)
	r := records[1]
	for _, name := range []string{sweep.DatasetNight(r.Dataset, records[0].Version),
		sweep.DatasetDir(r.Dataset, r.Version) + dataset.ManifestFile} {
		must.Get(store.Put(t.Context(), name, blob.Any, strings.NewReader("{")))(t)
	}
	// The record of night 0 and the manifest of night 1 are damaged, so the record of night 1 is what is left.
	v, err := report.New(blob.Memory(), store, registry.New(blob.Memory()), false).Dataset(t.Context(), r.Dataset)
	if err != nil || len(v.Nights) != 1 || len(v.Notes) != 2 || v.Table != nil {
		t.Fatalf("a dataset of which little can be read: got %+v, %v; want one night, two notes and no table", v, err)
	}
	must.Do(t, v.Write(new(bytes.Buffer)))
}
