package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

func watchCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch SWEEP",
		Short: "Watch a sweep until it has ended",
		Long: "Shows the sweep's progress until the aggregator has concluded it. Ctrl-C only stops watching; the " +
			"sweep continues.",
		Example: "  launcher watch nightly-ctr-1a2b3c4d",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.with(cmd.Context(),
				func(c *cloud) error { return w.watch(cmd.Context(), c, sweep.ID(args[0]), asJSON) })
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per change")
	return cmd
}

// How often a watcher looks, and how long it waits for a conclusion after the job's end.
const (
	lookEvery = time.Second
	// for sweeps with a heartbeat every second, and while the winner is being chosen
	lookQuick = 300 * time.Millisecond
	// during that; a winner is chosen within seconds, unless no aggregator is running
	quickLooks  = 30
	jobEvery    = 10 // looks between two questions to Batch
	concludeFor = 3 * time.Minute
	missingFor  = 3 // questions to Batch: a job may not be visible right after its creation
)

// snapshot is what --json prints at every change.
type snapshot struct {
	Sweep   sweep.ID  `json:"sweep"`
	Job     JobStatus `json:"job,omitzero"`
	Done    int       `json:"done"`
	Running int       `json:"running"`
	Failed  int       `json:"failed"`
	Waiting int       `json:"waiting"` // running ones among them
	// of those that wait: begun, and promoted or given back since
	Ready      int               `json:"ready,omitempty"`
	Cancelled  int               `json:"cancelled,omitempty"`   // individually
	Untrained  int               `json:"not_trained,omitempty"` // the sweep had enough
	Enough     string            `json:"enough,omitempty"`      // why
	Stopped    int               `json:"stopped,omitempty"`
	Paused     int               `json:"paused,omitempty"` // of those that wait: at a rung
	Best       *best             `json:"best,omitempty"`   // with folds the refit
	Folds      *folded           `json:"configurations,omitempty"`
	Left       float64           `json:"seconds_left,omitempty"`
	Halted     time.Time         `json:"paused_since,omitzero"` // the whole sweep
	Conclusion *sweep.Conclusion `json:"conclusion,omitempty"`
	Night      *night            `json:"night,omitempty"` // of status
}

type best struct {
	Trial int     `json:"trial"`
	Score float64 `json:"score"`
}

func newSnapshot(s *sweepview.Sweep, st sweepview.State, job JobStatus) snapshot {
	b, own := st.Board, st.Board.Tally(s.Plan)
	snap := snapshot{Sweep: s.Plan.Sweep, Job: job, Done: own.Done, Running: st.Running, Ready: st.Ready,
		Paused: st.Paused, Failed: own.Failed, Waiting: own.Waiting, Stopped: own.Stopped, Cancelled: own.Cancelled,
		Untrained: own.Untrained, Folds: newFolded(b), Halted: st.Halted, Conclusion: st.Conclusion}
	if job.Finished || st.Conclusion != nil {
		snap.Running, snap.Ready = 0, 0 // their holders are gone
	}
	if st.Enough != nil {
		snap.Enough = st.Enough.Reason
	}
	if r := b.Best(); r != nil {
		snap.Best = &best{r.Trial, r.Score}
	}
	if left, ok := s.Left(st); ok && b.Waiting > 0 && !job.Finished && st.Conclusion == nil {
		snap.Left = left.Round(time.Second).Seconds()
	}
	return snap
}

