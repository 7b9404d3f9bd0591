package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

func statusCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status SWEEP",
		Short:   "Show the state of a sweep",
		Example: "  launcher status nightly-ctr-1a2b3c4d --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(c *cloud, s *sweepview.Sweep, st sweepview.State) error {
				job, err := c.job(cmd.Context(), s.Plan)
				if err != nil {
					return err
				}
				snap := newSnapshot(s, st, job)
				snap.Night = c.nightOf(cmd.Context(), s.Plan)
				if asJSON {
					return w.printJSON(snap)
				}
				w.showStatus(s, st, job, snap)
				return nil
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// look opens a sweep and reads it once.
func (w *World) look(ctx context.Context, id string, use func(*cloud, *sweepview.Sweep, sweepview.State) error) error {
	return w.with(ctx, func(c *cloud) error {
		s, err := sweepview.Open(ctx, c.sweeps, sweep.ID(id))
		if err != nil {
			return err
		}
		st, err := s.Look(ctx)
		if err != nil {
			return err
		}
		return use(c, s, st)
	})
}

// night is what staging found in the dataset of a sweep.
type night struct {
	State    string             `json:"state"` // good, accepted, blocked, unknown or unreadable
	Findings []nights.Finding   `json:"findings,omitempty"`
	Accepted *nights.Acceptance `json:"accepted,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// nightOf reads the record of a sweep's dataset. A record that cannot be read says so itself, and keeps nothing else
// from being shown.
func (c *cloud) nightOf(ctx context.Context, p *sweep.Plan) *night {
	r, err := stager.Destination{Store: c.datasets}.Night(ctx, p.Dataset.Name, p.Dataset.Version)
	n := &night{State: stateOf(r, err)}
	if err != nil {
		n.Error = err.Error()
	} else if r != nil {
		n.Findings, n.Accepted = r.Findings, r.Accepted
	}
	return n
}

// shownFindings is how many findings status shows; the most serious come first.
const shownFindings = 5

// rows are the lines of a status.
func (n *night) rows(ref string) (rows [][2]string) {
	switch n.State {
	case nightGood, nightUnknown:
	case nightAccepted:
		rows = append(rows, [2]string{"night", fmt.Sprintf("accepted by %s: %s", n.Accepted.By, n.Accepted.Why)})
	case nightUnreadable:
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

// jobText is a job's state and name. Batch forgets jobs, and a sweep that has ended does not need its own any more.
func jobText(job JobStatus, concluded bool) string {
	if job.State == StateMissing && concluded {
		return fmt.Sprintf("no longer known to Batch, nor needed (%s)", job.Name)
	}
	return fmt.Sprintf("%s (%s)", job.State, job.Name)
}

func (w *World) showStatus(s *sweepview.Sweep, st sweepview.State, job JobStatus, snap snapshot) {
	p := s.Plan
	ref := p.Dataset.Name + "@" + p.Dataset.Version
	rows := [][2]string{
		{"sweep", fmt.Sprintf("%s, planned %s", p.Sweep, humanize.Time(p.Created))},
		{"dataset", ref},
		{"job", jobText(job, st.Conclusion != nil)},
		{"failure", job.Failure},
		{"trials", fmt.Sprintf("%d done, %d running, %d failed, %d not started", snap.Done, snap.Running, snap.Failed,
			snap.Waiting-snap.Running-snap.Ready-snap.Paused)},
	}
	rows = slices.Insert(rows, 2, snap.Night.rows(ref)...)
	if !snap.Halted.IsZero() {
		rows = append(rows, [2]string{"paused", fmt.Sprintf("%s, the whole sweep: `launcher resume %s` lets it go on",
			humanize.Time(snap.Halted), p.Sweep)})
	}
	if f := snap.Folds; f != nil {
		rows = append(rows, [2]string{"configurations", fmt.Sprintf("%s, in %d folds", f, len(p.Folds.Rounds))})
	}
	if snap.Ready > 0 {
		rows = append(rows, [2]string{"waiting", fmt.Sprintf("%d trials for a task: promoted after a pause, or "+
			"given back by a machine that had to go", snap.Ready)})
	}
	if snap.Paused > 0 && st.Conclusion == nil {
		rows = append(rows, [2]string{"paused", fmt.Sprintf("%d trials, because others are better so far; they go "+
			"on if more turn out worse (`launcher why %s TRIAL`)", snap.Paused, p.Sweep)})
	}
	if snap.Stopped > 0 && snap.Folds == nil {
		rows = append(rows, [2]string{"stopped", fmt.Sprintf("%d trials, because others were better (`launcher why "+
			"%s TRIAL`)", snap.Stopped, p.Sweep)})
	}
	if snap.Cancelled > 0 {
		rows = append(rows, [2]string{"cancelled", fmt.Sprintf("%d trials, each by itself", snap.Cancelled)})
	}
	if e := st.Enough; e != nil {
		rows = append(rows, [2]string{"ended by rule", fmt.Sprintf("no more trials are started, %d were not "+
			"trained: %s", snap.Untrained, e.Reason)})
	}
	if e := p.Extends; e != nil {
		rows = append(rows, [2]string{"extends", fmt.Sprintf("%s, with %d trials", e.Sweep, len(e.Results))})
	}
	if n := len(p.Earlier); n > 0 {
		rows = append(rows, [2]string{"warm from", fmt.Sprintf("%d earlier sweeps, the newest %s", n, p.Earlier[0].Sweep)})
	}

	for _, e := range job.Earlier {
		what := "given up"
		if e.Paused {
			what = "before"
		}
		rows = append(rows, [2]string{what, fmt.Sprintf("%s: %s", provision.Describe(p, e.Number), e.Reason)})
	}
	switch {
	case snap.Folds != nil && snap.Folds.Best != nil:
		rows = append(rows, [2]string{"best", fmt.Sprintf("configuration %d, %s %s over %d folds", snap.Folds.Best.Configuration, p.Spec.Metric, estimate(snap.Folds.Best), snap.Folds.Best.Of)})
	case snap.Best != nil:
		rows = append(rows, [2]string{"best", fmt.Sprintf("trial %d, %s %s on valid", snap.Best.Trial, p.Spec.Metric,
			number(snap.Best.Score))})
	}
	if snap.Left > 0 {
		rows = append(rows, [2]string{"left", fmt.Sprintf("about %s", time.Duration(snap.Left)*time.Second)})
	}

	w.pairs(rows...)
	switch c := st.Conclusion; {
	case c == nil:
	case c.Outcome == sweep.OutcomeWinner:
		w.showWinner(p, c)
	default:
		fmt.Fprintf(w.Out, "ended without a winner: %s\n", c.Reason)
	}
}

