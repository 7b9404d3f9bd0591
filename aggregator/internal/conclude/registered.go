package conclude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// A sweep with a version in the registry has a winner, whatever has happened to its objects since. An aggregator may
// stop between registering and concluding, and the next may find the sample, the winner's result, the plan or the
// ending damaged, or word the report differently. So the registry is always checked before a sweep ends without a
// winner or cannot be concluded.

// orRegistered takes what concluding a sweep has given, c and err, and returns it as it is, unless c has no winner or
// err says that objects are damaged. Then it looks in the registry. If that has a version of the sweep, the result is
// a conclusion that names it; otherwise c or, if there is one, err. Beside an err, c may be a conclusion that could not
// be completed.
func (a *Aggregator) orRegistered(ctx context.Context, id sweep.ID, k *known, c *sweep.Conclusion,
	err error) (*sweep.Conclusion, error) {
	switch {
	case err == nil && (c == nil || c.Outcome == sweep.OutcomeWinner): // it continues, or has its winner
		return c, nil
	case err != nil && !problem.Is(err, problem.Damaged) && !errors.As(err, new(*registry.ConflictError)):
		return nil, err // a retry may succeed
	}

	v, damage, failed := a.findVersion(ctx, id, k.plan)
	if failed != nil {
		return nil, failed
	}
	if v == nil {
		if err != nil {
			return nil, err
		}
		return c, nil
	}

	why := err
	if why == nil {
		why = errors.New(c.Reason)
	}
	a.Log.Warn("the registry has a version of a sweep that could not be concluded from its objects", "sweep", id,
		"model", v.Model, "version", v.Number, "error", why.Error())
	if damage != nil {
		return a.concludeDamaged(ctx, id, v, c, damage)
	}
	return a.fromVersion(ctx, id, k, v, c, why)
}

// findVersion looks for the version that a sweep registered; it is nil if there is none. Without a plan, p being nil,
// the model is unknown, so all models are searched. damage says that the record of the version is damaged; v then has
// no more than model, number and key. err is one of the store, or a *registry.DeletedError.
func (a *Aggregator) findVersion(ctx context.Context, id sweep.ID, p *sweep.Plan) (v *registry.Version, damage,
	err error) {
	var models []string
	if p != nil {
		models = []string{p.Spec.Model}
	} else if models, err = a.Registry.Models(ctx); err != nil {
		return nil, nil, err
	}

	for _, model := range models {
		v, err := a.Registry.Find(ctx, model, string(id))
		switch {
		case problem.Is(err, problem.Damaged) && v.Number == 0: // some record of the model, perhaps of another sweep
		case problem.Is(err, problem.Damaged):
			return &v, err, nil
		case problem.Is(err, problem.NotFound) && !errors.As(err, new(*registry.DeletedError)):
		case err != nil:
			return nil, nil, err
		default:
			return &v, nil, nil
		}
	}
	return nil, nil, nil
}

// concludeDamaged concludes with a version whose record is damaged: it cannot be used, and the champion stays as it is.
func (a *Aggregator) concludeDamaged(ctx context.Context, id sweep.ID, v *registry.Version, c *sweep.Conclusion,
	damage error) (*sweep.Conclusion, error) {
	out := a.nameVersion(id, v, c)
	if c != nil && c.Outcome == sweep.OutcomeWinner { // keep what it was registered with
		*out = *c
		out.Version = v.Number
	}
	out.Reason = fmt.Sprintf("version %d was registered, but its record cannot be read: %v; repair or replace it",
		v.Number, damage)

	before, done, err := a.hasBeenChampion(ctx, *v)
	if err != nil {
		return nil, err
	}
	out.Gate = &sweep.GateDecision{Passed: done, Promoted: done, Champion: before,
		Reason: "the version cannot be read any more"}
	return out, nil
}

// nameVersion returns a new conclusion with the version as the winner. The counts of trials are those of c, which may
// be nil.
func (a *Aggregator) nameVersion(id sweep.ID, v *registry.Version, c *sweep.Conclusion) *sweep.Conclusion {
	out := &sweep.Conclusion{Format: sweep.FormatVersion, Sweep: id, Outcome: sweep.OutcomeWinner, Model: v.Model,
		Version: v.Number, At: a.Now().UTC()}
	if c != nil {
		out.Done, out.Failed = c.Done, c.Failed
	}
	return out
}

