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

const (
	undoLimit   = 10 * time.Minute    // to put back what is needed, when it is interrupted
	journalName = "cleaned/open.json" // in the datasets bucket
)

var errTakenOver = errors.New("another run has begun since, and goes on with what this one has hidden")

// journal holds the manifests that runs have hidden, or are about to, and have not decided about.
type journal struct {
	Format int               `json:"format"`
	Hidden map[string]string `json:"hidden"` // by NAME@VERSION
	at     blob.Generation
}

// Remove removes what Look says may go, and returns it. The registry's remains of deleted versions are left to people.
//
// Any number may run at once, and each may end at any point: the next takes over, and only the last to do so decides.
// Manifests and plans go first, so that nobody finds what is incomplete; the manifests are in the journal before.
// Then it looks again, even when interrupted: a sweep looks for its dataset's manifest after it has written its plan,
// so that of both at least one sees the other, and a dataset that is needed after all gets its manifest back.
// Objects are removed only at the generation that was seen: a staging writes old ones anew.
func Remove(ctx context.Context, q Request) ([]Item, error) {
	gone, j, err := q.begin(ctx)
	if err != nil || len(gone)+len(j.Hidden) == 0 { // then nothing is written
		return []Item{}, err
	}
	var hideErr error
	for n := 0; n < len(gone) && hideErr == nil; n++ {
		if i := gone[n]; i.head.Name != "" { // else it was hidden before
			hideErr = q.remove(ctx, i.Bucket, i.head)
		}
	}
	safe, stop := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer stop()
	gone, err = q.lookAgain(safe, gone, j, hideErr == nil)
	if errors.Is(err, errTakenOver) {
		return []Item{}, hideErr
	}
	err = errors.Join(cmp.Or(hideErr, ctx.Err()), err)
	if err == nil && len(gone) > 0 {
		err = q.record(ctx, gone)
	}
	if err != nil || len(gone) == 0 {
		return []Item{}, err
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

// begin returns what may go, and takes the journal over, with the manifests of what may go.
func (q *Request) begin(ctx context.Context) (gone []Item, _ *journal, err error) {
	for range 20 {
		if gone, err = Look(ctx, *q); err != nil {
			return nil, nil, err
		}
		gone = slices.DeleteFunc(gone, func(i Item) bool { return !i.MayGo() || i.Bucket == Registry })
		j := &journal{Hidden: map[string]string{}}
		text, a, err := blob.ReadAll(ctx, q.Datasets, journalName, 4<<30)
		if err == nil {
			j.at, err = a.Generation, json.Unmarshal(text, j)
			if err == nil && j.Format != 1 {
				err = problem.New(problem.Conflict, "%s has format %d, and this build reads 1: use the build that "+
					"wrote it", journalName, j.Format)
			}
		}
		for n := 0; n < len(gone) && (err == nil || errors.Is(err, blob.ErrNotExist)); n++ {
			if i := gone[n]; i.Bucket == Datasets && i.head.Name != "" { // else it was hidden before
				text, _, err = blob.ReadAll(ctx, q.Datasets, i.head.Name, dataset.MaxManifest)
				if err == nil {
					j.Hidden[i.Name] = string(text)
				} else if problem.Is(err, problem.Damaged) { // of no use
					err = nil
				}
			}
		}
		if err != nil && !errors.Is(err, blob.ErrNotExist) {
			return nil, nil, err
		}
		if len(gone)+len(j.Hidden) == 0 {
			return nil, j, nil
		}
		if err = q.write(ctx, j); !errors.Is(err, errTakenOver) {
			return gone, j, err
		}
	}
	return nil, nil, problem.As(problem.Conflict, errTakenOver)
}

// write replaces the journal, unless another run has.
func (q *Request) write(ctx context.Context, j *journal) error {
	j.Format = 1
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	a, err := q.Datasets.Put(ctx, journalName, j.at, bytes.NewReader(text))
	if errors.Is(err, blob.ErrPrecondition) {
		return errTakenOver
	}
	j.at = a.Generation
	return err
}

// lookAgain returns what still may go, if all was hidden, and puts the manifests of all that is needed back; if that is
// not known, all of them. It decides by writing the journal: what is no longer in it never comes back.
func (q *Request) lookAgain(ctx context.Context, gone []Item, j *journal, hidden bool) ([]Item, error) {
	now, err := Look(ctx, *q)
	var still []Item
	if err == nil && hidden {
		still = without(gone, now)
	}
	back := map[string]string{}
	for ref, text := range j.Hidden {
		is := func(i Item) bool { return i.Kind == "dataset" && i.Name == ref }
		n := slices.IndexFunc(now, is)
		if err != nil || n >= 0 && !now[n].MayGo() {
			back[ref] = text
		} else if n < 0 || slices.ContainsFunc(still, is) { // without another object it is gone already
			delete(j.Hidden, ref)
		}
	}
	if writeErr := q.write(ctx, j); writeErr != nil || len(back) == 0 {
		return still, errors.Join(err, writeErr)
	}
	for ref, text := range back { // anew even if it is there: another run may be about to hide the one it has seen
		name, version, _ := strings.Cut(ref, "@")
		to := sweep.DatasetDir(name, version) + dataset.ManifestFile
		if _, backErr := q.Datasets.Put(ctx, to, blob.Any, strings.NewReader(text)); backErr != nil {
			err = errors.Join(err, fmt.Errorf("%s is needed after all: put its manifest back: %w", ref, backErr))
		} else {
			delete(j.Hidden, ref)
		}
	}
	return still, errors.Join(err, q.write(ctx, j))
}

// without returns what may go, and still may, without the objects that are needed now: the trial of a version that has
// been promoted since was of no use to the rest of its sweep.
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
