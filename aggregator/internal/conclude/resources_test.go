package conclude

import (
	"fmt"
	"testing"
	"time"

	"coppice/internal/blob/blobtest"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// TestConcludingCostsTheSameAfterYears: a night's conclusion, with its gate, requests as many objects after 180 nights
// as after 90.
func TestConcludingCostsTheSameAfterYears(t *testing.T) {
	t.Parallel()
	var asked [2]int64
	for i, nights := range []int{90, 180} {
		first := newWorld(t, options{})
		first.mustConclude(t)
		r := registry.New(first.models)
		v, err := r.Get(t.Context(), first.plan.Spec.Model, "1")
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for _, f := range v.Files {
			if files[f.Name], err = r.ReadFile(t.Context(), v, f.Name); err != nil {
				t.Fatal(err)
			}
		}
		for n := range nights {
			info := v.Info
			info.At = created.Add(time.Duration(n-nights) * 24 * time.Hour)
			earlier, err := r.Register(t.Context(), v.Model, fmt.Sprint("earlier-", n), files, info)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Promote(t.Context(), v.Model, earlier.Number, registry.Expect{Any: true},
				registry.Act{By: "aggregator", Why: "better", At: info.At})
			if err != nil {
				t.Fatal(err)
			}
		}

		second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{2, 31, 6}, trees: 40,
			change: func(p *sweep.Plan) { p.Spec.Gate.MinGain = -1 }})
		models := &blobtest.Counting{Store: second.models}
		second.models = models
		if c := second.mustConclude(t); c.Version != nights+2 || !c.Gate.Promoted {
			t.Fatalf("after %d nights: version %d, gate %+v; want version %d to be promoted", nights, c.Version, c.Gate,
				nights+2)
		}
		asked[i] = models.Asked.Load()
	}
	t.Logf("%d requests after 90 nights, %d after 180", asked[0], asked[1])
	if asked[1] != asked[0] {
		t.Errorf("a conclusion takes %d requests to the registry after 90 nights and %d after 180; want the same",
			asked[0], asked[1])
	}
}
