package quote

import (
	"math"
	"strings"
	"testing"

	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestLimitsAreComparedWithTheQuote: a limit that is sure to be exceeded is an error at its line of the spec (Late),
// one that is only expected to be is a note, and both name a limit that would be enough. A comparison of machines has
// the error as a note.
func TestLimitsAreComparedWithTheQuote(t *testing.T) {
	const machine = "machine: {type: n2-highmem-64" // the limits are written above it, as line 8 of the spec
	for name, tc := range map[string]struct {
		limits      string
		late, notes string // the beginning of the error and a part of the notes; empty for none about limits
	}{ // 50 trials of 24 minutes in four waves are expected to take 1.64 hours; training alone takes 1.34 to 3.17
		"wide":              {"{trial: 4h, sweep: 10h}", "", ""},
		"the sweep is sure": {"{trial: 1h, sweep: 1h}", "sweep.yaml:8:28: limits.sweep is 1h, but", ""},
		"the sweep, perhaps": {"{trial: 1h, sweep: 1h30m}", "",
			"limits.sweep is 1h30m, but the sweep is expected to take 99 min ("},
		"a trial is sure": {"{trial: 20m, sweep: 10h}", "sweep.yaml:8:17: limits.trial is 20m, but every", ""},
		"a trial, perhaps": {"{trial: 22m, sweep: 10h}", "",
			"limits.trial is 22m, but trials are expected to take up to 23m45s"},
	} {
		q := request(t, large, machine, "limits: "+tc.limits+"\n"+machine)
		price(t, q)
		late, notes := "", strings.Join(q.Plan.Notes, "\n")
		if q.Late != nil {
			late = q.Late.Error()
		}
		if (late == "") != (tc.late == "") || !strings.HasPrefix(late, tc.late) || !strings.Contains(notes, tc.notes) ||
			tc.notes == "" && strings.Contains(notes, "limits.") {
			t.Errorf("%s, limits %s: late %q, notes\n%s\nexpected %q and %q", name, tc.limits, late, notes, tc.late,
				tc.notes)
		}
		if text := late + notes; strings.Contains(text, "limits.") &&
			!strings.Contains(text, "is enough at the slow end") {
			t.Errorf("%s: %s%s\nwant the limit that would do", name, late, notes)
		}
		// A comparison shows the way out, so it is not refused.
		if c := compare(t, q, Wish{Machines: []string{"n2-highmem-64"}}); tc.late != "" &&
			!strings.Contains(strings.Join(c.Notes, "\n"), "would refuse this: "+tc.late) {
			t.Errorf("%s: the comparison has the notes %q; expected the refusal", name, c.Notes)
		}
	}
}

// TestEarlyStoppingMakesNoLimitSure: early stopping may end all trials long before their last tree. So limits that a
// sweep without it is sure to exceed, by the numbers of TestLimitsAreComparedWithTheQuote, are notes and no error.
func TestEarlyStoppingMakesNoLimitSure(t *testing.T) {
	for limits, want := range map[string]string{
		"{trial: 1h, sweep: 1h}":   "limits.sweep is 1h, but the sweep is expected to take ",
		"{trial: 20m, sweep: 10h}": "limits.trial is 20m, but trials are expected to take up to ",
	} {
		q := request(t, large, "machine:", "early_stopping_rounds: 50\nlimits: "+limits+"\nmachine:")
		price(t, q)
		if notes := strings.Join(q.Plan.Notes, "\n"); q.Late != nil || !strings.Contains(notes, want) ||
			!strings.Contains(notes, " if no trial stops early: ") {
			t.Errorf("limits %s with early stopping: error %v, notes\n%s\nwant no error, and a note %q ... if no "+
				"trial stops early", limits, q.Late, notes, want)
		}
	}
}

// TestStoppedTrialsAreNotQuoted: with search.stop a quote counts what every trial trains and what is expected to be
// trained after the first comparison, and so expects less time than without; its high end counts every trial to its
// end.
func TestStoppedTrialsAreNotQuoted(t *testing.T) {
	const search = "search: {random"
	whole := offer(t, request(t, large))
	// By rule: the most trials of 50 that are expected to continue after their first comparison. Halving keeps one in
	// eta, which is 5 by rows and 3 by trees. ASHA does not wait until all have come, so more continue.
	for rule, most := range map[string]float64{"rule: halving, by: rows": 10, "rule: asha, by: rows": 20,
		"rule: halving, by: trees": 16, "rule: asha, by: trees": 28, "rule: hyperband, by: trees": 40} {
		q := request(t, large, search, "search: {stop: {"+rule+"}, random")
		w := must.Get(q.estimateWork())(t)
		if n := len(w.expected[1]); len(w.expected[0]) != 50 || n < 10 || float64(n) > most {
			t.Errorf("%s: %d of %d trials go on; expected 10 to %v of 50", rule, n, len(w.expected[0]), most)
		}
		o := offer(t, q)
		if !(o.Spot.Hours.Expected < 0.9*whole.Spot.Hours.Expected) ||
			math.Abs(o.Spot.Hours.High/whole.Spot.Hours.High-1) > 1e-9 || !(o.Spot.Hours.Low < o.Spot.Hours.Expected) {
			t.Errorf("%s: %+v hours; want less than 0.9 times the expected ones of %+v without it, and the same at "+
				"the high end", rule, o.Spot.Hours, whole.Spot.Hours)
		}
	}

	// The final training comes after all trials, on 6 % more rows (three held-out splits of 2.6 million each, for 130),
	// and has one machine's threads, those of 16 tasks. By Speeds.speedup these 64 are about 2.5 times as fast as a
	// task's four, so it takes about 0.42 of a trial's time.
	stop := request(t, large, search, "search: {stop: {rule: asha, by: rows}, random")
	final := request(t, large, search, "search: {stop: {rule: asha, by: rows}, random",
		"final: {rows: train}", "final: {rows: all}")
	longer := offer(t, final).OnDemand.Hours.Expected - offer(t, stop).OnDemand.Hours.Expected
	if trial := offer(t, stop).Trial.Expected / 3600; !(longer > trial/3 && longer < trial/2) {
		t.Errorf("the final training takes %.3f hours more; expected a third to half of a trial's %.3f", longer, trial)
	}
}

// TestTimeIsKeptForTheFinalTraining: the plan's quote says how long the final training takes. One and a half times that
// is reserved for it at the end of the sweep, where no trial starts. A note says so if the sweep's limit is too short
// for both.
func TestTimeIsKeptForTheFinalTraining(t *testing.T) {
	const machine = "machine: {type: n2-highmem-64" // the limits are written above it
	q := request(t, large, machine, "limits: {trial: 1h, sweep: 1h30m}\n"+machine, "final: {rows: train}",
		"final: {rows: all}")
	price(t, q)
	o, kept := offer(t, q), q.Plan.FinalReserve()
	if q.Plan.Quote.Refit != *o.Refit || math.Abs(kept.Seconds()-1.5*o.Refit.Expected) > 1 {
		t.Errorf("the quote has %+v and %s are kept; expected %+v and half as much again", q.Plan.Quote.Refit, kept,
			o.Refit)
	}
	want := "of its last " + Time(kept.Seconds()) + ", which are kept for the final training"
	if notes := strings.Join(q.Plan.Notes, "\n"); !strings.Contains(notes, want) {
		t.Errorf("the notes are\n%s\nexpected ... %s ...", notes, want)
	}
}

// TestMachinesOfTheFinalTraining: four machines take a little more than a quarter of one machine's time for the final
// training, and only these four are paid meanwhile. Notes say what several machines save; where the spec asks for one,
// what more would save; and, for a small table, that they save too little.
func TestMachinesOfTheFinalTraining(t *testing.T) {
	// quote returns the offer, and the note about machines, of a sweep whose final: also has the given text.
	quote := func(size Stated, machines string) (*Offer, string) {
		q := request(t, size, "spot: true", "vms: 8, spot: true", "final: {rows: train}",
			"final: {rows: all"+machines+"}")
		price(t, q)
		notes := ""
		for _, n := range q.Plan.Notes {
			if strings.Contains(n, "machines: ") {
				notes += n
			}
		}
		return offer(t, q), notes
	}
	one, advice := quote(large, "")
	four, note := quote(large, ", machines: 4")
	// More than a quarter, since the machines exchange sums at every split.
	if r, s := one.Refit.Expected, four.Refit.Expected; s <= r/4 || s > r/2.5 || four.RefitMachines != 4 {
		t.Errorf("one machine takes %.0f s, %d %.0f; want 4 and a little more than a quarter", r, four.RefitMachines, s)
	}

	// The sweep is shorter by what the final training saves. It costs more, since the four take more time in sum.
	a, b := one.OnDemand, four.OnDemand
	saved := one.Refit.Expected - four.Refit.Expected
	more := a.Hourly * (4*four.Refit.Expected - one.Refit.Expected) / 3600
	if got := 3600 * (a.Hours.Expected - b.Hours.Expected); math.Abs(got-saved) > 1 ||
		math.Abs(b.Cost.Expected-a.Cost.Expected-more) > 1e-6 {
		t.Errorf("%.0f s less and %.4f USD more; want %.0f and %.4f", got, b.Cost.Expected-a.Cost.Expected, saved, more)
	}

	_, little := quote(Stated{Rows: 100_000, Features: 40, HeldOut: 2000}, ", machines: 4")
	for text, want := range map[string]string{advice: "add final: {machines: 8}, which trains",
		note: "final: {machines: 4} trains", little: "leave out final: {machines: 4}, which saves"} {
		if !strings.HasPrefix(text, want) || !strings.Contains(text, "efficiency") {
			t.Errorf("the note is %q, want %s ...", text, want)
		}
	}
}

// TestMachinesOfObjectives: the exchanges that an objective needs in addition to those of its splits are counted, at a
// millisecond each: regression_l1 has ten more per tree than log loss. Each of three classes has a tree in every round,
// which takes three times the exchanges.
func TestMachinesOfObjectives(t *testing.T) {
	m := request(t, large).Manifest
	p := gbt.Defaults()
	p.Objective = "binary" // with one class, which is the default, it is log loss
	plain := teamSeconds(m, p, 0, 4)
	for objective, want := range map[string]float64{"regression_l1": plain + float64(p.NumIterations)*10/1000,
		"binary": 3 * plain} {
		p := p
		if p.Objective = objective; objective == "binary" {
			p.NumClass = 3
		}
		if got := teamSeconds(m, p, 0, 4); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s, %d classes: exchanges take %v s, want %v; those of log loss %v", objective, p.NumClass, got,
				want, plain)
		}
	}
}

