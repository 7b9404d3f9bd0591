package conclude

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// won is a sweep's winner, the held-out data on which it was judged, and its version.
type won struct {
	*winner
	holdout *holdout
	version registry.Version
}

// conclude decides how the sweep ended and, if it has a winner, registers it. Whether the version becomes the
// champion is decided later, by the gate. Called again, it registers the same. If the winner cannot be registered, the
// conclusion is returned together with the error. won is nil unless the winner is registered.
func (a *Aggregator) conclude(ctx context.Context, k *known, b sweep.Board, e *sweep.Ending) (*sweep.Conclusion, *won,
	error) {
	p, own := k.plan, b.Tally(k.plan)
	c := &sweep.Conclusion{Format: sweep.FormatVersion, Sweep: p.Sweep, Outcome: sweep.OutcomeNoWinner, Done: own.Done,
		Failed: own.Failed, At: a.Now().UTC()}

	if !mayHaveWinner(c, p, b, e, own) { // it has set c.Reason
		return c, nil, nil
	}

	// The metric and conditions that choose a winner, and the rows it is checked on.
	m, require, err := winnerCriteria(p)
	if err != nil {
		return endIfUnusable(c, &dataError{err})
	}
	h, err := a.readHoldout(ctx, p)
	if err != nil {
		return endIfUnusable(c, err)
	}

	// Pick the winner, calibrate it and measure it on test.
	w, selection, err := a.pickWinner(ctx, k, b, e, m, require, h)
	if err != nil {
		return nil, nil, err
	}

	// The rejected trials are reported even without a winner. w is nil if no trial may win.
	c.Rejected, c.Reason = selection.Rejected, selection.Reason
	if e.Early != "" {
		c.Reason += "; " + e.Early
	}
	if w == nil {
		return c, nil, nil
	}

	if err := w.calibrate(p, h); err != nil {
		return endIfUnusable(c, err)
	}

	if w.tested, err = a.describe(ctx, k, b, w, h, selection); err != nil {
		return endIfUnusable(c, err)
	}

	// The version's report repeats these, so set them before registering.
	c.Outcome, c.Trial, c.Model = sweep.OutcomeWinner, w.result.Trial, p.Spec.Model
	c.Valid, c.Test, c.Calibration, c.Verified = w.result.Metrics, w.test, w.calibration, w.verified
	c.Within = w.within
	// The lead is over the runner-up or, without one, the default. By gives it as a share of that trial's metric (Old).
	if r := cmp.Or(w.tested.RunnerUp, w.tested.Default); r != nil && r.Old != 0 {
		c.Lead = &sweep.Lead{Trial: r.Trial, Metric: r.Metric, Gain: r.By(r.Gain), Low: r.By(r.Low), High: r.By(r.High)}
	}
	if v, ok := w.tested.OfConstant(p.Spec.Metric); ok {
		c.Without = &v
	}

	// Register it, or the final model in its place. f is nil if there is none that may be registered.
	f, report, err := a.judgeFinal(ctx, k, b, e, w, h)
	if err != nil {
		return nil, nil, err
	}
	c.Final = report

	v, err := a.register(ctx, k, w, f, h, c)
	if err != nil {
		return c, nil, err
	}

	c.Version = v.Number
	return c, &won{w, h, v}, nil
}

// mayHaveWinner reports whether enough trials are done for a winner and the sweep was not cancelled. If not, it sets
// the reason in c, and the outcome if it was cancelled. own counts the trials, without the final training.
func mayHaveWinner(c *sweep.Conclusion, p *sweep.Plan, b sweep.Board, e *sweep.Ending, own sweep.Tally) bool {
	switch done, short := countForQuorum(p, b, e); {
	case e.Cancelled:
		c.Outcome, c.Reason = sweep.OutcomeCancelled, "the sweep was cancelled"
	case done >= quorum(p, b, e):
		return true
	case e.Early != "":
		c.Reason = e.Early + "; " + short
	case p.Folds == nil:
		c.Reason = fmt.Sprintf("all %d trials have ended, %d of them with a model; the quorum is %d", len(p.Own()),
			own.Done, quorum(p, b, e))
	default:
		c.Reason = short
	}
	return false
}

