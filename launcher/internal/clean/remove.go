package clean

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
)

// Remove removes what Look says may go, and returns it. The registry's remains of deleted versions are left to people.
//
// Any number may run at once, and each may end at any point: the next goes on. Manifests and plans go first, so that
// nobody finds what is incomplete. Then it looks again: a sweep looks for its dataset's manifest after it has written
// its plan, so that of both at least one sees the other, and a dataset that is needed after all gets its manifest back.
// Objects are removed only at the generation that was seen: a staging writes old ones anew.
func Remove(ctx context.Context, q Request) ([]Item, error) {
	gone, err := Look(ctx, q)
	if err != nil {
		return nil, err
	}
	gone = slices.DeleteFunc(gone, func(i Item) bool { return !i.MayGo() || i.Bucket == Registry })
	manifests, err := q.hide(ctx, gone)
	if err != nil {
		return nil, err
	}
	if gone, err = q.lookAgain(ctx, gone, manifests); err != nil || len(gone) == 0 {
		return gone, err
	}
	if err := q.record(ctx, gone); err != nil {
		return nil, err
	}

	for n, i := range gone {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(16)
		for _, o := range i.Objects {
			group.Go(func() error { return q.remove(ctx, i.Bucket, o) })
		}
		if err := group.Wait(); err != nil {
			return gone[:n], err
		}
	}
	return gone, nil
}

// record writes down what is about to be removed, and why it can be.
func (q *Request) record(ctx context.Context, gone []Item) error {
	text, err := json.MarshalIndent(map[string]any{"format": 1, "at": q.Now.UTC(), "nights": q.Nights,
		"promoted": q.Promoted, "items": gone}, "", "  ")
	if err == nil {
		_, err = blob.Create(ctx, q.Datasets, "cleaned/"+q.Now.UTC().Format(time.RFC3339Nano)+".json", text)
	}
	return err
}

// remove removes an object, unless it was written anew.
func (q *Request) remove(ctx context.Context, from string, o blob.Attrs) error {
	s, ok := map[string]blob.Store{Datasets: q.Datasets, Sweeps: q.Sweeps}[from].(blob.Remover)
	if !ok {
		return problem.New(problem.Usage, "the %s bucket does not let objects be removed", from)
	}
	if err := s.Remove(ctx, o.Name, o.Generation); !errors.Is(err, blob.ErrPrecondition) {
		return err
	}
	return nil
}

// hide removes manifests and plans, and returns the manifests by the datasets' names.
func (q *Request) hide(ctx context.Context, gone []Item) (map[string][]byte, error) {
	manifests := map[string][]byte{}
	for _, i := range gone {
		if i.head.Name == "" { // hidden before
			continue
		}
		if i.Bucket == Datasets {
			text, _, err := blob.ReadAll(ctx, q.Datasets, i.head.Name, dataset.MaxManifest)
			if err != nil && !problem.Is(err, problem.Damaged) && !errors.Is(err, blob.ErrNotExist) {
				return nil, err
			}
			manifests[i.Name] = text // none if it is of no use
		}
		if err := q.remove(ctx, i.Bucket, i.head); err != nil {
			return nil, err
		}
	}
	return manifests, nil
}

// lookAgain returns what still may go, and puts the manifests of all else back.
func (q *Request) lookAgain(ctx context.Context, gone []Item, manifests map[string][]byte) ([]Item, error) {
	now, err := Look(ctx, *q)
	still := []Item{}
	for _, i := range gone {
		n := slices.IndexFunc(now, func(o Item) bool { return o.Kind == i.Kind && o.Name == i.Name })
		if err == nil && (n < 0 || now[n].MayGo()) { // without another object it is gone already
			still = append(still, i)
			continue
		}
		if text := manifests[i.Name]; i.Bucket == Datasets && text != nil {
			if _, err := blob.Create(ctx, q.Datasets, i.head.Name, text); err != nil {
				return nil, fmt.Errorf("%s is needed after all: put its manifest back: %w", i.Name, err)
			}
		}
	}
	return still, err
}
