package worker

import (
	"context"
	"errors"
	"math"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	otel "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"coppice/internal/dataset"
	"coppice/internal/metric"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/task/internal/usage"
)

// measures holds a task's instruments; docs/run.md describes them. Rates such as trees per second are left to
// the reader of the counters.
type measures struct {
	sweep  attribute.KeyValue
	metric string

	trees, rows, ended, takeovers, interruptions otel.Int64Counter
	waiting                                      otel.Int64Gauge
	score                                        otel.Float64Gauge

	// Observed on each collection.
	mapped, pss, private otel.Int64Observable
	cpu                  otel.Float64Observable
}

// treesBy returns the name of the metric by which a trial is evaluated after every tree.
func (w *Worker) treesBy() string {
	m, _ := metric.Lookup(w.plan.Spec.Metric) // an unknown one is refused before the first trial
	m, _ = m.Stop(w.plan.Spec.Objective)
	return m.Name
}

// measure creates the instruments of this task and sets w.measures. Some are observed on each collection, by a
// callback. The caller has to call stop when it is done with the dataset.
func (w *Worker) measure(ds *dataset.Dataset) (stop func() error, err error) {
	meter := w.Meter
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}

	m := &measures{sweep: attribute.String("sweep", string(w.Sweep)), metric: w.treesBy()}
	if err := m.instruments(meter); err != nil {
		return nil, err
	}

	mapped, labels := ds.Mapped(), otel.WithAttributes(m.sweep)
	r, err := meter.RegisterCallback(func(_ context.Context, o otel.Observer) error {
		mem := usage.Self()
		o.ObserveInt64(m.mapped, mapped, labels)
		o.ObserveInt64(m.pss, mem.PSS, labels)
		o.ObserveInt64(m.private, mem.Private, labels)
		o.ObserveFloat64(m.cpu, usage.CPU().Seconds(), labels)
		return nil
	}, m.mapped, m.pss, m.private, m.cpu)
	if err != nil {
		return nil, err
	}
	w.measures = m
	return r.Unregister, nil
}

// instruments registers what a task reports by OpenTelemetry; names and units are what others read.
func (m *measures) instruments(meter otel.Meter) error {
	var errs []error

	counter := func(name, unit, what string) otel.Int64Counter {
		c, err := meter.Int64Counter(name, otel.WithUnit(unit), otel.WithDescription(what))
		errs = append(errs, err)
		return c
	}

	gauge := func(name, what string) otel.Int64Observable {
		g, err := meter.Int64ObservableGauge(name, otel.WithUnit("By"), otel.WithDescription(what))
		errs = append(errs, err)
		return g
	}

	m.trees = counter("coppice.task.trees", "{tree}", "Trees grown")
	m.rows = counter("coppice.task.rows", "{row}", "Rows that trees were grown on, counted once per tree")
	m.ended = counter("coppice.task.trials", "{trial}", "Trials ended, by status")
	m.takeovers = counter("coppice.task.takeovers", "{trial}",
		"Trials taken over from a task that was preempted or lost with its machine")
	m.interruptions = counter("coppice.task.interruptions", "{trial}",
		"Trials released because this task was told to stop")

	var err error
	m.waiting, err = meter.Int64Gauge("coppice.task.queue", otel.WithUnit("{trial}"),
		otel.WithDescription("Trials without a holder, when this task last looked"))
	errs = append(errs, err)
	m.score, err = meter.Float64Gauge("coppice.task.score",
		otel.WithDescription("The trial's score on valid after its last tree"))
	errs = append(errs, err)

	m.mapped = gauge("coppice.task.dataset.mapped", "Bytes of the dataset mapped, shared by the tasks of a machine")
	m.pss = gauge("coppice.task.memory.pss",
		"Proportional set size: private memory and the task's share of shared memory")
	m.private = gauge("coppice.task.memory.private", "Anonymous memory")
	m.cpu, err = meter.Float64ObservableCounter("coppice.task.cpu", otel.WithUnit("s"),
		otel.WithDescription("Processor time"))
	errs = append(errs, err)

	return errors.Join(errs...)
}

// tree counts one tree, grown on so many rows, with the trial's score after it, if known.
func (m *measures) tree(trial, rows int, score float64) {
	m.count(m.trees)
	m.rows.Add(context.Background(), int64(rows), otel.WithAttributes(m.sweep))
	if !math.IsNaN(score) {
		m.score.Record(context.Background(), score,
			otel.WithAttributes(m.sweep, attribute.String("trial", strconv.Itoa(trial)),
				attribute.String("metric", m.metric)))
	}
}

// end counts a trial that has ended.
func (m *measures) end(status sweep.Status) {
	m.ended.Add(context.Background(), 1, otel.WithAttributes(m.sweep, attribute.String("status", string(status))))
}

// queue records how many trials are free.
func (m *measures) queue(view protocol.View) {
	waiting := int64(0)
	for _, t := range view.Trials {
		if !t.Ended && t.Free() {
			waiting++
		}
	}
	m.waiting.Record(context.Background(), waiting, otel.WithAttributes(m.sweep))
}

// count adds one to a counter.
func (m *measures) count(counter otel.Int64Counter) {
	counter.Add(context.Background(), 1, otel.WithAttributes(m.sweep))
}