// watch shows a sweep until it has ended.
func (w *World) watch(ctx context.Context, c *cloud, id sweep.ID, asJSON bool) error {
	s, err := sweepview.Open(ctx, c.sweeps, id)
	if err != nil {
		return interrupted(ctx, id, err)
	}

	view := w.newView(s, asJSON)
	defer view.close()
	var job JobStatus
	var left patience
	quick := 0

	for look := 0; ; look++ {
		st, err := s.Look(ctx)
		if err != nil {
			return interrupted(ctx, id, err)
		}

		// Batch is asked less often than the bucket.
		if look%jobEvery == 0 && st.Conclusion == nil {
			if job, err = c.job(ctx, s.Plan); err != nil {
				return interrupted(ctx, id, err)
			}
			left.asked(job, w.Now())
		}

		view.readCurves(ctx, s, st)
		view.show(newSnapshot(s, st, job), st)
		if st.Conclusion != nil {
			view.close()
			w.log(c).Info("sweep ended", "sweep", id, "outcome", st.Conclusion.Outcome, "model", st.Conclusion.Model,
				"version", st.Conclusion.Version)
			return w.concluded(ctx, c, s, st, asJSON)
		}

		if st.Cancelled && !st.Ending && job.Finished { // the aggregator will say so, too; nothing more will happen
			return &NoWinnerError{Conclusion: &sweep.Conclusion{Sweep: id, Outcome: sweep.OutcomeCancelled,
				Reason: "it was cancelled"}}
		}
		if !st.Halted.IsZero() && job.Finished {
			return &provision.HaltedError{Sweep: id, Since: st.Halted}
		}
		if err := left.lost(id, st, job, w.Now()); err != nil {
			return err
		}

		// When all trials have ended, the conclusion is near.
		next := lookInterval(s.Plan)
		if st.Board.Waiting == 0 && quick < quickLooks {
			next = lookQuick
			quick++
		}

		select {
		case <-ctx.Done():
			return interrupted(ctx, id, ctx.Err())
		case <-time.After(next):
		}
	}
}

// lookInterval is how often to look at a sweep.
func lookInterval(p *sweep.Plan) time.Duration {
	if time.Duration(p.Heartbeat) <= time.Second {
		return lookQuick
	}
	return lookEvery
}

// interrupted says after Ctrl-C that the sweep continues.
func interrupted(ctx context.Context, id sweep.ID, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w; sweep %s continues: `launcher watch %s` or `launcher cancel %s`; if its local cloud has "+
		"ended, too, the same command resumes it",
		program.ErrInterrupted, id, id, id)
}

// view draws snapshots: a line for each trial that has ended, with its learning curve, on a terminal above a bar; an
// object per change as JSON.
type view struct {
	w    *World
	json bool
	plan *sweep.Plan
	bar  *progressbar.ProgressBar
	seen map[int]bool
	last string

	curves map[int][]sweep.CurvePoint // of trials that have ended since the last look
}

func (w *World) newView(s *sweepview.Sweep, asJSON bool) *view {
	v := &view{w: w, json: asJSON, plan: s.Plan, seen: map[int]bool{}}
	for n := range s.Plan.Inherits() { // they ended in another sweep
		v.seen[n] = true
	}
	if w.Terminal && !asJSON {
		v.bar = progressbar.NewOptions(len(s.Plan.Own()), progressbar.OptionSetWriter(w.Err.Raw()),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(barThrottle), progressbar.OptionFullWidth())
	}
	return v
}

// readCurves reads the learning curves of trials that have just ended, where there are lines to show them on. One that
// cannot be read is no reason to stop watching.
func (v *view) readCurves(ctx context.Context, s *sweepview.Sweep, st sweepview.State) {
	v.curves = nil
	if v.json {
		return
	}
	var ended []int
	for _, row := range st.Board.Rows {
		if row.Result != nil && !v.seen[row.Result.Trial] {
			ended = append(ended, row.Result.Trial)
		}
	}

	if len(ended) == 0 {
		return
	}
	if curves, err := s.Curves(ctx, ended); err == nil {
		v.curves = curves
	}
}

func (v *view) show(s snapshot, st sweepview.State) {
	switch {
	case v.json:
		v.jsonLine(s)
	case v.bar != nil:
		if v.news(st) {
			_ = v.bar.Clear() // a bar that cannot be drawn is no reason to stop
			v.lines(s, st)
		}
		v.bar.Describe(program.Visible(v.summary(s)))
		_ = v.bar.Set(s.Done + s.Stopped + s.Failed + s.Cancelled + s.Untrained)
	default:
		v.lines(s, st)
	}
}

func (v *view) jsonLine(s snapshot) {
	left := s.Left
	s.Left = 0 // a change of the estimate alone does not count
	key, err := json.Marshal(s)
	if err != nil || string(key) == v.last {
		return
	}
	v.last = string(key)
	s.Left = left
	_ = json.NewEncoder(v.w.Out).Encode(s)
}

