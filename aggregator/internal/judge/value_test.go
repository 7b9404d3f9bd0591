package judge_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/metric"
)

// TestRowsWithoutAColumn: where earlier nights have kept no bids, a value of bids is not known, rather than 0, and
// tonight's rows decide; where tonight has none, nothing is compared.
func TestRowsWithoutAColumn(t *testing.T) {
	m, err := metric.Lookup("value(4 * prediction > bid ? 4 * label - bid : 0)")
	if err != nil {
		t.Fatal(err)
	}
	w := world{rand.New(rand.NewPCG(1, 7)), -1}
	e := judge.Evidence{Binary: true, Champion: 1, Tonight: w.rows(3000, 0.2, 0.6), Shares: even,
		Earlier: earlier(w.rows(3000, 0.2, 0.6), 1)}
	bids := make([]float32, 3000)
	for i := range bids {
		bids[i] = float32(i % 4)
	}
	const unknown = "it is not known here: the rows have no bid"

	e.Tonight.Values = map[string][]float32{"bid": bids}
	d := judge.Judge(gate(nil), m, e)
	said := ""
	for _, c := range d.Checks {
		said += c.Name + ": " + c.Reason + "\n"
	}
	want := "not compared on rows of earlier nights: " + m.Name + ": " + unknown
	if !d.Passed || d.Old == 0 || !strings.Contains(said, want) {
		t.Errorf("with bids of tonight alone: %+v\n%s", d, said)
	}

	e.Tonight.Values = nil
	if d := judge.Judge(gate(nil), m, e); d.Passed || !strings.Contains(d.Reason, unknown) {
		t.Errorf("without bids: %+v", d)
	}
}
