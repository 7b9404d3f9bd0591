package conclude

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"coppice/aggregator/internal/judge"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// Contract reports, in sentences, what is wrong with a plan's dataset if it must not produce a champion. An error means
// that this cannot be determined now.
type Contract interface {
	Blocked(ctx context.Context, p *sweep.Plan) ([]string, error)
}

// match is everything about the new model that does not depend on the version it is compared with.
type match struct {
	a        *Aggregator
	plan     *sweep.Plan
	gate     sweep.Gate
	evidence judge.Evidence // without the champion's predictions

	tonight *dataset.Sample // its rows of the test part
	nights  []night         // earlier nights that the new model can score
	note    string          // why there are no more
}

// newMatch scores the new model on all rows that it may be compared on, through its own encoding.
func (a *Aggregator) newMatch(ctx context.Context, p *sweep.Plan, version int, w *winner, h *holdout) (*match, error) {
	m := &match{a: a, plan: p, gate: p.Spec.Gated()}
	m.evidence = judge.Evidence{Binary: p.Spec.Objective == "binary", Seed: p.Spec.Seed, Shares: shares(w.trees,
		h.manifest.Encoding())}
	if a.Contract != nil {
		var err error
		if m.evidence.Blocked, err = a.Contract.Blocked(ctx, p); err != nil {
			return nil, err
		}
	}
	if m.gate.Against == sweep.AgainstNone || len(m.evidence.Blocked) > 0 {
		return m, nil
	}

	fresh, err := scorer.New(w.trees, w.calibrator, h.manifest.Encoding(), h.levels)
	if err != nil {
		m.evidence.NotTonight, m.evidence.NotReference = err.Error(), err.Error()
		return m, nil //nolint:nilerr // the error is the evidence
	}

	// Tonight's test rows. The calib rows do not qualify, since the calibrator was fitted to them.
	if r := referenceOf(h, len(h.testRows)); r == nil {
		m.evidence.NotTonight = "the dataset's sample has no row of the test part; stage it again with a larger sample"
	} else if err := (*rows)(&m.evidence.Tonight).add(fresh, r); err != nil {
		m.evidence.NotTonight = err.Error()
	} else {
		m.tonight = r.sample
		m.evidence.Tonight.Segment = segments(r.sample, m.gate.Calibration.By)
	}

	nights, note, err := a.references(ctx, p, version, m.gate.Reference)
	if err != nil {
		return nil, err
	}
	for _, r := range nights {
		n := night{reference: r}
		if err := n.rows.add(fresh, &r); err != nil {
			note = fmt.Sprintf("the new model cannot score those of version %d: %v", r.version, err)
			continue
		}
		m.nights = append(m.nights, n)
	}
	m.note = note
	return m, nil
}

// night holds rows of an earlier night with the new model's predictions.
type night struct {
	reference
	rows rows
}

// rows accumulates the rows of several nights.
type rows judge.Judged

// add sets the rows of a night and the new model's predictions.
func (to *rows) add(fresh *scorer.Scorer, r *reference) error {
	pred, err := predict(fresh, r.sample)
	if err != nil {
		return err
	}
	to.New, to.Label, to.Weight, to.Group = pred, r.targets.Label, r.targets.Weight, r.targets.Group
	return nil
}

// join appends a night's rows and the champion's predictions for them.
func (to *rows) join(n *night, old []float64) {
	before := len(to.Label)
	if n.rows.Weight != nil && to.Weight == nil && before > 0 { // beside weighted rows, unweighted ones weigh 1
		to.Weight = ones(before)
	}

	switch {
	case n.rows.Weight != nil:
		to.Weight = append(to.Weight, n.rows.Weight...)
	case to.Weight != nil:
		to.Weight = append(to.Weight, ones(len(old))...)
	}

	for _, g := range n.rows.Group { // keep the groups of different nights apart
		to.Group = append(to.Group, g^uint64(n.version)*0x9e3779b97f4a7c15)
	}

	to.Label, to.New, to.Old = append(to.Label, n.rows.Label...), append(to.New, n.rows.New...), append(to.Old, old...)
}

func ones(n int) []float32 { return slices.Repeat([]float32{1}, n) }