// summary is the text before the bar.
func (v *view) summary(s snapshot) string {
	parts := []string{fmt.Sprintf("%d/%d done", s.Done, len(v.plan.Own())), fmt.Sprintf("%d running", s.Running)}
	if s.Ready > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting for a task", s.Ready))
	}
	if s.Paused > 0 {
		parts = append(parts, fmt.Sprintf("%d paused", s.Paused))
	}
	if s.Stopped > 0 {
		parts = append(parts, fmt.Sprintf("%d stopped", s.Stopped))
	}
	if s.Untrained > 0 {
		parts = append(parts, fmt.Sprintf("%d not trained", s.Untrained))
	}
	if s.Cancelled > 0 {
		parts = append(parts, fmt.Sprintf("%d cancelled", s.Cancelled))
	}
	if s.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", s.Failed))
	}
	switch {
	case s.Folds != nil && s.Folds.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (configuration %d)", v.plan.Spec.Metric, estimate(s.Folds.Best),
			s.Folds.Best.Configuration))
	case s.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (#%d)", v.plan.Spec.Metric, number(s.Best.Score), s.Best.Trial))
	}

	switch {
	case !s.Halted.IsZero():
		parts = append(parts, "paused: its tasks save and leave")
	case s.Left > 0:
		parts = append(parts, fmt.Sprintf("%s left", time.Duration(s.Left)*time.Second))
	case s.Done == 0 && s.Job.State != "RUNNING":
		parts = append(parts, strings.ToLower(s.Job.State))
	case s.Waiting == 0 && s.Conclusion == nil:
		parts = append(parts, "concluding")
	}
	return strings.Join(parts, " · ")
}

// news says that trials have ended since the last look.
func (v *view) news(st sweepview.State) bool {
	return slices.ContainsFunc(st.Board.Rows, func(row sweep.Row) bool {
		return row.Result != nil &&
			!v.seen[row.Result.Trial]
	})
}

