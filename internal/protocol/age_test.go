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

	late := Age{Planned: epoch, Latest: epoch, Created: epoch, Now: epoch.Add(limit + clocksApart)}
	if !late.Reached(limit) {
		t.Errorf("an aggregator that has just begun to watch did not end a sweep %s after its limit, want it to",
			clocksApart)
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
