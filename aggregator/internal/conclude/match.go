package conclude

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"coppice/aggregator/internal/judge"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// Contract reports, in sentences, what is wrong with a plan's dataset if it must not produce a champion. An error means
// that this cannot be determined now.
type Contract interface {
	Blocked(ctx context.Context, p *sweep.Plan) ([]string, error)
}

// match is everything about the new model that does not depend on the version it is compared with. Tonight's rows are
// the test rows of its dataset.
type match struct {
	a        *Aggregator
	plan     *sweep.Plan
	gate     sweep.Gate
	measure  metric.Metric
	evidence judge.Evidence // without the champion's predictions

	fresh   *scorer.Scorer
	origin  *origin         // of the new model
	origins map[int]*origin // of versions, as far as they have been read
	tonight *dataset.Sample // its rows of the test part
	targets dataset.Targets // of these rows
	prior   []priorVersion  // newest first
	regret  *sweep.Regret   // the champion that was found to be worse than the one before
	warned  string          // what staging found about tonight's labels or repeated rows; empty for nothing
}

// newMatch collects what the gate needs to know of the new model, w, registered as that version: its predictions for
// tonight's rows, made from raw values with its own encoding, what staging found about its dataset, and the versions
// before it. If no version is compared with the new one (skipsComparison), it collects none of these. Rows or a model
// that cannot be used are no error but part of the evidence. An error is one of the store, or a *dataError if this
// build does not know the metric to compare by.
func (a *Aggregator) newMatch(ctx context.Context, p *sweep.Plan, version int, w *winner, h *holdout) (*match, error) {
	m := &match{a: a, plan: p, gate: p.Spec.Gated(), origins: map[int]*origin{}}
	m.evidence = judge.Evidence{Binary: p.Spec.Objective == "binary", Classes: h.manifest.Label.Classes,
		Seed: p.Spec.Seed, Shares: gainShares(w.trees, h.manifest.Encoding())}
	var err, unknown error
	m.measure, unknown = metric.Lookup(m.gate.Metric)
	if a.Contract != nil {
		if m.evidence.Blocked, err = a.Contract.Blocked(ctx, p); err != nil {
			return nil, err
		}
	}
	switch {
	case m.skipsComparison():
		return m, nil
	case unknown != nil:
		return nil, &dataError{unknown}
	}

	m.fresh, err = scorer.New(w.trees, w.calibrator, h.manifest.Encoding(), h.levels)
	if err != nil {
		m.evidence.NotTonight, m.evidence.NotReference = err.Error(), err.Error()
		return m, nil //nolint:nilerr // the error is the evidence
	}

	m.origin = &origin{dataset: p.Dataset.Name + "@" + p.Dataset.Version, manifest: h.manifest,
		refit: p.Folds != nil}
	// Tonight's test rows. The calib rows do not qualify, since the calibrator was fitted to them.
	if r := referenceOf(h, len(h.testRows)); r == nil {
		m.evidence.NotTonight = "the dataset's sample has no row of the test part; stage it again with a larger sample"
	} else if m.evidence.Tonight, err = r.withPredictions(m.fresh); err != nil {
		m.evidence.NotTonight = err.Error()
	} else {
		m.evidence.Tonight.Night = 0 // tonight's
		m.tonight, m.targets, m.origin.prints = r.sample, r.targets, r.prints()
	}

	// What staging found about tonight's table; nil if it has left no record.
	r, err := a.record(ctx, p.Dataset.Name, p.Dataset.Version)
	if err != nil {
		return nil, err
	}
	if r != nil {
		m.origin.profile, m.warned = r.Profile, nights.Doubt(r.Findings)
		// Columns that the model does not use, such as the money of a metric, may know the label.
		m.evidence.Leak = r.Profile.Leak(func(column string) bool {
			return slices.ContainsFunc(m.evidence.Shares, func(s judge.Share) bool {
				return s.Column == column && s.Share > 0
			})
		})
		for _, f := range r.Findings {
			if f.Code == nights.CodeCopiedRows {
				m.evidence.Copied = f.Text
			}
		}
		if by := r.Accepted; by != nil && by.Lasting { // then rows from before say nothing
			m.evidence.NotReference = fmt.Sprintf("%s has accepted a lasting change: %s", by.By, by.Why)
		}
	}

	m.prior, err = a.priorVersions(ctx, p, version)
	for _, v := range m.prior {
		m.evidence.Gains = append(m.evidence.Gains, v.gains...)
	}
	return m, err
}

// skipsComparison reports whether no version is compared with the new one: the gate wants none, or tonight is blocked.
func (m *match) skipsComparison() bool {
	return m.gate.Against == sweep.AgainstNone || len(m.evidence.Blocked) > 0
}

// withPredictions returns the rows with a model's predictions as those of the new model, Judged.New.
func (r *reference) withPredictions(s *scorer.Scorer) (judge.Judged, error) {
	pred, err := predict(s, r.sample)
	return judge.Judged{Night: r.version, New: pred, Label: r.targets.Label, Weight: r.targets.Weight,
		Group: r.targets.Group, Values: r.targets.Values}, err
}

