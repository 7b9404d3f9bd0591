package protocol

import (
	"testing"
	"time"
)

// TestALossEveryHalfMinuteCostsLittle simulates ten minutes of one-minute trials, one after the other, on a machine
// that vanishes without notice every 30 s: with fast and slow trees, near and far stores, a startup of one second, and
// a twentieth of the saved trees' time to replay them. No trial gets stuck, less than a tenth of the trees are grown
// twice, and it takes at most 1.35 times as long.
func TestALossEveryHalfMinuteCostsLittle(t *testing.T) {
	const life, calm, trial, start = 30 * time.Second, 10 * time.Minute, time.Minute, time.Second
	for _, tree := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
		time.Second} {
		for _, took := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond} {
			var spent, grown, left time.Duration // left: until the machine vanishes
			for range calm / trial {
				saved := time.Duration(0)
				for saved < trial {
					// An attempt, on this machine or its replacement.
					if left <= 0 {
						left = life
						spent, left = spent+start, left-start
					}
					replay := saved / 20
					spent, left = spent+replay, left-replay

					done, began, last := saved, time.Duration(0), time.Duration(0)
					now := time.Duration(0) // training time in this attempt
					for done < trial && left > 0 {
						spent, left, now, grown, done = spent+tree, left-tree, now+tree, grown+tree, done+tree
						if began == 0 {
							began, last = now, now
						}
						if left > took && (saved == 0 || now-last >= Unsaved(last-began, time.Minute, took)) {
							spent, left, now = spent+took, left-took, now+took
							saved, last = done, now
						}
					}
					if done >= trial && left > 0 {
						saved = done
					}
				}
				if spent > 10*calm {
					t.Fatalf("trees of %s, saves of %s: a trial does not come to its end", tree, took)
				}
			}

			longer, twice := spent.Seconds()/calm.Seconds(), (grown-calm).Seconds()/calm.Seconds()
			t.Logf("trees of %s, saves of %s: %.2f times as long, %.1f %% of the trees grown twice", tree, took, longer,
				100*twice)
			if longer > 1.35 || twice >= 0.1 {
				t.Errorf("trees of %s, saves of %s: %.2f times as long, %.1f %% of the trees grown twice; want 1.35 "+
					"and 10 %% at most", tree, took, longer, 100*twice)
			}
		}
	}
}
