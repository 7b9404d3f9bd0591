package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/engine"
	"coppice/internal/nights"
	"coppice/internal/page/plot"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// shownFindings is how many findings a status shows; the most serious come first.
const shownFindings = 5

// nightRows returns the rows of a status, label and text, about what staging found in the sweep's dataset ref (a night:
// one version of the dataset): whether it is accepted, blocked or unreadable, and the first findings. A night that is
// good, or of which nothing is known, has rows of findings only.
func nightRows(n *sweepview.Night, ref string) (rows [][2]string) {
	switch n.State {
	case nights.Good, sweepview.NightUnknown:
	case nights.Accepted:
		rows = append(rows, [2]string{"night", fmt.Sprintf("accepted by %s: %s", n.Accepted.By, n.Accepted.Why)})
	case sweepview.NightUnreadable:
		rows = append(rows, [2]string{"night", "unreadable: " + n.Error})
	default:
		rows = append(rows, [2]string{"night", n.State})
	}

	for i, f := range n.Findings {
		if i == shownFindings {
			return append(rows, [2]string{"", fmt.Sprintf("and %d more: launcher datasets show %s", len(n.Findings)-i,
				ref)})
		}
		rows = append(rows, [2]string{"found", f.String()})
	}
	return rows
}

func trials(n int) string { return english.Plural(n, "trial", "") }

// Left says about how long a running sweep still takes and when it ends, as its page does: with a range if there is
// one, and with the day if the latest of these times is more than twelve hours away. now is the time of the snapshot,
// whose Left, LeftLow and LeftHigh are in seconds.
func Left(s sweepview.Snapshot, now time.Time) string {
	at := func(seconds float64) string {
		layout := "15:04"
		if max(s.Left, s.LeftHigh) > 12*3600 {
			layout = "2006-01-02 15:04"
		}
		return now.Add(time.Duration(seconds * float64(time.Second))).UTC().Format(layout)
	}
	text := fmt.Sprintf("about %s, ends about %s UTC", plot.Seconds.Format(s.Left), at(s.Left))
	if s.LeftHigh > s.LeftLow {
		text += fmt.Sprintf(" (%s to %s)", at(s.LeftLow), at(s.LeftHigh))
	}
	return text
}

// recentReason is how old the reason why machines are missing may be before its age is shown: while a reason holds,
// Batch repeats it more often.
const recentReason = 10 * time.Minute

// Status writes the state st of a sweep at the time now: what became of it or what there is to do, its job and
// machines, its trials and the best one, and its winner. snap has the numbers of st. live is the champion's last move,
// as for Head.
func (w Printer) Status(p *sweep.Plan, st sweepview.State, snap sweepview.Snapshot, live registry.Event,
	now time.Time) {
	ref := p.Dataset.Name + "@" + p.Dataset.Version
	if st.Conclusion != nil {
		w.Head(p, st.Conclusion, live)
	} else {
		w.Printf("%s\n", snap.Todo)
	}
	rows := [][2]string{
		{"sweep", fmt.Sprintf("%s, planned %s", p.Sweep, humanize.RelTime(p.Created, now, "ago", "from now"))},
		{"dataset", ref},
	}
	rows = append(rows, nightRows(snap.Night, ref)...)

	// The job. Engines forget jobs, and a sweep that has ended needs none any more.
	machines := ""
	if m := snap.Job.Machines; m != nil && st.Conclusion == nil {
		machines = m.String()
		if now.Sub(m.Said) > recentReason && !m.Said.IsZero() { // by now there may be another reason
			machines += fmt.Sprintf(". The reason is of %s", humanize.RelTime(m.Said, now, "ago", ""))
		}
	}
	if snap.Job.State != engine.Gone || st.Conclusion == nil {
		rows = append(rows, [2]string{"job", fmt.Sprintf("%s (%s)", snap.Job.State, snap.Job.Name)})
	}
	rows = append(rows, [2]string{"failure", snap.Job.Failure},
		[2]string{"machines", machines},
		[2]string{"trials", strings.Join(sweepview.Counts("done", snap.Done, "stopped at a time limit",
			snap.AtLimit, "running", snap.Running, "failed", snap.Failed, "not started", snap.NotStarted()), ", ")})

	// Trials, by what they do now.
	add := func(label, format string, args ...any) {
		rows = append(rows, [2]string{label, fmt.Sprintf(format, args...)})
	}
	if snap.Final {
		add("final", "training")
	}
	if f := snap.Folds; f != nil {
		add("configurations", "%s, in %d folds", f, len(p.Folds.Rounds))
	}
	if snap.Ready > 0 {
		add("waiting", "%s for a task: resumed after a pause, or released by a machine that was taken away",
			trials(snap.Ready))
	}
	if snap.Paused > 0 && st.Conclusion == nil {
		add("paused", "%s behind others at a rung; may resume", trials(snap.Paused))
	}
	if snap.Stopped > 0 && snap.Folds == nil {
		add("stopped", "%s, because others were better", trials(snap.Stopped))
	}
	if n := len(p.Earlier); n > 0 {
		add("warm start", "%s, the newest %s", english.Plural(n, "earlier sweep", ""), p.Earlier[0].Sweep)
	}

	for _, e := range snap.Job.Earlier {
		add("given up", "%s: %s", provision.Describe(p, e.Number), e.Reason)
	}
	switch {
	case snap.Folds != nil && snap.Folds.Best != nil:
		best := snap.Folds.Best
		add("best", "configuration %d, %s %s over %d folds", best.Configuration, p.Spec.Metric, best.ScoreText(),
			best.Of)
	case snap.Best != nil:
		add("best", "trial %d, %s %s on valid", snap.Best.Trial, p.Spec.Metric, Number(snap.Best.Score))
	}
	if snap.Left > 0 {
		add("left", "%s", Left(snap, now))
	}

	w.Pairs(rows...) // those without a text are left out
	if c := st.Conclusion; c != nil && c.Outcome == sweep.OutcomeWinner {
		w.Winner(p, c)
	}
}

