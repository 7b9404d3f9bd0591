package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/fit"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// Ended is an ended sweep, as needed to extend it.
type Ended struct {
	Plan    *sweep.Plan          // with the decisions about open trials
	Results map[int]sweep.Result // that its ending counts, and stopped ones of paused trials that are behind
	Reached []sweep.Reached      // scores of its trials at rungs
	Winner  *sweep.Inherited

	// Unfinished are trials with a result that were stopped at a rung, and would have gone on if the sweep had not had
	// enough.
	Unfinished map[int]bool

	Text, Dataset []byte // of the model that it continued, if any
}

// Extend plans a sweep that extends an ended one: the same spec on the same version of the dataset, with more trials.
// Errors are those of Build.
func Extend(q Inputs, old *Ended, more int) (*Planned, error) {
	was := old.Plan
	before := len(was.Trials)
	if final, ok := was.Final(); ok { // it was of that sweep's winner; this one has its own
		before = final
	}
	total := before + more
	switch most := limitOf(&was.Spec); {
	case was.Spec.Search.Features != nil && was.Open():
		return nil, errorf("sweep %s selects columns step by step, and its later steps depend on all trials of "+
			"those before, so it cannot be extended; start a new sweep with more trials", was.Sweep)
	case was.Breeds():
		return nil, errorf("sweep %s trains a population, whose generations continue each other, so it cannot be "+
			"extended; continue its winner with continue: {from: VERSION}, or start a sweep with more trials",
			was.Sweep)
	case was.Folds != nil:
		return nil, errorf("sweep %s uses cross-validation, and its refit was chosen from all of its "+
			"configurations, so it cannot be extended; start a new sweep with more trials", was.Sweep)
	case total > most:
		return nil, errorf("sweep %s has %d trials, and with %d more it has %d; such a search has at most %d: use "+
			"fewer", was.Sweep, before, more, total, most)
	}

	id := q.ID
	if id == "" {
		id = extendedID(was, more)
	}
	p := &Planned{Plan: &sweep.Plan{
		Format: sweep.FormatVersion, Sweep: id, Created: q.Now.UTC(), Coppice: q.Version, Job: q.Job(id),
		Spec: *q.Spec, Dataset: was.Dataset,
		Maximize: was.Maximize, Metrics: was.Metrics, Holdout: was.Holdout, Heartbeat: was.Heartbeat,
		Takeover: was.Takeover, Earlier: was.Earlier,
		Extends: &sweep.Extension{Sweep: was.Sweep, Reached: slices.Clone(old.Reached), Winner: old.Winner},
	}}
	p.inherit(old, before)
	if in := was.Input; in != nil {
		own := *in
		own.Text, own.Dataset = sweepstore.InputObject(id, old.Text), sweepstore.InputObject(id, old.Dataset)
		p.Input = &own
	}

	if err := p.goOn(q, old, more); err != nil {
		return nil, err
	}
	p.Spec.Trials = len(p.Trials)
	if err := p.final(q.Manifest); err != nil {
		return nil, err
	}
	return p, p.fit(q.Spec.Machine, q.Manifest)
}

func limitOf(s *sweep.Spec) int {
	if s.Search.Listed() && s.Search.Stop == nil {
		return sweep.MaxTrials
	}
	return sweep.MaxOpen
}

// extendedID derives the sweep's id from the one that it extends: running the command again attaches.
func extendedID(was *sweep.Plan, more int) sweep.ID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s+%d", was.Sweep, more))
	return sweep.ID(was.Spec.Name + "-" + hex.EncodeToString(sum[:4]))
}

// inherit adopts that many of the ended sweep's trials and their results.
func (p *Planned) inherit(old *Ended, trials int) {
	for i, t := range old.Plan.Trials[:trials] {
		r, counts := old.Results[i]
		if !counts {
			r = sweep.Result{Format: sweep.FormatVersion, Sweep: old.Plan.Sweep, Trial: i,
				Status: sweep.StatusCancelled, Metrics: map[string]float64{},
				Reason: fmt.Sprintf("it had not ended when sweep %s was concluded", old.Plan.Sweep)}
		}

		if r.Params != nil {
			t.Params, t.Open = r.Params, false
		}
		if t.Params != nil {
			t.Open = false
		}

		r.Params = nil
		r.ForgetWrite()
		p.Trials = append(p.Trials, t)
		p.Extends.Results = append(p.Extends.Results, r)
	}
}

// goOn adds the trials that the sweep trains itself: first those that the other sweep did not finish, then new ones, as
// its search would have continued.
func (p *Planned) goOn(q Inputs, old *Ended, more int) error {
	for _, i := range p.unfinished(old, more) {
		t := p.Trials[i]
		p.Expected = append(p.Expected, sweep.Trial{Source: t.Source, Params: t.Params, Absent: t.Absent,
			Reason: fmt.Sprintf("trial %d of sweep %s, which was not finished", i, old.Plan.Sweep)})
		p.supersede(i)
	}
	known := len(p.Expected)

	had := map[string]bool{}
	for _, t := range p.Trials {
		if t.Params != nil {
			had[sweep.ConfigurationKey(t.Params)] = true
		}
	}
	fresh, err := p.fresh(q, had, more-known)
	if err != nil {
		return err
	}
	p.Expected = append(p.Expected, fresh...)
	if f := p.Spec.Search.Features; len(p.Expected) == 0 && f != nil {
		return errorf("sweep %s has compared every set that %s has; use another try, or other groups, in another sweep",
			old.Plan.Sweep, f.Try)
	}
	if len(p.Expected) == 0 {
		return errorf("sweep %s has tried every configuration of its spec; widen search.random in another sweep",
			old.Plan.Sweep)
	}

	for i := range p.Expected {
		t := &p.Expected[i]
		t.Number = len(p.Trials)
		if i >= known && !p.Spec.Search.Listed() {
			p.Trials = append(p.Trials, sweep.Trial{Number: t.Number, Source: p.Spec.Search.Method, Open: true})
			continue
		}
		p.Trials = append(p.Trials, *t)
	}
	if p.Open() {
		if p.Base, err = fit.Complete(p.Spec.Base(), nil, features(q.Manifest)); err != nil {
			return &search.SpecError{Part: "params", Err: err}
		}
	}
	p.noteExtension(known, more)
	return nil
}

