package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
)

// Remark is a mark against a version, or its removal.
type Remark struct {
	Kind EventKind `json:"kind"` // MarkedBad or Cleared
	By   string    `json:"by"`
	Why  string    `json:"why"`
	At   time.Time `json:"at"`
}

// Remarks holds all remarks on a version, oldest first. It is append-only; the current state follows from it.
type Remarks struct {
	Model   string   `json:"model"`
	Version int      `json:"version"`
	All     []Remark `json:"remarks"`
}

// Bad returns the current mark against using the version; ok is false if there is none.
func (m Remarks) Bad() (r Remark, ok bool) {
	if len(m.All) > 0 {
		r = m.All[len(m.All)-1]
	}
	return r, r.Kind == MarkedBad
}

// check returns an error for a remark of another kind, or without a name, a reason or a time.
func (r Remark) check() error {
	switch r.Kind {
	case MarkedBad, Cleared:
		return Act{By: r.By, Why: r.Why, At: r.At}.check()
	}
	return wrong("remark", "there is no kind %.40q", r.Kind)
}

// Remarks returns the remarks on a version.
func (r *Registry) Remarks(ctx context.Context, model string, number int) (Remarks, error) {
	if err := checkModel(model); err != nil {
		return Remarks{}, err
	}
	m, _, err := r.remarks(ctx, model, number)
	return m, err
}

// remarks reads a version's remarks and the generation of their object, on which the next write depends. A version
// without remarks has none, which is no error.
func (r *Registry) remarks(ctx context.Context, model string, number int) (Remarks, blob.Generation, error) {
	m, generation, err := loadRecord(ctx, r, remarksObject(model, number), func(m *remarksRecord) error {
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

// MarkBad marks a version as not to be used: no alias can be moved to it, and Rollback skips it. An alias that points
// at it stays.
func (r *Registry) MarkBad(ctx context.Context, model string, number int, act Act) error {
	return r.setBad(ctx, model, number, MarkedBad, act)
}

// ClearBad removes the mark of MarkBad.
func (r *Registry) ClearBad(ctx context.Context, model string, number int, act Act) error {
	return r.setBad(ctx, model, number, Cleared, act)
}

// setBad appends a remark of kind to, MarkedBad or Cleared, to those on an existing version. If the last remark says
// the same already, nothing is written.
func (r *Registry) setBad(ctx context.Context, model string, number int, to EventKind, act Act) error {
	if err := cmp.Or(checkModel(model), act.check()); err != nil {
		return err
	}
	if _, err := r.readVersion(ctx, model, number); err != nil {
		return err
	}

	// Read, append and write, again if another process has written meanwhile.
	object := remarksObject(model, number)
	for range maxRaces {
		now, generation, err := r.remarks(ctx, model, number)
		if err != nil {
			return err
		}
		if _, bad := now.Bad(); bad == (to == MarkedBad) {
			return nil
		}
		now.All = append(now.All, Remark{Kind: to, By: act.By, Why: act.Why, At: utc(act.At)})
		data, err := encode(remarksRecord{format, now})
		if err != nil {
			return err
		}
		if len(data) > maxRecord {
			return wrong("remarks", "version %d of %s has %d bytes of them, and may have no more", number, model,
				maxRecord)
		}
		if done, err := r.replace(ctx, object, generation, data); done || err != nil {
			return err
		}
	}
	return overtaken(object)
}

// readRemarks returns the remarks on all versions of a model, and the deletions, as events. If some cannot be read, the
// others are returned with an error.
func (r *Registry) readRemarks(ctx context.Context, model string) ([]Event, error) {
	// The remarks.
	var numbers []int
	err := r.listNames(ctx, remarksDir(model), func(object string) {
		name := strings.TrimSuffix(strings.TrimPrefix(object, remarksDir(model)), jsonSuffix)
		if n, err := strconv.Atoi(name); err == nil && remarksObject(model, n) == object {
			numbers = append(numbers, n)
		}
	})
	if err != nil {
		return nil, err
	}
	all, err1 := readAll(ctx, numbers, func(ctx context.Context, n int) (Remarks, error) {
		return r.Remarks(ctx, model, n)
	})

	var events []Event
	for _, m := range all {
		for _, one := range m.All {
			events = append(events, Event{Kind: one.Kind, To: m.Version, By: one.By, Why: one.Why, At: one.At})
		}
	}

	// The deletions, of which notDeleted tells by an error.
	s, err := r.scanVersions(ctx, model)
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

// checkUsable returns nil if an alias may be moved to a version, and otherwise the reason, or the error that kept it
// from being known.
func (r *Registry) checkUsable(ctx context.Context, model string, number int) error {
	why, err := r.whyUnusable(ctx, model, number)
	return cmp.Or(err, why)
}

// whyUnusable returns why an alias may not be moved to a version: it was deleted, it is marked bad, or one of its
// files, all of which are read, is damaged. why is nil if it may. err says that this is not known, or that there
// never was such a version.
func (r *Registry) whyUnusable(ctx context.Context, model string, number int) (why, err error) {
	v, err := r.readVersion(ctx, model, number)
	if err != nil {
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
	for _, f := range v.Files {
		if _, err := r.ReadFile(ctx, v, f.Name); problem.Is(err, problem.Damaged) {
			return err, nil
		} else if err != nil {
			return nil, err
		}
	}
	return nil, nil
}
