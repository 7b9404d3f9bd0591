package backtest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/metric"
	"coppice/internal/page"
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
	cache  map[[3]int]*scored
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

	b.models, b.cache = map[int]*nightModel{}, map[[3]int]*scored{}
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
	gain, err := b.compare(ctx, night, champion, max(test, known+1), last, rule.Confidence)
	if err != nil {
		return nil, false, err
	}

	switch {
	case rule.Always:
		return gain, true, nil
	case rule.Confidence > 0:
		return gain, gain.Low > rule.MinGain, nil
	}

	return gain, gain.Gain >= rule.MinGain, nil
}

// evaluate evaluates everything on the next day.
func (b *Runner) evaluate(ctx context.Context, n *page.BacktestNight, night int, before map[string]int) error {
	s, err := b.predicted(ctx, night, night+1, night+1)
	if err != nil {
		return err
	}
	n.TestRows = len(s.label)
	if n.Value, err = b.Spec.metric.Eval(s.input()); err != nil {
		return err
	}

	for _, k := range b.Spec.Stale {
		if _, there := b.models[night-k]; !there {
			continue
		}
		if n.Stale[k], err = b.compare(ctx, night, night-k, night+1, night+1, 0); err != nil {
			return err
		}
	}
	for name, d := range n.Rules {
		if champion, there := before[name]; there {
			if d.True, err = b.compare(ctx, night, champion, night+1, night+1, 0); err != nil {
				return err
			}
		}
		s, err := b.predicted(ctx, d.Champion, night+1, night+1)
		if err != nil {
			return err
		}
		if d.Value, err = b.Spec.metric.Eval(s.input()); err != nil {
			return err
		}
	}
	return nil
}

// compare returns the gain of one night's model over another's on some days.
func (b *Runner) compare(ctx context.Context, fresh, old, first, last int, confidence float64) (*page.BacktestGain,
	error) {
	a, err := b.predicted(ctx, fresh, first, last)
	if err != nil {
		return nil, err
	}
	o, err := b.predicted(ctx, old, first, last)
	if err != nil {
		return nil, err
	}

	c, err := b.Spec.metric.Compare(a.input(), o.pred, metric.Confidence{Level: confidence, Seed: b.Spec.Seed})
	if err != nil {
		return nil, err
	}
	return &page.BacktestGain{Old: c.Old, New: c.New, Gain: c.Gain, Low: c.Low, High: c.High}, nil
}

// predicted is score with a cache.
func (b *Runner) predicted(ctx context.Context, night, first, last int) (*scored, error) {
	key := [3]int{night, first, last}
	if s := b.cache[key]; s != nil {
		return s, nil
	}
	s, err := b.score(ctx, b.models[night], first, last)
	if err == nil && len(s.label) == 0 {
		err = fmt.Errorf("%w with a label from %s to %s", errNoRows, dayName(first), dayName(last))
	}
	b.cache[key] = s
	return s, err
}

// forget drops what no later night needs.
func (b *Runner) forget(night int, champions map[string]int) {
	b.cache = map[[3]int]*scored{}
	oldest := night - b.Spec.Stale[len(b.Spec.Stale)-1]
	needed := map[int]bool{}
	for _, c := range champions {
		needed[c] = true
	}
	for n, g := range b.models {
		if n < oldest && !needed[n] {
			_ = g.scorer.Close()
			delete(b.models, n)
		}
	}
}
