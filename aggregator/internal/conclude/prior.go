package conclude

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"coppice/aggregator/internal/judge"
	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// maxPrior bounds the versions, and the changes of the champion, that the gate looks at. Without it, the search would
// go through years of versions of a model none of which can be used.
const maxPrior = 2 * sweep.MaxReferenceNights

// standing is what is known of an earlier version. New versions are compared with sound ones only.
type standing int

const (
	unproven standing = iota // it has not been the champion, or was rolled back
	suspect                  // held back for what its own night showed, which a later night may confirm
	sound                    // nothing is known to be wrong with it
)

// priorVersion is a version that was registered before the one that is judged. Its night is the dataset that it was
// trained and judged on.
type priorVersion struct {
	registry.Version
	standing standing
	// beganChange says that its night began a change that lasts: nights before it say little of what is usual.
	beganChange bool
	regrets     int       // the champion that its night showed to be worse than its predecessor, but kept; 0 for none
	gains       []float64 // see judge.Gains
}

// priorVersions returns the versions before version self, newest first, without those that are deleted, marked bad,
// cannot be read or were tested on tonight's dataset. It ends once it has MaxReferenceNights+1 sound ones, or has
// looked at maxPrior versions.
func (a *Aggregator) priorVersions(ctx context.Context, p *sweep.Plan, self int) (prior []priorVersion, err error) {
	champions, err := a.championsOf(ctx, p.Spec.Model)
	if err != nil {
		return nil, err
	}

	// A version's decision may have proved an older one right (Vindicated), so newer versions must be read first.
	beganChange, soundOnes := map[int]bool{}, 0
	for n := self - 1; n > max(0, self-1-maxPrior) && soundOnes <= sweep.MaxReferenceNights; n-- {
		v, err := a.usableVersion(ctx, p.Spec.Model, n)
		if err != nil {
			return nil, err
		}
		if v == nil || v.Info.Labels["dataset"] == p.Dataset.Name+"@"+p.Dataset.Version {
			continue
		}
		one := priorVersion{Version: *v, beganChange: beganChange[n]}

		// What the gate found when the version was new. If that cannot be read, only the history of champions can show
		// that the version is sound.
		c, err := a.sweep(sweep.ID(v.Info.Labels["sweep"])).Conclusion(ctx)
		var gate sweep.GateDecision
		switch {
		case problem.Is(err, problem.Damaged):
		case err != nil:
			return nil, err
		case c != nil && c.Gate != nil:
			gate = *c.Gate
			one.gains = judge.Gains(c.Gate)
			beganChange[gate.Vindicated] = true
			if r := gate.Regret; r != nil && !r.TakenBack {
				one.regrets = r.Version
			}
		}

		switch {
		case champions[n] == rolledBack: // it stays unproven, whatever the gate found
		case champions[n] == wasChampion || one.beganChange || gate.Sound:
			one.standing = sound
			soundOnes++
		case len(gate.Checks) > 0:
			one.standing = suspect
		}
		prior = append(prior, one)
	}
	return prior, nil
}

// usableVersion reads a version's record; nil, without an error, if it is marked bad, deleted or damaged. The version's
// files are not read.
func (a *Aggregator) usableVersion(ctx context.Context, model string, n int) (*registry.Version, error) {
	v, err := a.Registry.Get(ctx, model, strconv.Itoa(n))
	if err == nil {
		var remarks registry.Remarks
		if remarks, err = a.Registry.Remarks(ctx, model, n); err == nil {
			if _, bad := remarks.Bad(); bad {
				return nil, nil
			}
		}
	}
	if isUnusable(err) {
		return nil, nil
	}
	return &v, err
}

// reign is what became of a version as champion.
type reign int

const (
	wasChampion reign = iota + 1
	rolledBack        // and has not come back since: it had a bad night
)

