package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"coppice/internal/problem"
)

// History returns everything that happened to a model, oldest first: registered versions, remarks on them, and moves of
// aliases. Damaged or missing events are left out and named by the error, which comes with the rest.
func (r *Registry) History(ctx context.Context, model string) ([]Event, error) {
	versions, err1 := r.Versions(ctx, model)
	if versions == nil && problem.Is(err1, problem.NotFound) { // not even a model
		return nil, err1
	}

	moves, err2 := r.readMoves(ctx, model)
	events := make([]Event, len(moves))
	for i, m := range moves {
		events[i] = m.Event
	}
	remarks, err3 := r.readRemarks(ctx, model)
	return mergeByTime(versions, remarks, events), errors.Join(err1, err2, err3)
}

// Moves yields the moves of an alias, the latest first. Each is read only when it is its turn, so that looking for a
// recent move costs few reads, however long the history is. A move that cannot be read is yielded as an error of kind
// Damaged, and the earlier ones follow; any other error ends the sequence.
func (r *Registry) Moves(ctx context.Context, model, alias string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		// The latest move is in the alias itself, and is yielded from there. If that is damaged, the history tells how
		// many there were.
		now, _, err := r.readAlias(ctx, model, alias)
		last := now.Last.Sequence
		switch {
		case problem.Is(err, problem.Damaged):
			if !yield(Event{}, err) {
				return
			}
			if last, err = r.lastRecorded(ctx, model, alias); err != nil {
				yield(Event{}, err)
				return
			}
			last++ // the latest move is perhaps only in the alias
		case err != nil:
			yield(Event{}, err)
			return
		case last > 0 && !yield(now.Last, nil): // the caller wants no more
			return
		}

		// All others are in the history, numbered from 1.
		for n := last - 1; n > 0; n-- {
			object := eventObject(model, alias, n)
			e, _, err := loadRecord(ctx, r, object, func(e *eventRecord) error { return e.check(model, alias, n) })
			if isAbsent(err) {
				err = Damaged(object, errors.New("it is missing"))
			}
			if !yield(e.Event, err) || err != nil && !problem.Is(err, problem.Damaged) {
				return
			}
		}
	}
}

// lastRecorded returns the number of the last move in an alias's history, by the names of its objects; 0 if there is
// none.
func (r *Registry) lastRecorded(ctx context.Context, model, alias string) (last int, err error) {
	err = r.listNames(ctx, historyDir(model)+alias+"/", func(object string) {
		if name, n, ok := parseEventObject(model, object); ok && name == alias {
			last = max(last, n)
		}
	})
	return last, err
}

// recordedEvent is an event with the SHA-256 of its record.
type recordedEvent struct {
	Event
	sum string
}

// readMoves returns all moves of a model's aliases, by alias and sequence. The error names those that are damaged,
// missing or do not follow from their predecessor; it comes with the rest.
func (r *Registry) readMoves(ctx context.Context, model string) ([]recordedEvent, error) {
	// Read the aliases first: any earlier event that they imply is then in the listing that follows, or is their own
	// last event.
	aliases, err1 := r.everyAlias(ctx, model)
	events, err2 := r.readHistory(ctx, model)

	var errs []error
	for _, a := range aliases {
		last, err := encode(eventRecord{format, model, a.Last})
		if err != nil {
			return nil, err
		}

		// The alias's last move, if it has not been copied into the history yet.
		i := slices.IndexFunc(events, func(e recordedEvent) bool {
			return e.Alias == a.Name && e.Sequence == a.Last.Sequence
		})
		switch {
		case i < 0:
			events = append(events, recordedEvent{a.Last, sum(last)})
		case events[i].sum != sum(last):
			errs = append(errs, Damaged(eventObject(model, a.Name, a.Last.Sequence),
				fmt.Errorf("it differs from the last move in the alias %s", a.Name)))
		}
	}

	slices.SortFunc(events, func(a, b recordedEvent) int {
		return cmp.Or(cmp.Compare(a.Alias, b.Alias), cmp.Compare(a.Sequence, b.Sequence))
	})
	return events, errors.Join(err1, err2, errors.Join(errs...), checkGaps(model, events),
		findBrokenMoves(model, events))
}

// readHistory returns the events that were copied into the history, in the order of their objects' names. If some
// cannot be read, the others are returned with an error.
func (r *Registry) readHistory(ctx context.Context, model string) ([]recordedEvent, error) {
	type place struct {
		object, alias string
		sequence      int
	}
	var places []place
	err := r.listNames(ctx, historyDir(model), func(object string) {
		if alias, sequence, ok := parseEventObject(model, object); ok {
			places = append(places, place{object, alias, sequence})
		}
	})
	if err != nil {
		return nil, err
	}

	return readAll(ctx, places, func(ctx context.Context, p place) (recordedEvent, error) {
		data, _, err := r.readObject(ctx, p.object, maxRecord)
		if err != nil {
			return recordedEvent{}, err
		}
		e, err := decode(p.object, data, func(e *eventRecord) error { return e.check(model, p.alias, p.sequence) })
		return recordedEvent{e.Event, sum(data)}, err
	})
}

// checkGaps returns an error about events that are missing between others, or before the first, of an alias: somebody
// has deleted them. events are sorted by alias and sequence.
func checkGaps(model string, events []recordedEvent) error {
	var errs []error
	for i, e := range events {
		before := 0
		if i > 0 && events[i-1].Alias == e.Alias {
			before = events[i-1].Sequence
		}
		if before+1 != e.Sequence {
			first := eventObject(model, e.Alias, before+1)
			missing := fmt.Errorf("%d events from this one on are missing", e.Sequence-before-1)
			errs = append(errs, Damaged(first, missing))
		}
	}
	return errors.Join(errs...)
}

