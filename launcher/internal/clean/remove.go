package clean

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/problem"
)

// Remove removes what Look says may go, and returns it. The registry's remains of deleted versions are left to people.
//
// Any number may run at once, and each may end at any point: the next goes on. Manifests and plans go first, so that
// nobody finds what is incomplete. Who uses a dataset renews its manifest before, and all is removed only at the
// generation that was seen: one of the two is the first, and the other sees it. So nothing ever has to be put back.
func Remove(ctx context.Context, q Request) ([]Item, error) {
	gone, err := Look(ctx, q)
	gone = slices.DeleteFunc(gone, func(i Item) bool { return !i.MayGo() || i.Bucket == Registry })
	if err != nil || len(gone) == 0 {
		return []Item{}, err
	}
	if err := q.record(ctx, gone); err != nil { // while the plans can be read
		return []Item{}, err
	}
	for n, i := range gone {
		if i.head.Name == "" {
			continue // it was removed before
		}
		err := q.remove(ctx, i.Bucket, i.head)
		if errors.Is(err, blob.ErrPrecondition) {
			gone[n].HeldBy = []string{"used meanwhile"}
		} else if err != nil {
			return []Item{}, err
		}
	}
	gone = slices.DeleteFunc(gone, func(i Item) bool { return !i.MayGo() })
	now, err := Look(ctx, q) // a version may have been promoted
	if err != nil {
		return []Item{}, err
	}
	gone = without(gone, now)

	for n, i := range gone {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(16)
		for _, o := range i.Objects {
			group.Go(func() error {
				err := q.remove(ctx, i.Bucket, o)
				if errors.Is(err, blob.ErrPrecondition) { // staged anew
					return nil
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return gone[:n], err
		}
	}
	return gone, nil
}

// record writes down what is about to be removed unless it is used meanwhile, and why it can be.
func (q *Request) record(ctx context.Context, gone []Item) error {
	text, err := json.MarshalIndent(map[string]any{"format": 1, "at": q.Now.UTC(), "nights": q.Nights,
		"promoted": q.Promoted, "items": gone}, "", "  ")
	if err == nil {
		_, err = blob.Create(ctx, q.Datasets, "cleaned/"+q.Now.UTC().Format(time.RFC3339Nano)+".json", text)
	}
	return err
}

// remove removes an object at the generation that was seen.
func (q *Request) remove(ctx context.Context, from string, o blob.Attrs) error {
	s, ok := map[string]blob.Store{Datasets: q.Datasets, Sweeps: q.Sweeps}[from].(blob.Remover)
	if !ok {
		return problem.New(problem.Usage, "the %s bucket does not let objects be removed", from)
	}
	return s.Remove(ctx, o.Name, o.Generation)
}

// without returns what may go, and still may, without the objects that are needed now: the trial of a version that
// has been promoted since was of no use to the rest of its sweep.
func without(gone, now []Item) (still []Item) {
	held, whole := map[string]bool{}, map[string]bool{}
	for _, i := range now {
		whole[i.Kind+" "+i.Name] = !i.MayGo()
		for _, o := range i.Objects {
			held[i.Bucket+" "+o.Name] = !i.MayGo()
		}
	}
	for _, i := range gone {
		if !whole[i.Kind+" "+i.Name] {
			all := i.Objects
			i.Objects, i.Bytes = nil, 0
			i.add(slices.DeleteFunc(all, func(o blob.Attrs) bool { return held[i.Bucket+" "+o.Name] })...)
			still = append(still, i)
		}
	}
	return still
}
