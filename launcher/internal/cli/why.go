package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"coppice/internal/metric"
	"coppice/internal/program"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/sweepview"
)

func whyCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why SWEEP TRIAL",
		Short: "Say why a trial was tried, and why it was stopped",
		Long: `Shows in numbers where a trial's configuration comes from, and why. For a trial that was decided when a task claimed it, it shows what was known of
the others at that moment, and whether that gives the same decision again. If the sweep stops trials, it shows how the trial compared at each rung.`,
		Example: "  launcher why nightly-ctr-1a2b3c4d 17",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			trial, err := strconv.Atoi(args[1])
			if err != nil || trial < 0 {
				return program.Usagef("trial %.40q: use a number such as 17; `launcher leaderboard %s` lists them",
					args[1], args[0])
			}
			return w.look(cmd.Context(), args[0], func(c *cloud, s *sweepview.Sweep, st sweepview.State) error {
				if trial >= len(s.Plan.Trials) {
					return program.Usagef("sweep %s has %d trials, from 0; there is no trial %d", s.Plan.Sweep,
						len(s.Plan.Trials), trial)
				}
				y, err := c.why(cmd.Context(), s.Plan, st, trial)
				if err != nil {
					return err
				}
				if asJSON {
					return w.printJSON(y)
				}
				w.showWhy(s.Plan, y)
				return nil
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// reasons says why a trial was tried and how it ended.
type reasons struct {
	Trial    sweep.Trial     `json:"trial"`
	Decision *sweep.Decision `json:"decision,omitempty"` // for an open trial
	Replayed string          `json:"replayed,omitempty"` // the outcome of reproducing it
	Rungs    []sweep.Rung    `json:"rungs,omitempty"`
	// Promotions say what became of the trial at the rungs where it was paused; Unlike says why one of them would be
	// decided otherwise now, or cannot be read.
	Promotions []sweep.Promotion `json:"promotions,omitempty"`
	Unlike     string            `json:"unlike,omitempty"`
	// why the last trial of a cross-validated sweep trains what it does
	Refit  string        `json:"refit,omitempty"`
	Result *sweep.Result `json:"result,omitempty"`
	// why no more trials were started, for one that was not trained
	Enough *sweep.Enough `json:"enough,omitempty"`
}

func (c *cloud) why(ctx context.Context, p *sweep.Plan, st sweepview.State, trial int) (y reasons, err error) {
	trials := sweepstore.NewTrials(c.sweeps, p)
	y.Trial = p.Trials[trial]
	for _, row := range st.Board.Rows {
		if row.Trial.Number == trial {
			y.Result = row.Result
		}
	}

	if r := y.Result; r != nil && r.Untrained() && st.Enough != nil {
		y.Enough, y.Replayed = st.Enough, "repeating the decision gives the same result"
		if err := search.ReplayEnough(p, y.Enough); err != nil {
			y.Replayed = err.Error()
		}
		return y, nil
	}
	if y.Trial.Refit {
		y.Refit, err = whyRefit(p, st.Board)
		return y, err
	}
	if y.Trial.Open {
		if y.Decision, err = trials.Decision(ctx, p.Decider(trial)); err != nil {
			return y, err
		}
		if d := y.Decision; d != nil {
			y.Replayed = "repeating the decision gives the same result"
			if err := search.Replay(p, d); err != nil {
				y.Replayed = err.Error()
			}
		}
	}
	err = y.readRungs(ctx, p, trials)
	return y, err
}

// readRungs reads how the trial compared at each rung, and what became of it there. A damaged record is told of and
// hides no other.
func (y *reasons) readRungs(ctx context.Context, p *sweep.Plan, trials *sweepstore.Trials) error {
	if p.Spec.Search.Stop == nil {
		return nil
	}

	var damaged *sweepstore.DamagedError
	for _, step := range p.Spec.Search.Stop.Rungs {
		r, err := trials.Rung(ctx, y.Trial.Number, step)
		switch {
		case errors.As(err, &damaged):
			y.Unlike = err.Error()
		case err != nil:
			return err
		case r != nil:
			y.Rungs = append(y.Rungs, *r)
		}

		after, err := trials.Promotion(ctx, y.Trial.Number, step)
		switch {
		case errors.As(err, &damaged):
			y.Unlike = err.Error()
		case err != nil:
			return err
		case after != nil:
			y.Promotions = append(y.Promotions, *after)
			if err := search.ReplayPromotion(p, after); err != nil {
				y.Unlike = err.Error()
			}
		}
	}
	return nil
}

// whyRefit says what the refit trains, or that this is not known yet.
func whyRefit(p *sweep.Plan, b sweep.Board) (string, error) {
	if slices.ContainsFunc(b.Rows, func(r sweep.Row) bool { return r.Result == nil && !r.Trial.Refit }) {
		return "it trains the best configuration on all rows of train and valid when all folds have ended", nil
	}

	var require []*search.Condition
	for _, text := range p.Spec.Require {
		c, err := search.CompileRequire(text, metric.Canonical)
		if err != nil {
			return "", err
		}
		require = append(require, c)
	}
	choice, err := search.Choose(p, b, require)
	if none := new(search.NoChoiceError); errors.As(err, &none) {
		return none.Reason, nil
	}
	if err != nil {
		return "", err
	}
	return choice.Reason, nil
}

// whyOverhead is the width of a rung's other columns.
const whyOverhead = 60

func (w *World) showWhy(p *sweep.Plan, y reasons) {
	rows := [][2]string{{"trial", fmt.Sprintf("%d of sweep %s", y.Trial.Number, p.Sweep)}, {"from", y.Trial.Source}}
	if y.Trial.Fold > 0 {
		rows = append(rows, [2]string{"fold", fmt.Sprintf("%d of %d, of configuration %d", y.Trial.Fold, len(p.Folds.Rounds), y.Trial.Configuration)})
	}
	switch d := y.Decision; {
	case p.Inherited(y.Trial.Number) != nil:
		of := p.Inherited(y.Trial.Number).Sweep
		rows = append(rows, [2]string{"because", fmt.Sprintf("it is a trial of sweep %s, which this one extends: "+
			"`launcher why %s %d`", of, of, y.Trial.Number)},
			[2]string{"parameters", differing(p).of(y.Trial.Params)})
	case d != nil:
		rows = append(rows, [2]string{"because", d.Reason}, [2]string{"parameters", decidedParams(p, d)},
			[2]string{"decided", decidedText(p, d)},
			[2]string{"had seen", seenText(p, d)}, [2]string{"again", y.Replayed})
		if n := len(d.Refused); n > 0 {
			rows = append(rows, [2]string{"refused", fmt.Sprintf("%d earlier proposals, which another trial had "+
				"taken or the trainer does not accept", n)})
		}
	case y.Trial.Refit:
		rows = append(rows, [2]string{"because", y.Refit})
	case y.Trial.Open:
		when := "it has not been decided yet: that happens when a task claims it"
		if p.Folds != nil {
			when = "its configuration has not been decided yet: that happens when a task claims one of its folds"
		}
		rows = append(rows, [2]string{"because", when})
	default:
		why := y.Trial.Reason
		if why == "" {
			why = "it is in the plan since before the first trial began"
		}
		rows = append(rows, [2]string{"because", why}, [2]string{"parameters", differing(p).of(y.Trial.Shown())})
	}
	if text := withoutText(p, y.Trial); text != "" {
		rows = append(rows, [2]string{"without", text})
	}

	if r := y.Result; r != nil {
		how := fmt.Sprintf("%s after %d trees, %s %s", r.Status, r.TreesGrown, p.Spec.Metric, number(r.Score))
		if r.Reason != "" {
			how = fmt.Sprintf("%s: %s", r.State(), firstLine(r.Reason))
		}
		rows = append(rows, [2]string{"ended", how})
	}
	if e := y.Enough; e != nil {
		rows = append(rows, [2]string{"rule", fmt.Sprintf("%s, found by task %d when it had claimed trial %d", e.Rule,
			e.Task, e.Trial)},
			[2]string{"had seen", fmt.Sprintf("%d trials that had ended", len(e.Seen))}, [2]string{"again", y.Replayed})
	}
	w.pairs(rows...)
	if len(y.Rungs) > 0 {
		w.showRungs(p, y)
	}
	if y.Unlike != "" {
		w.pairs([2]string{"again", y.Unlike})
	}
}

// showRungs shows how the trial compared at each rung.
func (w *World) showRungs(p *sweep.Plan, y reasons) {
	t := w.newTable("reached", p.Spec.Metric, "others", "", "because")
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: w.textWidth(whyOverhead),
		WidthMaxEnforcer: text.WrapSoft}})

	for _, r := range y.Rungs {
		does, reached := search.GoOn, p.Spec.Search.Stop.Reached(r.Step)
		if r.Pause {
			does = search.Wait
		}
		t.AppendRow(table.Row{reached, number(r.Score), len(r.Seen), does, r.Reason})

		for _, after := range y.Promotions {
			if after.Step != r.Step {
				continue
			}
			does := search.Stop
			if after.Promoted {
				does = search.GoOn
			}
			t.AppendRow(table.Row{reached + ", later", number(after.Score), len(after.Seen), does, after.Reason})
		}
	}
	t.Render()
}

