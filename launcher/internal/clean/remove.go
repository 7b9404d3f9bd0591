package clean

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

const undoLimit = 10 * time.Minute // to put back what is needed, when it is interrupted

// Remove removes what Look says may go, and returns it. The registry's remains of deleted versions are left to people.
// A run removes only if one with such numbers listed at least Notice ago, and none since has kept more nights or moves;
// otherwise it only writes down what would go.
//
// Any number may run at once, and each may end at any point: the next goes on. Manifests and plans go first, so that
// nobody finds what is incomplete. Who uses a dataset renews its manifest before, and all is removed only at the
// generation that was seen: one of the two is the first, and the other sees it. Who does not, such as an aggregator
// that promotes, is seen by the second look, even when interrupted: its dataset's manifest comes back.
func Remove(ctx context.Context, q Request) ([]Item, error) {
	gone, err := Look(ctx, q)
	gone = slices.DeleteFunc(gone, func(i Item) bool { return !i.MayGo() || i.Bucket == Registry })
	if err != nil || len(gone) == 0 {
		return []Item{}, err
	}
	listed, err := q.record(ctx, gone) // while the plans can be read
	if err != nil {
		return []Item{}, err
	}
	if !listed {
		return gone, nil
	}
	hidden, hideErr := q.hideItems(ctx, gone)
	gone = slices.DeleteFunc(gone, func(i Item) bool { return !i.MayGo() })
	safe, stop := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer stop()
	now, err := Look(safe, q) // a version may have been promoted
	err = errors.Join(cmp.Or(hideErr, ctx.Err()), err, q.putBack(safe, hidden, now, err == nil))
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
		gone[n].Removed = true
	}
	return gone, nil
}

// hideItems removes manifests and plans, and returns the manifests by NAME@VERSION. What is used meanwhile is held.
func (q *Request) hideItems(ctx context.Context, gone []Item) (hidden map[string][]byte, err error) {
	hidden = map[string][]byte{}
	for n, i := range gone {
		if i.head.Name == "" {
			continue // it was removed before
		}
		var text []byte
		if i.Bucket == Datasets {
			text, _, err = blob.ReadAll(ctx, q.Datasets, i.head.Name, dataset.MaxManifest)
			if err != nil && !errors.Is(err, blob.ErrNotExist) && !problem.Is(err, problem.Damaged) {
				return hidden, err
			}
		}
		switch err := q.remove(ctx, i.Bucket, i.head); {
		case errors.Is(err, blob.ErrPrecondition):
			gone[n].HeldBy = []string{"used meanwhile"}
		case err != nil:
			return hidden, err
		case text != nil:
			hidden[i.Name] = text
		}
	}
	return hidden, nil
}

// putBack restores the manifests of datasets that are needed now; of all, if that is not known. One without another
// object has been removed by another run, and its manifest stays away.
func (q *Request) putBack(ctx context.Context, hidden map[string][]byte, now []Item, known bool) (err error) {
	for ref, text := range hidden {
		n := slices.IndexFunc(now, func(i Item) bool { return i.Kind == "dataset" && i.Name == ref })
		if known && (n < 0 || now[n].MayGo()) {
			continue
		}
		name, version, _ := strings.Cut(ref, "@")
		to := sweep.DatasetDir(name, version) + dataset.ManifestFile
		_, putErr := q.Datasets.Put(ctx, to, blob.Absent, bytes.NewReader(text))
		if putErr != nil && !errors.Is(putErr, blob.ErrPrecondition) {
			err = errors.Join(err, fmt.Errorf("%s is needed after all: put its manifest back: %w", ref, putErr))
		}
	}
	return err
}

// recorded is an item as it is written down.
type recorded struct {
	Item
	Plan *sweep.Plan `json:"plan,omitempty"`
}

// record writes down what is about to be removed unless it is used meanwhile, and why it can be; and whether it was
// listed long enough ago, by runs that kept no more than this one.
func (q *Request) record(ctx context.Context, gone []Item) (listed bool, err error) {
	var before []string // the newest listing that is old enough, and those since
	for a, err := range q.Datasets.List(ctx, "cleaned/") {
		if err != nil {
			return false, err
		}
		at, err := time.Parse("cleaned/"+time.RFC3339Nano+".json", a.Name)
		if err == nil && q.Now.Sub(at) >= Notice {
			listed, before = true, nil
		}
		before = append(before, a.Name)
	}
	for _, name := range before {
		var kept struct{ Nights, Promoted int }
		text, _, err := blob.ReadAll(ctx, q.Datasets, name, 1<<40) // its writer held it, too
		if err = cmp.Or(err, json.Unmarshal(text, &kept)); err != nil {
			return false, err
		}
		listed = listed && q.Nights >= kept.Nights && q.Promoted >= kept.Promoted
	}

	items := make([]recorded, len(gone))
	for n, i := range gone {
		items[n] = recorded{i, i.Plan}
	}
	text, err := json.MarshalIndent(map[string]any{"format": 1, "at": q.Now.UTC(), "nights": q.Nights,
		"promoted": q.Promoted, "only_listed": !listed, "items": items}, "", "  ")
	if err == nil {
		_, err = blob.Create(ctx, q.Datasets, "cleaned/"+q.Now.UTC().Format(time.RFC3339Nano)+".json", text)
	}
	return listed, err
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
