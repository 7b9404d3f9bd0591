package show

import (
	"testing"
	"time"

	"coppice/internal/registry"
)

// TestLifeWithAnUnreadableEvent: where the move that made a version the champion cannot be read, its life has no
// beginning, rather than one in the year 1.
func TestLifeWithAnUnreadableEvent(t *testing.T) {
	day := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	v := VersionDetails{Aliases: []registry.Alias{{Name: registry.Champion, Version: 3}}}
	v.Number = 2
	v.Events = []registry.Event{{Alias: registry.Champion, From: 2, To: 3, At: day}}
	if got, want := v.life(day), "champion to 2026-11-29, then @3"; got != want {
		t.Errorf("its life is %q, expected %q", got, want)
	}
	v.Events = append([]registry.Event{{Alias: registry.Champion, To: 2, At: day.AddDate(0, 0, -1)}}, v.Events...)
	if got, want := v.life(day), "champion from 2026-11-28 to 2026-11-29, then @3"; got != want {
		t.Errorf("its life is %q, expected %q", got, want)
	}
}
