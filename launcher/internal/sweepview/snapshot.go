package sweepview

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/nights"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
)

// Snapshot is a sweep at one moment, in numbers: what watch and status print as JSON.
type Snapshot struct {
	Sweep sweep.ID           `json:"sweep"`
	Job   provision.SweepJob `json:"job,omitzero"`
	sweep.Tally
	Running int  `json:"running"`
	Final   bool `json:"final_training,omitempty"` // has begun, and not ended
	// of those that wait: begun, and promoted or given back since
	Ready      int               `json:"ready,omitempty"`
	Paused     int               `json:"paused,omitempty"` // of those that wait: at a rung
	Best       *Best             `json:"best,omitempty"`   // with folds the refit
	Folds      *FoldCounts       `json:"configurations,omitempty"`
	Left       float64           `json:"seconds_left,omitempty"`
	LeftLow    float64           `json:"seconds_left_low,omitempty"` // of a range of about 95 %
	LeftHigh   float64           `json:"seconds_left_high,omitempty"`
	Trouble    string            `json:"trouble,omitempty"` // what holds a task up, or has ended it
	Conclusion *sweep.Conclusion `json:"conclusion,omitempty"`
	Night      *Night            `json:"night,omitempty"` // of status
	Todo       string            `json:"todo,omitempty"`  // of status: what needs doing, in a sentence
}

// Best is the best trial so far.
type Best struct {
	Trial int     `json:"trial"`
	Score float64 `json:"score"`
}

// Snapshot counts the trials of the state st, and estimates how long the sweep still takes on the machines that its job
// has by now. There is no estimate before a trial has ended, or once the sweep or its job has. Night and Todo are left
// for the caller.
func (s *View) Snapshot(st State, job provision.SweepJob) Snapshot {
	b := st.Board
	snap := Snapshot{Sweep: s.Plan.Sweep, Job: job, Tally: b.Tally(s.Plan), Running: st.Running, Final: st.Final,
		Ready: st.Ready, Paused: st.Paused, Folds: newFolds(b), Conclusion: st.Conclusion}
	if job.Finished || st.Conclusion != nil {
		snap.Running, snap.Ready, snap.Final = 0, 0, false // their tasks are gone
	}
	if st.Trouble != nil && st.Conclusion == nil {
		snap.Trouble = fmt.Sprintf("task %d: %s", st.Trouble.Task, st.Trouble.Text)
	}
	if r := b.Best(); r != nil {
		snap.Best = &Best{r.Trial, r.Score}
	}

	// The time left is estimated for all machines; with only some it takes in proportion longer, but not beyond the
	// limit.
	if left, ok := s.Left(st); ok && b.Waiting > 0 && !job.Finished && st.Conclusion == nil {
		slower := 1.0
		if m := job.Machines; m != nil && m.Running > 0 {
			slower = float64(m.Planned) / float64(m.Running)
		}
		limit := time.Duration(s.Plan.Spec.Limits.Sweep).Seconds()
		by := func(seconds float64) float64 { return math.Round(min(seconds*slower, limit)) }
		snap.Left, snap.LeftLow, snap.LeftHigh = by(left.Expected), by(left.Low), by(left.High)
	}
	return snap
}

// NotStarted is how many trials no task has begun yet.
func (s Snapshot) NotStarted() int { return s.Waiting - s.Running - s.Ready - s.Paused }

// FoldCounts counts a sweep's cross-validated configurations.
type FoldCounts struct {
	Done    int          `json:"done"`
	Open    int          `json:"open"`
	Dropped int          `json:"dropped"`
	Failed  int          `json:"failed"`
	Best    *sweep.Rated `json:"best,omitempty"` // among those that are done
}

// newFolds counts a cross-validated sweep's configurations by state; it returns nil for a sweep without folds.
func newFolds(b sweep.Board) *FoldCounts {
	if b.Configurations == nil {
		return nil
	}

	f := &FoldCounts{}
	for _, c := range b.Configurations {
		switch c.State {
		case sweep.ConfigurationDone:
			f.Done++
		case sweep.ConfigurationDropped:
			f.Dropped++
		case sweep.ConfigurationFailed:
			f.Failed++
		default:
			f.Open++
		}
	}
	if f.Done > 0 { // the board has complete configurations first, the best of them at the top
		f.Best = &b.Configurations[0]
	}
	return f
}

func (f *FoldCounts) String() string {
	return strings.Join(Counts("done", f.Done, "dropped", f.Dropped, "failed", f.Failed, "open", f.Open), ", ")
}

// Counts formats pairs of a word and an int: "done", 3, "failed", 0 becomes "3 done". Words whose number is 0 are left
// out.
func Counts(wordsAndNumbers ...any) []string {
	var parts []string
	for i := 0; i+1 < len(wordsAndNumbers); i += 2 {
		if n, _ := wordsAndNumbers[i+1].(int); n != 0 { // all callers pass ints
			parts = append(parts, fmt.Sprintf("%d %s", n, wordsAndNumbers[i]))
		}
	}
	return parts
}

// Night is what staging found in a version of a dataset.
type Night struct {
	State    string             `json:"state"` // of its record, or a constant below
	Findings []nights.Finding   `json:"findings,omitempty"`
	Accepted *nights.Acceptance `json:"accepted,omitempty"`
	Error    string             `json:"error,omitempty"`
	Staged   time.Time          `json:"-"` // zero if there is no record
	Newest   time.Time          `json:"-"` // row; zero if there is no record, or no times
}

// States of a night without a record.
const (
	NightUnknown    = "unknown"
	NightUnreadable = "unreadable"
)

// NightOf reads what staging has recorded of a version of a dataset. It returns no error: if the record cannot be read,
// the state is NightUnreadable, so that all else can be shown.
func NightOf(ctx context.Context, datasets blob.Store, name, version string) *Night {
	r, err := stager.Destination{Store: datasets}.Night(ctx, name, version)
	switch {
	case err != nil:
		return &Night{State: NightUnreadable, Error: err.Error()}
	case r == nil:
		return &Night{State: NightUnknown}
	}
	return &Night{State: r.State(), Findings: r.Findings, Accepted: r.Accepted, Staged: r.At, Newest: r.Profile.Newest}
}
