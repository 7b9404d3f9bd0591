package quote

import (
	"math"
	"strings"
	"testing"
)

func offer(t *testing.T, q *Estimator) *Offer {
	t.Helper()
	w, err := q.estimateWork()
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
		!strings.Contains(notes, "spot: false") {
		t.Errorf("where Spot costs %v and on demand %v: %s", c.Offers[0].Spot.Cost, c.Offers[0].OnDemand.Cost, notes)
	}
	if c.Recommended == nil || c.Recommended.Spot {
		t.Errorf("recommended is %+v, expected on demand", c.Recommended)
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
