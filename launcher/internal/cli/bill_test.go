package cli

import (
	"bytes"
	"strings"
	"testing"

	"coppice/launcher/internal/bill"
	"coppice/ledger"
	"coppice/program"
	"coppice/sweep"
)

// TestABillSaysWhichJobHasNoPrice: the last job has none, and the first one's money is shown all the same.
func TestABillSaysWhichJobHasNoPrice(t *testing.T) {
	var out bytes.Buffer
	w := &World{World: program.World{Out: &out}}
	p := &sweep.Plan{Quote: &sweep.Quote{Hourly: 1, PriceDate: "2026-08-20"}}
	b := &bill.Bill{Cost: 2.5, Quote: p.Quote, Region: "us-central1", Jobs: []bill.Job{{Machine: "n2-highmem-8", Hourly: 1}, {Number: 1, Machine: "m9-large-2"}},
		Trials:   []bill.Trial{{Cost: 2.25}, {Trial: 1, Unpriced: true}},
		Attempts: []bill.Attempt{{Attempt: ledger.Attempt{Host: "first"}, Cost: 2.25}, {Attempt: ledger.Attempt{Host: "second"}, Unpriced: true}}}
	w.showBill(p, b, true)
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.Contains(line, "first") && !strings.Contains(line, "2.25 USD") || strings.Contains(line, "second") && !strings.Contains(line, "no price") ||
			strings.Contains(line, "m9-large-2") && strings.Contains(line, "2026-08-20") {
			t.Errorf("%s", line)
		}
	}
	for _, part := range []string{"2.50 USD", "note: no price is known for job 1, which is not in the sums"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("it does not show %q:\n%s", part, out.String())
		}
	}
}
