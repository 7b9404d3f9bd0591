package backtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/metric"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/launcher/internal/stager"
)

// Runner is a backtest to run, once.
type Runner struct {
	Spec    *Config
	Table   *dataset.Spec // the dataset.yaml
	Files   []table.File  // of the table; nil for those of its source, on this machine
	Scratch string        // a folder for temporary files; empty for the system's
	Threads int           // 0 is all CPUs
	// OnNight, which may be nil, is called when a night is complete.
	OnNight func(n page.BacktestNight, took time.Duration)

	dir    string // in Scratch
	daily  *daily
	models map[int]*nightModel // by night
	cache  map[scope]*scored
}

// Column returns the table's column of times. It rejects a dataset.yaml that a backtest cannot use.
func (s *Config) Column(table *dataset.Spec) (string, error) {
	column := s.Time
	if column == "" && table.Split.By == dataset.SplitByTime {
		column = table.Split.Column
	}
	if column == "" {
		return "", s.doc.Errorf("time", "the dataset is not split by time: name the column with the row's time, "+
			"such as `time: ts`")
	}
	return column, s.checkDelay(&table.Label)
}

// Run runs all nights, in order.
func (b *Runner) Run(ctx context.Context) (r *Results, err error) {
	column, err := b.Spec.Column(b.Table)
	if err != nil {
		return nil, err
	}

	b.models, b.cache = map[int]*nightModel{}, map[scope]*scored{}
	if b.Threads <= 0 {
		b.Threads = runtime.GOMAXPROCS(0)
	}
	if b.dir, err = os.MkdirTemp(b.Scratch, "coppice-backtest-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)

	first, _, _, _, _ := b.Spec.days(b.Spec.from)
	files := b.Files
	if files == nil {
		if files, err = (&stager.Stager{}).Files(ctx, b.Table); err != nil {
			return nil, err
		}
	}
	if b.daily, err = divide(ctx, b.Table, files, column, b.dir, first, b.Spec.to+1, b.Threads); err != nil {
		return nil, err
	}

	r = &Results{Metric: b.Spec.metric.Name, Maximize: b.Spec.metric.Maximize, From: b.Spec.From, To: b.Spec.To,
		Window: b.Spec.Window,
		Delay:  b.Spec.Delay, Stale: b.Spec.Stale, Gates: b.Spec.Gates}
	champions := map[string]int{} // by rule, the night that trained it
	for night := b.Spec.from; night <= b.Spec.to; night++ {
		start := time.Now()
		n, err := b.runNight(ctx, night, champions)
		if err != nil {
			return nil, fmt.Errorf("the night of %s: %w", dayName(night), err)
		}
		r.Nights = append(r.Nights, *n)
		if b.OnNight != nil {
			b.OnNight(*n, time.Since(start))
		}
		b.forget(night, champions)
	}
	r.sum()
	return r, nil
}

// runNight runs one night: train, decide by every rule on what is known by then, and only then evaluate on the next
// day.
func (b *Runner) runNight(ctx context.Context, night int, champions map[string]int) (*page.BacktestNight, error) {
	g, err := b.trainNight(ctx, night)
	if err != nil {
		return nil, err
	}
	b.models[night] = g
	n := &page.BacktestNight{Night: dayName(night), Test: dayName(night + 1), TrainRows: g.trainRows,
		Candidate: g.candidate,
		Trees:     g.trees, Model: g.sha256,
		Stale: map[int]*page.BacktestGain{}, Rules: map[string]*page.BacktestDecision{}}

	before := map[string]int{}
	for _, rule := range b.Spec.Gates {
		champion, there := champions[rule.Name]
		d := &page.BacktestDecision{Champion: night, Promoted: true}
		if there {
			before[rule.Name] = champion
			if d.Seen, d.Promoted, err = b.decide(ctx, rule, night, champion); err != nil {
				return nil, err
			}
			if !d.Promoted {
				d.Champion = champion
			}
		}
		champions[rule.Name] = d.Champion
		d.Grown = dayName(d.Champion)
		n.Rules[rule.Name] = d
	}
	return n, b.evaluate(ctx, n, night, before)
}

// decide asks a rule whether a night's model replaces the champion, on the test rows known that night. The champion was
// trained on earlier nights, which did not know these rows.
func (b *Runner) decide(ctx context.Context, rule Rule, night, champion int) (*page.BacktestGain, bool, error) {
	_, _, _, test, last := b.Spec.days(night)
	_, _, _, _, known := b.Spec.days(champion)
	gain, err := b.compare(ctx, scope{night, max(test, known+1), last, true}, champion, rule.Confidence)
	if err != nil {
		return nil, false, err
	}

	switch {
	case rule.Always:
		return gain, true, nil
	case rule.Margin > 0:
		c := metric.Comparison{Gain: gain.Gain, Low: gain.Low, High: gain.High}
		return gain, !c.WorseBy(rule.Margin), nil
	case rule.Confidence > 0:
		return gain, gain.Low > rule.MinGain, nil
	}

	return gain, gain.Gain >= rule.MinGain, nil
}

// evaluate evaluates everything on the next day.
func (b *Runner) evaluate(ctx context.Context, n *page.BacktestNight, night int, before map[string]int) error {
	tomorrow := scope{night, night + 1, night + 1, false}
	s, err := b.predicted(ctx, tomorrow)
	if err != nil {
		return err
	}
	n.TestRows = len(s.label)
	if n.Value, err = b.Spec.metric.Eval(s.input()); err != nil {
		return err
	}
	if b.Spec.Final != nil {
		judged := tomorrow
		judged.judged = true
		if s, err = b.predicted(ctx, judged); err != nil {
			return err
		}
		value, err := b.Spec.metric.Eval(s.input())
		if err != nil {
			return err
		}
		n.Judged = &value
	}

	for _, k := range b.Spec.Stale {
		if _, there := b.models[night-k]; !there {
			continue
		}
		if n.Stale[k], err = b.compare(ctx, tomorrow, night-k, 0); err != nil {
			return err
		}
	}
	for name, d := range n.Rules {
		if champion, there := before[name]; there {
			if d.True, err = b.compare(ctx, tomorrow, champion, 0); err != nil {
				return err
			}
		}
		s, err := b.predicted(ctx, scope{d.Champion, night + 1, night + 1, false})
		if err != nil {
			return err
		}
		if d.Value, err = b.Spec.metric.Eval(s.input()); err != nil {
			return err
		}
	}
	return nil
}

// scope is a night's model, final or judged, and the days that it predicts.
type scope struct {
	night, first, last int
	judged             bool
}

// compare returns the gain of one night's model over that of an older night, on the same days.
func (b *Runner) compare(ctx context.Context, of scope, old int, confidence float64) (*page.BacktestGain,
	error) {
	night := of.night
	a, err := b.predicted(ctx, of)
	if err != nil {
		return nil, err
	}
	of.night = old
	o, err := b.predicted(ctx, of)
	if err != nil {
		return nil, err
	}
	if now, then := b.models[night].label.Classes, b.models[old].label.Classes; !slices.Equal(now, then) {
		return nil, problem.New(problem.Input, "the nights of %s and %s have learnt other classes and cannot be "+
			"compared (%.200s; %.200s): use a longer window, or group or drop rows of rare classes", dayName(night),
			dayName(old), strings.Join(now, ", "), strings.Join(then, ", "))
	}

	c, err := b.Spec.metric.Compare(a.input(), o.pred, metric.Confidence{Level: confidence, Seed: b.Spec.Seed})
	if err != nil {
		return nil, err
	}
	return &page.BacktestGain{Old: c.Old, New: c.New, Gain: c.Gain, Low: c.Low, High: c.High}, nil
}

// predicted is score with a cache.
func (b *Runner) predicted(ctx context.Context, of scope) (*scored, error) {
	if s := b.cache[of]; s != nil {
		return s, nil
	}
	g := b.models[of.night]
	model := g.scorer
	if of.judged {
		model = g.judged
	}
	s, err := b.score(ctx, g, model, of.first, of.last)
	if err == nil && len(s.label) == 0 {
		err = fmt.Errorf("%w with a label from %s to %s", errNoRows, dayName(of.first), dayName(of.last))
	}
	b.cache[of] = s
	return s, err
}

// forget drops what no later night needs.
func (b *Runner) forget(night int, champions map[string]int) {
	b.cache = map[scope]*scored{}
	oldest := night - b.Spec.Stale[len(b.Spec.Stale)-1]
	needed := map[int]bool{}
	for _, c := range champions {
		needed[c] = true
	}
	for n, g := range b.models {
		if n < oldest && !needed[n] {
			_ = errors.Join(g.scorer.Close(), g.judged.Close()) // nothing is written to them
			delete(b.models, n)
		}
	}
}