// withoutText says which parameters a trial lacks, why, and what it trains with instead.
func withoutText(p *sweep.Plan, t sweep.Trial) string {
	var parts []string
	for _, name := range t.Absent {
		parts = append(parts, fmt.Sprintf("%s, which exists only when %s (it trains with %s)", name,
			search.ConditionText(p.Spec.Search.Random[name].When), settings(t.Params, []string{name})))
	}
	return strings.Join(parts, "; ")
}

// decidedText says when and by whom a decision was made.
func decidedText(p *sweep.Plan, d *sweep.Decision) string {
	text := fmt.Sprintf("%s, by task %d under claim %d", humanize.Time(d.At), d.Task, d.Claim)
	if p.Folds != nil {
		text += fmt.Sprintf(" of trial %d, for all folds of the configuration", cmp.Or(d.Holder, d.Trial))
	}
	return text
}

// seenText says what a decision knew.
func seenText(p *sweep.Plan, d *sweep.Decision) string {
	results, inherited, best := 0, 0, (*sweep.Seen)(nil)
	for i := range d.Seen {
		s := &d.Seen[i]
		if s.Status != sweep.StatusRunning {
			results++
		}
		if s.Trial < p.Inherits() {
			inherited++
		}
		if s.Score != nil && (best == nil || p.Maximize == (*s.Score > *best.Score)) {
			best = s
		}
	}

	text := fmt.Sprintf("%d results", results)
	if p.Folds != nil {
		text = fmt.Sprintf("results of %d configurations", results)
	}
	if e := p.Extends; e != nil {
		text += fmt.Sprintf(", %d of them of %s", inherited, e.Sweep)
	}
	for _, e := range p.Earlier {
		text += fmt.Sprintf(", %d of %s", len(e.Trials), e.Sweep)
	}

	switch {
	case best != nil && p.Folds != nil:
		text += fmt.Sprintf("; the best was configuration %d with %s over %d folds", p.Ordinal(best.Trial),
			number(*best.Score), p.Folds.First)
	case best != nil:
		text += fmt.Sprintf("; the best was trial %d with %s", best.Trial, number(*best.Score))
	}
	return text
}
