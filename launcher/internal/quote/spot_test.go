package quote

import (
	"math"
	"strings"
	"testing"
	"time"

	"coppice/internal/sweep"
)

func offer(t *testing.T, q *Estimator) *Offer {
	t.Helper()
	w, err := q.work()
	if err != nil {
		t.Fatal(err)
	}
	o, err := q.own(w)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSpotPaysUpTo: at the rate that an offer names, both models cost the same; below it Spot is cheaper, above it on
// demand.
func TestSpotPaysUpTo(t *testing.T) {
	q := request(t, large)
	even := offer(t, q).SpotPays
	if !(even > 0.5) || even > 60 {
		t.Fatalf("Spot pays up to %v preemptions an hour", even)
	}
	for _, c := range []struct {
		rate float64
		sign float64
	}{{even, 0}, {even * 0.9, -1}, {even * 1.1, 1}} {
		q.Preemptions = c.rate
		o := offer(t, q)
		if o.SpotPays != even {
			t.Errorf("the rate depends on what is assumed: %v, was %v", o.SpotPays, even)
		}
		diff := o.Spot.Cost.Expected/o.OnDemand.Cost.Expected - 1
		if c.sign == 0 && math.Abs(diff) > 1e-9 || c.sign*diff < 0 {
			t.Errorf("at %v preemptions an hour Spot costs %v, on demand %v", c.rate, o.Spot.Cost.Expected,
				o.OnDemand.Cost.Expected)
		}
	}
}

// TestPlanSaysWhenSpotDoesNotPay, and is silent where it does.
func TestPlanSaysWhenSpotDoesNotPay(t *testing.T) {
	q := request(t, large)
	wish := Wish{Machines: []string{"n2-highmem-64"}}
	if notes := strings.Join(compare(t, q, wish).Notes, "\n"); strings.Contains(notes, "does not pay") {
		t.Errorf("where Spot pays: %s", notes)
	}
	q.Preemptions = 15
	c := compare(t, q, wish)
	if notes := strings.Join(c.Notes, "\n"); strings.Count(notes,
		"Spot does not pay on n2-highmem-64: at 15 preemptions an hour Spot is expected to take ") != 1 ||
		!strings.Contains(notes, "spot: auto") {
		t.Errorf("where Spot costs %v and on demand %v: %s", c.Offers[0].Spot.Cost, c.Offers[0].OnDemand.Cost, notes)
	}
	if c.Recommended == nil || c.Recommended.Spot {
		t.Errorf("recommended is %+v, expected on demand", c.Recommended)
	}
}

// TestSpotAutoGoesByTheRule of docs/cost.md, and the quote that is written into the plan is of what it chose.
func TestSpotAutoGoesByTheRule(t *testing.T) {
	for name, c := range map[string]struct {
		rate  float64
		edits []string
		limit time.Duration
		spot  bool
		says  string
	}{
		"cheaper": {0.05, []string{"spot: true", "spot: auto"}, 0, true,
			"spot: auto chose Spot: at 0.05 preemptions an hour Spot is expected to take "},
		"dearer": {15, []string{"spot: true", "spot: auto"}, 0, false,
			"spot: auto chose on-demand: at 15 preemptions an hour Spot is expected to take "},
		"too late": {3, []string{"spot: true", "spot: auto"}, 2 * time.Hour, false,
			"more than limits.sweep (2h0m0s)"},
		"no price": {15, []string{"spot: true", "spot: auto", "n2-highmem-64", "m1-ultramem-40"},
			400 * time.Hour, true, "one of the two prices"},
		"said by the spec":       {0.05, nil, 0, true, ""},
		"said, and does not pay": {15, nil, 0, true, "Spot does not pay on n2-highmem-64"},
	} {
		q := request(t, large, c.edits...)
		q.Preemptions = c.rate
		if c.limit > 0 {
			q.Plan.Spec.Limits.Sweep = sweep.Duration(c.limit)
		}
		o := offer(t, q)
		notes := strings.Join(q.settle(o), "\n")
		if m := q.Plan.Spec.Machine; *m.Spot != c.spot || !strings.Contains(notes, c.says) || c.says == "" &&
			notes != "" {
			t.Errorf("%s: spot is %t, expected %t; %q, expected %q", name, *m.Spot, c.spot, notes, c.says)
		}
		if kept := q.quoted(o); kept.Spot != c.spot || kept.Hourly != o.Side(c.spot).Hourly {
			t.Errorf("%s: the quote in the plan is of spot %t at %v an hour", name, kept.Spot, kept.Hourly)
		}
	}
}

// TestAttachedDisksArePreferred: what nobody has seen work is offered, and not recommended beside what is documented.
func TestAttachedDisksArePreferred(t *testing.T) {
	q := request(t, large)
	c := compare(t, q, Wish{Machines: four, VMs: 2})
	if !c.Offers[0].BuiltIn || c.Recommended == nil || c.Recommended.Machine != "n2-highmem-64" ||
		!strings.Contains(c.Reason, "with attached local SSDs") {
		t.Errorf("the cheapest is %s, recommended %+v: %s", c.Offers[0].Machine, c.Recommended, c.Reason)
	}
	if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes,
		"c3d-highmem-60-lssd, c4d-highmem-64-lssd: the local SSDs come with the machine") {
		t.Errorf("notes on the machines: got %v; want the two whose disks come with them named", notes)
	}
	if c = compare(t, q, Wish{Machines: four[2:], VMs: 2}); c.Recommended == nil ||
		c.Recommended.Machine != "c3d-highmem-60-lssd" {
		t.Errorf("of nothing else %+v: %s", c.Recommended, c.Reason)
	}
}