// night holds rows of an earlier night.
type night struct {
	reference
	origin *origin
}

// predict scores a sample's rows, or says which columns are missing.
func predict(s *scorer.Scorer, sample *dataset.Sample) ([]float64, error) {
	var missing []string
	for _, name := range s.Columns() {
		if sample.Column(name) == nil {
			missing = append(missing, strconv.Quote(name))
		}
	}
	if len(missing) > 0 {
		return nil, lacksColumns(missing)
	}
	return s.Sample(sample, runtime.GOMAXPROCS(0))
}

// listedColumns is how many missing columns a reason names: a wide table may lack hundreds.
const listedColumns = 5

// lacksColumns says which columns, quoted, rows do not have: the first few by name, and how many others.
func lacksColumns(names []string) error {
	n := len(names)
	listed := strings.Join(names[:min(n, listedColumns)], ", ")
	if n > listedColumns {
		listed += fmt.Sprintf(" and %d more", n-listedColumns)
	}
	return fmt.Errorf("it needs the %s %s, which %s missing from these rows", english.PluralWord(n, "column", ""),
		listed, english.PluralWord(n, "is", "are"))
}

// rival is a version that the new model is compared with.
type rival struct {
	number int
	*scorer.Scorer
	origin *origin
}

// compareWithChampion returns the evidence, completed with the predictions of version number, the champion, and of the
// latest sound version; number is 0 if there is no champion. vindicated is a version that was held back because its
// night was unlike those before, which tonight's rows show to be right. It is sound from now on; 0 stands for none.
func (m *match) compareWithChampion(ctx context.Context, number int) (e judge.Evidence, vindicated int, err error) {
	e = m.evidence
	e.Champion = number
	if number == 0 || m.skipsComparison() || m.fresh == nil { // fresh is nil for a model that cannot be used
		return e, 0, nil
	}

	// A version whose record or files are damaged or missing can never be compared; a storage error is returned and
	// retried.
	champion, err := m.openRival(ctx, number)
	if isUnusable(err) {
		e.NotTonight, e.NotReference = err.Error(), err.Error()
		return e, 0, nil
	}
	if err != nil {
		return e, 0, err
	}
	defer champion.Close()

	// On tonight's rows. latest stays the champion if no sound version is newer.
	latest := champion
	if e.NotTonight == "" {
		predictions, missing := predict(champion.Scorer, m.tonight)
		if e.Tonight.Old = predictions; missing != nil {
			e.NotTonight = fmt.Sprintf("version %d cannot score them: %v", number, missing)
		} else {
			latest, vindicated, err = m.latestSound(ctx, champion, &e.Tonight)
		}
	}
	if latest != champion {
		defer latest.Close()
		e.Latest = latest.number
	}

	// On those of earlier nights, unless a person has said that they are no measure any more.
	if err == nil && e.NotReference == "" {
		err = m.compareOnEarlierNights(ctx, &e, champion, latest)
	}
	return e, vindicated, err
}

// latestSound returns the newest version that nothing is known to be wrong with: the champion, or a later one, whose
// predictions it then puts into tonight.Last. The caller closes it, also after an error.
//
// The version of the night before may have been held back because its night was unlike those before. If it predicts
// tonight's labels better than the latest sound version does, the change lasts. Then that version is the latest sound
// one, and its number is also returned as vindicated, which is 0 otherwise. Versions that cannot be used are passed
// over; err is one of the store.
func (m *match) latestSound(ctx context.Context, champion *rival, tonight *judge.Judged) (latest *rival,
	vindicated int, err error) {
	// A sound version after the champion.
	latest = champion
	newer := func(v priorVersion) bool { return v.standing == sound && v.Number > champion.number }
	if i := slices.IndexFunc(m.prior, newer); i >= 0 {
		r, predictions, err := m.openOnTonight(ctx, m.prior[i].Number)
		if err != nil {
			return champion, 0, err
		}
		if r != nil {
			latest, tonight.Last = r, predictions
		}
	}
	// m.prior has the newest version first. Only if that was held back can it be vindicated.
	if len(m.prior) == 0 || m.prior[0].standing != suspect || m.prior[0].Number < latest.number {
		return latest, 0, nil
	}

	// Last night's version, if it was held back: is it better than the latest sound one?
	heldBack, predictions, err := m.openOnTonight(ctx, m.prior[0].Number)
	if err != nil || heldBack == nil {
		return latest, 0, err
	}
	rows := *tonight // a copy, since Better compares New with Old: the version held back with the latest sound one
	rows.New = predictions
	if rows.Last != nil {
		rows.Old = rows.Last
	}
	if !judge.Better(m.gate, m.measure, rows) {
		heldBack.Close()
		return latest, 0, nil
	}
	if latest != champion {
		latest.Close()
	}
	tonight.Last = predictions
	return heldBack, heldBack.number, nil
}

