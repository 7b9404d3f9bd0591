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

const mostPlans = 256 // newest sweeps in the bucket to look at

// Earlier returns the results of earlier sweeps of the plan's model that fit its space, newest first: with the same
// metric, from at most sweep.MaxEarlier sweeps, and of each the best sweep.MaxFound. Unreadable sweeps are skipped.
func Earlier(ctx context.Context, bucket blob.Store, p *sweep.Plan) ([]sweep.Earlier, error) {
	ids, err := sweepstore.Newest(ctx, bucket)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id sweep.ID) bool { return id == p.Sweep })

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

// earlierOf returns the results of an earlier sweep; nil if it is of another model, or none of its results fit.
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

	trials, results := sweepstore.NewTrials(bucket, old), map[int]sweep.Result{}
	list, err := trials.List(ctx)
	if err != nil {
		return nil, err
	}
	if err := trials.Results(ctx, list, results, nil); err != nil {
		return nil, err
	}
	if final, ok := old.Final(); ok { // the same score as that of the winner
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

// informing leaves out results that say little about parameters: of trials that did without some columns, which all
// have the same (the first has all columns), and of a population, whose models several configurations have trained.
func informing(p *sweep.Plan, results []sweep.Result) []sweep.Result {
	if p.Breeds() {
		return nil
	}
	if p.Spec.Search.Features == nil {
		return results
	}
	return slices.DeleteFunc(results, func(r sweep.Result) bool { return r.Trial != 0 })
}

// ratedResults returns the results of a sweep's configurations: with folds their means, under the number of their first
// trial.
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