// championsOf returns the versions that the last maxPrior changes of a model's champion name, and what became of each:
// it was the champion, or it was rolled back and has not been champion since. Damaged records are skipped.
func (a *Aggregator) championsOf(ctx context.Context, model string) (map[int]reign, error) {
	reigns, looked := map[int]reign{}, 0
	for move, err := range a.Registry.Moves(ctx, model, registry.Champion) {
		if problem.Is(err, problem.Damaged) {
			continue
		}
		if err != nil {
			return nil, err
		}

		// Moves come newest first, so that the first one that names a version decides. A move to an older version is a
		// rollback. Of any other move, only the version to which it leads is noted here; the one it leaves has a move
		// to it further back.
		if move.To < move.From && reigns[move.From] != wasChampion {
			reigns[move.From] = rolledBack
		}
		if reigns[move.To] != rolledBack {
			reigns[move.To] = wasChampion
		}
		looked++
		if looked == maxPrior {
			break
		}
	}
	return reigns, nil
}

// origin is what is known of the rows that a model was trained on.
type origin struct {
	dataset  string
	manifest *dataset.Manifest
	profile  *nights.Profile // nil if staging kept no record of the night
	prints   prints          // of its test rows; nil before they are read, and if none can be used
	grown    bool            // its plan cannot be read: it may continue an older model, which has seen other rows
	refit    bool            // on valid, too, after a cross-validation
	changed  bool            // a person has accepted that the night began a change that lasts
}

// originOf returns a version's origin: what its manifest, its plan and the record of its night say. It reads them
// once, and keeps the result in m.origins. It is nil if the version has no usable manifest of its dataset. Errors are
// those of the store.
func (m *match) originOf(ctx context.Context, v registry.Version) (*origin, error) {
	if o, known := m.origins[v.Number]; known {
		return o, nil
	}
	m.origins[v.Number] = nil // what a later call gets after each return below without an origin
	text, err := m.a.Registry.ReadFile(ctx, v, scorer.FileDataset)
	if isUnusable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	manifest, err := dataset.DecodeManifest(text)
	if err != nil {
		return nil, nil //nolint:nilerr // then it is not known
	}

	// From the plan, on which rows it was trained. One that cannot be decoded is taken for the worst case.
	o := &origin{dataset: v.Info.Labels["dataset"], manifest: manifest}
	if text, err = m.a.Registry.ReadFile(ctx, v, scorer.FilePlan); err == nil {
		p, err := sweep.DecodePlan(text)
		o.grown = err != nil
		o.refit = err != nil || p.Folds != nil
	} else if !isUnusable(err) {
		return nil, err
	}

	r, err := m.a.record(ctx, manifest.Name, manifest.Version)
	if err != nil {
		return nil, err
	}
	if r != nil {
		o.profile = r.Profile
		o.changed = r.Accepted != nil && r.Accepted.Lasting
	}
	m.origins[v.Number] = o
	return o, nil
}

// rowsOf reads the test rows that a version keeps, and sets o.prints, their hashes, if they are not set yet. It is nil
// if there are no rows that can be used.
func (m *match) rowsOf(ctx context.Context, v registry.Version, o *origin) (*reference, error) {
	rows, err := m.a.readReference(ctx, v)
	if rows != nil && o.prints == nil {
		o.prints = rows.prints()
	}
	return rows, err
}

