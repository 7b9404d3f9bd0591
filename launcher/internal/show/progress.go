package show

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/engine"
	"coppice/internal/page/plot"
	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// SweepProgress shows a running sweep: on a terminal in a line that is rewritten, elsewhere with a line for each trial
// that has ended, or as JSON with an object per change. It is not safe for concurrent use.
type SweepProgress struct {
	w    program.World
	json bool
	plan *sweep.Plan
	line *StatusLine
	seen map[int]bool // trials that have ended
	last string       // what was last printed about the job and its machines; with json, the last object

	lacking map[string]bool // which reasons for missing machines were printed since machines were last complete
	trouble string          // the trouble that was last printed

	untrained map[string]int // by reason: how many trials were not trained; Close prints them
}

// NewProgress returns what shows a sweep of this plan, as JSON or for people.
func NewProgress(w program.World, p *sweep.Plan, asJSON bool) *SweepProgress {
	return &SweepProgress{w: w, json: asJSON, plan: p, line: NewStatusLine(w), seen: map[int]bool{},
		lacking: map[string]bool{}, untrained: map[string]int{}}
}

// Show shows what has changed since the last call: b has the results, snap the numbers.
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
	v.printNews(ended, snap)
	v.line.Show(v.summary(snap)...)
}

// jsonLine prints the snapshot as one object, if it differs from the last one in more than the estimate of the time
// left. An error of writing is passed over, as for all that is printed.
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

// summary returns how far the sweep has come as parts of a line, what matters most first: a narrow line leaves out
// later parts.
func (v *SweepProgress) summary(s sweepview.Snapshot) []string {
	parts := []string{fmt.Sprintf("%d/%d done", s.Done, len(v.plan.Own()))}
	switch {
	case s.Final:
		parts = append(parts, "final training")
	case s.Left > 0:
		parts = append(parts, plot.Seconds.Format(s.Left)+" left")
	case s.Done == 0 && s.Job.State != engine.Running:
		parts = append(parts, string(s.Job.State))
	case s.Waiting == 0 && s.Conclusion == nil:
		parts = append(parts, "concluding")
	}
	switch {
	case s.Folds != nil && s.Folds.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (configuration %d)", v.plan.Spec.Metric,
			s.Folds.Best.ScoreText(), s.Folds.Best.Configuration))
	case s.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (#%d)", v.plan.Spec.Metric, Number(s.Best.Score), s.Best.Trial))
	}
	return append(parts, sweepview.Counts("running", s.Running, "failed", s.Failed,
		"stopped at a time limit", s.AtLimit, "waiting for a task", s.Ready, "paused", s.Paused,
		"stopped", s.Stopped, "not trained", s.Untrained)...)
}

// mostNews is how many trials have a line of their own at one look.
const mostNews = 3

// printNews prints a line for each thing that has happened since the last call: machines that are missing, or have
// come, troubles, and the trials in ended, which it marks as seen. Every failed trial has a line. Of the others there
// is none on a terminal, whose status line counts them; elsewhere the first mostNews and the last have one.
func (v *SweepProgress) printNews(ended []sweep.Row, s sweepview.Snapshot) {
	say := func(format string, args ...any) {
		v.line.Clear()
		tables.On(v.w).Printf(format+"\n", args...)
	}

	// The job and its machines. Each reason why some are missing is printed once, until they have come. Another state
	// of the job, such as that training has begun, is printed if machines were missing before, and without a terminal
	// at the first look, too.
	if how, lacking := machines(s.Job); s.Job.State != "" && how != v.last {
		newReason := lacking && !v.lacking[how]
		firstLook := v.last == "" && !v.w.Terminal
		if newReason || !lacking && (len(v.lacking) > 0 || firstLook) {
			say("%s", how)
		}
		v.last = how
		if lacking {
			v.lacking[how] = true
		} else {
			clear(v.lacking)
		}
	}
	if s.Trouble != v.trouble && s.Trouble != "" {
		say("%s", s.Trouble)
	}
	v.trouble = s.Trouble

	// The trials. Those that were not trained are only counted, for Close.
	told := 0
	for i, row := range ended {
		r := row.Result
		v.seen[r.Trial] = true
		if r.Untrained() {
			if !row.Trial.Refit { // of a refit, the sweep's end says why
				v.untrained[FirstLine(r.Reason)]++
			}
			continue
		}
		told++
		if r.Status != sweep.StatusFailed && (v.w.Terminal || told > mostNews && i < len(ended)-1) {
			continue
		}
		line := fmt.Sprintf("trial %3d  %s", r.Trial, v.describeEnd(row))
		if !v.w.Terminal {
			line += "  |  " + strings.Join(v.summary(s), " · ")
		}
		say("%s", line)
	}
}

// machines says whether a job waits for machines, trains, stops or has ended. lacking says that machines are missing
// for a known reason, which is then in how, even while others train.
func machines(job provision.SweepJob) (how string, lacking bool) {
	m := job.Machines
	switch {
	case job.Finished: // what it left is still to be concluded
		return "job " + string(job.State), false
	case m != nil && m.Why != "":
		return "machines: " + m.String(), true
	case job.State == engine.Running:
		return "training has begun", false
	case job.State == engine.Stopping:
		return "job stopping", false
	}
	return "waiting for machines", false
}

// describeEnd says how a trial has ended, with its fold if the sweep has folds.
func (v *SweepProgress) describeEnd(row sweep.Row) string {
	how := ended(v.plan.Spec.Metric, row.Result)
	switch t := row.Trial; {
	case t.Refit:
		return t.Source + ": " + how
	case t.Fold > 0:
		return fmt.Sprintf("configuration %d, fold %d: %s", t.Configuration, t.Fold, how)
	}
	return how
}

// ended says in a line what a trial has come to: its score by the metric, trees and time or, if it has no score, why.
func ended(metric string, r *sweep.Result) string {
	if why := FirstLine(r.Reason); r.Status != sweep.StatusDone && strings.HasPrefix(why, r.State()) {
		return why
	} else if r.Status != sweep.StatusDone {
		return r.State() + ": " + why
	}
	trees := english.Plural(r.Trees, "tree", "")
	if r.TreesGrown > r.Trees {
		trees = fmt.Sprintf("%s of %s trees", humanize.Comma(int64(r.Trees)), humanize.Comma(int64(r.TreesGrown)))
	}
	how := fmt.Sprintf("%s %s, %s, %s", metric, r.ScoreText(), trees, plot.Seconds.Format(r.Usage.TrainSeconds))
	if r.AtLimit {
		how += ", " + r.Reason
	}
	return how
}

// Close removes the status line, and prints how many trials were not trained, by reason.
func (v *SweepProgress) Close() {
	v.line.Clear()
	for _, why := range slices.Sorted(maps.Keys(v.untrained)) {
		tables.On(v.w).Printf("%s not trained: %s\n", english.Plural(v.untrained[why], "trial", ""), why)
	}
}
