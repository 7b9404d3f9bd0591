package plan_test

import (
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/sweep"
)

// TestTrialsComparedBySamples: the plan says at which samples.
func TestTrialsComparedBySamples(t *testing.T) {
	spec := parse(t, "search:", "search:\n  stop: {rule: asha, by: rows}")
	p := built(t, spec, manifest(all...))
	readBack(t, p)

	stop := p.Spec.Search.Stop
	if len(stop.Rungs) != 1 || stop.OneIn != 25 || stop.Eta != 5 {
		t.Errorf("rungs %v, of one row in %d, eta %d; want one, 25 and 5", stop.Rungs, stop.OneIn, stop.Eta)
	}
	if want := "after training on one row in 25 (asha, one in 5 continues)"; !slices.ContainsFunc(p.Notes,
		func(n string) bool { return strings.Contains(n, want) }) {
		t.Errorf("the notes are %q; want one with %q", p.Notes, want)
	}

	small := manifest(all...)
	for i := range small.Splits {
		small.Splits[i].Rows = 9900
	}
	refused(t, "one in 5 of 9900 is too small a sample", spec, small)

	// A spec that does not say by what leaves it to metric and table.
	for _, c := range []struct {
		metric string
		m      *dataset.Manifest
		want   string
	}{{"log_loss", small, sweep.ByTrees}, {"log_loss", manifest(all...), sweep.ByRows},
		{"auc", manifest(all...), sweep.ByTrees}} {
		if p, err := build(parse(t, "metric: ap", "metric: "+c.metric, "search:", "search:\n  stop: {rule: asha}"),
			c.m); err != nil || p.Spec.Search.Stop.By != c.want {
			t.Errorf("stop: {rule: asha} for %s on %d rows: got error %v, want trials to be compared by %s", c.metric,
				c.m.Splits[0].Rows, err, c.want)
		}
	}
}