// offer returns the offer for the plan's own machines.
func offer(t *testing.T, q *Estimator) *Offer {
	t.Helper()
	w := must.Get(q.estimateWork())(t)
	return must.Get(q.offerOwn(w))(t)
}

// TestSpotPaysUpTo: at the rate that an offer names, both models cost the same; below it Spot is cheaper, above it on
// demand.
func TestSpotPaysUpTo(t *testing.T) {
	q := request(t, large)
	even := offer(t, q).SpotPays
	// Not 0, which would mean never. A preemption costs minutes, so that at one a minute Spot cannot pay.
	if !(even > 0.5) || even > 60 {
		t.Fatalf("Spot pays up to %v preemptions an hour; want .5 to 60", even)
	}
	for factor, sign := range map[float64]float64{1: 0, 0.9: -1, 1.1: 1} {
		q.Preemptions = even * factor
		o := offer(t, q)
		diff := o.Spot.Cost.Expected/o.OnDemand.Cost.Expected - 1
		if o.SpotPays != even || sign == 0 && math.Abs(diff) > 1e-9 || sign*diff < 0 {
			t.Errorf("at %v preemptions an hour Spot costs %v, on demand %v, and Spot pays up to %v; want it cheaper "+
				"below %v, and dearer above", q.Preemptions, o.Spot.Cost.Expected, o.OnDemand.Cost.Expected, o.SpotPays,
				even)
		}
	}
}

