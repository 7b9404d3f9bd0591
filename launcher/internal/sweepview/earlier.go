package sweepview

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// mostPlans is how many of the newest sweeps in the bucket are looked at.
const mostPlans = 256

// Earlier returns the results of earlier sweeps that a warm start of the plan p can use, the newest sweep first: those
// of the same model, metric and objective whose parameters fit p's space. They come from at most sweep.MaxEarlier
// sweeps, the best sweep.MaxFound of each. Sweeps that cannot be read are skipped.
func Earlier(ctx context.Context, bucket blob.Store, p *sweep.Plan) ([]sweep.Earlier, error) {
	ids, err := sweepstore.Newest(ctx, bucket)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id sweep.ID) bool { return id == p.Sweep })

	// Read several at once, until there are enough.
	var out []sweep.Earlier
	for some := range slices.Chunk(ids[:min(len(ids), mostPlans)], ReadAtOnce) {
		found := make([]*sweep.Earlier, len(some))
		group, ctx := errgroup.WithContext(ctx)
		for i, id := range some {
			group.Go(func() (err error) {
				found[i], err = earlierOf(ctx, bucket, id, p)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}

		for _, e := range found {
			if e != nil && len(out) < sweep.MaxEarlier {
				out = append(out, *e)
			}
		}
		if len(out) == sweep.MaxEarlier {
			break
		}
	}
	return out, nil
}

// earlierOf returns the results of one earlier sweep that fit the plan p. It is nil if the sweep cannot be read, has
// another model, metric or objective, or no such result.
func earlierOf(ctx context.Context, bucket blob.Store, id sweep.ID, p *sweep.Plan) (*sweep.Earlier, error) {
	old, _, err := sweepstore.New(bucket, id).Plan(ctx)
	if problem.Is(err, problem.Damaged) || errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if a, b := &old.Spec, &p.Spec; a.Model != b.Model || a.Metric != b.Metric || a.Objective != b.Objective {
		return nil, nil
	}

	// Its results, without that of the final training, whose score is the winner's.
	trials, results := sweepstore.NewTrials(bucket, old), map[int]sweep.Result{}
	list, err := trials.List(ctx)
	if err != nil {
		return nil, err
	}
	if err := trials.Results(ctx, list, results, nil); err != nil {
		return nil, err
	}
	if final, ok := old.Final(); ok {
		delete(results, final)
	}

	fitting, err := search.Fitting(p, informing(old, ratedResults(old, slices.Collect(maps.Values(results)))),
		sweep.MaxFound)
	if err != nil || len(fitting) == 0 {
		return nil, err
	}
	return &sweep.Earlier{Sweep: id, Dataset: old.Dataset.Name + "@" + old.Dataset.Version, Created: old.Created,
		Trials: fitting}, nil
}

// informing returns the results that say something about parameters. Of a sweep that compares sets of columns that is
// only the first, which has all columns: all its trials have the same parameters otherwise. Of population-based
// training there are none, since several configurations have trained each model.
func informing(p *sweep.Plan, results []sweep.Result) []sweep.Result {
	if p.Breeds() {
		return nil
	}
	if p.Spec.Search.Features == nil {
		return results
	}
	return slices.DeleteFunc(results, func(r sweep.Result) bool { return r.Trial != 0 })
}

// ratedResults returns one result for each configuration of a sweep. Without folds these are the results of the trials.
// With folds each has the mean over the folds and the number of its first trial; configurations with folds missing are
// left out.
func ratedResults(p *sweep.Plan, results []sweep.Result) []sweep.Result {
	if p.Folds == nil {
		return results
	}
	var out []sweep.Result
	for _, c := range sweep.MakeBoard(p, results).Configurations {
		if c.State == sweep.ConfigurationDone {
			out = append(out, sweep.Result{Trial: c.Trials[0], Status: sweep.StatusDone, Params: c.Params,
				Score: *c.Mean})
		}
	}
	return out
}
