//go:build e2e

package e2e

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// fired is in how many runs a class has struck.
func fired(runs []chaosRun, class string) (n int) {
	for _, r := range runs {
		if r.struck[class] > 0 {
			n++
		}
	}
	return n
}

// chaosTable is what struck how often.
func chaosTable(runs []chaosRun) string {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"fault", "runs", "share", "times"})
	for _, c := range chaosClasses() {
		times, n := 0, fired(runs, c.counted)
		for _, r := range runs {
			times += r.struck[c.counted]
		}
		t.AppendRow(table.Row{c.counted, n, fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, len(runs)))), times})
	}

	var took time.Duration
	wrong, claims, cancelled := 0, 0, 0
	for _, r := range runs {
		took += r.took
		claims += r.claims
		if len(r.wrong) > 0 {
			wrong++
		}
		if r.cancelled {
			cancelled++
		}
	}
	return fmt.Sprintf("%s\n\n%d sweeps of %d trials, %d cancelled, %d claims, %d broke a promise; %.1f s a "+
		"sweep\n", t.RenderMarkdown(), len(runs), chaosTrials, cancelled, claims, wrong,
		took.Seconds()/float64(max(1, len(runs))))
}
