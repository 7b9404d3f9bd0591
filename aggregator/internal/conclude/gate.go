package conclude

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"coppice/aggregator/internal/judge"
	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// maxMoves is after how many changes of the champion during the gate's decision a person has to decide.
const maxMoves = 5

// decidePromotion decides whether the new version v, whose model is w, becomes the champion, and moves the champion
// alias by compare-and-swap. After losing the swap to another version, it compares with that one. Before it decides,
// it may move the alias back to the previous champion (takeBackChampion). The decision then says so in Regret,
// whatever comes of the new version. A champion that cannot be read, or that others move too often, and a metric that
// this build does not know are decisions, not errors: the version is not promoted.
func (a *Aggregator) decidePromotion(ctx context.Context, p *sweep.Plan, v registry.Version, w *winner,
	h *holdout) (*sweep.GateDecision, error) {
	m, err := a.newMatch(ctx, p, v.Number, w, h)
	if errors.As(err, new(*dataError)) {
		return &sweep.GateDecision{Verdict: sweep.VerdictNotComparable,
			Reason: fmt.Sprintf("%v; version %d is registered but was not promoted: upgrade the aggregator to the "+
				"build that planned the sweep, and promote by hand", err, v.Number)}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := m.takeBackChampion(ctx, v); err != nil {
		return nil, err
	}

	d := &gating{match: m, version: v}
	g, first := protocol.Gate{Moves: maxMoves}.Begin()
	do, err := protocol.Run(g, first, func(a protocol.Action) (protocol.Answer, error) { return d.do(ctx, a.Do) })
	if err != nil {
		return nil, err
	}
	out, err := d.decisionOf(ctx, do)
	if err == nil && m.regret != nil && out.Regret == nil { // the decision was made without decide, which adds it
		out.Regret, out.Reason = m.regret, m.regret.Reason+"; "+out.Reason
	}
	return out, err
}

// decisionOf returns the decision with which the gate ended, from its last action: one that explains why the version
// was not compared, one about an earlier promotion, or that of the last comparison.
func (d *gating) decisionOf(ctx context.Context, do protocol.Action) (*sweep.GateDecision, error) {
	switch do.Why {
	case protocol.Unreadable:
		return &sweep.GateDecision{Verdict: sweep.VerdictNotComparable,
			Reason: fmt.Sprintf("the champion alias cannot be read: %v; version %d is registered but was not "+
				"promoted: repair the record, then promote by hand", d.damage, d.version.Number)}, nil
	case protocol.Before:
		return d.reconstructDecision(ctx, d.before)
	case protocol.MovedByOthers:
		return &sweep.GateDecision{Verdict: sweep.VerdictNotComparable,
			Reason: fmt.Sprintf("others moved the champion %d times while the gate was deciding; promote by "+
				"hand", maxMoves)}, nil
	}
	return d.decision, nil
}

// gating carries out the actions of protocol.Gate.
type gating struct {
	*match
	version registry.Version

	now      registry.Alias // the champion as last read
	before   int            // the champion before this version
	decision *sweep.GateDecision
	damage   error // to the record of the current champion
}

// do carries out one action of protocol.Gate and answers it. What later actions need is kept in d. A damaged record
// is an answer (Unreadable), not an error. So is a conflict, if somebody has moved the champion since it was read: the
// answer to Promote is then no. Other errors are those of the store.
func (d *gating) do(ctx context.Context, op protocol.Op) (answer protocol.Answer, err error) {
	a, model := d.a, d.plan.Spec.Model
	switch op {
	case protocol.LookForPromotion:
		d.before, answer.Yes, err = a.hasBeenChampion(ctx, d.version)

	case protocol.ReadChampion:
		d.now, err = a.readChampion(ctx, model)
		// Another aggregator may have promoted the version since the history was read.
		if err == nil && d.now.Version == d.version.Number {
			d.before, answer.Yes, err = a.hasBeenChampion(ctx, d.version)
		}

	case protocol.Compare:
		if d.decision, err = d.decide(ctx, d.now.Version); err == nil {
			answer.Yes = d.decision.Verdict == sweep.VerdictPromoted
		}

	case protocol.Promote:
		_, err = a.Registry.Promote(ctx, model, d.version.Number, registry.Expect{Version: d.now.Version},
			registry.Act{By: registry.ByGate, At: a.Now().UTC(),
				Why: reasonFor(fmt.Sprintf("sweep %s: %s", d.plan.Sweep, d.decision.Reason))})
		answer.Yes = err == nil
		if errors.As(err, new(*registry.ConflictError)) {
			err = nil
		}
		d.decision.Promoted = answer.Yes
	}
	if problem.Is(err, problem.Damaged) {
		answer.Unreadable, d.damage, err = true, err, nil
	}
	return answer, err
}

// clocksDiffer is more than the clocks of the machines that register and that promote differ by.
const clocksDiffer = 7 * 24 * time.Hour

// hasBeenChampion reports whether the version has been the champion, and which version preceded it (0 for none) when it
// became that last. A damaged move is logged and skipped.
//
// Another aggregator, or an earlier attempt of this one, may have promoted it, and a person may have moved the alias
// since, which is not undone. Moves from long before the version was registered are not read: over the years, a model
// has many.
func (a *Aggregator) hasBeenChampion(ctx context.Context, v registry.Version) (before int, done bool, err error) {
	for e, err := range a.Registry.Moves(ctx, v.Model, registry.Champion) {
		switch {
		case problem.Is(err, problem.Damaged): // if it was this version's promotion, no retry will read it either
			a.Log.Warn("the registry's history is damaged", "model", v.Model, "error", err.Error())
		case err != nil:
			return 0, false, err
		case e.To == v.Number:
			return e.From, true, nil
		case e.At.Before(v.Info.At.Add(-clocksDiffer)):
			return 0, false, nil
		}
	}
	return 0, false, nil
}

// reconstructDecision returns a decision for a version that was promoted before its decision could be written: that
// of a comparison with the champion before it, but passed and promoted.
func (m *match) reconstructDecision(ctx context.Context, before int) (*sweep.GateDecision, error) {
	d, err := m.decide(ctx, before)
	if d != nil {
		d.Passed, d.Promoted, d.Verdict = true, true, sweep.VerdictPromoted
	}
	return d, err
}

// readChampion returns the champion's alias; its Version is 0 when there is none yet.
func (a *Aggregator) readChampion(ctx context.Context, model string) (registry.Alias, error) {
	alias, err := a.Registry.Alias(ctx, model, registry.Champion)
	if problem.Of(err) == problem.NotFound {
		return registry.Alias{}, nil
	}
	return alias, err
}

// decide judges the new model against the version that is the champion, or against none if it is 0. It adds m.regret to
// the decision.
func (m *match) decide(ctx context.Context, champion int) (*sweep.GateDecision, error) {
	e, vindicated, err := m.compareWithChampion(ctx, champion)
	if err != nil {
		return nil, err
	}
	d := judge.Judge(m.gate, m.measure, e)
	if d.Verdict != sweep.VerdictBlocked { // labels that nobody believes prove nothing
		d.Vindicated = vindicated
	}
	if d.Regret = m.regret; d.Regret != nil {
		d.Reason = d.Regret.Reason + "; " + d.Reason
	}
	return d, nil
}

// takeBackChampion makes the version before the champion the champion again if tonight's rows, which neither was
// trained on, show that the champion should not have replaced it. It sets m.regret, also if the spec or an error
// keeps the alias as it is.
//
//   - If tonight's rows are doubted themselves, a second night must say the same.
//   - Only the last promotion is taken back, and only if it was the gate's own.
//   - The alias moves only if nobody has moved it meanwhile. If this process dies afterwards, the next one finds the
//     move in the history, and does not repeat it.
func (m *match) takeBackChampion(ctx context.Context, v registry.Version) error {
	// Has an earlier process of this sweep done it?
	a, model := m.a, m.plan.Spec.Model
	prefix := fmt.Sprintf("sweep %s: ", m.plan.Sweep)
	if done, err := m.alreadyMoved(ctx, v, prefix); done || err != nil {
		return err
	}

	now, err := a.readChampion(ctx, model)
	if problem.Is(err, problem.Damaged) {
		return nil // the gate says so
	}
	if err != nil || m.tonight == nil { // without rows, tonight shows nothing
		return err
	}

	// The champion must be last night's version, or that of the night before if last night has regretted it already
	// (second). Any other champion was judged by a later night already.
	second := len(m.prior) > 1 && m.prior[1].Number == now.Version && m.prior[0].regrets == now.Version
	last := second || len(m.prior) > 0 && m.prior[0].Number == now.Version
	if !last || !byTheGate(now) {
		return nil
	}

	// Labels that are not to be believed take back nothing. Else, is the champion worse than the one before it?
	e, _, err := m.compareWithChampion(ctx, now.Version)
	if err != nil || len(e.Blocked) > 0 || len(judge.WrongLabels(e)) > 0 {
		return err
	}
	worse, why, err := m.shownWorse(ctx, now.Version, now.Last.From)
	if err != nil || !worse {
		return err
	}

	// The promotion is regretted. If tonight's rows are doubted, the decision only says so.
	r := &sweep.Regret{Version: now.Version, Reason: why}
	before := slices.Clone(m.prior) // with the standings that noteRegret changes
	m.noteRegret(r)
	doubt, err := m.doubtTonight(ctx, now.Last.From)
	if err != nil {
		return err
	}
	if doubt != "" && !second {
		r.Reason += fmt.Sprintf("; it stays unless the next night says the same, since tonight's rows are doubted (%s)",
			doubt)
		m.prior = before
		return nil
	}

	// A sweep that promotes nothing by itself takes nothing back by itself.
	if m.gate.OnRegret != sweep.RegretRollback || m.gate.Promote != sweep.PromoteAuto {
		return nil
	}
	_, err = a.Registry.Rollback(ctx, model, registry.Champion, now.Last.From,
		registry.Expect{Version: now.Version, Sequence: now.Last.Sequence},
		registry.Act{By: registry.ByGate, Why: reasonFor(prefix + why), At: a.Now().UTC()})
	switch {
	case errors.As(err, new(*registry.ConflictError)): // it was moved meanwhile
		m.regret, m.prior = nil, before
		return nil
	case problem.Of(err) == problem.NotFound || problem.Of(err) == problem.Input:
		r.Reason += fmt.Sprintf(" (version %d cannot be used any more: %v)", now.Last.From, err)
		return nil
	}
	r.TakenBack = err == nil
	return err
}

// byTheGate reports whether the last change of the alias was the gate's, and replaced another version by a promotion.
func byTheGate(now registry.Alias) bool {
	return now.Last.From != 0 && now.Last.Kind == registry.Promoted && now.Last.By == registry.ByGate
}

// doubtTonight says what speaks against tonight's rows: a finding of staging, or a check that tonight's model fails
// against the given version, on other rows or by itself (judge.Doubt). It is empty if nothing does.
func (m *match) doubtTonight(ctx context.Context, version int) (string, error) {
	if m.warned != "" {
		return m.warned, nil
	}
	e, _, err := m.compareWithChampion(ctx, version)
	if err != nil {
		return "", err
	}
	return judge.Doubt(judge.Judge(m.gate, m.measure, e)), nil
}

// alreadyMoved reports whether an earlier process of this sweep has moved the champion alias. If it took a champion
// back, with a reason that begins with prefix, that regret is noted. If version v has been promoted, the step of taking
// back is over, too, since it comes first. Damaged moves are skipped, as are those from long before v was registered.
func (m *match) alreadyMoved(ctx context.Context, v registry.Version, prefix string) (done bool, err error) {
	for e, err := range m.a.Registry.Moves(ctx, m.plan.Spec.Model, registry.Champion) {
		switch {
		case problem.Is(err, problem.Damaged):
			continue
		case err != nil:
			return false, err
		case e.Kind == registry.RolledBack && e.By == registry.ByGate && strings.HasPrefix(e.Why, prefix):
			m.noteRegret(&sweep.Regret{Version: e.From, TakenBack: true, Reason: strings.TrimPrefix(e.Why, prefix)})
			return true, nil
		case e.To == v.Number:
			done = true
		}
		if e.At.Before(v.Info.At.Add(-clocksDiffer)) {
			break
		}
	}
	return done, nil
}

// noteRegret sets m.regret. The regretted version becomes unproven: no later version is compared with it.
func (m *match) noteRegret(r *sweep.Regret) {
	m.regret = r
	for i := range m.prior {
		if m.prior[i].Number == r.Version {
			m.prior[i].standing = unproven
		}
	}
}

// shownWorse reports whether tonight's rows show version number to be worse than version than, and returns a sentence
// that says so. It is false if one of them cannot be used, lacks a column tonight, or may have been trained on these
// rows. m.tonight must be set.
func (m *match) shownWorse(ctx context.Context, number, than int) (worse bool, why string, err error) {
	rows := judge.Judged{Label: m.targets.Label, Weight: m.targets.Weight, Group: m.targets.Group,
		Values: m.targets.Values}
	for _, side := range []struct {
		version int
		pred    *[]float64
	}{{number, &rows.New}, {than, &rows.Old}} {
		r, err := m.openRival(ctx, side.version)
		if isUnusable(err) {
			return false, "", nil
		}
		if err != nil {
			return false, "", err
		}
		if !m.origin.unseenBy(r.origin) { // it may have been trained on them
			r.Close()
			return false, "", nil
		}
		*side.pred, err = predict(r.Scorer, m.tonight)
		r.Close()
		if err != nil {
			return false, "", nil //nolint:nilerr // columns have changed since
		}
	}
	worse, why = judge.Worse(m.gate, m.measure, rows, than)
	return worse, fmt.Sprintf("version %d is %s", number, why), nil
}