// mergeByTime returns registrations, remarks and moves as one list of events, by time. Clocks of their authors may
// differ, so a move counts as no earlier than the move of the alias before it, and than the registration of its
// version: the moves of an alias keep their sequence. events are the moves, by alias and sequence.
func mergeByTime(versions []Version, remarks, events []Event) []Event {
	type timed struct {
		Event
		at time.Time // by which it is sorted
	}

	var all []timed
	registered := map[int]time.Time{}
	for _, v := range versions {
		registered[v.Number] = v.Info.At
		all = append(all, timed{Event{Kind: Registered, To: v.Number, By: v.Info.By, Why: v.Info.Why, At: v.Info.At},
			v.Info.At})
	}

	for _, e := range remarks {
		all = append(all, timed{e, e.At})
	}

	var last timed
	for _, e := range events {
		t := timed{e, e.At}
		if r := registered[e.To]; r.After(t.at) {
			t.at = r
		}
		if last.Alias == e.Alias && last.at.After(t.at) {
			t.at = last.at
		}
		all = append(all, t)
		last = t
	}

	slices.SortStableFunc(all, func(a, b timed) int { return a.at.Compare(b.at) })
	out := make([]Event, len(all))
	for i, t := range all {
		out[i] = t.Event
	}
	return out
}

// linkOf returns what an alias's next move holds of its last one (Event.Previous): the SHA-256 of its record or, for
// the first move, that of the history's name. So moves form a chain, in which none can be changed unnoticed.
func linkOf(now Alias) (string, error) {
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

// recordSum returns the SHA-256 of a version's record, its version.json. A move holds it, and so states exactly to what
// it points the alias.
func (r *Registry) recordSum(ctx context.Context, model string, number int) (string, error) {
	data, _, err := r.readObject(ctx, versionDir(model, number)+versionFile, maxRecord)
	if err != nil {
		return "", err
	}
	return sum(data), nil
}

// findBrokenMoves returns an error about the moves that do not start where the move before ended, or that do not hold
// its SHA-256: then one of the two was changed later, or not written by this package. events are sorted by alias and
// sequence. A move whose predecessor is missing is left to checkGaps.
func findBrokenMoves(model string, events []recordedEvent) error {
	var errs []error
	for i, e := range events {
		want, from := chainStart(model, e.Alias), 0 // of the first move
		switch {
		case i > 0 && events[i-1].Alias == e.Alias && events[i-1].Sequence == e.Sequence-1:
			want, from = events[i-1].sum, events[i-1].To
		case e.Sequence > 1:
			continue
		}

		object := eventObject(model, e.Alias, e.Sequence)
		if e.From != from {
			errs = append(errs, Damaged(object, fmt.Errorf("it moves the alias from %s, but the alias was at %s",
				versionName(e.From), versionName(from))))
		}
		if e.Previous != want {
			errs = append(errs, Damaged(object, fmt.Errorf("it names %.12s... as the SHA-256 of the move before, "+
				"which has %.12s...: one of them was changed", e.Previous, want)))
		}
	}
	return errors.Join(errs...)
}

// Head is the end of an alias's history. If its SHA-256 is stored elsewhere, and is among the moves of a later
// Verification, nothing up to that move was changed since.
type Head struct {
	Alias    string `json:"alias"`
	Version  int    `json:"version"`
	Sequence int    `json:"sequence"`
	SHA256   string `json:"sha256"`
}

// Verification is what Verify has checked.
type Verification struct {
	Model    string   `json:"model"`
	Versions int      `json:"versions"`
	Files    int      `json:"files"`
	Bytes    int64    `json:"bytes"`
	Moves    []string `json:"moves"` // the SHA-256 of each
	Heads    []Head   `json:"heads"`
}

// Verify reads everything that a model has: each version's files with their checksums, each alias, and each history
// along its chain. The error joins those of all damaged items; the result is returned even with an error.
func (r *Registry) Verify(ctx context.Context, model string) (*Verification, error) {
	// The files of all versions.
	versions, err1 := r.Versions(ctx, model)
	if versions == nil && problem.Is(err1, problem.NotFound) { // not even a model
		return nil, err1
	}
	out := &Verification{Model: model, Versions: len(versions), Moves: []string{}, Heads: []Head{}}
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

	// The moves of all aliases, whose chains readMoves checks, and the last one of each.
	moves, err := r.readMoves(ctx, model)
	errs = append(errs, err)
	for i, m := range moves {
		out.Moves = append(out.Moves, m.sum)
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

// checkMoved returns an error about versions whose record is not what a move to them recorded, or is missing, and about
// aliases that point at a deleted version. moves are sorted by alias and sequence.
func (r *Registry) checkMoved(ctx context.Context, model string, moves []recordedEvent, versions []Version) error {
	var errs []error
	s, err := r.scanVersions(ctx, model)
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
		lastOfAlias := i+1 == len(moves) || moves[i+1].Alias != m.Alias
		if lastOfAlias && slices.Contains(deleted, m.To) {
			errs = append(errs, Damaged(aliasObject(model, m.Alias),
				fmt.Errorf("it points at version %d, which was deleted", m.To)))
		}
		object := versionDir(model, m.To) + versionFile
		switch s, there := sums[m.To]; {
		case m.To == 0 || slices.Contains(deleted, m.To): // it removed the alias, or led to what was deleted later
		case !there:
			errs = append(errs, Damaged(object, fmt.Errorf("move %d of %s leads to this version, which cannot be "+
				"read", m.Sequence, m.Alias)))
		case s != m.Record:
			errs = append(errs, Damaged(object, fmt.Errorf("its SHA-256 is %.12s, but was %.12s when move %d of %s "+
				"made it live", s, m.Record, m.Sequence, m.Alias)))
		}
	}
	return errors.Join(errs...)
}
