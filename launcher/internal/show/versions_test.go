package show

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// TestLifeWithAnUnreadableEvent: if the move that made a version the champion is missing from the history, its life is
// told without a beginning; with it, it has one.
func TestLifeWithAnUnreadableEvent(t *testing.T) {
	day := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	v := VersionDetails{Aliases: []registry.Alias{{Name: registry.Champion, Version: 3}}}
	v.Number = 2
	v.Events = []registry.Event{{Alias: registry.Champion, From: 2, To: 3, At: day}}
	if got, want := v.describeLife(day), "champion to 2026-11-29, then version 3"; got != want {
		t.Errorf("its life is %q, expected %q", got, want)
	}
	v.Events = append([]registry.Event{{Alias: registry.Champion, To: 2, At: day.AddDate(0, 0, -1)}}, v.Events...)
	if got, want := v.describeLife(day), "champion from 2026-11-28 to 2026-11-29, then version 3"; got != want {
		t.Errorf("its life is %q, expected %q", got, want)
	}
}

// TestTheMetricThatChoseComesFirst: the metric that chose a version comes before the others, and has its standard error
// on test: 0.1, from a 95 % interval of 1.96 such errors to either side.
func TestTheMetricThatChoseComesFirst(t *testing.T) {
	v := VersionDetails{Metric: "rmse", Report: sweep.Conclusion{Within: &sweep.Within{Metric: "rmse", Low: 4 - 0.196,
		High: 4 + 0.196}}}
	v.Report.Valid, v.Info.Metrics = map[string]float64{"mae": 1, "rmse": 2}, map[string]float64{"mae": 3, "rmse": 4}
	var out strings.Builder
	Printer{Screen: tables.Screen{Output: program.To(&out)}}.Version(v, time.Now(), false)
	for _, want := range []string{"rmse 2, mae 1", "rmse 4.00 ± 0.10, mae 3"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s\nwant %q in it", out.String(), want)
		}
	}
}