// lines prints every trial that has ended since the last look.
func (v *view) lines(s snapshot, st sweepview.State) {
	if v.bar == nil && v.last == "" && s.Job.State != "" { // empty if the sweep had ended at the first look
		fmt.Fprintf(v.w.Out, "job %s\n", s.Job.State)
		v.last = s.Job.State
	}

	for _, row := range st.Board.Rows {
		r := row.Result
		if r == nil || v.seen[r.Trial] {
			continue
		}

		v.seen[r.Trial] = true
		how := fmt.Sprintf("%s %s, %d trees, %.1f s", v.plan.Spec.Metric, number(r.Score), r.Trees,
			r.Usage.TrainSeconds)
		if r.Status != sweep.StatusDone {
			how = fmt.Sprintf("%s: %s", r.State(), firstLine(r.Reason))
		}
		line := fmt.Sprintf("trial %3d  %s%s%s", r.Trial, ofFold(row.Trial), how,
			spark(v.curves[r.Trial], v.plan.Maximize))
		if v.bar == nil { // the bar has the summary
			line += "  |  " + v.summary(s)
		}
		fmt.Fprintln(v.w.Out, line)
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (v *view) close() {
	if v.bar != nil {
		_ = v.bar.Finish()
		v.bar = nil
	}
}

// concluded prints how a sweep ended.
func (w *World) concluded(ctx context.Context, cloud *cloud, s *sweepview.Sweep, st sweepview.State,
	asJSON bool) error {
	c := st.Conclusion
	if c.Outcome != sweep.OutcomeWinner {
		job, err := cloud.job(ctx, s.Plan)
		if err != nil {
			return errors.Join(&NoWinnerError{Conclusion: c}, err)
		}
		return &NoWinnerError{c, job.Failure}
	}

	if !asJSON {
		w.showBoard(s.Plan, st.Board, 10)
		w.showWinner(s.Plan, c)
	}
	if c.Verdict() != sweep.VerdictPromoted {
		return &NotPromotedError{c}
	}
	return nil
}

// boardOverhead is the width of a board's other columns.
const boardOverhead = 62

func (w *World) showBoard(p *sweep.Plan, b sweep.Board, top int) {
	if b.Configurations != nil {
		w.showConfigurations(p, b, top)
		return
	}
	differ := differing(p)
	others := otherGoals(p)
	header := []any{"rank", "trial", p.Spec.Metric}
	for _, g := range others {
		header = append(header, p.Spec.Goals[g].Name)
	}
	header = append(header, "trees", "seconds")
	if len(p.Spec.Goals) > 0 {
		header = append(header, "front")
	}
	header = append(header, "parameters")
	parameters := table.ColumnConfig{Number: len(header),
		WidthMax: w.textWidth(boardOverhead + goalWidth*(len(header)-6)), WidthMaxEnforcer: text.WrapSoft}
	if p.Open() || p.Extends != nil { // then the source of each trial is worth showing
		header = append(header, "from")
	}
	t := w.newTable(header...)
	t.SetColumnConfigs([]table.ColumnConfig{parameters})
	add := func(row sweep.Row, rank, trial, score, trees, seconds, what any) {
		cells := []any{rank, trial, score}
		for _, value := range goalCells(p, row, others) {
			cells = append(cells, value)
		}
		cells = append(cells, trees, seconds)
		if len(p.Spec.Goals) > 0 {
			cells = append(cells, map[bool]string{true: "*"}[row.Front])
		}
		cells = append(cells, what)
		switch r := p.Inherited(row.Trial.Number); {
		case r != nil:
			cells = append(cells, "sweep "+string(r.Sweep))
		case p.Open() || p.Extends != nil:
			cells = append(cells, row.Trial.Source)
		}
		t.AppendRow(cells)
	}

	for i, row := range b.Rows {
		if top > 0 && i >= top {
			break
		}
		what := differ.configuration(row.Trial)
		switch r := row.Result; {
		case r == nil:
			add(row, "", row.Trial.Number, "-", "", "", what)
		case r.Status != sweep.StatusDone:
			add(row, "", r.Trial, r.State(), "", "", shorten(firstLine(r.Reason))+"  "+what)
		default:
			add(row, i+1, r.Trial, number(r.Score), r.Trees, fmt.Sprintf("%.1f", r.Usage.TrainSeconds), what)
		}
	}
	t.Render()
	if s := &p.Spec; len(s.Goals) > 0 {
		fmt.Fprintf(w.Out, "*: no other trial is better in all objectives; the winner is picked within %s of the "+
			"best %s\n", s.Pick.Within, s.Pick.Best)
	}
}

// goalWidth is about that of a column of an objective.
const goalWidth = 12

// otherGoals returns the numbers of the objectives for which the board has no column anyway.
func otherGoals(p *sweep.Plan) []int {
	var out []int
	for i, g := range p.Spec.Goals {
		if i > 0 && g.Name != "trees" && g.Name != "train_seconds" {
			out = append(out, i)
		}
	}
	return out
}

// goalCells formats a trial's values in some of the objectives.
func goalCells(p *sweep.Plan, row sweep.Row, goals []int) []string {
	out := make([]string, len(goals))
	if values := p.Spec.Values(row.Result); values != nil {
		for i, g := range goals {
			out[i] = number(values[g])
		}
	}
	return out
}

func (w *World) showWinner(p *sweep.Plan, c *sweep.Conclusion) {
	rows := [][2]string{
		{"winner", fmt.Sprintf("trial %d of sweep %s", c.Trial, c.Sweep)},
		{"parameters", differing(p).of(p.Trials[c.Trial].Shown())},
		{"because", c.Reason},
		{"valid", metrics(c.Valid, p.Spec.Metric)},
		{"test", metrics(c.Test, p.Spec.Metric)},
	}

	if k := c.Calibration; k != nil {
		rows = append(rows, [2]string{"calibration", k.Method + ": " + k.Reason},
			[2]string{"test before", metrics(k.Before)}, [2]string{"test after", metrics(k.After)})
	}
	if v := c.Verified; v != nil {
		rows = append(rows, [2]string{"verified", fmt.Sprintf("%s agrees on %d raw rows, largest difference %.1g",
			v.Scorer, v.Rows, v.MaxDiff)})
	}

	for _, r := range c.Rejected {
		rows = append(rows, [2]string{"passed over", fmt.Sprintf("trial %d: %s", r.Trial, firstLine(r.Reason))})
	}
	if g := c.Gate; g != nil {
		verdict := "not promoted: "
		if g.Promoted {
			verdict = "champion: "
		}
		rows = append(rows, [2]string{"gate", verdict + g.Reason})
	}

	rows = append(rows, [2]string{"registered", fmt.Sprintf("%s version %d", c.Model, c.Version)})
	w.pairs(rows...)
	fmt.Fprintf(w.Out, "launcher registry show %s@%d\nlauncher leaderboard %s\n", c.Model, c.Version, c.Sweep)
}