// unfinished returns those of the other sweep's trials that are to be trained again, at most so many: those that had
// come furthest first, since they were promoted before others. A configuration that another trial has finished, as in
// the extension of an extension, is not among them.
func (p *Planned) unfinished(old *Ended, most int) []int {
	furthest := map[int]int{}
	for _, r := range p.Extends.Reached {
		furthest[r.Trial] = max(furthest[r.Trial], r.Step)
	}
	open := func(i int) bool { return untrained(&p.Extends.Results[i]) || old.Unfinished[i] }
	had := map[string]bool{}
	for i, t := range p.Trials {
		if t.Params != nil && !open(i) {
			had[sweep.ConfigurationKey(t.Params)] = true
		}
	}

	var again []int
	for i, t := range slices.Backward(p.Trials) {
		if t.Params == nil || !open(i) {
			continue
		}
		if key := sweep.ConfigurationKey(t.Params); !had[key] {
			had[key] = true
			again = append(again, i)
		}
	}
	slices.SortFunc(again,
		func(a, b int) int { return cmp.Or(cmp.Compare(furthest[b], furthest[a]), cmp.Compare(a, b)) })
	return again[:min(len(again), most)]
}

// supersede takes back what one of the other sweep's trials had found, since it is trained again: its scores would
// count twice.
func (p *Planned) supersede(i int) {
	p.Extends.Reached = slices.DeleteFunc(p.Extends.Reached, func(r sweep.Reached) bool { return r.Trial == i })
	if r := p.Extends.Results[i]; !untrained(&r) {
		p.Extends.Results[i] = sweep.Result{Format: r.Format, Sweep: r.Sweep, Trial: i, Status: sweep.StatusCancelled,
			Metrics: map[string]float64{},
			Reason: sweep.CutReason("it was due to continue when its sweep had enough, and is trained again: " +
				r.Reason)}
	}
}

// untrained reports whether a trial was not finished because its sweep ended first. A trial cancelled by a person is
// not wanted.
func untrained(r *sweep.Result) bool {
	return r.Status == sweep.StatusCancelled && !r.ByHand || r.Untrained()
}

// fresh returns at most most configurations that the sweep has not had: what it trains next or, with a method that
// learns, an expectation of that.
func (p *Planned) fresh(q Inputs, had map[string]bool, most int) ([]sweep.Trial, error) {
	if most > 0 && p.Spec.Search.Features != nil {
		return p.moreSets(q, had, most)
	}
	if most == 0 || len(p.Spec.Search.Random) == 0 {
		return nil, nil
	}
	if p.Spec.Search.Method == sweep.MethodHalton {
		return p.sequence(q, most)
	}

	asked := request(&p.Spec, q.Manifest)
	asked.Trials = min(len(p.Trials)+most, sweep.MaxTrials)
	proposal, err := search.Propose(asked)
	if err != nil {
		return nil, err
	}
	fresh := slices.DeleteFunc(proposal.Trials,
		func(t sweep.Trial) bool { return had[sweep.ConfigurationKey(t.Params)] })
	return fresh[:min(len(fresh), most)], nil
}

// sequence continues the sequence.
func (p *Planned) sequence(q Inputs, most int) (fresh []sweep.Trial, err error) {
	columns := features(q.Manifest)
	plan := *p.Plan
	if plan.Base, err = fit.Complete(p.Spec.Base(), nil, columns); err != nil {
		return nil, &search.SpecError{Part: "params", Err: err}
	}
	return search.Begin(&plan, p.Trials, len(p.Trials)+most,
		func(own sweep.Params) (sweep.Params, error) { return fit.Complete(plan.Base, own, columns) })
}

// noteExtension says what the sweep extends.
func (p *Planned) noteExtension(again, more int) {
	e, ended := p.Extends, 0
	for _, r := range e.Results {
		if r.Status == sweep.StatusDone || r.Status == sweep.StatusStopped && !r.Untrained() {
			ended++
		}
	}
	p.note("extends sweep %s: %d of its %d trials compete with the new ones; no configuration is tried again",
		e.Sweep, ended, len(e.Results))

	if again > 0 {
		p.note("first: %s that sweep %s did not finish", english.Plural(again, "trial", ""), e.Sweep)
	}
	if w := e.Winner; w != nil {
		p.note("the best so far is trial %d, version %d of %s: only a new trial that is better becomes a version",
			w.Trial, w.Version, w.Model)
	}
	if own := len(p.Own()); own < more {
		p.note("only %d more configurations exist; %d were requested", own, more)
	}
	if p.Open() {
		p.note("%d trials are decided when they are claimed (search.method: %s)", len(p.Own())-again,
			p.Spec.Search.Method)
	}
}
