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

// undoLimit bounds how long an interrupted run still takes to put back the manifests of what is needed.
const undoLimit = 10 * time.Minute

// Remove removes what Look says may go, and returns it. The registry's remains of deleted versions are left to people.
// A run removes only if one with such numbers listed at least Notice ago, and none since has kept more nights or moves;
// otherwise it only writes down what would go.
//
// Any number of runs may work at once, and each may end at any point: the next continues. Manifests and plans are
// removed first, so that nobody finds an incomplete dataset or sweep. Two rules protect what comes into use meanwhile:
//
//   - Whoever plans with a dataset first writes its manifest anew, and Remove removes an object only at the generation
//     that it has seen. So either the manifest is gone before it is written anew, which the planner notices, or its
//     removal fails, which keeps the dataset.
//   - An aggregator that promotes a version writes no manifest. So Remove looks a second time once the manifests are
//     gone, even when ctx has been cancelled, and puts back those of datasets that are needed by then.
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

	// Remove manifests and plans; what was used in the meantime is held, and stays.
	hidden, hideErr := q.hideItems(ctx, gone)
	gone = slices.DeleteFunc(gone, func(i Item) bool { return !i.MayGo() })

	// Look again, and put back the manifests of what has become needed; or all of them, if looking fails. This has to
	// happen even if ctx is done.
	safe, stop := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer stop()
	now, err := Look(safe, q)
	err = errors.Join(cmp.Or(hideErr, ctx.Err()), err, q.putBack(safe, hidden, now, err == nil))
	if err != nil {
		return []Item{}, err
	}
	gone = without(gone, now)

	// Remove everything else. An item counts as removed once all of its objects are.
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

// hideItems removes the manifests and plans of the items, without which nobody finds them. It returns the texts of the
// removed manifests by NAME@VERSION, for putBack; with an error, those that were removed before it. An item whose
// manifest or plan was written anew since it was listed is in use: hideItems sets its HeldBy in gone.
func (q *Request) hideItems(ctx context.Context, gone []Item) (hidden map[string][]byte, err error) {
	hidden = map[string][]byte{}
	for n, i := range gone {
		if i.head.Name == "" {
			continue // an earlier run has removed it, or the sweep's plan stays, as its winner is registered
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
		case text != nil: // it was a manifest, and it could be read
			hidden[i.Name] = text
		}
	}
	return hidden, nil
}

// putBack writes back the hidden manifests (by NAME@VERSION) of datasets that are held among the items of now. A
// dataset that is missing there has no objects left, since another run has removed them: its manifest stays away.
// Where known is false, now says nothing, and all manifests are written back. One that is there again is left as it is.
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

// record writes cleaned/TIME.json: what is about to be removed, and why it may be. It reports whether that may happen
// now (listed): an earlier run's record has to be older than Notice, and neither the newest of these nor any record
// since may have kept more nights or more moves than q does. Otherwise the record says that q only listed.
func (q *Request) record(ctx context.Context, gone []Item) (listed bool, err error) {
	// Find the newest record that is old enough, and those since. Names are times, so the list is in their order, to
	// the second: fractions are of different lengths.
	var before []string
	for a, err := range q.Datasets.List(ctx, "cleaned/") {
		if err != nil {
			return false, err
		}
		at, err := time.Parse("cleaned/"+time.RFC3339Nano+".json", a.Name)
		if err == nil && q.Now.Sub(at) >= Notice { // this one takes the place of those before it
			listed, before = true, nil
		}
		before = append(before, a.Name) // also if its name is no time, so that it counts as one since
	}

	// None of them may have kept more than this run.
	for _, name := range before {
		var kept struct{ Nights, Promoted int }
		text, _, err := blob.ReadAll(ctx, q.Datasets, name, 1<<40) // no bound: its writer had it in memory, too
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

// remove removes an object of the named bucket, if it still has the generation of o; else the error is
// blob.ErrPrecondition.
func (q *Request) remove(ctx context.Context, from string, o blob.Attrs) error {
	s, ok := map[string]blob.Store{Datasets: q.Datasets, Sweeps: q.Sweeps}[from].(blob.Remover)
	if !ok {
		return problem.New(problem.Usage, "the %s bucket does not let objects be removed", from)
	}
	return s.Remove(ctx, o.Name, o.Generation)
}

// without returns those of the items gone that are not held among the items of now, each without the objects that are
// held there. Single objects can become needed, too: once a version is promoted, its trial, which was part of the
// sweep's removable rest, is an item of its own and is held.
func without(gone, now []Item) (still []Item) {
	heldItems, heldObjects := map[string]bool{}, map[string]bool{}
	for _, i := range now {
		heldItems[i.Kind+" "+i.Name] = !i.MayGo()
		for _, o := range i.Objects {
			heldObjects[i.Bucket+" "+o.Name] = !i.MayGo()
		}
	}
	for _, i := range gone {
		if !heldItems[i.Kind+" "+i.Name] {
			all := i.Objects
			i.Objects, i.Bytes = nil, 0 // add counts the remaining bytes
			i.add(slices.DeleteFunc(all, func(o blob.Attrs) bool { return heldObjects[i.Bucket+" "+o.Name] })...)
			still = append(still, i)
		}
	}
	return still
}
