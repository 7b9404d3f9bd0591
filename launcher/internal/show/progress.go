package show

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"

	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// SweepProgress shows a sweep as it goes on: a line for each trial that has ended, on a terminal above a bar; an object
// per change as JSON.
type SweepProgress struct {
	w    program.World
	json bool
	plan *sweep.Plan
	bar  *progressbar.ProgressBar
	seen map[int]bool // trials that have ended
	last string       // what was printed of the job, or as JSON

	trouble string // the latest

	untrained map[string]int // trials by why they were not trained: news at the end only, and once
}

// NewProgress returns what shows a sweep of this plan, as JSON or for people.
func NewProgress(w program.World, p *sweep.Plan, asJSON bool) *SweepProgress {
	v := &SweepProgress{w: w, json: asJSON, plan: p, seen: map[int]bool{}, untrained: map[string]int{}}
	if w.Terminal && !asJSON {
		v.bar = NewBar(w.Err, int64(len(p.Own())), progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetPredictTime(false), progressbar.OptionFullWidth())
	}
	return v
}

// Show shows what has changed since the last look.
func (v *SweepProgress) Show(b sweep.Board, snap sweepview.Snapshot) {
	if v.json {
		v.jsonLine(snap)
		return
	}

	var ended []sweep.Row
	for _, row := range b.Rows {
		if row.Result != nil && !v.seen[row.Result.Trial] {
			ended = append(ended, row)
		}
	}
	if v.bar == nil {
		v.lines(ended, snap)
		return
	}
	if len(ended) > 0 || snap.Trouble != v.trouble {
		_ = v.bar.Clear() // a bar that cannot be drawn is no reason to stop watching
		v.lines(ended, snap)
	}
	v.bar.Describe(program.Visible(v.summary(snap)))
	_ = v.bar.Set(snap.Ended())
}

func (v *SweepProgress) jsonLine(s sweepview.Snapshot) {
	left, low, high := s.Left, s.LeftLow, s.LeftHigh
	s.Left, s.LeftLow, s.LeftHigh = 0, 0, 0 // a change of the estimate alone does not count
	key, err := json.Marshal(s)
	if err != nil || string(key) == v.last {
		return
	}
	v.last = string(key)
	s.Left, s.LeftLow, s.LeftHigh = left, low, high
	_ = json.NewEncoder(v.w.Out).Encode(s)
}

// summary is the text before the bar.
func (v *SweepProgress) summary(s sweepview.Snapshot) string {
	parts := append([]string{fmt.Sprintf("%d/%d done", s.Done, len(v.plan.Own())),
		fmt.Sprintf("%d running", s.Running)},
		sweepview.Counts("at their limit", s.AtLimit, "waiting for a task", s.Ready, "paused", s.Paused, "stopped",
			s.Stopped, "not trained", s.Untrained, "failed", s.Failed)...)
	switch {
	case s.Folds != nil && s.Folds.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (configuration %d)", v.plan.Spec.Metric,
			page.Estimate(s.Folds.Best), s.Folds.Best.Configuration))
	case s.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (#%d)", v.plan.Spec.Metric, Number(s.Best.Score), s.Best.Trial))
	}

	switch {
	case s.Left > 0:
		parts = append(parts, fmt.Sprintf("%s left", plot.Seconds.Format(s.Left)))
	case s.Done == 0 && s.Job.State != "RUNNING":
		parts = append(parts, strings.ToLower(s.Job.State))
	case s.Waiting == 0 && s.Conclusion == nil:
		parts = append(parts, "concluding")
	}
	return strings.Join(parts, " · ")
}

// lines prints the trials that have ended since the last look.
func (v *SweepProgress) lines(ended []sweep.Row, s sweepview.Snapshot) {
	if v.bar == nil && v.last == "" && s.Job.State != "" { // empty if the sweep had ended at the first look
		how := "waiting for machines: " + strings.ToLower(s.Job.State)
		switch {
		case s.Job.Finished: // what it left is still to be concluded
			how = "job " + strings.ToLower(s.Job.State)
		case s.Job.State == "RUNNING":
			how = "training has begun"
		}
		fmt.Fprintln(v.w.Out, how)
		v.last = s.Job.State
	}

	if s.Trouble != v.trouble && s.Trouble != "" {
		fmt.Fprintf(v.w.Out, "%s\n", s.Trouble)
	}
	v.trouble = s.Trouble

	for _, row := range ended {
		r := row.Result
		v.seen[r.Trial] = true
		if r.Untrained() {
			if !row.Trial.Refit { // how the sweep ends says why
				v.untrained[FirstLine(r.Reason)]++
			}
			continue
		}
		how := fmt.Sprintf("%s %s, %d trees, %s", v.plan.Spec.Metric, Number(r.Score), r.Trees,
			plot.Seconds.Format(r.Usage.TrainSeconds))
		if r.Status != sweep.StatusDone {
			how = FirstLine(r.Reason)
			if !strings.HasPrefix(how, r.State()) {
				how = r.State() + ": " + how
			}
		} else if r.AtLimit {
			how += ", " + r.Reason
		}
		if fold := FoldOf(row.Trial); fold != "" {
			how = fold + ": " + how
		}
		line := fmt.Sprintf("trial %3d  %s", r.Trial, how)
		if v.bar == nil { // the bar has the summary
			line += "  |  " + v.summary(s)
		}
		fmt.Fprintf(v.w.Out, "%s\n", line)
	}
}

// Close removes the bar, and tells of the trials that were not trained.
func (v *SweepProgress) Close() {
	if v.bar != nil {
		_ = v.bar.Finish()
		v.bar = nil
	}
	for _, why := range slices.Sorted(maps.Keys(v.untrained)) {
		fmt.Fprintf(v.w.Out, "%s %s\n", english.Plural(v.untrained[why], "trial", ""), why)
	}
}
