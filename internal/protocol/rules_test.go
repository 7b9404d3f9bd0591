package protocol

import (
	"testing"
	"time"
)

// TestAgeIsTheStores: wrong clocks end no sweep early, and let none run much longer.
func TestAgeIsTheStores(t *testing.T) {
	const limit = 10 * time.Minute
	for _, tc := range []struct {
		name                 string
		lasted, watched      time.Duration // until the newest object, and since then
		launcher, aggregator time.Duration // errors of their clocks
		reached              bool
	}{
		{"young", time.Minute, 0, 0, 0, false},
		{"young, the launcher's clock is behind", time.Minute, 0, -24 * time.Minute, 0, false},
		{"young, the aggregator's clock is ahead", time.Minute, 0, 0, 40 * time.Minute, false},
		{"old", limit, 0, 0, 0, true},
		{"old, the launcher's clock is ahead", limit, 0, 400 * time.Second, 0, true},
		{"old, the aggregator's clock is behind", limit, 0, 0, -24 * time.Hour, true},
		{"nothing is written any more", 4 * time.Minute, 6 * time.Minute, 0, 0, true},
		{"nothing was ever written", 0, limit, 0, 0, true},
	} {
		a := Age{Planned: epoch, Latest: epoch.Add(tc.lasted), Watched: tc.watched, Created: epoch.Add(tc.launcher),
			Now: epoch.Add(tc.lasted + tc.watched + tc.aggregator)}
		if got := a.Reached(limit); got != tc.reached {
			t.Errorf("%s: reached the limit %t, want %t", tc.name, got, tc.reached)
		}
	}

	late := Age{Planned: epoch, Latest: epoch, Created: epoch, Now: epoch.Add(limit + ClocksApart)}
	if !late.Reached(limit) {
		t.Errorf("an aggregator that has just begun to watch did not end a sweep %s after its limit, want it to",
			ClocksApart)
	}
}

// TestUnsaved: a loss costs at most a tenth of the training before the last save, and saving is cheap.
func TestUnsaved(t *testing.T) {
	for _, tc := range []struct{ trained, took, want time.Duration }{
		{0, 0, 0}, {0, 100 * time.Millisecond, 1200 * time.Millisecond}, {10 * time.Second, 0, time.Second},
		{30 * time.Second, 100 * time.Millisecond, 3 * time.Second},
		{time.Minute, 200 * time.Millisecond, 10 * time.Second}, {time.Hour, 0, time.Minute},
		{time.Hour, 2 * time.Second, 100 * time.Second},
	} {
		if got := Unsaved(tc.trained, time.Minute, tc.took); got != tc.want {
			t.Errorf("after %s of training and a save of %s: %s unsaved, want %s", tc.trained, tc.took, got, tc.want)
		}
	}
}

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