// endIfUnusable returns c as a conclusion without a winner if err is a *dataError, which a retry would not change.
// Other errors, those of the store, are returned, and lead to a retry. Its results are those of conclude.
func endIfUnusable(c *sweep.Conclusion, err error) (*sweep.Conclusion, *won, error) {
	if !errors.As(err, new(*dataError)) {
		return nil, nil, err
	}
	c.Reason = err.Error()
	return c, nil, nil
}

// dataError is a plan or held-out data that make it impossible to find a winner.
type dataError struct{ err error }

func (e *dataError) Error() string { return e.err.Error() }
func (e *dataError) Unwrap() error { return e.err }

// winnerCriteria returns the sweep's metric and the conditions that a winner must meet (the spec's require).
func winnerCriteria(p *sweep.Plan) (metric.Metric, []*search.Condition, error) {
	m, err := metric.Lookup(p.Spec.Metric)
	if err != nil {
		return m, nil, err
	}
	require, err := search.CompileRequires(p.Spec.Require, metric.Canonical)
	return m, require, err
}

// filePatience is how long after its ending a sweep waits for a winner's file that the store does not give, before the
// next best trial wins. It is longer than an outage, and than the difference between two machines' clocks.
const filePatience = 2 * time.Hour

// pickWinner returns the best trial by metric m that meets the conditions and whose scores an independent
// implementation reproduces, and how it was selected. The winner is nil if there is none. Trials that fail
// verification are logged, and the selection says why they were passed over. An error is one of the store.
func (a *Aggregator) pickWinner(ctx context.Context, k *known, b sweep.Board, e *sweep.Ending, m metric.Metric,
	require []*search.Condition, h *holdout) (*winner, search.Selection, error) {
	exclude := map[int]string{}
	for {
		s := search.Pick(k.plan, b, m.RatedBy(), require, exclude)
		if k.plan.Folds != nil {
			s.Reason = search.WhyRefit(k.plan, b, require, s)
		}
		trial, ok := s.Winner()
		if !ok {
			return nil, s, nil
		}
		w, unfit, err := a.readVerified(ctx, k, resultOf(b, trial), e, h)
		if err != nil {
			return nil, s, err
		}
		if unfit == nil {
			return w, s, nil
		}

		// Try the next best. The conclusion records what was wrong with this one.
		a.Log.Warn("trial skipped", "sweep", k.plan.Sweep, "trial", trial, "reason", unfit.Error())
		exclude[trial] = unfit.Error()
	}
}

// readVerified reads a trial's files (readWinner) and verifies its scores. unfit says why the trial cannot win. err
// is an error of the store, which says nothing about the trial. Once filePatience is over, a file that the store does
// not give makes the trial unfit instead.
func (a *Aggregator) readVerified(ctx context.Context, k *known, r *sweep.Result, e *sweep.Ending,
	h *holdout) (w *winner, unfit, err error) {
	if w, unfit, err = readWinner(ctx, k.trials, r, h); err != nil {
		if a.shouldWait(ctx, e, err) {
			return nil, nil, err
		}
		unfit = fmt.Errorf("%s after the end of the sweep it still cannot be read: %w", filePatience, err)
	}
	if unfit == nil {
		unfit = w.verify(h)
	}
	return w, unfit, nil
}

// shouldWait reports whether to wait for a file that the store failed to give, with err: until filePatience is over.
// After that, it still waits for a missing permission, which concerns every trial and which a person can grant, and if
// the error may be due to ctx.
func (a *Aggregator) shouldWait(ctx context.Context, e *sweep.Ending, err error) bool {
	return ctx.Err() != nil || problem.Is(err, problem.Environment) || a.Now().Sub(e.At) < filePatience
}