// record reads what staging recorded of a night, the dataset called name in that version. It is nil, without an error,
// if there is no record or it is damaged.
func (a *Aggregator) record(ctx context.Context, name, version string) (*nights.Record, error) {
	text, _, err := blob.ReadAll(ctx, a.Datasets, sweep.DatasetNight(name, version), nights.MaxRecord)
	if errors.Is(err, blob.ErrNotExist) || problem.Is(err, problem.Damaged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := nights.DecodeRecord(text, name, version)
	if err != nil {
		return nil, nil //nolint:nilerr // the gate reports damaged records of tonight; an old one only says nothing
	}
	return r, nil
}

// sameRows is the largest share of common rows that two tables have by chance.
const sameRows = 0.002

// sight says whether a model was trained on another night's test rows.
type sight int

const (
	untold  sight = iota // not known: the rows' hashes have to be compared
	notSeen              // no model of that origin was trained on them
	maySee               // one may have been
)

// unseenBy reports whether it is certain that no model of the origin model was trained on the test rows of o. Where the
// windows of two nights overlap, last night's test rows may be rows that tonight's model was trained on, and would
// flatter it. If sightOf cannot tell, both nights' rows are split at random and their hashes are compared. Without the
// model's profile, or without hashes, it is not certain.
func (o *origin) unseenBy(model *origin) bool {
	if known := o.sightOf(model); known != untold {
		return known == notSeen
	}
	if model.profile == nil {
		return false
	}

	// If the model's night had the rows of o, a share testPart of them would be in its own kept test rows, and most
	// others in train; prints[""] has a hash for each kept row. It is certain that train has none of them in two cases.
	// Either none is among the test rows, where chance (least) cannot hide as many as testPart. Or nearly all are among
	// the test rows, and a row is in one split only.
	testPart := float64(len(model.prints[""])) / float64(model.profile.Rows)
	share, least := o.prints.sharedBy(model.prints)
	noneInTest := share == 0 && least < testPart
	return noneInTest || share > maxShared
}

// sightOf returns what is known of a model and the test rows of o without looking at these rows: from datasets, times,
// hashes of whole tables, and how rows were split. An origin that is nil is not known, so that the model may have
// seen the rows. So may one that perhaps continues an older model (grown), which has seen other nights.
func (o *origin) sightOf(model *origin) sight {
	switch {
	case o == nil || model == nil:
		return maySee
	case o.dataset == model.dataset:
		return notSeen
	}

	// By what staging recorded: times that do not overlap, or tables with no row in common. same says that the hashes
	// of whole rows could have told, as of tables with the same columns, or that there are no records to ask.
	test, train, same := o.profile, model.profile, true
	if test != nil && train != nil {
		if !train.Newest.IsZero() && test.Oldest.After(train.Newest) {
			return notSeen
		}
		// Staging's hashes are of all columns of a row.
		same = slices.EqualFunc(test.Columns, train.Columns, func(a, b nights.Column) bool { return a.Name == b.Name })
		if !model.grown && (!test.Newest.IsZero() && test.Newest.Before(train.Oldest) ||
			same && test.Overlap(train) < sameRows) {
			return notSeen
		}
	}

	// By the splits of the two tables.
	a, b := &o.manifest.Split, &model.manifest.Split
	switch {
	case a.By == dataset.SplitByTime && b.By == dataset.SplitByTime && a.Column == b.Column:
		trained := b.Until[dataset.TrainSplit] // the latest time of a row that the model was trained on
		if model.refit {
			trained = max(trained, b.Until[dataset.ValidSplit])
		}
		if o.begins() >= trained {
			return notSeen
		}
		return maySee
	case (a.By == dataset.SplitByHash || a.By == dataset.SplitByColumn) && reflect.DeepEqual(a, b):
		return notSeen // a row is always in the same split
	case same || model.grown || b.By == dataset.SplitByTime || b.By == dataset.SplitByColumn:
		return maySee
	}
	return untold
}

// begins returns when the test rows of a split by time begin, in seconds since 1970: no earlier than the last row of
// any other split, of which Until has the latest times.
func (o *origin) begins() (at float64) {
	for _, until := range o.manifest.Split.Until {
		at = max(at, until)
	}
	return at
}

// maxShared is the largest share of a night's test rows that may also be a newer night's. With a smaller one, fewer
// nights were compared, and more broken ones passed.
const maxShared = 0.9

// sharesTestRows reports whether more than maxShared of a night's test rows are also a newer night's test rows.
// Windows of two nights differ by a day: with 180 days, seven nights in a row have nearly the same test rows. What
// chance says about these rows would then count seven times. The same table, staged with other columns, has the same
// test rows, too.
func (o *origin) sharesTestRows(newer *origin) bool {
	if share, _ := o.prints.sharedBy(newer.prints); share > maxShared {
		return true
	}

	// Split by the same time, both test parts are known without their rows. Of other tables only one and the same is
	// known to have the same.
	a, b := &o.manifest.Split, &newer.manifest.Split
	if o.profile == nil || a.By != dataset.SplitByTime || b.By != a.By || b.Column != a.Column {
		return o.dataset == newer.dataset
	}
	end := o.profile.Newest
	if u := o.manifest.About.Unripe; u != nil && u.Until.Before(end) { // later rows are left out
		end = u.Until
	}
	ends := float64(end.UnixMicro()) / 1e6
	return ends-newer.begins() > maxShared*(ends-o.begins())
}

// Limits of stillSeen.
const (
	leastGone   = 20  // rows of a level from which its absence tonight is no chance
	mostGone    = 0.2 // largest share of rows with such levels, in one column or in all
	goneColumns = 100 // the first columns, which are looked at
)

// stillSeen returns the rows of an earlier night, by their indices, none of whose levels is gone. A level is gone if it
// had leastGone rows or more and does not occur tonight, such as a campaign that has ended; rarer ones may be absent by
// chance. Tonight's model cannot know such levels, so that rows with them say nothing of it.
//
// A column in which more than mostGone of the rows have a level that is gone has other levels each night, as a date
// has, and is not looked at. If all columns together would leave out more than mostGone of the rows, something else has
// happened, and all rows are returned.
func stillSeen(then, tonight *dataset.Sample) []int {
	gone := make([]bool, len(then.Row))
	for k, name := range then.Names[:min(len(then.Names), goneColumns)] {
		now := tonight.Column(name)
		if now == nil {
			continue
		}

		// Which levels occur tonight, and how many rows have each on the earlier night.
		seen, levels := map[string]bool{}, map[string]int{}
		for i := range tonight.Row {
			seen[now.TextOf(i)] = true
		}
		for i := range then.Row {
			levels[then.Columns[k].TextOf(i)]++
		}

		// Leave in levels only those that are gone, and count their rows.
		lost := 0
		for level, rows := range levels {
			if rows < leastGone || seen[level] {
				delete(levels, level)
			} else {
				lost += rows
			}
		}
		if float64(lost) > mostGone*float64(len(then.Row)) {
			continue
		}
		for i := range then.Row {
			gone[i] = gone[i] || levels[then.Columns[k].TextOf(i)] > 0
		}
	}

	still := len(slices.DeleteFunc(slices.Clone(gone), func(isGone bool) bool { return isGone }))
	var rows []int
	for i := range gone {
		if !gone[i] || float64(still) < (1-mostGone)*float64(len(gone)) {
			rows = append(rows, i)
		}
	}
	return rows
}

// maxEarlierRows bounds the rows of all earlier nights together.
const maxEarlierRows = 50_000

// earlierNights returns the rows of earlier nights on which the new model is compared, newest night first: at most as
// many nights as the gate wants, whose rows it was not trained on, and with different test rows. sound are the versions
// whose nights may be used, newest first; nights before a lasting change are not used. note is a sentence for people
// about why there may be no night: it is also set if some are found. err is one of the store.
func (m *match) earlierNights(ctx context.Context, sound []priorVersion) (found []night, note string, err error) {
	wanted := *m.gate.Reference // the spec's or, from Gated, the default
	if wanted == 0 {
		return nil, "the gate uses none", nil
	}
	note = "there is no earlier version without faults"
	if len(sound) > 0 {
		note = "the earlier versions have no usable rows"
	}

	for _, v := range sound {
		o, err := m.originOf(ctx, v.Version)
		if err != nil {
			return nil, "", err
		}
		// same says that a newer night has the same test rows, with all columns that the new model needs.
		same := func(n night) bool {
			return o.sharesTestRows(n.origin) && !slices.ContainsFunc(m.fresh.Columns(), func(name string) bool {
				return n.sample.Column(name) == nil
			})
		}

		// Rows are read only where the model may turn out not to have seen them. That also sets o.prints, by which
		// unseenBy decides where sightOf cannot tell. An o that is nil, not known, may have been seen.
		var rows *reference
		if o.sightOf(m.origin) != maySee {
			if rows, err = m.rowsOf(ctx, v.Version, o); err != nil {
				return nil, "", err
			}
		}
		if !o.unseenBy(m.origin) {
			note = fmt.Sprintf("the new model may have been trained on the rows of version %d", v.Number)
		} else if rows != nil && !slices.ContainsFunc(found, same) {
			found = append(found, night{reference: *rows, origin: o})
		}
		// Nights before a change that lasts are not like tonight.
		if len(found) == wanted || v.beganChange || o != nil && o.changed {
			break
		}
	}

	// Each night gets an equal part of the rows. Of these, only those whose levels tonight's model can know are used.
	for i := range found {
		n := &found[i]
		n.reference = n.thinRows(maxEarlierRows / len(found))
		if m.tonight != nil {
			n.reference = n.selectRows(stillSeen(n.sample, m.tonight))
		}
	}
	return slices.DeleteFunc(found, func(n night) bool { return len(n.sample.Row) == 0 }), note, nil
}