// openOnTonight opens a version, which the caller closes, and returns its predictions for tonight's rows. Both are
// nil if the version cannot be used, or needs columns that have changed since.
func (m *match) openOnTonight(ctx context.Context, number int) (*rival, []float64, error) {
	r, err := m.openRival(ctx, number)
	if isUnusable(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	predictions, err := predict(r.Scorer, m.tonight)
	if err != nil {
		r.Close()
		return nil, nil, nil //nolint:nilerr // columns have changed
	}
	return r, predictions, nil
}

// compareOnEarlierNights adds to the evidence the rows of earlier nights that neither the new model nor the latest
// sound version was trained on, with their predictions. If there are none, NotReference says why.
func (m *match) compareOnEarlierNights(ctx context.Context, e *judge.Evidence, champion, latest *rival) error {
	// The nights of sound versions, and that of the latest: one that was vindicated just now has not got that standing.
	var usable []priorVersion
	for _, v := range m.prior {
		if v.standing == sound || v.Number == latest.number {
			v.beganChange = v.beganChange || v.standing == suspect // vindicated: its night began a lasting change
			usable = append(usable, v)
		}
	}
	found, note, err := m.earlierNights(ctx, usable)
	if err != nil {
		return err
	}
	for _, n := range found {
		rows, why := m.compareOnNight(n, champion, latest)
		if why != "" {
			note = why
			continue
		}
		e.Earlier = append(e.Earlier, rows)
	}
	if len(e.Earlier) == 0 {
		e.NotReference = note
	}
	return nil
}

// compareOnNight returns a night's rows with the predictions of the new model and of the latest sound version, or why
// the two cannot be compared there. The champion's are added if it can be compared, too.
func (m *match) compareOnNight(n night, champion, latest *rival) (rows judge.Judged, why string) {
	if o := n.origin; o.manifest != nil && !slices.Equal(o.manifest.Label.Classes, m.fresh.Encoding.Classes) {
		return rows, fmt.Sprintf("the rows of version %d have the classes %q", n.version, o.manifest.Label.Classes)
	}
	rows, err := n.withPredictions(m.fresh)
	if err != nil {
		return rows, fmt.Sprintf("the new model cannot score those of version %d: %v", n.version, err)
	}
	if !n.origin.unseenBy(latest.origin) {
		return rows, fmt.Sprintf("version %d may have been trained on the rows of version %d", latest.number, n.version)
	}
	predictions, err := predict(latest.Scorer, n.sample)
	if err != nil {
		return rows, fmt.Sprintf("version %d cannot score those of version %d: %v", latest.number, n.version, err)
	}
	if latest == champion {
		rows.Old = predictions
		return rows, ""
	}

	// min_gain asks for a gain over the champion, too. It may have seen these rows, or not be able to score them; then
	// rows.Old stays nil, and min_gain does without this night.
	rows.Last = predictions
	if n.origin.unseenBy(champion.origin) {
		rows.Old, _ = predict(champion.Scorer, n.sample)
	}
	return rows, ""
}

// openRival opens a version to compare with; the caller closes it. Of a version with a final model, it is the judged
// one, which has not seen test rows. It also reads the version's origin and the hashes of its test rows. The error is
// of the kind NotFound if the version predicts other classes than the new model.
func (m *match) openRival(ctx context.Context, number int) (*rival, error) {
	v, err := m.a.Registry.Get(ctx, m.plan.Spec.Model, strconv.Itoa(number))
	if err != nil {
		return nil, err
	}
	o, err := m.originOf(ctx, v)
	if err != nil {
		return nil, err
	}
	if o != nil {
		if _, err := m.rowsOf(ctx, v, o); err != nil {
			return nil, err
		}
	}
	s, err := scorer.OpenJudged(ctx, m.a.Registry, v)
	if err != nil {
		return nil, err
	}
	if here := m.fresh.Encoding.Classes; !slices.Equal(s.Encoding.Classes, here) {
		s.Close()
		return nil, problem.New(problem.NotFound, "version %d predicts %s, the new one %s: give the new model another "+
			"name", number, describePrediction(s.Encoding.Classes), describePrediction(here))
	}
	return &rival{number: number, Scorer: s, origin: o}, nil
}

// describePrediction says what a version predicts: classes, by name, or a number if there are none.
func describePrediction(classes []string) string {
	if len(classes) == 0 {
		return "a number"
	}
	return "the classes " + strings.Join(classes, ", ")
}

// firstTrees is the number of trees whose gain counts for the shares. If one column tells nearly everything, later
// trees fit the remainder on rows that are all but certain, with gains of any size: over all trees a planted leak had a
// quarter of the gain on one table, but 0.99 in the first ten.
const firstTrees = 10

// gainShares returns the columns' shares of the gain of the model's first trees, in descending order. The gain of a
// feature made of several columns is split evenly between them. It is nil if no tree has a split.
func gainShares(m *gbt.Model, e *dataset.Encoding) []judge.Share {
	gains := make([]float64, m.Features())
	for _, t := range m.Trees[:min(firstTrees*m.Outputs(), len(m.Trees))] { // of several classes, as many of each
		for i, f := range t.Feature {
			gains[f] += t.Gain[i]
		}
	}

	total, by := 0.0, map[string]float64{}
	for i := range e.Features {
		columns := e.ColumnsOf(i)
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
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Column, b.Column))
	})
	return out
}