// resultOf returns a trial's result; nil if there is none.
func resultOf(b sweep.Board, trial int) *sweep.Result {
	for _, r := range b.Rows {
		if r.Trial.Number == trial {
			return r.Result
		}
	}
	return nil
}

// report is a version's report.json. Nothing in it depends on when or by which process it was written.
type report struct {
	Sweep       sweep.ID           `json:"sweep"`
	Trial       int                `json:"trial"`
	Dataset     string             `json:"dataset"`
	Reason      string             `json:"reason"`
	Valid       map[string]float64 `json:"valid"`
	Test        map[string]float64 `json:"test"`
	Within      *sweep.Within      `json:"within,omitempty"`
	Without     *float64           `json:"without_features,omitempty"`
	Lead        *sweep.Lead        `json:"lead,omitempty"`
	Calibration *sweep.Calibration `json:"calibration,omitempty"`
	Verified    *sweep.Verified    `json:"verified"`
	Final       *sweep.FinalModel  `json:"final,omitempty"`
}

// register registers the winner as a version, with all files needed to use it and to train it again. If there is a
// final model, f, that is the model in use, and the winner's files are kept beside it, for later versions to be
// compared with; f may be nil. Registering the same sweep again gives the same version.
func (a *Aggregator) register(ctx context.Context, k *known, w *winner, f *final, h *holdout,
	c *sweep.Conclusion) (registry.Version, error) {
	// The files of the one or two models.
	p := k.plan
	ref := p.Dataset.Name + "@" + p.Dataset.Version
	files := map[string][]byte{scorer.FilePlan: k.planText, scorer.FileDataset: h.manifestText}

	names, result := liveFiles, w.result
	if f != nil {
		names, result = judgedFiles, f.result
		if _, _, err := liveFiles.addTo(files, f.winner, f.encoding, f.levels); err != nil {
			return registry.Version{}, err
		}
	}
	encoding, levels, err := names.addTo(files, w, h.manifest.Encoding(), h.levels)
	if err != nil {
		return registry.Version{}, err
	}

	// What is usual of the inputs, as the winner sees them: to a final model, no value of the sample is unknown.
	inputs, err := usualInputs(encoding, levels, h)
	if err != nil {
		return registry.Version{}, err
	}

	// Nothing in these depends on when or by which process they are written: registering again produces the same bytes.
	records := map[string]any{
		scorer.FileInputs: inputs,
		scorer.FileResult: result,
		scorer.FileTested: w.tested,
		scorer.FileReport: report{Sweep: p.Sweep, Trial: c.Trial, Dataset: ref, Reason: c.Reason, Valid: c.Valid,
			Test: c.Test, Within: c.Within, Without: c.Without, Lead: c.Lead,
			Calibration: c.Calibration, Verified: c.Verified, Final: c.Final},
	}
	for name, v := range records {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return registry.Version{}, fmt.Errorf("write %s: %w", name, err)
		}
		files[name] = append(text, '\n')
	}

	// Test rows, for later nights to compare models on; nil if the sample has none.
	if r := referenceOf(h, maxReference); r != nil {
		data, err := r.encode()
		if err != nil {
			return registry.Version{}, fmt.Errorf("write %s: %w", scorer.FileReference, err)
		}
		files[scorer.FileReference] = data
	}

	return a.Registry.Register(ctx, p.Spec.Model, string(p.Sweep), files, registry.Info{
		At: a.Now().UTC(), By: "aggregator", Why: reasonFor(c.Reason), Metrics: c.Test,
		Labels: map[string]string{"sweep": string(p.Sweep), "trace": p.Sweep.Trace(), "trial": strconv.Itoa(c.Trial),
			"dataset": ref, "objective": p.Spec.Objective},
	})
}

// reasonFor returns a text as the registry takes it for a reason: cut to what one may have, and without the control
// characters that an error of a task or an engine may bring along. What the registry refuses would be refused each
// time, and the sweep never concluded.
func reasonFor(text string) string {
	return sweep.CutReason(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, text))
}
