package conclude

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"coppice/dataset"
	"coppice/metric"
	"coppice/protocol"
	"coppice/registry"
	"coppice/scorer"
	"coppice/sweep"
)

// moves is how often the gate is tried again because somebody moved the champion meanwhile.
const moves = 5

// gate decides whether the new version becomes the champion and moves the alias by compare-and-swap. Whoever loses the
// swap to another version compares with that one.
func (a *Aggregator) gate(ctx context.Context, p *sweep.Plan, v registry.Version, w *winner, h *holdout) (*sweep.GateDecision, error) {
	var now registry.Alias // the champion, as it was read last
	var before int         // the champion before the version was
	var d *sweep.GateDecision
	var damage error // of the record that says where the champion is

	g, do := protocol.Gate{Moves: moves}.Begin()
	for !do.Final() {
		var answer protocol.Answer
		var err error
		switch do.Do {
		case protocol.LookForPromotion:
			before, answer.Yes, err = a.promoted(ctx, p.Spec.Model, v.Number)

		case protocol.ReadChampion:
			now, err = a.champion(ctx, p.Spec.Model)

		case protocol.Compare:
			if d, err = a.decide(ctx, p, now.Version, w, h); err == nil {
				answer.Yes = d.Passed
			}

		case protocol.Promote:
			_, err = a.Registry.Promote(ctx, p.Spec.Model, v.Number, registry.Expect{Version: now.Version},
				registry.Act{By: "aggregator", Why: fmt.Sprintf("sweep %s: %s", p.Sweep, d.Reason), At: a.Now().UTC()})
			var conflict *registry.ConflictError
			if answer.Yes = err == nil; errors.As(err, &conflict) {
				err = nil
			}
			d.Promoted = answer.Yes
		}
		if answer.Unreadable = isCorrupt(err); answer.Unreadable {
			damage, err = err, nil
		}
		if err != nil {
			return nil, err
		}
		g, do = g.Next(answer)
	}

	switch do.Why {
	case protocol.Unreadable:
		return &sweep.GateDecision{Reason: fmt.Sprintf("where the champion points cannot be read: %v; version %d is registered and was not promoted: repair the record, then promote by hand",
			damage, v.Number)}, nil
	case protocol.Before:
		return a.passed(ctx, p, before, w, h)
	case protocol.MovedByOthers:
		return &sweep.GateDecision{Reason: fmt.Sprintf("the champion was moved by others %d times while the gate was deciding; promote by hand", moves)}, nil
	}
	return d, nil
}

// promoted says whether the version has been the champion, by an earlier attempt or another aggregator, and which version
// was before it. A person may have moved the alias since; that is not undone.
func (a *Aggregator) promoted(ctx context.Context, model string, version int) (before int, done bool, err error) {
	events, err := a.Registry.History(ctx, model)
	for _, e := range events {
		if e.Alias == registry.Champion && e.To == version {
			return e.From, true, nil
		}
	}
	if err != nil && onlyDamage(err) { // of some other event; it will not come back
		a.Log.Warn("the registry's history is damaged", "model", model, "error", err.Error())
		return 0, false, nil
	}
	return 0, false, err
}

// onlyDamage reports whether an error, or everything that is joined in it, is about records that cannot be read as such.
func onlyDamage(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return isCorrupt(err)
	}
	for _, e := range joined.Unwrap() {
		if !onlyDamage(e) {
			return false
		}
	}
	return true
}

// isCorrupt says whether an error is about a record of the registry that cannot be read as such.
func isCorrupt(err error) bool {
	var damaged *registry.CorruptError
	return errors.As(err, &damaged)
}

// passed repeats the decision that made the version the champion, against the one before it.
func (a *Aggregator) passed(ctx context.Context, p *sweep.Plan, before int, w *winner, h *holdout) (*sweep.GateDecision, error) {
	d, err := a.decide(ctx, p, before, w, h)
	if d != nil {
		d.Passed, d.Promoted = true, true
	}
	return d, err
}

// champion is where the alias points; its Version is 0 when there is none yet.
func (a *Aggregator) champion(ctx context.Context, model string) (registry.Alias, error) {
	alias, err := a.Registry.Alias(ctx, model, registry.Champion)
	var absent *registry.NotFoundError
	if errors.As(err, &absent) {
		return registry.Alias{}, nil
	}
	return alias, err
}

