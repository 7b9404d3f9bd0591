package cli

import (
	"strings"
	"testing"
)

func TestParams(t *testing.T) {
	w := newWorld(t)
	got := w.must("params", "subsample", "verbose", "--json")
	for _, want := range []string{`"name": "bagging_fraction"`, `"standing": "differs"`, `"name": "verbosity"`,
		`"standing": "accepted"`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
	if got := w.must("params"); !strings.Contains(got, "num_leaves") || !strings.Contains(got, "histogram_pool_size") {
		t.Errorf("all parameters: got %s", got)
	}
}
