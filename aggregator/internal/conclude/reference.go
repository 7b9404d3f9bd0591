package conclude

import (
	"context"
	"fmt"
	"iter"

	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// A version keeps some of its test rows, raw and with that night's labels. Later nights compare models on them:
// whatever happens to a later night's labels, these stay as they were.

// maxReference bounds the rows that a version keeps.
const maxReference = 20_000

// mostChampions bounds the champions that are asked for rows: of years of them, none may have rows that can be used.
const mostChampions = 2 * sweep.MaxReferenceNights

// reference holds rows of one night.
type reference struct {
	version int // the version that keeps them
	sample  *dataset.Sample
	targets dataset.Targets
}

// referenceOf takes up to most rows, evenly spread, of the holdout's test part that are in its sample. It is nil if
// there are none.
func referenceOf(h *holdout, most int) *reference {
	places := h.testRows
	if len(places) == 0 {
		return nil
	}
	rows, parts := make([]int, min(len(places), most)), make([]uint32, min(len(places), most))
	for i := range rows {
		p := places[i*len(places)/len(rows)]
		rows[i], parts[i] = p.sample, uint32(p.part)
	}
	return &reference{sample: h.sample.Select(rows), targets: h.test.Pick(parts)}
}

// encode writes the reference in the form that a version keeps.
func (r *reference) encode() ([]byte, error) {
	return (&scorer.Reference{Sample: r.sample, Targets: r.targets}).Encode()
}

// references returns the rows of earlier nights that recent champions keep, except this version and those that were
// rolled back, whose night may have been a bad one. note says why there are none.
func (a *Aggregator) references(ctx context.Context, p *sweep.Plan, self int, g *sweep.GateReference) (out []reference,
	note string, err error) {
	if *g.Nights == 0 {
		return nil, "the gate uses none", nil
	}
	tonight := p.Dataset.Name + "@" + p.Dataset.Version
	earlier := 0
	for number, err := range lastChampions(a.Registry.Moves(ctx, p.Spec.Model, registry.Champion), self) {
		if err != nil {
			return nil, "", err
		}
		if earlier++; note == "" {
			note = "the earlier champions have no usable rows"
		}
		r, of, err := a.reference(ctx, p.Spec.Model, number)
		switch {
		case err != nil:
			return nil, "", err
		case of == tonight:
			note = fmt.Sprintf("version %d was tested on the rows of tonight's dataset", number)
		case r != nil:
			out = append(out, *r)
		}
		if len(out) == *g.Nights || earlier == mostChampions {
			break
		}
	}
	if earlier == 0 {
		return nil, "no earlier version has been the champion", nil
	}
	for i := range out {
		out[i] = out[i].thinned(g.Rows / len(out))
	}
	return out, note, nil
}

// lastChampions yields the versions that have been the champion, latest first, except version but and those that were
// rolled back. moves are the champion's, latest first; those that cannot be read are passed over.
func lastChampions(moves iter.Seq2[registry.Event, error], but int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		done := map[int]bool{0: true, but: true} // yielded before, or not to be
		for e, err := range moves {
			if isCorrupt(err) {
				continue
			}
			if err != nil {
				yield(0, err)
				return
			}
			if !done[e.To] && !yield(e.To, nil) {
				return
			}
			done[e.To] = true
			if e.To < e.From {
				done[e.From] = true
			}
		}
	}
}

// reference reads the rows that a version keeps; nil if it has none that can be used. of is the dataset they come from.
func (a *Aggregator) reference(ctx context.Context, model string, number int) (r *reference, of string, err error) {
	v, err := a.Registry.Get(ctx, model, fmt.Sprint(number))
	if err == nil {
		of = v.Info.Labels["dataset"]
		if _, ok := v.File(scorer.FileReference); !ok { // none of its test rows was in the sample
			return nil, of, nil
		}
		var data []byte
		if data, err = a.Registry.ReadFile(ctx, v, scorer.FileReference); err == nil {
			var rows *scorer.Reference
			if rows, err = scorer.DecodeReference(data); err == nil {
				return &reference{version: number, sample: rows.Sample, targets: rows.Targets}, of, nil
			}
			err = registry.Damaged(scorer.FileReference, err)
		}
	}
	if !isUnusable(err) {
		return nil, "", err
	}
	a.Log.Warn("a version's reference rows cannot be used", "model", model, "version", number, "error", err.Error())
	return nil, of, nil
}

// isUnusable reports whether an error is about something in the registry that is damaged or missing.
func isUnusable(err error) bool {
	return isCorrupt(err) || problem.Is(err, problem.NotFound)
}

// thinned returns at most most of the rows, evenly spread.
func (r *reference) thinned(most int) reference {
	n := len(r.sample.Row)
	if n <= most {
		return *r
	}
	rows, parts := make([]int, most), make([]uint32, most)
	for i := range rows {
		rows[i] = i * n / most
		parts[i] = uint32(rows[i])
	}
	return reference{r.version, r.sample.Select(rows), r.targets.Pick(parts)}
}
