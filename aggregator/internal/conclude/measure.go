package conclude

import (
	"cmp"
	"context"
	"math"

	"go.opentelemetry.io/otel/attribute"
	otel "go.opentelemetry.io/otel/metric"

	"coppice/internal/sweep"
)

// progress sums up an open sweep's results when they were last read.
type progress struct {
	metric                      string
	trials                      map[string]int64 // by status; trials without a result count as "waiting"
	best                        float64          // NaN until a trial is done
	takeovers                   int64
	trees                       int64
	trainSeconds, cpuSeconds    float64
	peakPrivateBytes, mostBytes int64
}

// recordProgress records the progress for the instruments. The caller holds k.mu.
func (k *known) recordProgress() {
	b := k.foldResults(nil)
	p := &progress{metric: k.plan.Spec.Metric, best: math.NaN(), trials: map[string]int64{"waiting": int64(b.Waiting)}}
	for _, row := range b.Rows {
		r := row.Result
		if r == nil {
			continue
		}
		p.trials[string(r.Status)]++
		p.takeovers += int64(r.Claim) // every claim but the first is a takeover
		p.trees += int64(r.TreesGrown)
		p.trainSeconds += r.Usage.TrainSeconds
		p.cpuSeconds += r.Usage.CPUSeconds
		p.peakPrivateBytes = max(p.peakPrivateBytes, r.Usage.PrivateBytes)
		p.mostBytes = max(p.mostBytes, r.Usage.PeakPSSBytes)
	}

	switch {
	case b.Configurations != nil && b.Configurations[0].State == sweep.ConfigurationDone:
		p.best = *b.Configurations[0].Mean
	case b.Configurations == nil && b.Done > 0:
		p.best = b.Best().Score
	}
	k.progress.Store(p)
}

// openSweeps returns the progress of every sweep that is not concluded and whose results have been read.
func (a *Aggregator) openSweeps() map[sweep.ID]*progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[sweep.ID]*progress{}
	for id, k := range a.known {
		if p := k.progress.Load(); p != nil {
			out[id] = p
		}
	}
	return out
}

// Measure creates the aggregator's instruments: counters of messages and conclusions, and gauges of the state of open
// sweeps, which are observed in a callback. If used, it must be called before any other method. A concluded sweep is no
// longer reported: its numbers are in the registry and the bucket.
func (a *Aggregator) Measure(meter otel.Meter) error {
	// Counters. The first error of all instruments is kept in err.
	var err error
	counter := func(name, unit, what string) otel.Int64Counter {
		c, e := meter.Int64Counter(name, otel.WithUnit(unit), otel.WithDescription(what))
		err = cmp.Or(err, e)
		return c
	}

	a.messages = counter("coppice.aggregator.messages", "{message}",
		"Messages by outcome: handled, ignored (not a score message), failed (will be redelivered)")
	a.conclusions = counter("coppice.aggregator.conclusions", "{sweep}", "Sweeps concluded here, by outcome")
	a.verdicts = counter("coppice.aggregator.verdicts", "{sweep}",
		"Sweeps concluded here, by verdict: whether the winner became the champion")
	var all []otel.Observable
	gauge := func(name, unit, what string) otel.Int64Observable {
		g, e := meter.Int64ObservableGauge(name, otel.WithUnit(unit), otel.WithDescription(what))
		err = cmp.Or(err, e)
		all = append(all, g)
		return g
	}

	float := func(name, unit, what string) otel.Float64Observable {
		g, e := meter.Float64ObservableGauge(name, otel.WithUnit(unit), otel.WithDescription(what))
		err = cmp.Or(err, e)
		all = append(all, g)
		return g
	}

	trials := gauge("coppice.sweep.trials", "{trial}", "Trials by status; waiting are those that have not ended")
	takeovers := gauge("coppice.sweep.takeovers", "{trial}",
		"Takeovers of trials that have ended: preemptions that had a cost")
	trees := gauge("coppice.sweep.trees", "{tree}", "Trees grown by the trials that have ended")
	private := gauge("coppice.sweep.memory.private", "By", "Highest private memory of a task at the end of a trial")
	pss := gauge("coppice.sweep.memory.pss", "By", "Highest proportional set size seen of a task")
	best := float("coppice.sweep.best_score", "", "The best score so far")
	train := float("coppice.sweep.train", "s",
		"Training time of the trials that have ended; trees divided by it are trees per second")
	cpu := float("coppice.sweep.cpu", "s", "CPU time of the trials that have ended")
	if err != nil {
		return err
	}

	_, err = meter.RegisterCallback(func(_ context.Context, o otel.Observer) error {
		for id, p := range a.openSweeps() {
			name := attribute.String("sweep", string(id))
			for status, n := range p.trials {
				o.ObserveInt64(trials, n, otel.WithAttributes(name, attribute.String("status", status)))
			}
			if !math.IsNaN(p.best) {
				o.ObserveFloat64(best, p.best, otel.WithAttributes(name, attribute.String("metric", p.metric)))
			}
			labels := otel.WithAttributes(name)
			for g, v := range map[otel.Int64Observable]int64{takeovers: p.takeovers, trees: p.trees,
				private: p.peakPrivateBytes, pss: p.mostBytes} {
				o.ObserveInt64(g, v, labels)
			}
			o.ObserveFloat64(train, p.trainSeconds, labels)
			o.ObserveFloat64(cpu, p.cpuSeconds, labels)
		}
		return nil
	}, all...)

	return err
}

// count adds one to a counter, if there is one.
func count(c otel.Int64Counter, outcome string) {
	if c != nil {
		c.Add(context.Background(), 1, otel.WithAttributes(attribute.String("outcome", outcome)))
	}
}
