package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	moves, err2 := r.moves(ctx, model)
	events := make([]Event, len(moves))
	for i, m := range moves {
		events[i] = m.Event
	}
	remarks, err3 := r.remarked(ctx, model)
	return merge(versions, remarks, events), errors.Join(err1, err2, err3)
}

// recordedEvent is an event with the SHA-256 of its record.
type recordedEvent struct {
	Event
	sum string
}

// moves returns all moves of a model's aliases, by alias and sequence. The error names those that are damaged, missing
// or do not follow from their predecessor; it comes with the rest.
func (r *Registry) moves(ctx context.Context, model string) ([]recordedEvent, error) {
	// Read the aliases first: any earlier event that they imply is then in the listing that follows, or is their own
	// last event.
	aliases, err1 := r.everyAlias(ctx, model)
	events, err2 := r.recorded(ctx, model)

	var errs []error
	for _, a := range aliases {
		last, err := encode(eventRecord{format, model, a.Last})
		if err != nil {
			return nil, err
		}

		i := slices.IndexFunc(events, func(e recordedEvent) bool {
			return e.Alias == a.Name &&
				e.Sequence == a.Last.Sequence
		})
		switch {
		case i < 0:
			events = append(events, recordedEvent{a.Last, sum(last)})
		case events[i].sum != sum(last):
			errs = append(errs, Damaged(eventObject(model, a.Name, a.Last.Sequence),
				fmt.Errorf("it differs from the move that the alias %s holds", a.Name)))
		}
	}

	slices.SortFunc(events, func(a, b recordedEvent) int {
		return cmp.Or(cmp.Compare(a.Alias, b.Alias), cmp.Compare(a.Sequence, b.Sequence))
	})
	return events, errors.Join(err1, err2, errors.Join(errs...), gaps(model, events), broken(model, events))
}

// recorded returns the events that were copied into the history.
func (r *Registry) recorded(ctx context.Context, model string) ([]recordedEvent, error) {
	type place struct {
		object, alias string
		sequence      int
	}
	var places []place
	err := r.list(ctx, historyDir(model), func(object string) bool {
		if alias, sequence, ok := parseEventObject(model, object); ok {
			places = append(places, place{object, alias, sequence})
		}
		return true
	})
	if err != nil {
		return nil, err
	}

	return readAll(ctx, places, func(ctx context.Context, p place) (recordedEvent, error) {
		data, _, err := r.read(ctx, p.object, maxRecord)
		if err != nil {
			return recordedEvent{}, err
		}
		e, err := decodeEvent(data, model, p.alias, p.sequence)
		if err != nil {
			return recordedEvent{}, Damaged(p.object, err)
		}
		return recordedEvent{e, sum(data)}, nil
	})
}

// gaps reports missing events of an alias: there are none unless they were deleted. events are by alias and sequence.
func gaps(model string, events []recordedEvent) error {
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

// merge orders by time. The moves of one alias keep their sequence, whatever the clocks of their authors: a move counts
// as not earlier than the previous one, and than the registration of its version.
func merge(versions []Version, remarks, events []Event) []Event {
	type timed struct {
		Event
		at time.Time
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
