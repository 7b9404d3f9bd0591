package registry

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// Expect is the state of an alias that the caller assumes. The zero value assumes that there is no such alias yet.
type Expect struct {
	Version int // at which the alias points
	// Sequence is the number of the alias's last move; 0 for any. With it, a version that the alias has left and come
	// back to meanwhile is not what was expected. Only Rollback asks for it.
	Sequence int
	Any      bool // accept any state
}

// Alias returns where an alias points, and its last move. If there is no such alias, the error is of kind NotFound, and
// names one that is spelled alike, or says that there is no such model.
func (r *Registry) Alias(ctx context.Context, model, alias string) (Alias, error) {
	if err := cmp.Or(checkModel(model), checkAlias(alias)); err != nil {
		return Alias{}, err
	}

	a, _, err := r.readAlias(ctx, model, alias)
	if err != nil {
		return Alias{}, err
	}
	if a.Version > 0 {
		return a, nil
	}

	// The error says what exists: other aliases, or not even the model.
	all, err := r.Aliases(ctx, model)
	if err != nil {
		return Alias{}, err
	}
	if len(all) == 0 {
		newest, err := r.findNewest(ctx, model)
		if err == nil && newest == 0 {
			return Alias{}, r.noModel(ctx, model)
		}
		if err != nil && !problem.Is(err, problem.Damaged) { // there may be a version, so there is the model
			return Alias{}, err
		}
	}

	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	return Alias{}, missing("alias", alias, fmt.Sprintf(" of %s%s", model, strictyaml.Suggest(alias, names)))
}

// Aliases returns all aliases of a model, by name.
func (r *Registry) Aliases(ctx context.Context, model string) ([]Alias, error) {
	if err := checkModel(model); err != nil {
		return nil, err
	}
	all, err := r.everyAlias(ctx, model)
	return slices.DeleteFunc(all, func(a Alias) bool { return a.Version == 0 }), err
}

// everyAlias returns all aliases of a model by name, including removed ones, whose version is 0. If some cannot be
// read, the others are returned with an error.
func (r *Registry) everyAlias(ctx context.Context, model string) ([]Alias, error) {
	var names []string
	err := r.listNames(ctx, aliasesDir(model), func(object string) {
		if name, ok := parseAliasObject(model, object); ok {
			names = append(names, name)
		}
	})
	if err != nil {
		return nil, err
	}

	slices.Sort(names)
	return readAll(ctx, names, func(ctx context.Context, name string) (Alias, error) {
		a, _, err := r.readAlias(ctx, model, name)
		return a, err
	})
}

// readAlias reads an alias and the generation of its object, on which the next write depends. An alias that does not
// exist, or was removed, has version 0, without an error.
func (r *Registry) readAlias(ctx context.Context, model, alias string) (Alias, blob.Generation, error) {
	a, generation, err := loadRecord(ctx, r, aliasObject(model, alias),
		func(a *aliasRecord) error { return a.check(model, alias) })
	if isAbsent(err) {
		return Alias{Model: model, Name: alias}, blob.Absent, nil
	}
	return a.Alias, generation, err
}

// SetAlias points an alias at a version, which must exist and not be marked bad, deleted or damaged. If the alias is
// not in the expected state, the error is a *ConflictError. An alias that already points at the version is unchanged,
// whatever was expected, so repeating the call is harmless. If the version is deleted at the same time, the alias moves
// back, and the error is a *DeletedError.
func (r *Registry) SetAlias(ctx context.Context, model, alias string, to int, expect Expect, act Act) (Alias, error) {
	if err := cmp.Or(checkModel(model), checkAlias(alias), act.check()); err != nil {
		return Alias{}, err
	}
	if err := r.checkUsable(ctx, model, to); err != nil {
		return Alias{}, err
	}
	record, err := r.recordSum(ctx, model, to)
	if err != nil {
		return Alias{}, err
	}

	a, err := r.moveAlias(ctx, model, alias, func(now Alias) (*Alias, error) {
		if now.Version == to {
			return nil, nil
		}
		if !expect.Any && now.Version != expect.Version {
			return nil, movedError(now, expect)
		}

		// The version that the alias leaves is where Rollback leads.
		next := now.movedTo(Promoted, to, act)
		next.Last.Record = record
		if now.Version > 0 {
			next.Past = append(next.Past, now.Version)
			next.Past = next.Past[max(0, len(next.Past)-MaxPast):]
		}
		return &next, nil
	})
	if err != nil {
		return Alias{}, err
	}
	return r.unlessDeleted(ctx, a, act)
}