// fromVersion concludes a sweep that cannot be concluded from its own objects, from the version's report and plan in
// the registry, as far as they can be read, and runs the gate for the version. c is the conclusion without that
// version; it may be nil. why says what is wrong with the sweep's objects.
func (a *Aggregator) fromVersion(ctx context.Context, id sweep.ID, k *known, v *registry.Version, c *sweep.Conclusion,
	why error) (*sweep.Conclusion, error) {
	// The version's own record, and its report, which says more.
	out := a.nameVersion(id, v, c)
	out.Reason, out.Test = v.Info.Why, v.Info.Metrics
	if trial, err := strconv.Atoi(v.Info.Labels["trial"]); err == nil {
		out.Trial = trial
	}

	var r report
	if err := a.readRecord(ctx, v, scorer.FileReport, func(text []byte) error {
		return json.Unmarshal(text, &r)
	}); err != nil {
		return nil, err
	}
	if r.Sweep == id {
		out.Trial, out.Reason, out.Valid, out.Test = r.Trial, r.Reason, r.Valid, r.Test
		out.Calibration, out.Verified, out.Final = r.Calibration, r.Verified, r.Final
		out.Within, out.Without, out.Lead = r.Within, r.Without, r.Lead
	}

	p := k.plan
	if p == nil {
		err := a.readRecord(ctx, v, scorer.FilePlan, func(text []byte) (err error) {
			p, err = sweep.DecodePlan(text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if c == nil && p != nil {
		b, err := a.boardOf(ctx, p)
		if err != nil {
			return nil, err
		}
		own := b.Tally(p)
		out.Done, out.Failed = own.Done, own.Failed
	}

	var err error
	out.Gate, err = a.gateVersion(ctx, p, v, why)
	return out, err
}

// readRecord reads a file of a version and calls decode with it. A file that is missing, damaged or cannot be decoded
// is logged and is no error. An error of the store is returned.
func (a *Aggregator) readRecord(ctx context.Context, v *registry.Version, name string,
	decode func([]byte) error) error {
	text, err := a.Registry.ReadFile(ctx, *v, name)
	if err != nil && !isUnusable(err) {
		return err
	}
	if err == nil {
		err = decode(text)
	}
	if err != nil {
		a.Log.Warn("a version's file cannot be read", "model", v.Model, "version", v.Number, "file", name, "error",
			err.Error())
	}
	return nil
}

// boardOf reads all results of a sweep again and returns its board. The plan p may be the copy in the registry, if the
// sweep's own cannot be read.
func (a *Aggregator) boardOf(ctx context.Context, p *sweep.Plan) (sweep.Board, error) {
	k := &known{plan: p, trials: sweepstore.NewTrials(a.Sweeps, p), results: map[int]sweep.Result{}}
	if err := a.readResults(ctx, k); err != nil {
		return sweep.Board{}, err
	}
	return k.foldResults(nil), nil
}

// gateVersion runs the gate for a version that is already registered. If the comparison is no longer possible,
// because something is damaged, the champion stays and a person has to decide. p is nil if the plan cannot be read;
// planErr says why.
func (a *Aggregator) gateVersion(ctx context.Context, p *sweep.Plan, v *registry.Version,
	planErr error) (*sweep.GateDecision, error) {
	before, promoted, err := a.hasBeenChampion(ctx, *v)
	if err != nil {
		return nil, err
	}
	// undecided is the decision without a comparison: promoted if the version was promoted before.
	undecided := func(reason error) *sweep.GateDecision {
		if promoted {
			return &sweep.GateDecision{Passed: true, Promoted: true, Verdict: sweep.VerdictPromoted, Champion: before,
				Reason: fmt.Sprintf("it has become the champion, but the records of its comparison can no longer be "+
					"read: %v", reason)}
		}
		return &sweep.GateDecision{Verdict: sweep.VerdictNotComparable,
			Reason: fmt.Sprintf("version %d can no longer be compared: %v; promote by hand", v.Number, reason)}
	}
	if p == nil {
		return undecided(planErr), nil
	}

	s, err := scorer.OpenJudged(ctx, a.Registry, *v)
	if problem.Is(err, problem.Damaged) {
		return undecided(err), nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()

	h, err := a.readHoldout(ctx, p)
	if errors.As(err, new(*dataError)) {
		return undecided(err), nil
	}
	if err != nil {
		return nil, err
	}
	return a.decidePromotion(ctx, p, *v, &winner{trees: s.Model, calibrator: s.Calibrator}, h)
}
