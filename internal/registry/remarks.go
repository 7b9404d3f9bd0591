package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
)

// Remark is a remark on a version, made after it was registered.
type Remark struct {
	Kind  EventKind `json:"kind"` // Tagged, Untagged, Noted, MarkedBad or Cleared
	Tag   string    `json:"tag,omitempty"`
	Value string    `json:"value,omitempty"`
	By    string    `json:"by"`
	Why   string    `json:"why"` // for a note: its text
	At    time.Time `json:"at"`
}

// Remarks holds all remarks on a version, oldest first. It is append-only; the current state follows from it.
type Remarks struct {
	Model   string   `json:"model"`
	Version int      `json:"version"`
	All     []Remark `json:"remarks"`
}

const (
	maxRemarks = 1000
	maxTags    = 100
)

var tagPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]{0,62}$`)

// Tags returns the tags currently set.
func (m Remarks) Tags() map[string]string {
	tags := map[string]string{}
	for _, r := range m.All {
		switch r.Kind {
		case Tagged:
			tags[r.Tag] = r.Value
		case Untagged:
			delete(tags, r.Tag)
		}
	}
	return tags
}

// Notes returns the notes.
func (m Remarks) Notes() []Remark {
	return slices.DeleteFunc(slices.Clone(m.All), func(r Remark) bool { return r.Kind != Noted })
}

// Bad returns the current mark against using the version; ok is false if there is none.
func (m Remarks) Bad() (r Remark, ok bool) {
	for _, next := range m.All {
		switch next.Kind {
		case MarkedBad:
			r, ok = next, true
		case Cleared:
			r, ok = Remark{}, false
		}
	}
	return r, ok
}

// check rejects an invalid remark.
func (r Remark) check() error {
	switch r.Kind {
	case Tagged, Untagged:
		if !tagPattern.MatchString(r.Tag) {
			return wrong("tag", "%.60q: use 1 to 63 of A-Z, a-z, 0-9, '.', '_', '/' and '-', beginning with a letter",
				r.Tag)
		}
		if err := checkText("tag "+r.Tag, r.Value, false); err != nil {
			return err
		}
	case Noted, MarkedBad, Cleared:
	default:
		return wrong("remark", "there is no kind %.40q", r.Kind)
	}

	return Act{By: r.By, Why: r.Why, At: r.At}.check()
}

// Remarks returns the remarks on a version.
func (r *Registry) Remarks(ctx context.Context, model string, number int) (Remarks, error) {
	if err := checkModel(model); err != nil {
		return Remarks{}, err
	}
	m, _, err := r.remarks(ctx, model, number)
	return m, err
}

func (r *Registry) remarks(ctx context.Context, model string, number int) (Remarks, blob.Generation, error) {
	m, generation, err := load(ctx, r, remarksObject(model, number), func(m *remarksRecord) error {
		if m.Model != model || m.Version != number {
			return fmt.Errorf("it is about version %d of %.60q", m.Version, m.Model)
		}
		for _, one := range m.All {
			if err := one.check(); err != nil {
				return err
			}
		}
		return nil
	})
	if isAbsent(err) {
		return Remarks{Model: model, Version: number}, blob.Absent, nil
	}
	return m.Remarks, generation, err
}

type remarksRecord struct {
	Format int `json:"format"`
	Remarks
}

// Tag sets tags of a version, and removes those named in remove.
func (r *Registry) Tag(ctx context.Context, model string, number int, set map[string]string, remove []string,
	act Act) (Remarks, error) {
	return r.remark(ctx, model, number, act, func(now Remarks) ([]Remark, error) {
		tags := now.Tags()
		var fresh []Remark
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if old, there := tags[name]; !there || old != set[name] {
				fresh = append(fresh, Remark{Kind: Tagged, Tag: name, Value: set[name]})
			}
		}
		for _, name := range remove {
			if _, there := tags[name]; there {
				fresh = append(fresh, Remark{Kind: Untagged, Tag: name})
			}
		}
		if len(tags)+len(set) > maxTags {
			return nil, wrong("tags", "more than the %d that a version may have", maxTags)
		}
		return fresh, nil
	})
}

// Note adds a note to a version; act's Why is its text.
func (r *Registry) Note(ctx context.Context, model string, number int, act Act) (Remarks, error) {
	return r.remark(ctx, model, number, act, func(Remarks) ([]Remark, error) { return []Remark{{Kind: Noted}}, nil })
}

// MarkBad marks a version as not to be used: no alias can be moved to it, and Rollback skips it. An alias that points
// at it stays.
func (r *Registry) MarkBad(ctx context.Context, model string, number int, act Act) (Remarks, error) {
	return r.setBad(ctx, model, number, MarkedBad, act)
}

// ClearBad removes the mark of MarkBad.
func (r *Registry) ClearBad(ctx context.Context, model string, number int, act Act) (Remarks, error) {
	return r.setBad(ctx, model, number, Cleared, act)
}

func (r *Registry) setBad(ctx context.Context, model string, number int, to EventKind, act Act) (Remarks, error) {
	return r.remark(ctx, model, number, act, func(now Remarks) ([]Remark, error) {
		if _, bad := now.Bad(); bad == (to == MarkedBad) {
			return nil, nil
		}
		return []Remark{{Kind: to}}, nil
	})
}

// remark appends the result of decide to the remarks on an existing version.
func (r *Registry) remark(ctx context.Context, model string, number int, act Act,
	decide func(Remarks) ([]Remark, error)) (Remarks, error) {
	for _, err := range []error{checkModel(model), act.check()} {
		if err != nil {
			return Remarks{}, err
		}
	}
	if _, err := r.numbered(ctx, model, number); err != nil {
		return Remarks{}, err
	}

	object := remarksObject(model, number)
	for range maxRaces {
		now, generation, err := r.remarks(ctx, model, number)
		if err != nil {
			return Remarks{}, err
		}
		fresh, err := decide(now)
		if err != nil || len(fresh) == 0 {
			return now, err
		}
		for i := range fresh {
			fresh[i].By, fresh[i].Why, fresh[i].At = act.By, act.Why, utc(act.At)
			if err := fresh[i].check(); err != nil {
				return Remarks{}, err
			}
		}
		if now.All = append(now.All, fresh...); len(now.All) > maxRemarks {
			return Remarks{}, wrong("remarks", "version %d of %s has %d, and may have no more",
				number, model, maxRemarks)
		}

		data, err := encode(remarksRecord{format, now})
		if err != nil {
			return Remarks{}, err
		}
		if len(data) > maxRecord {
			return Remarks{}, wrong("remarks", "version %d of %s has %d bytes of them, and may "+
				"have no more", number, model, maxRecord)
		}
		if done, err := r.replace(ctx, object, generation, data); done || err != nil {
			return now, err
		}
	}
	return Remarks{}, overtaken(object)
}

// remarked returns the remarks on all versions, and the deletions, as events.
func (r *Registry) remarked(ctx context.Context, model string) ([]Event, error) {
	var numbers []int
	err := r.list(ctx, remarksDir(model), func(object string) bool {
		name := strings.TrimSuffix(strings.TrimPrefix(object, remarksDir(model)), jsonSuffix)
		if n, err := strconv.Atoi(name); err == nil && remarksObject(model, n) == object {
			numbers = append(numbers, n)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	all, err1 := readAll(ctx, numbers, func(ctx context.Context, n int) (Remarks,
		error) {
		return r.Remarks(ctx, model, n)
	})

	var events []Event
	for _, m := range all {
		for _, one := range m.All {
			why := one.Why
			switch one.Kind {
			case Tagged:
				why = fmt.Sprintf("%s=%s: %s", one.Tag, one.Value, one.Why)
			case Untagged:
				why = fmt.Sprintf("%s: %s", one.Tag, one.Why)
			}
			events = append(events, Event{Kind: one.Kind, To: m.Version, By: one.By, Why: why, At: one.At})
		}
	}

	s, err := r.scan(ctx, model)
	if err != nil {
		return nil, err
	}
	var deleted *DeletedError
	for _, n := range s.deleted {
		if err := r.notDeleted(ctx, model, n); errors.As(err, &deleted) {
			events = append(events, Event{Kind: Deleted, To: n, By: deleted.Act.By, Why: deleted.Act.Why,
				At: deleted.Act.At})
		} else if err != nil {
			err1 = errors.Join(err1, err)
		}
	}
	return events, err1
}

// usable returns nil for a version that an alias may be moved to.
func (r *Registry) usable(ctx context.Context, model string, number int) error {
	why, err := r.unusable(ctx, model, number)
	return cmp.Or(err, why)
}

// unusable says why an alias may not be moved to a version: it was deleted, or marked bad. err is any other reason.
func (r *Registry) unusable(ctx context.Context, model string, number int) (why, err error) {
	if _, err := r.numbered(ctx, model, number); err != nil {
		if deleted := new(DeletedError); errors.As(err, &deleted) {
			return err, nil
		}
		return nil, err
	}
	m, _, err := r.remarks(ctx, model, number)
	if err != nil {
		return nil, err
	}
	if bad, ok := m.Bad(); ok {
		return problem.New(problem.Conflict,
			"registry: version %d of %s was marked bad by %s on %s: %s; clear the mark "+
				"first, if it is good after all", number, model, bad.By, bad.At.Format(time.DateTime), bad.Why), nil
	}
	return nil, nil
}