func leaderboardCommand(w *World) *cobra.Command {
	var asJSON, curves bool
	var top int
	cmd := &cobra.Command{
		Use:   "leaderboard SWEEP",
		Short: "Show a sweep's trials, best first",
		Long: `Shows a sweep's trials, best first; for a sweep with folds, its configurations by their mean over the folds, with its standard error. With
--curves it also shows the metric on valid after each tree, from the first tree on the left to the last; all rows share one scale, on which up
is better. Trials without early stopping have no curve, because their trees are not scored.`,
		Example: "  launcher leaderboard nightly-ctr-1a2b3c4d --top 5 --curves",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if top < 0 {
				return program.Usagef("--top is %d", top)
			}
			return w.look(cmd.Context(), args[0], func(_ *cloud, s *sweepview.Sweep, st sweepview.State) error {
				if top > 0 {
					st.Board.Rows = st.Board.Rows[:min(top, len(st.Board.Rows))]
					st.Board.Configurations = st.Board.Configurations[:min(top, len(st.Board.Configurations))]
				}
				if curves {
					return w.leaderboardWithCurves(cmd.Context(), s, st.Board, asJSON)
				}
				if asJSON {
					return w.printJSON(st.Board)
				}
				w.showBoard(s.Plan, st.Board, 0)
				return nil
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&curves, "curves", false, "with the trials' learning curves")
	cmd.Flags().IntVar(&top, "top", 0, "show only so many (default: all)")
	return cmd
}

func lsCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List sweeps, the newest first",
		Example: "  launcher ls",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.with(cmd.Context(), func(c *cloud) error { return w.list(cmd.Context(), c, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// listed is one line of ls.
type listed struct {
	Sweep   sweep.ID  `json:"sweep"`
	Created time.Time `json:"created"`
	Dataset string    `json:"dataset"`
	Trials  int       `json:"trials"`
	Outcome string    `json:"outcome"` // of the conclusion, "open" or "paused"
	Model   string    `json:"model"`
	Version int       `json:"version,omitempty"`
}

func (w *World) list(ctx context.Context, c *cloud, asJSON bool) error {
	ids, err := sweepview.List(ctx, c.sweeps)
	if err != nil {
		return err
	}

	out := []listed{}
	for _, id := range ids {
		s, err := sweepview.Open(ctx, c.sweeps, id)
		var damaged *sweep.DecodeError
		if errors.As(err, &damaged) { // one unreadable sweep must not hide the others
			out = append(out, listed{Sweep: id, Outcome: "unreadable: " + damaged.Error()})
			continue
		}
		if err != nil {
			return err
		}

		p := s.Plan
		l := listed{Sweep: id, Created: p.Created, Dataset: p.Dataset.Name + "@" + p.Dataset.Version,
			Trials: len(p.Own()), Outcome: "open", Model: p.Spec.Model}
		end, err := sweepview.Conclusion(ctx, c.sweeps, id)
		switch {
		case errors.As(err, &damaged):
			l.Outcome = "unreadable: " + damaged.Error()
		case err != nil:
			return err
		case end != nil:
			l.Outcome, l.Version = string(end.Outcome), end.Version
		default:
			halted, err := sweepstore.New(c.sweeps, id).Halted(ctx, p)
			if err != nil && !errors.As(err, &damaged) {
				return err
			}
			if halted.IsZero() {
				break
			}
			st, err := s.Look(ctx) // whether it is over nevertheless
			if err != nil && !errors.As(err, &damaged) {
				return err
			}
			if !st.Halted.IsZero() {
				l.Outcome = "paused"
			}
		}
		out = append(out, l)
	}

	// Newest first; unreadable ones have no time and come last.
	slices.SortStableFunc(out, func(a, b listed) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Sweep, b.Sweep))
	})
	if asJSON {
		return w.printJSON(out)
	}

	t := w.newTable("sweep", "planned", "dataset", "trials", "outcome", "registered")
	for _, l := range out {
		registered := ""
		if l.Version > 0 {
			registered = fmt.Sprintf("%s@%d", l.Model, l.Version)
		}
		planned := ""
		if !l.Created.IsZero() {
			planned = l.Created.Format(time.DateTime)
		}
		t.AppendRow(table.Row{l.Sweep, planned, l.Dataset, l.Trials, l.Outcome, registered})
	}
	t.Render()
	return nil
}
