package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// Why writes why a trial was tried and how it ended.
func (w Printer) Why(p *sweep.Plan, y sweepview.Reasons) {
	rows := [][2]string{{"trial", fmt.Sprintf("%d of sweep %s", y.Trial.Number, p.Sweep)}, {"from", y.Trial.Source}}
	if y.Trial.Fold > 0 {
		rows = append(rows, [2]string{"fold", fmt.Sprintf("%d of %d, of configuration %d", y.Trial.Fold,
			len(p.Folds.Rounds), y.Trial.Configuration)})
	}
	switch d := y.Decision; {
	case d != nil:
		parameters := page.Settings(d.Own, slices.Sorted(maps.Keys(d.Own)))
		if p.Spec.Search.Features != nil {
			parameters = page.Differ(p).Text(d.Params)
		}
		rows = append(rows, [2]string{"because", d.Reason}, [2]string{"parameters", parameters},
			[2]string{"decided", decidedAt(p, d)},
			[2]string{"had seen", knewThen(p, d)}, [2]string{"again", y.Replayed})
		if n := len(d.Refused); n > 0 {
			rows = append(rows, [2]string{"refused", fmt.Sprintf("%s: taken by another trial, or not accepted "+
				"by the trainer", english.Plural(n, "earlier proposal", ""))})
		}
	case y.Trial.Refit:
		rows = append(rows, [2]string{"because", y.Refit})
	case y.Trial.Open:
		when := "not yet chosen: the search chooses when a task takes the trial"
		if p.Folds != nil {
			when = "not yet chosen: the search chooses when a task takes one of the configuration's folds"
		}
		rows = append(rows, [2]string{"because", when})
	default:
		why := cmp.Or(y.Trial.Reason, "it was planned before the first trial began")
		rows = append(rows, [2]string{"because", why}, [2]string{"parameters", page.Differ(p).Text(y.Trial.Params)})
	}

	if r := y.Result; r != nil {
		rows = append(rows, [2]string{"ended", ended(p.Spec.Metric, r)})
	}
	if y.Live != "" {
		rows = append(rows, [2]string{"live", y.Live})
	}
	w.Pairs(rows...)
	if len(y.Rungs) > 0 {
		w.rungs(p, y)
	}
	if y.Unlike != "" {
		w.Pairs([2]string{"again", y.Unlike})
	}
}

// rungs shows how the trial compared at each rung.
func (w Printer) rungs(p *sweep.Plan, y sweepview.Reasons) {
	t := w.Table("reached", p.Spec.Metric, "others", "", "because").Wrap(5)

	for _, r := range y.Rungs {
		does, reached := search.GoOn, p.Spec.Search.Stop.Reached(r.Step)
		if r.Pause {
			does = search.Wait
		}
		t.Row(reached, Number(r.Score), len(r.Seen), does, r.Reason)

		for _, after := range y.Promotions {
			if after.Step != r.Step {
				continue
			}
			does := search.Stop
			if after.Promoted {
				does = search.GoOn
			}
			t.Row(reached+", later", Number(after.Score), len(after.Seen), does, after.Reason)
		}
	}
	t.Print()
}

// decidedAt says when and by whom a decision was made.
func decidedAt(p *sweep.Plan, d *sweep.Decision) string {
	text := fmt.Sprintf("%s, by task %d under claim %d", humanize.Time(d.At), d.Task, d.Claim)
	if p.Folds != nil {
		text += fmt.Sprintf(" of trial %d, for all folds of the configuration", cmp.Or(d.Holder, d.Trial))
	}
	return text
}

// knewThen says what a decision knew.
func knewThen(p *sweep.Plan, d *sweep.Decision) string {
	results, best := 0, (*sweep.Seen)(nil)
	for i := range d.Seen {
		s := &d.Seen[i]
		if s.Status != sweep.StatusRunning {
			results++
		}
		if s.Score != nil && (best == nil || p.Maximize == (*s.Score > *best.Score)) {
			best = s
		}
	}

	text := english.Plural(results, "result", "")
	if p.Folds != nil {
		text = "results of " + english.Plural(results, "configuration", "")
	}
	for _, e := range p.Earlier {
		text += fmt.Sprintf(", %d of %s", len(e.Trials), e.Sweep)
	}

	switch {
	case best != nil && p.Folds != nil:
		text += fmt.Sprintf("; the best was configuration %d with %s over %d folds", p.Ordinal(best.Trial),
			Number(*best.Score), p.Folds.First)
	case best != nil:
		text += fmt.Sprintf("; the best was trial %d with %s", best.Trial, Number(*best.Score))
	}
	return text
}
