package page

import (
	"maps"
	"testing"

	"coppice/internal/sweep"
)

// TestCleanedGoesIntoInterfaces: texts that an interface holds, as the values of parameters are, are cleaned like all
// others, and so are the keys of their map. Numbers stay, and so does the view that was handed in.
func TestCleanedGoesIntoInterfaces(t *testing.T) {
	params := sweep.Params{"a\u202e": "x\u202ey", "n": 3.5}
	view := &Sweep{Configurations: []ConfigurationRow{{Rated: sweep.Rated{Params: params}}}}
	got := cleaned(view).Configurations[0].Params
	if want := (sweep.Params{`a\u202e`: `x\u202ey`, "n": 3.5}); !maps.Equal(got, want) {
		t.Errorf("cleaned parameters: got %q, want %q", got, want)
	}
	if params["a\u202e"] != "x\u202ey" {
		t.Errorf("the view's own parameters have become %q, want them as they were", params)
	}
}
