package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
)

// deletedRecord is the mark that hides a version. The version's claim, key and number stay taken.
type deletedRecord struct {
	Format  int       `json:"format"`
	Model   string    `json:"model"`
	Version int       `json:"version"`
	By      string    `json:"by"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
	// Withdrawn says that the mark no longer hides the version: an alias was moved to it at the same time.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Delete hides a version permanently: it is no longer listed or found, its number and key are not reused, and
// registering its key again is refused. Its objects stay until the owner of the bucket removes them (Leftover lists
// them); the registry itself never removes any. A version that an alias points at is a conflict. Repeating the call is
// harmless.
//
// Delete marks the version and then looks at the aliases, while a move changes the alias and then looks for the mark.
// So of a concurrent deletion and move, at least one sees the other, and undoes its own step.
func (r *Registry) Delete(ctx context.Context, model string, number int, act Act) error {
	if err := cmp.Or(checkModel(model), act.check()); err != nil {
		return err
	}

	// The version must exist, and no alias point at it, unless it was deleted before.
	_, err := r.readVersion(ctx, model, number)
	var deleted *DeletedError
	repeated := errors.As(err, &deleted)
	if err != nil && !repeated {
		return err
	}
	if err := r.checkUnused(ctx, model, number); err != nil && !repeated {
		return err
	}

	mark := deletedRecord{Format: format, Model: model, Version: number, By: act.By, Why: act.Why, At: utc(act.At)}
	if !repeated {
		if err := r.putDeletedRecord(ctx, mark); err != nil {
			return err
		}
	}

	// If an alias was moved to it meanwhile, or if that cannot be known, withdraw the mark. A repeated call looks, too:
	// the one before may have died at this point.
	held := r.checkUnused(ctx, model, number)
	if held == nil {
		return nil
	}
	mark.Why, mark.Withdrawn = "withdrawn: "+held.Error(), true
	return errors.Join(held, r.putDeletedRecord(ctx, mark))
}

// putDeletedRecord writes the mark of deletion of a version, over an earlier one.
func (r *Registry) putDeletedRecord(ctx context.Context, d deletedRecord) error {
	object := deletedObject(d.Model, d.Version)
	data, err := encode(d)
	if err != nil {
		return err
	}
	if _, err := r.store.Put(ctx, object, blob.Any, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("registry: write %s: %w", object, err)
	}
	return nil
}

// checkUnused returns an error of kind Conflict if aliases point at a version, which it names. Other errors are those
// of reading the aliases.
func (r *Registry) checkUnused(ctx context.Context, model string, number int) error {
	aliases, err := r.Aliases(ctx, model)
	if err != nil {
		return err
	}
	var in []string
	for _, a := range aliases {
		if a.Version == number {
			in = append(in, a.Name)
		}
	}
	if len(in) == 0 {
		return nil
	}
	return problem.New(problem.Conflict, "registry: version %d of %s is %s; move or remove the alias first", number,
		model, strings.Join(in, " and "))
}

// notDeleted returns a *DeletedError if a version was deleted, and nil if not, also if that was withdrawn. Other errors
// say that it is not known.
func (r *Registry) notDeleted(ctx context.Context, model string, number int) error {
	var act Act
	d, _, err := loadRecord(ctx, r, deletedObject(model, number), func(d *deletedRecord) error {
		if d.Model != model || d.Version != number {
			return fmt.Errorf("it is about version %d of %.60q", d.Version, d.Model)
		}
		act = Act{By: d.By, Why: d.Why, At: d.At}
		if d.Withdrawn { // nobody's act: its reason is Delete's
			return nil
		}
		return act.check()
	})
	if isAbsent(err) || err == nil && d.Withdrawn {
		return nil
	}
	if err != nil {
		return err
	}
	return &DeletedError{Model: model, Version: number, Act: act}
}

// unlessDeleted returns alias a, which was just moved, unless its version was deleted at the same time. Then it moves
// the alias back to the last usable version, which is the one that it has left if that can be used, or removes it if
// there is none, and returns the *DeletedError. If the alias has been moved again since, that move stays. If the store
// fails, it returns that error and the alias stays at the deleted version, with its past, so that Rollback leads back.
func (r *Registry) unlessDeleted(ctx context.Context, a Alias, act Act) (Alias, error) {
	gone := r.notDeleted(ctx, a.Model, a.Version)
	var deleted *DeletedError
	if !errors.As(gone, &deleted) {
		return a, gone
	}

	act.Why = fmt.Sprintf("back: %.1000s", gone) // cut below maxText, which the deletion's reason alone may have
	_, err := r.moveAlias(ctx, a.Model, a.Name, func(now Alias) (*Alias, error) {
		if now.Version != a.Version || now.Last.Sequence != a.Last.Sequence {
			return nil, nil // it was moved again meanwhile
		}
		if now.Last.Kind == RolledBack { // a promotion puts the version that it leaves into Past, a rollback does not
			now.Past = append(slices.Clone(now.Past), now.Last.From)
		}
		last, err := r.lastUsable(ctx, now)
		if err != nil && !problem.Is(err, problem.NotFound) && !problem.Is(err, problem.Damaged) {
			return nil, err
		}
		if err != nil {
			next := now.movedTo(Removed, 0, act)
			next.Past = nil
			return &next, nil //nolint:nilerr // nowhere to go back to
		}
		next := now.movedTo(RolledBack, now.Past[last], act)
		next.Past = next.Past[:last]
		if next.Last.Record, err = r.recordSum(ctx, a.Model, next.Version); err != nil {
			return nil, err
		}
		return &next, nil
	})
	if err != nil {
		return Alias{}, err
	}
	return Alias{}, gone
}

// Leftover lists the objects of deleted versions that may be removed from the bucket: all but those that keep their
// numbers and keys taken. None is of a version whose mark of deletion is damaged: the deletion may have been withdrawn.
func (r *Registry) Leftover(ctx context.Context, model string) ([]string, error) {
	s, err := r.scanVersions(ctx, model)
	if err != nil {
		return nil, err
	}
	var objects []string
	for _, n := range s.deleted {
		err := r.listNames(ctx, versionDir(model, n), func(object string) {
			if _, rest, ok := parseVersionObject(model, object); ok && rest != claimFile && rest != deletedFile {
				objects = append(objects, object)
			}
		})
		if err != nil {
			return nil, err
		}
	}

	return objects, nil
}
