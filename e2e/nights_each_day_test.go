//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/nights/nightstest"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// TestE2ENights: ten days appear one by one in a bucket, and one command a day makes one version a day of the
// last three days. Two days are fired twice, once with more data; one day never comes: that night trains nothing, and
// the nights after it say so.
func TestE2ENights(t *testing.T) {
	n := newNights(t, 33, 3000)
	n.file("clicks.yaml", strings.Replace(string(nightstest.Spec("days")), "source: days",
		"source:\n  files: gs://coppice-datasets/exports/{date:2006-01-02}/*.csv\n  last: 3d\n  missing: allow", 1)+
		"encodings: none\ncontract: none\n")
	n.file("sweep.yaml", strings.Replace(n.read("sweep.yaml"), "trials: 2", "trials: 1\nlabels: {team: ads}", 1))
	appear := func(day int, name string) {
		n.put(nightstest.First.AddDate(0, 0, day).Format(time.DateOnly)+"/"+name, n.stream.Night(day).CSV())
	}
	night := func(day int) ran {
		at := nightstest.First.AddDate(0, 0, day+1).Add(3 * time.Hour)
		return n.launcher("nightly", "sweep.yaml", "--schedule", "0 2 * * *", "--at", at.Format(time.RFC3339), "--json")
	}

	const first, missing = 2, 6 // two days are there before
	appear(0, "a.csv")
	appear(1, "a.csv")
	versions := 0
	for day := first; day < first+10; day++ {
		if day == missing {
			r := night(day)
			if r.code != sweep.ExitNotFound ||
				!strings.Contains(r.errOut, "the newest day, 2026-10-11, is not there yet") {
				t.Errorf("the night without its day ended with %d, expected %d:\n%s", r.code, sweep.ExitNotFound,
					r.errOut)
			}
			continue
		}
		appear(day, "a.csv")
		night(day).ok(t)
		versions++
		switch day {
		case 4:
			night(day).ok(t)
		case 8:
			appear(day, "late.csv")
			night(day).ok(t)
		}
		var registered []registry.Version
		decode(t, n.launcher("registry", "list", "ctr", "--json").out, &registered)
		if len(registered) != versions {
			t.Fatalf("after day %d there are %d versions, expected %d", day, len(registered), versions)
		}
	}

	if r := n.launcher("bill", "nightly-20261015-0200"); !strings.Contains(r.out, "team=ads") {
		t.Errorf("the bill of a night does not show whose it is:\n%s%s", r.out, r.errOut)
	}
}