// TestPlanSaysWhenSpotDoesNotPay: at the default rate of preemptions Spot pays, and no note is about it. Here it pays
// up to 5.6 an hour. At 15 it does not: a note says so, and on demand is recommended.
func TestPlanSaysWhenSpotDoesNotPay(t *testing.T) {
	q := request(t, large)
	wish := Wish{Machines: []string{"n2-highmem-64"}}
	if notes := strings.Join(compare(t, q, wish).Notes, "\n"); strings.Contains(notes, "does not pay") {
		t.Errorf("where Spot pays, want no word against it: %s", notes)
	}
	q.Preemptions = 15
	c := compare(t, q, wish)
	if notes := strings.Join(c.Notes, "\n"); strings.Count(notes,
		"Spot does not pay on n2-highmem-64: at 15 preemptions an hour Spot is expected to take ") != 1 ||
		!strings.Contains(notes, "spot: false") {
		t.Errorf("where Spot costs %v and on demand %v: %s; want one note that Spot does not "+
			"pay", c.Offers[0].Spot.Cost, c.Offers[0].OnDemand.Cost, notes)
	}
	if c.Recommended == nil || c.Recommended.Spot {
		t.Errorf("recommended is %+v, expected on demand", c.Recommended)
	}
}

// TestAttachedDisksArePreferred: machines with built-in local SSDs, which nobody has seen Batch mount, are offered with
// a note. They are recommended only if no machine with attached local SSDs meets the wish.
func TestAttachedDisksArePreferred(t *testing.T) {
	q := request(t, large)
	c := compare(t, q, Wish{Machines: four, VMs: 2})
	if !c.Offers[0].BuiltIn || c.Recommended == nil || c.Recommended.Machine != "n2-highmem-64" ||
		!strings.Contains(c.Reason, "with attached local SSDs") {
		t.Errorf("the cheapest is %s, recommended %+v; want n2-highmem-64, with attached disks: "+
			"%s", c.Offers[0].Machine, c.Recommended, c.Reason)
	}
	if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes,
		"c3d-highmem-60-lssd, c4d-highmem-64-lssd: the local SSDs come with the machine") {
		t.Errorf("notes on the machines: got %v; want the two whose disks come with them named", notes)
	}
	if c = compare(t, q, Wish{Machines: four[2:], VMs: 2}); c.Recommended == nil ||
		c.Recommended.Machine != "c3d-highmem-60-lssd" {
		t.Errorf("of machines with built-in disks only, recommended %+v (%s); want c3d-highmem-60-lssd", c.Recommended,
			c.Reason)
	}
}

// TestARangeHasOneUnit: a range states the unit once, if all its values have the same.
func TestARangeHasOneUnit(t *testing.T) {
	if got := Times(sweep.Range{Low: 92, Expected: 180, High: 410}); got != "3 min (2 to 7)" {
		t.Errorf("92, 180 and 410 seconds are %q; want 3 min (2 to 7)", got)
	}
	if got := Money(&sweep.Range{Low: 0.00273, Expected: 0.00543, High: 0.0109}); got != "$0.01 (<0.01 to 0.01)" {
		t.Errorf(".273, .543 and 1.09 cents are %q; want $0.01 (<0.01 to 0.01)", got)
	}
}