// Night writes a night's record: dataset, rows, label, times, what it was compared with, and the findings. Unless m,
// the dataset's manifest, is nil, it first writes what the columns became.
func (w Printer) Night(r *nights.Record, m *dataset.Manifest) {
	if m != nil {
		w.features(m, len(m.Features))
		w.warnings(m.About.Warnings, isFirst(r))
	}
	p := r.Profile
	rows := [][2]string{{"dataset", r.Dataset + "@" + r.Version}, {"staged", clock(r.At) + " UTC"},
		{"rows", humanize.Comma(p.Rows)}, {"label", labelOf(&p.Label)}}
	if p.TimeColumn != "" {
		rows = append(rows, [2]string{p.TimeColumn,
			fmt.Sprintf("%s to %s", p.Oldest.Format(time.RFC3339), p.Newest.Format(time.RFC3339))})
	}
	compared := "nothing: this is the first night of this spec"
	if n := len(r.Against); n > 0 {
		compared = fmt.Sprintf("%s, the last of them %s", english.Plural(n, "earlier night", ""), r.Against[n-1])
	}
	rows = append(rows, [2]string{"compared with", compared})
	if a := r.Accepted; a != nil {
		rows = append(rows, [2]string{"accepted", fmt.Sprintf("by %s at %s UTC: %s", a.By, clock(a.At), a.Why)})
	}
	w.Pairs(rows...)
	w.Findings(r, m)
}

// Findings writes what staging found in a night's table, one line for each finding; several columns that leak the label
// share one, unless their leaks block the night. Leaks that are among the warnings of the manifest m, which have been
// written before, are left out. The last line says that the night is blocked, or who accepted it and why. Without a
// record r there is nothing to write; m may be nil.
func (w Printer) Findings(r *nights.Record, m *dataset.Manifest) {
	if r == nil {
		return
	}
	var leaking []dataset.Warning
	for _, f := range r.Findings {
		k := dataset.Warning{Code: ingest.WarnLeak, Column: f.Column, Text: f.Text + " (leak)"}
		told := func(known dataset.Warning) bool { return known.Code == k.Code && known.Column == k.Column }
		if f.Code != nights.CodeLeak || f.Level != nights.Warning {
			w.Printf("%v\n", f)
		} else if m == nil || !slices.ContainsFunc(m.About.Warnings, told) {
			leaking = append(leaking, k)
		}
	}
	w.warnings(leaking, true) // true: it matters only for columns to drop
	switch {
	case r.Blocked():
		w.Printf("BLOCKED: nothing will be trained on it\n")
	case r.Accepted != nil:
		w.Printf("accepted by %s: %s\n", r.Accepted.By, r.Accepted.Why)
	}
}

// labelOf formats a night's mean label or, of several classes, the shares of the most frequent ones.
func labelOf(l *nights.Label) string {
	if l.Classes == nil {
		return fmt.Sprintf("mean %.5g", l.Mean)
	}
	names := slices.SortedFunc(maps.Keys(l.Classes), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.Classes[b], l.Classes[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), mostShown)] {
		parts = append(parts, fmt.Sprintf("%s %s", name, sweep.Percent(l.Classes[name])))
	}
	text := strings.Join(parts, ", ")
	if more := len(names) - mostShown; more > 0 {
		text += fmt.Sprintf(" and %s", english.Plural(more, "more class", "more classes"))
	}
	return text
}

const mostShown = 8