// Promote is SetAlias for the champion.
func (r *Registry) Promote(ctx context.Context, model string, version int, expect Expect, act Act) (Alias, error) {
	return r.SetAlias(ctx, model, Champion, version, expect, act)
}

// Rollback points an alias at a version at which it pointed before. If to is 0, that is the one before the present one,
// without those that were marked bad, deleted or damaged meanwhile; a second call leads to the one before that.
// Otherwise it is version to.
//
// If the alias is not in the expected state, the error is a *ConflictError. But if it has already been rolled back from
// the expected version, to version to if that is given, it stays as it is and there is no error, so repeating the call
// is harmless. Expect.Any expects the version at which the alias points when Rollback begins. If the version to which
// it leads is deleted at the same time, the alias moves back to where it was, and the error is a *DeletedError.
func (r *Registry) Rollback(ctx context.Context, model, alias string, to int, expect Expect, act Act) (Alias, error) {
	if to < 0 {
		return Alias{}, wrong("version to return to", "%d; versions count from 1", to)
	}
	if err := act.check(); err != nil {
		return Alias{}, err
	}

	begin, err := r.Alias(ctx, model, alias)
	if err != nil {
		return Alias{}, err
	}
	if expect.Any {
		// If somebody else rolls back meanwhile, that must not lead to a second step back.
		expect = Expect{Version: begin.Version}
	}

	a, err := r.moveAlias(ctx, model, alias, func(now Alias) (*Alias, error) {
		asExpected := now.Version == expect.Version && (expect.Sequence == 0 || now.Last.Sequence == expect.Sequence)
		if !asExpected {
			if now.Last.Kind == RolledBack && now.Last.From == expect.Version && (to == 0 || to == now.Version) {
				return nil, nil // it has been rolled back already
			}
			return nil, movedError(now, expect)
		}

		last, err := r.backTo(ctx, now, to)
		if err != nil {
			return nil, err
		}

		next := now.movedTo(RolledBack, now.Past[last], act)
		if next.Last.Record, err = r.recordSum(ctx, model, next.Version); err != nil {
			return nil, err
		}
		next.Past = next.Past[:last]
		return &next, nil
	})
	if err != nil {
		return Alias{}, err
	}
	return r.unlessDeleted(ctx, a, act)
}

// backTo returns the index in now.Past of the version to return to: version to or, if that is 0, the last usable one.
// It is an error if to is not in the alias's past or cannot be used.
func (r *Registry) backTo(ctx context.Context, now Alias, to int) (int, error) {
	if to == 0 {
		return r.lastUsable(ctx, now)
	}
	// The last time that it was there counts, since the alias loses what is behind that in Past.
	for last := len(now.Past) - 1; last >= 0; last-- {
		if now.Past[last] == to {
			return last, r.checkUsable(ctx, now.Model, to)
		}
	}
	if len(now.Past) == 0 {
		return 0, noPrevious(now, nil)
	}
	return 0, wrong("version to return to", "%s of %s was at %s before, never at %d; to move it "+
		"there, promote it", now.Name, now.Model, formatRanges(now.Past), to)
}

// lastUsable returns the index in now.Past of the last version that may be used and is not the present one. The error
// is of kind NotFound if there is none.
func (r *Registry) lastUsable(ctx context.Context, now Alias) (int, error) {
	var passed []int
	for last := len(now.Past) - 1; last >= 0; last-- {
		// Past has the present version, too, if that was promoted, replaced and promoted again.
		if now.Past[last] == now.Version {
			continue
		}
		why, err := r.whyUnusable(ctx, now.Model, now.Past[last])
		if err != nil {
			return 0, err
		}
		if why == nil {
			return last, nil
		}
		passed = append(passed, now.Past[last])
	}
	return 0, noPrevious(now, passed)
}

// noPrevious returns the error about an alias without a version to roll back to. passed are the versions that were
// skipped because they are marked bad, deleted or damaged.
func noPrevious(now Alias, passed []int) error {
	if len(passed) == 0 {
		return problem.New(problem.NotFound,
			"registry: %s of %s has no earlier version to return to; promote another one", now.Name, now.Model)
	}
	return problem.New(problem.NotFound, "registry: %s of %s cannot be rolled back: all versions where it was "+
		"before (version %s) are marked bad, deleted or damaged; promote another one", now.Name, now.Model,
		formatRanges(passed))
}

