package show

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page"
	"coppice/launcher/internal/backtest"
)

// NightLine is the line shown when a night is complete.
func NightLine(n page.BacktestNight, metric string, took time.Duration) string {
	return fmt.Sprintf("night of %s: %s rows, %d trees, %s %s on %s rows of the following day, %.1f s", n.Night,
		humanize.Comma(int64(n.TrainRows)), n.Trees, metric, Number(n.Value), humanize.Comma(int64(n.TestRows)),
		took.Seconds())
}

// Backtest writes what past nights would have achieved, by night, by age of a model, and by rule of the gate.
func (w Printer) Backtest(r *backtest.Results) {
	t := w.Table("night", "rows", "trees", r.Metric, "gain over yesterday's", "95 % interval")
	for _, n := range r.Nights {
		gain, within := "-", ""
		if g := n.Stale[1]; g != nil {
			gain, within = Number(g.Gain), interval(g.Low, g.High)
		}
		t.Row(n.Night, n.TrainRows, n.Trees, Number(n.Value), gain, within)
	}
	t.Print()

	t = w.Table("older by", "nights", "mean gain of the fresh model", "better", "beyond chance",
		"worse beyond chance")
	for _, a := range r.Ages {
		t.Row(english.Plural(a.Age, "day", ""), a.Nights, Number(a.Mean), a.Better, a.Surely, a.Worse)
	}
	t.Print()

	t = w.Table("rule of the gate", "nights", "promotions", "wrong", "beyond chance", "better ones missed",
		"mean "+r.Metric)
	for _, s := range r.Rules {
		t.Row(s.Name, s.Decisions, s.Promotions, s.Wrong, s.Surely, s.Missed, Number(s.Mean))
	}
	t.Print()
}
