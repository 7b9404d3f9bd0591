package worker

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"coppice/internal/sweep"
)

// TestOneTaskIsInterrupted: whatever the moment at which the only task of a search that learns is killed, its successor
// proposes what it would have proposed, and trains the same models: it goes on with what was begun first.
func TestOneTaskIsInterrupted(t *testing.T) {
	asha := &sweep.Stop{Rule: sweep.StopASHA, By: sweep.ByTrees, MinTrees: 2, Eta: 2, Rungs: []int{2, 4}}
	for name, stop := range map[string]*sweep.Stop{"": nil, " with asha": asha} {
		if stop == nil && os.Getenv("COPPICE_FULL") == "" {
			continue // the other is killed at the same moments, and at more
		}
		change := func(p *sweep.Plan) {
			open(sweep.MethodGP, wide)(p)
			p.Sizing.Tasks, p.Spec.Search.Stop = 1, stop
		}
		outcome := func(t *testing.T, w *world) map[int]string {
			w.run(t, 0)
			out := map[int]string{}
			for i := range w.plan.Trials {
				r := w.result(t, i)
				out[i] = fmt.Sprint(r.Status, r.Score, r.Params["num_leaves"], r.Params["learning_rate"])
			}
			return out
		}
		var want map[int]string
		calm := newWorld(t, 7, change)
		synctest.Test(t, func(t *testing.T) { want = outcome(t, calm) })
		for _, at := range []string{"0002/claims/", "0003/decision.json", "0003/heartbeats/", "configurations/",
			"/rungs/", "/pauses/", "/promotions/"} {
			if stop == nil && strings.HasPrefix(at, "/") {
				continue
			}
			w := newWorld(t, 7, change)
			synctest.Test(t, func(t *testing.T) {
				w.until(t, 0, at, 1)
				if got := outcome(t, w); !maps.Equal(got, want) {
					t.Errorf("killed after it wrote %s, the sweep%s ended as\n%v\nexpected\n%v", at, name, got, want)
				}
			})
		}
	}
}