// RemoveAlias removes an alias; its history stays. The champion can only be replaced, not removed. If there is no such
// alias, the error is of kind NotFound; if it is not in the expected state, it is a *ConflictError.
func (r *Registry) RemoveAlias(ctx context.Context, model, alias string, expect Expect, act Act) (Alias, error) {
	if err := act.check(); err != nil {
		return Alias{}, err
	}
	if alias == Champion {
		return Alias{}, wrong("alias", "%s cannot be removed; promote another version instead", Champion)
	}
	if _, err := r.Alias(ctx, model, alias); err != nil {
		return Alias{}, err
	}

	return r.moveAlias(ctx, model, alias, func(now Alias) (*Alias, error) {
		if now.Version == 0 {
			return nil, nil // somebody else has removed it meanwhile
		}
		if !expect.Any && now.Version != expect.Version {
			return nil, movedError(now, expect)
		}
		next := now.movedTo(Removed, 0, act)
		next.Past = nil
		return &next, nil
	})
}

// movedTo returns the alias after a move of that kind to a version. Past is a copy of what it was; Last is the event of
// the move, without Record and Previous.
func (a Alias) movedTo(kind EventKind, to int, act Act) Alias {
	next := a
	next.Version = to
	next.Past = slices.Clone(a.Past)
	next.Last = Event{
		Kind: kind, Alias: a.Name, Sequence: a.Last.Sequence + 1, From: a.Version, To: to, By: act.By, Why: act.Why,
		At: utc(act.At),
	}
	return next
}

// moveAlias replaces an alias by what decide makes of it, by compare-and-swap, and returns the result. decide returns
// nil to leave the alias unchanged. It is called again whenever another process has changed the alias meanwhile.
//
// The event of a move is part of the alias's object, so that both are written at once. It is copied into the history
// afterwards, or, if the process died before that, by the next move.
func (r *Registry) moveAlias(ctx context.Context, model, alias string, decide func(now Alias) (*Alias, error)) (Alias,
	error) {
	object := aliasObject(model, alias)
	for range maxRaces {
		now, generation, err := r.readAlias(ctx, model, alias)
		if err != nil {
			return Alias{}, err
		}

		next, err := decide(now)
		if err != nil {
			return Alias{}, err
		}

		// The last event must be in the history before it is overwritten.
		if now.Last.Sequence > 0 {
			if err := r.record(ctx, now); err != nil {
				return Alias{}, err
			}
		}
		if next == nil {
			return now, nil
		}

		// Write the alias with its new event, which holds the hash of the one before it.
		if next.Last.Previous, err = linkOf(now); err != nil {
			return Alias{}, err
		}
		data, err := encode(aliasRecord{format, *next})
		if err != nil {
			return Alias{}, err
		}

		done, err := r.replace(ctx, object, generation, data)
		if err == nil && !done {
			// If only the answer was lost, the alias may have been moved again since; then this move was copied into
			// the history first.
			done, err = r.isRecorded(ctx, *next)
		}
		if err != nil {
			return Alias{}, err
		}
		if !done {
			continue
		}

		// The alias has moved and carries its event: if copying fails, the next move copies it.
		_ = r.record(ctx, *next)
		return *next, nil
	}
	return Alias{}, overtaken(object)
}

// isRecorded reports whether the history has the last event of an alias, and not a different one in its place.
func (r *Registry) isRecorded(ctx context.Context, a Alias) (bool, error) {
	want, err := encode(eventRecord{format, a.Model, a.Last})
	if err != nil {
		return false, err
	}
	data, _, err := r.readObject(ctx, eventObject(a.Model, a.Name, a.Last.Sequence), maxRecord)
	if isAbsent(err) {
		return false, nil
	}
	return bytes.Equal(data, want), err
}

// record copies the last event of an alias into the history, unless there is one with its number.
func (r *Registry) record(ctx context.Context, a Alias) error {
	_, err := r.create(ctx, eventObject(a.Model, a.Name, a.Last.Sequence), eventRecord{format, a.Model, a.Last})
	return err
}
