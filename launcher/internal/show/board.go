package show

import (
	"cmp"
	"fmt"
	"strings"

	"coppice/internal/page"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// Board writes a sweep's trials in a line each or, if it is cross-validated, its configurations and its refit. most is
// how many; 0 stands for all, and then trials come with all that is known of them. s is the sweep's page, which has the
// lines, b the board with the results, of at least one trial.
func (w Printer) Board(s *page.Sweep, p *sweep.Plan, b sweep.Board, most int) {
	validated := b.Configurations != nil
	l, all := s.Leaderboard(most), len(s.Trials)
	if validated {
		l, all = s.Validated(), len(b.Configurations)
		l.Rows = l.Rows[:min(cmp.Or(most, all), len(l.Rows))]
	}
	w.printList(l, len(l.Rows), "from", "trees", "training", "state", "attempts")

	// How many more there are. A final training is not counted as a trial, but named.
	if most > 0 && all > most {
		final := ""
		if hasFinal := len(p.Own()) < all; hasFinal && !validated {
			all, final = all-1, sweep.AndTheFinal
		}
		w.Printf("%d more%s: --all\n", all-most, final)
	}
	if len(p.Spec.Goals) > 0 {
		w.Printf("front: no other trial is better in all objectives; the winner is picked within %s of the best %s\n",
			p.Spec.Pick.Within, p.Spec.Pick.Best)
	}

	// The refit, which is the board's first row.
	if r := b.Rows[0].Result; validated && b.Rows[0].Trial.Refit && r != nil {
		how := fmt.Sprintf("%d trees on %d rows", r.Trees, r.TrainRows)
		if r.Status != sweep.StatusDone {
			how = fmt.Sprintf("%s: %s", r.Status, FirstLine(r.Reason))
		} else if r.AtLimit {
			how += ", " + r.Reason
		}
		w.Printf("refit: trial %d, %s\n", r.Trial, how)
	}
}

// Head writes first what became of a sweep that has ended, with how sure its winner is, and last what needs doing. c is
// its conclusion. live is the last move of the model's champion, which may be of a later sweep; the zero Event if it is
// unknown.
func (w Printer) Head(p *sweep.Plan, c *sweep.Conclusion, live registry.Event) {
	// With or without a winner, the last line.
	defer func() { w.Printf("%s\n", c.Todo(p.Dataset.Name+"@"+p.Dataset.Version, live.To)) }()

	state := tables.Standing(sweep.VerdictWords(c.Verdict()))
	switch {
	case c.Outcome != sweep.OutcomeWinner:
		w.Screen.Head(state, "ended without a winner", ": "+c.Reason)
		return
	case c.Caution() != "":
		state = "warning"
	}

	facts := *c
	if w.Home { // nothing was paid; the conclusion has what Google's machines would have cost
		facts.Cost = nil
	}
	begin := c.HeadlineNow(live.To)
	if begin != c.Headline() { // the champion has moved since the sweep ended
		begin += byHand(live)
	}
	all := strings.Join(facts.Facts(p.Spec.Metric, p.Created), " ")
	w.Screen.Head(state, begin+".", " "+all)
	w.Sure(c, all)
}

// Sure writes how sure a winner is, unless the text said has that sentence already, or nothing is known of it.
func (w Printer) Sure(c *sweep.Conclusion, said string) {
	if won := sweep.Sentence(c.Won()); won != "" && !strings.Contains(said, won) {
		w.Printf("%s\n", won)
	}
}

// judged returns rows of label and text about a winner, or the version that it became: parameters, metrics,
// calibration, verification, rejected trials and the final training. by is the metric that chose it, which comes first
// among metrics.
func judged(c *sweep.Conclusion, params, by string) [][2]string {
	metrics := func(m map[string]float64, se float64) string { return strings.Join(measured(m, se, by), ", ") }
	rows := [][2]string{{"parameters", params}, {"because", c.Reason}, {"valid", metrics(c.Valid, 0)},
		{"test", metrics(c.Test, c.Within.ErrorOf(by))}}
	if k := c.Calibration; k != nil {
		rows = append(rows, [2]string{"calibration", strings.TrimPrefix(k.Method+": "+k.Reason, "none: ")})
		if k.Method != "none" {
			rows = append(rows, [2]string{"uncalibrated", metrics(k.Before, 0)})
		}
	}
	if v := c.Verified; v != nil {
		rows = append(rows, [2]string{"verified", v.Text()})
	}
	for _, r := range c.Rejected {
		rows = append(rows, [2]string{"passed over", fmt.Sprintf("trial %d: %s", r.Trial, FirstLine(r.Reason))})
	}
	if f := c.Final; f != nil {
		rows = append(rows, [2]string{"final", fmt.Sprintf("trial %d: %s", f.Trial, f.Reason)})
	}
	return rows
}

// Winner writes what is known of a sweep's winner, and the commands that show more. c has to be of a sweep with a
// winner.
func (w Printer) Winner(p *sweep.Plan, c *sweep.Conclusion) {
	rows := append([][2]string{{"winner", fmt.Sprintf("trial %d of sweep %s", c.Trial, c.Sweep)}},
		judged(c, page.Differ(p).Text(p.Trials[c.Trial].Params), p.Spec.Metric)...)
	if g := c.Gate; g != nil {
		rows = append(rows, [2]string{"verdict", sweep.VerdictWords(c.Verdict()) + ": " + g.Reason})
	}
	if s := c.Standing; s != nil {
		rows = append(rows, [2]string{"champion", s.Text(c.At)})
	}
	w.Pairs(append(rows, [2]string{"registered", fmt.Sprintf("%s version %d", c.Model, c.Version)})...)
	w.Command("launcher registry show %s@%d\nlauncher leaderboard %s", c.Model, c.Version, c.Sweep)
}
