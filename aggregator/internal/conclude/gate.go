package conclude

import (
	"context"
	"errors"
	"fmt"

	"coppice/aggregator/internal/judge"
	"coppice/internal/metric"
	"coppice/internal/protocol"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// moves is how many changes of the champion during the gate's decision are tolerated.
const moves = 5

// gate decides whether the new version becomes the champion, and moves the alias by compare-and-swap. After losing the
// swap to another version, it compares with that one.
func (a *Aggregator) gate(ctx context.Context, p *sweep.Plan, v registry.Version, w *winner,
	h *holdout) (*sweep.GateDecision, error) {
	var now registry.Alias // the champion as last read
	var before int         // the champion before this version
	var d *sweep.GateDecision
	var damage error // to the record of the current champion

	m, err := a.newMatch(ctx, p, v.Number, w, h)
	if err != nil {
		return nil, err
	}

	g, do := protocol.Gate{Moves: moves}.Begin()
	for !do.Final() {
		var answer protocol.Answer
		var err error
		switch do.Do {
		case protocol.LookForPromotion:
			before, answer.Yes, err = a.promoted(ctx, p.Spec.Model, v.Number)

		case protocol.ReadChampion:
			now, err = a.champion(ctx, p.Spec.Model)

			// Another aggregator may have promoted the version since the history was read: do not compare it with
			// itself.
			if err == nil && now.Version == v.Number {
				before, done, err := a.promoted(ctx, p.Spec.Model, v.Number)
				if err != nil {
					return nil, err
				}
				if done {
					return m.passed(ctx, before)
				}
			}

		case protocol.Compare:
			if d, err = m.decide(ctx, now.Version); err == nil {
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
		return &sweep.GateDecision{Verdict: sweep.VerdictNotComparable,
			Reason: fmt.Sprintf("the champion alias cannot be read: %v; version %d is registered but was not "+
				"promoted: repair the record, then promote by hand",
				damage, v.Number)}, nil
	case protocol.Before:
		return m.passed(ctx, before)
	case protocol.MovedByOthers:
		return &sweep.GateDecision{Verdict: sweep.VerdictNotComparable,
			Reason: fmt.Sprintf("the champion was moved by others %d times while the gate was deciding; promote by "+
				"hand", moves)}, nil
	}
	return d, nil
}

// promoted reports whether the version has been the champion, through an earlier attempt or another aggregator, and
// which version preceded it. A person may have moved the alias since; that is not undone.
func (a *Aggregator) promoted(ctx context.Context, model string, version int) (before int, done bool, err error) {
	events, err := a.Registry.History(ctx, model)
	for _, e := range events {
		if e.Alias == registry.Champion && e.To == version {
			return e.From, true, nil
		}
	}
	if err != nil && onlyDamage(err) { // of some other event; this one will not be read either
		a.Log.Warn("the registry's history is damaged", "model", model, "error", err.Error())
		return 0, false, nil
	}
	return 0, false, err
}

// onlyDamage reports whether an error, or every error joined in it, is about an unreadable record.
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

// isCorrupt reports whether an error is about an unreadable registry record.
func isCorrupt(err error) bool {
	var damaged *registry.CorruptError
	return errors.As(err, &damaged)
}

// passed reconstructs the decision that made the version the champion, against the version before it.
func (m *match) passed(ctx context.Context, before int) (*sweep.GateDecision, error) {
	d, err := m.decide(ctx, before)
	if d != nil {
		d.Passed, d.Promoted, d.Verdict = true, true, sweep.VerdictPromoted
	}
	return d, err
}

// champion returns the champion's alias; its Version is 0 when there is none yet.
func (a *Aggregator) champion(ctx context.Context, model string) (registry.Alias, error) {
	alias, err := a.Registry.Alias(ctx, model, registry.Champion)
	var absent *registry.NotFoundError
	if errors.As(err, &absent) {
		return registry.Alias{}, nil
	}
	return alias, err
}

// decide judges the new model against a version of the registry.
func (m *match) decide(ctx context.Context, champion int) (*sweep.GateDecision, error) {
	measure, err := metric.Lookup(m.gate.Metric)
	if err != nil {
		return nil, err
	}
	e, err := m.against(ctx, champion)
	if err != nil {
		return nil, err
	}
	return judge.Judge(m.gate, measure, e), nil
}