// decide compares the new model with a version of the registry on the dataset's sample of test rows: raw values, so that
// each is scored through its own features, whatever dataset it was trained on.
func (a *Aggregator) decide(ctx context.Context, p *sweep.Plan, champion int, w *winner, h *holdout) (*sweep.GateDecision, error) {
	g := p.Spec.Gate
	if g == nil || g.Against == "none" {
		return &sweep.GateDecision{Passed: true, Reason: "the sweep has no gate"}, nil
	}
	if champion == 0 {
		return &sweep.GateDecision{Passed: true, Metric: g.Metric, Reason: "there was no champion"}, nil
	}

	d := &sweep.GateDecision{Metric: g.Metric, Champion: champion}
	m, err := metric.Lookup(g.Metric)
	if err != nil {
		return nil, err
	}

	if d.Rows = len(h.testRows); d.Rows == 0 { // calib would not do: the new model's calibrator has seen it
		d.Reason = "the dataset's sample has no row of the test part to compare on; stage it again with a larger sample, or promote by hand"
		return d, nil
	}

	newValue, oldValue, unfit, err := a.compare(ctx, p, champion, w, h, func(pred []float64) (float64, error) { return rate(m, h.testRows, h.test, pred) })
	if err != nil {
		return nil, err
	}
	if unfit != nil {
		d.Reason = fmt.Sprintf("version %d cannot be compared: %v; promote by hand", champion, unfit)
		return d, nil
	}

	// A gain is an improvement, whichever way the metric goes.
	d.Old, d.New = oldValue, newValue
	gain := newValue - oldValue
	if !m.Maximize {
		gain = -gain
	}
	d.Passed = gain >= g.MinGain

	// The gate may let a model pass that is slightly behind, and the reason must not call that one better.
	verdict := "not enough better than"
	switch {
	case d.Passed && gain > 0:
		verdict = "better than"
	case d.Passed && gain < 0:
		verdict = "not better than, but no further behind than the gate allows,"
	case d.Passed:
		verdict, gain = "equal to", 0
	}

	d.Reason = fmt.Sprintf("%s %.6g on %d sampled test rows is %s %.6g of version %d (gain %.3g, required %.3g)", m.Name, newValue, d.Rows, verdict, oldValue, champion, gain, g.MinGain)
	return d, nil
}

// compare rates the new model and a version of the registry on the same rows. unfit says why they cannot be compared; err
// is a failure of storage.
func (a *Aggregator) compare(ctx context.Context, p *sweep.Plan, champion int, w *winner, h *holdout, rate func([]float64) (float64, error)) (newValue, oldValue float64, unfit, err error) {
	// A version whose record is damaged or gone cannot be compared, now or later.
	v, err := a.Registry.Get(ctx, p.Spec.Model, strconv.Itoa(champion))
	var gone *registry.NotFoundError
	if isCorrupt(err) || errors.As(err, &gone) {
		return 0, 0, err, nil
	}
	if err != nil {
		return 0, 0, nil, err
	}

	// A version whose files are of no use cannot be compared; what storage does not give is asked for again.
	old, err := scorer.Open(ctx, a.Registry, v)
	var bad *scorer.UnfitError
	if errors.As(err, &bad) {
		return 0, 0, err, nil
	}
	if err != nil {
		return 0, 0, nil, err
	}

	fresh, unfit := scorer.New(w.trees, w.calibrator, h.manifest.Encoding(), h.levels)
	for _, side := range []struct {
		s     *scorer.Scorer
		value *float64
	}{{fresh, &newValue}, {old, &oldValue}} {
		if unfit != nil {
			break
		}
		var pred []float64
		if pred, unfit = side.s.Sample(h.sample, runtime.GOMAXPROCS(0)); unfit == nil {
			*side.value, unfit = rate(pred)
		}
	}

	return newValue, oldValue, unfit, nil
}

// rate measures predictions of all sample rows on those that belong to a part.
func rate(m metric.Metric, rows []place, t dataset.Targets, pred []float64) (float64, error) {
	in := metric.Input{Pred: make([]float64, len(rows)), Label: make([]float32, len(rows))}
	if t.Weight != nil {
		in.Weight = make([]float32, len(rows))
	}
	if t.Group != nil {
		in.Group = make([]uint64, len(rows))
	}

	for i, p := range rows {
		in.Pred[i], in.Label[i] = pred[p.sample], t.Label[p.part]
		if t.Weight != nil {
			in.Weight[i] = t.Weight[p.part]
		}
		if t.Group != nil {
			in.Group[i] = t.Group[p.part]
		}
	}

	return m.Eval(in)
}
