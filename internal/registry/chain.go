package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coppice/internal/problem"
)

// link is what an alias's next move records of the previous one: the SHA-256 of its record or, for the first move, of
// the history's name.
func link(now Alias) (string, error) {
	if now.Last.Sequence == 0 {
		return chainStart(now.Model, now.Name), nil
	}
	data, err := encode(eventRecord{format, now.Model, now.Last})
	if err != nil {
		return "", err
	}
	return sum(data), nil
}

// chainStart binds a chain to its alias, so that another alias's history cannot be substituted.
func chainStart(model, alias string) string { return sum([]byte(historyDir(model) + alias)) }

// recordSum is the SHA-256 of a version's record, by which a move states exactly what it made live.
func (r *Registry) recordSum(ctx context.Context, model string, number int) (string, error) {
	data, _, err := r.read(ctx, versionDir(model, number)+versionFile, maxRecord)
	if err != nil {
		return "", err
	}
	return sum(data), nil
}

// broken reports the moves that do not start where the previous one ended, or that do not hold its SHA-256: the
// previous one was changed since, or not written by a registry. events are by alias and sequence; a missing predecessor
// is left to gaps.
func broken(model string, events []recordedEvent) error {
	var errs []error
	for i, e := range events {
		want, from := chainStart(model, e.Alias), 0
		switch {
		case i > 0 && events[i-1].Alias == e.Alias && events[i-1].Sequence == e.Sequence-1:
			want, from = events[i-1].sum, events[i-1].To
		case e.Sequence > 1:
			continue
		}

		object := eventObject(model, e.Alias, e.Sequence)
		if e.From != from {
			errs = append(errs, Damaged(object, fmt.Errorf("it moves the alias away from version %d, where it was "+
				"not: it "+
				"was at %s", e.From, versionName(from))))
		}
		if e.Previous != want {
			errs = append(errs, Damaged(object, fmt.Errorf("it follows a record with SHA-256 %.12s..., but the one "+
				"before "+
				"it has %.12s...: one of them was changed", e.Previous, want)))
		}
	}
	return errors.Join(errs...)
}

// Head is the end of an alias's history. If its SHA-256 is stored elsewhere, Verify can look for it later, which proves
// that nothing up to that move was changed since.
type Head struct {
	Alias    string `json:"alias"`
	Version  int    `json:"version"`
	Sequence int    `json:"sequence"`
	SHA256   string `json:"sha256"`
}

// Verification is what Verify has checked.
type Verification struct {
	Model    string `json:"model"`
	Versions int    `json:"versions"`
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
	Moves    int    `json:"moves"`
	Heads    []Head `json:"heads"`

	sums []string
}

// Has reports whether some move's record has this SHA-256.
func (v *Verification) Has(sha256 string) bool { return slices.Contains(v.sums, sha256) }

// Verify reads everything that a model has: each version's files with their checksums, each alias, and each history
// along its chain. The error joins those of all damaged items; the result is returned even with an error.
func (r *Registry) Verify(ctx context.Context, model string) (*Verification, error) {
	versions, err1 := r.Versions(ctx, model)
	if versions == nil && problem.Is(err1, problem.NotFound) { // not even a model
		return nil, err1
	}

	out := &Verification{Model: model, Versions: len(versions), Heads: []Head{}}
	errs := []error{err1}
	for _, v := range versions {
		for _, f := range v.Files {
			if _, err := r.ReadFile(ctx, v, f.Name); err != nil {
				errs = append(errs, err)
			}
			out.Files++
			out.Bytes += f.Bytes
		}
	}

	moves, err := r.moves(ctx, model)
	errs = append(errs, err)
	out.Moves = len(moves)
	for i, m := range moves {
		out.sums = append(out.sums, m.sum)
		if i == 0 || moves[i-1].Alias != m.Alias {
			out.Heads = append(out.Heads, Head{Alias: m.Alias})
		}
		h := &out.Heads[len(out.Heads)-1]
		h.Version, h.Sequence, h.SHA256 = m.To, m.Sequence, m.sum
	}

	if err := r.checkMoved(ctx, model, moves, versions); err != nil {
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// checkMoved compares the records of versions with what the moves to them recorded.
func (r *Registry) checkMoved(ctx context.Context, model string, moves []recordedEvent, versions []Version) error {
	var errs []error
	s, err := r.scan(ctx, model)
	if err != nil {
		return err
	}
	deleted := s.deleted

	sums := map[int]string{}
	for _, v := range versions {
		s, err := r.recordSum(ctx, model, v.Number)
		if err != nil {
			return err
		}
		sums[v.Number] = s
	}
	for i, m := range moves {
		if last := i+1 == len(moves) || moves[i+1].Alias != m.Alias; last && slices.Contains(deleted, m.To) {
			errs = append(errs, Damaged(aliasObject(model, m.Alias),
				fmt.Errorf("it points at version %d, which was deleted", m.To)))
		}
		object := versionDir(model, m.To) + versionFile
		switch s, there := sums[m.To]; {
		case m.To == 0 || slices.Contains(deleted, m.To):
		case !there:
			errs = append(errs, Damaged(object, fmt.Errorf("move %d of %s leads there, and no version can be "+
				"read there", m.Sequence, m.Alias)))
		case s != m.Record:
			errs = append(errs, Damaged(object, fmt.Errorf("its SHA-256 %.12s is not the %.12s that it had "+
				"when move %d of %s made it live", s, m.Record, m.Sequence, m.Alias)))
		}
	}
	return errors.Join(errs...)
}

// Live returns the last move of an alias that is not later than a time. Events are in the order of History. The moves
// of an alias take effect in sequence, whatever the clocks of their authors. ok is false before the first move.
func Live(events []Event, alias string, at time.Time) (last Event, ok bool) {
	for _, e := range events {
		if e.Alias != alias {
			continue
		}
		if e.At.After(at) {
			break
		}
		last, ok = e, true
	}
	return last, ok && last.To > 0
}