// predict scores a sample's rows, or says which columns are missing.
func predict(s *scorer.Scorer, sample *dataset.Sample) ([]float64, error) {
	var missing []string
	for _, name := range s.Columns() {
		if sample.Column(name) == nil {
			missing = append(missing, strconv.Quote(name))
		}
	}

	if len(missing) > 0 {
		word := "column"
		if len(missing) > 1 {
			word = "columns"
		}
		return nil, fmt.Errorf("it needs the %s %s, which is missing from these rows", word,
			strings.Join(missing, ", "))
	}

	return s.Sample(sample, runtime.GOMAXPROCS(0))
}

// against completes the evidence with the predictions of a registered version.
func (m *match) against(ctx context.Context, champion int) (judge.Evidence, error) {
	e := m.evidence
	if e.Champion = champion; champion == 0 || m.gate.Against == sweep.AgainstNone || len(e.Blocked) > 0 {
		return e, nil
	}

	// A version whose record or files are damaged or missing can never be compared; a storage error is returned and
	// retried.
	old, err := m.open(ctx, champion)
	if isUnusable(err) {
		e.NotTonight, e.NotReference = err.Error(), err.Error()
		return e, nil
	}
	if err != nil {
		return e, err
	}
	defer old.Close()

	note := m.note
	if e.NotTonight == "" {
		if e.Tonight.Old, err = predict(old, m.tonight); err != nil {
			e.NotTonight = fmt.Sprintf("version %d cannot score them: %v", champion, err)
		}
	}
	for i := range m.nights {
		n := &m.nights[i]
		pred, err := predict(old, n.sample)
		if err != nil {
			note = fmt.Sprintf("version %d cannot score those of version %d: %v", champion, n.version, err)
			continue
		}
		(*rows)(&e.Reference).join(n, pred)
		e.Nights = append(e.Nights, n.version)
	}
	if len(e.Nights) == 0 {
		e.NotReference = note
	}
	return e, nil
}

func (m *match) open(ctx context.Context, number int) (*scorer.Scorer, error) {
	v, err := m.a.Registry.Get(ctx, m.plan.Spec.Model, strconv.Itoa(number))
	if err != nil {
		return nil, err
	}
	return scorer.OpenJudged(ctx, m.a.Registry, v)
}

// segments names each row's segment; nil without columns, or if one of them is not in the sample.
func segments(s *dataset.Sample, by []string) []string {
	if len(by) == 0 {
		return nil
	}
	out := make([]string, len(s.Row))
	for k, name := range by {
		v := s.Column(name)
		if v == nil {
			return nil
		}
		for i := range out {
			if k > 0 {
				out[i] += ", "
			}
			out[i] += name + " " + v.TextOf(i)
		}
	}

	return out
}

// firstTrees is the number of trees whose gain counts for the shares. If one column tells nearly everything, later
// trees fit the remainder on rows that are all but certain, with gains of any size: over all trees a planted leak had a
// quarter of the gain on one table, but 0.99 in the first ten.
const firstTrees = 10

// shares returns the columns' shares of the gain of the model's first trees, in descending order. The gain of a feature
// made of several columns is split evenly between them.
func shares(m *gbt.Model, e *dataset.Encoding) []judge.Share {
	gains := make([]float64, m.Features())
	for _, t := range m.Trees[:min(firstTrees, len(m.Trees))] {
		for i, f := range t.Feature {
			gains[f] += t.Gain[i]
		}
	}

	total, by := 0.0, map[string]float64{}
	for i := range e.Features {
		columns := columnsOf(e, i)
		for _, c := range columns {
			by[c] += gains[i] / float64(len(columns))
		}
		total += gains[i]
	}
	if total == 0 {
		return nil
	}

	out := make([]judge.Share, 0, len(by))
	for c, g := range by {
		out = append(out, judge.Share{Column: c, Share: g / total})
	}
	slices.SortFunc(out, func(a, b judge.Share) int {
		if a.Share != b.Share {
			if a.Share > b.Share {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Column, b.Column)
	})
	return out
}

// columnsOf returns the columns that a feature is made of.
func columnsOf(e *dataset.Encoding, i int) []string {
	f := &e.Features[i]
	if f.From == nil {
		return []string{f.Name}
	}
	var out []string
	parts := f.From.Of
	if f.From.Table >= 0 {
		parts = e.Tables[f.From.Table].Of
	}

	for _, p := range parts {
		if !slices.Contains(out, p.Column) {
			out = append(out, p.Column)
		}
	}

	return out
}
