package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// atOnce is how many objects are read at the same time.
const atOnce = 16

// listed is what the names of a model's objects show of its versions. Nothing is read, however many there are.
type listed struct {
	committed []int        // ascending; deleted ones, too
	claimed   []int        // neither committed nor marked, ascending
	marked    map[int]bool // deleted, unless that was withdrawn
	last      int          // the highest of all; 0 for none
}

// listVersions lists the names of a model's objects, and tells from them which versions are complete, which numbers are
// only claimed, and which are marked as deleted.
func (r *Registry) listVersions(ctx context.Context, model string) (listed, error) {
	l := listed{marked: map[int]bool{}}
	claims := map[int]bool{}
	err := r.listNames(ctx, versionsDir(model), func(object string) {
		number, rest, ok := parseVersionObject(model, object)
		switch {
		case ok && rest == claimFile:
			claims[number] = true
		case ok && rest == versionFile:
			l.committed = append(l.committed, number)
		case ok && rest == deletedFile:
			l.marked[number] = true
		default:
			return
		}
		l.last = max(l.last, number)
	})
	if err != nil {
		return l, err
	}

	// Leave only the claims whose version does not exist, and has not been deleted.
	for _, n := range l.committed {
		delete(claims, n)
	}
	for n := range claims {
		if !l.marked[n] {
			l.claimed = append(l.claimed, n)
		}
	}
	slices.Sort(l.committed) // the listing sorts 10 before 2
	slices.Sort(l.claimed)
	return l, nil
}

// findNewest returns the number of the newest version that was not deleted; 0 if there is none. Of the marks of
// deletion it reads only those of newer versions. A damaged one hides its version, and is the error if there is no
// other version.
func (r *Registry) findNewest(ctx context.Context, model string) (int, error) {
	l, err := r.listVersions(ctx, model)
	if err != nil {
		return 0, err
	}
	var damaged error
	var deleted *DeletedError
	for _, n := range slices.Backward(l.committed) {
		if !l.marked[n] {
			return n, nil
		}
		switch err := r.notDeleted(ctx, model, n); {
		case err == nil: // the deletion was withdrawn
			return n, nil
		case problem.Is(err, problem.Damaged):
			damaged = cmp.Or(damaged, err)
		case !errors.As(err, &deleted):
			return 0, err
		}
	}
	return 0, damaged
}

// scanned is which of a model's versions exist.
type scanned struct {
	committed []int // ascending
	deleted   []int // ascending
	damaged   error // marks of deletion that are damaged: it is not known whether their versions were deleted
}

// scanVersions lists the numbers of the versions that exist, and of those that were deleted. It reads the marks of
// deletion, since a deletion may have been withdrawn. The version of a damaged mark is neither.
func (r *Registry) scanVersions(ctx context.Context, model string) (s scanned, err error) {
	l, err := r.listVersions(ctx, model)
	if err != nil {
		return s, err
	}
	marked := slices.Sorted(maps.Keys(l.marked))
	states, _ := readAll(ctx, marked, func(ctx context.Context, n int) (error, error) {
		return r.notDeleted(ctx, model, n), nil // nil if the deletion was withdrawn
	})
	hidden := map[int]bool{}
	var deleted *DeletedError
	for i, n := range marked {
		switch err := states[i]; {
		case err == nil:
			continue
		case errors.As(err, &deleted):
			s.deleted = append(s.deleted, n)
		case problem.Is(err, problem.Damaged):
			s.damaged = errors.Join(s.damaged, err)
		default:
			return s, err
		}
		hidden[n] = true
	}
	s.committed = slices.DeleteFunc(l.committed, func(n int) bool { return hidden[n] })
	return s, nil
}

// readCommitted reads a committed version; the error for any other wraps blob.ErrNotExist.
func (r *Registry) readCommitted(ctx context.Context, model string, number int) (Version, error) {
	v, _, err := loadRecord(ctx, r, versionDir(model, number)+versionFile,
		func(v *versionRecord) error { return v.check(model, number) })
	return v.Version, err
}

// Models returns the names of the models that have a version, or may have one, since a mark of deletion is damaged;
// ascending.
func (r *Registry) Models(ctx context.Context) ([]string, error) {
	var names, models []string
	err := r.listNames(ctx, modelsDir, func(object string) {
		name := object[len(modelsDir):]
		if n := len(name) - len(jsonSuffix); n > 0 && name[n:] == jsonSuffix && checkModel(name[:n]) == nil {
			names = append(names, name[:n])
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, model := range names {
		n, err := r.findNewest(ctx, model)
		if err != nil && !problem.Is(err, problem.Damaged) {
			return nil, err
		}
		if n > 0 || err != nil {
			models = append(models, model)
		}
	}
	return models, nil
}

// Numbers returns the numbers of a model's versions, ascending, without those of which a damaged mark leaves open
// whether they were deleted.
func (r *Registry) Numbers(ctx context.Context, model string) ([]int, error) {
	if err := checkModel(model); err != nil {
		return nil, err
	}
	s, err := r.scanVersions(ctx, model)
	return s.committed, err
}

// Versions returns all versions of a model, ascending. If some cannot be read, or it cannot be told whether they were
// deleted, the others are returned with an error that names these. A model without versions is not found.
func (r *Registry) Versions(ctx context.Context, model string) ([]Version, error) {
	if err := checkModel(model); err != nil {
		return nil, err
	}
	s, err := r.scanVersions(ctx, model)
	if err != nil {
		return nil, err
	}
	if len(s.committed) == 0 && s.damaged == nil {
		return nil, r.noModel(ctx, model)
	}
	versions, err := readAll(ctx, s.committed, func(ctx context.Context, n int) (Version, error) {
		return r.readCommitted(ctx, model, n)
	})
	return versions, errors.Join(err, s.damaged)
}

// readAll reads objects in parallel and returns the readable ones in order, with the errors of the others.
func readAll[K, V any](ctx context.Context, keys []K, read func(context.Context, K) (V, error)) ([]V, error) {
	values := make([]V, len(keys))
	errs := make([]error, len(keys))

	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, k := range keys {
		g.Go(func() error {
			values[i], errs[i] = read(ctx, k)
			return nil
		})
	}
	_ = g.Wait() // errors are in errs

	var out []V
	for i, v := range values {
		if errs[i] == nil {
			out = append(out, v)
		}
	}
	return out, errors.Join(errs...)
}

// Get finds a version of a model by ref:
//
//   - a number or an alias means that version;
//   - "latest" means the newest version, unless there is an alias of that name;
//   - an empty ref means the champion or, if there is none, the newest version.
//
// The error for a version that does not exist is of kind NotFound, and says what exists.
func (r *Registry) Get(ctx context.Context, model, ref string) (Version, error) {
	if err := checkModel(model); err != nil {
		return Version{}, err
	}
	if number, ok := parseNumber(ref); ok {
		return r.readVersion(ctx, model, number)
	}

	if ref != "" {
		a, err := r.Alias(ctx, model, ref)
		switch {
		case err == nil:
			return r.readVersion(ctx, model, a.Version)
		case ref != "latest" || problem.Of(err) != problem.NotFound:
			return Version{}, err
		}
	} else if a, _, err := r.readAlias(ctx, model, Champion); err != nil {
		return Version{}, err
	} else if a.Version > 0 {
		return r.readVersion(ctx, model, a.Version)
	}

	newest, err := r.findNewest(ctx, model)
	if err != nil {
		return Version{}, err
	}
	if newest == 0 {
		return Version{}, r.noModel(ctx, model)
	}
	return r.readVersion(ctx, model, newest)
}

// readVersion returns a version by its number. The error for a deleted version is a *DeletedError. That for a version
// that never existed is of kind NotFound, and says which ones there are.
func (r *Registry) readVersion(ctx context.Context, model string, number int) (Version, error) {
	if err := r.notDeleted(ctx, model, number); err != nil {
		return Version{}, err
	}
	v, err := r.readCommitted(ctx, model, number)
	if !isAbsent(err) {
		return v, err
	}

	s, err := r.scanVersions(ctx, model)
	if err != nil {
		return Version{}, err
	}
	if len(s.committed) == 0 {
		return Version{}, cmp.Or(s.damaged, r.noModel(ctx, model))
	}
	hint := fmt.Sprintf(" of %s (its versions are %s)", model, formatRanges(s.committed))
	return Version{}, missing("version", strconv.Itoa(number), hint)
}

// formatRanges formats numbers, which may be in any order and repeated, as ascending ranges such as 1-3, 5.
func formatRanges(numbers []int) string {
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}

		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// noModel returns the error about a model without versions, which suggests one that is spelled alike. If the models
// cannot be listed, it returns that error.
func (r *Registry) noModel(ctx context.Context, model string) error {
	models, err := r.Models(ctx)
	if err != nil {
		return err
	}
	hint := strictyaml.Suggest(model, models)
	if len(models) == 0 {
		hint = " (the registry is empty)"
	}
	return missing("model", model, hint)
}

// ReadJSON decodes a file of a version, which ReadFile reads.
func (r *Registry) ReadJSON(ctx context.Context, v Version, name string, into any) error {
	text, err := r.ReadFile(ctx, v, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s of %s: %w", name, v.Called(), err)
	}
	return nil
}

// ReadFile reads a file of a version and verifies its registered length and SHA-256. The error is of kind NotFound if
// the version has no such file, and of kind Damaged if the file's object is missing or has other bytes.
func (r *Registry) ReadFile(ctx context.Context, v Version, name string) ([]byte, error) {
	f, ok := v.File(name)
	if !ok {
		var names []string
		for _, f := range v.Files {
			names = append(names, f.Name)
		}
		hint := fmt.Sprintf(" in version %d of %s%s", v.Number, v.Model, strictyaml.Suggest(name, names))
		return nil, missing("file", name, hint)
	}

	if err := f.check(v.Model, v.Number); err != nil {
		return nil, wrong("version", "%v", err)
	}

	data, _, err := r.readObject(ctx, f.Object, f.Bytes)
	if isAbsent(err) {
		return nil, Damaged(f.Object, err)
	}
	if err != nil {
		return nil, err
	}

	if int64(len(data)) != f.Bytes || sum(data) != f.SHA256 {
		err := fmt.Errorf("it has %d bytes with SHA-256 %s, but was registered with %d bytes and SHA-256 %s",
			len(data), sum(data), f.Bytes, f.SHA256)
		return nil, Damaged(f.Object, err)
	}
	return data, nil
}

// loadRecord reads and decodes an object that holds a record, and returns its generation, at, for a later replace. The
// error for an object that does not exist wraps blob.ErrNotExist.
func loadRecord[T any](ctx context.Context, r *Registry, object string, check func(*T) error) (v T, at blob.Generation,
	err error) {
	data, at, err := r.readObject(ctx, object, maxRecord)
	if err != nil {
		return v, 0, err
	}
	v, err = decode(object, data, check)
	return v, at, err
}

// loadClaim reads which key has taken a version's number. One of another version is damage.
func (r *Registry) loadClaim(ctx context.Context, model string, number int) (claimRecord, error) {
	c, _, err := loadRecord(ctx, r, versionDir(model, number)+claimFile, func(c *claimRecord) error {
		if c.Model != model || c.Number != number {
			return fmt.Errorf("it claims version %d of %.60q", c.Number, c.Model)
		}
		return checkKey(c.Key)
	})
	return c, err
}

// loadKey returns the number that is stored under a key.
func (r *Registry) loadKey(ctx context.Context, model, key string) (int, error) {
	c, _, err := loadRecord(ctx, r, keyObject(model, key), func(c *claimRecord) error {
		if c.Model != model || c.Key != key || c.Number < 1 || c.Number > maxNumber {
			return fmt.Errorf("it says version %d of %.60q for %.60q", c.Number, c.Model, c.Key)
		}
		return nil
	})
	return c.Number, err
}

// readObject returns a whole object and its generation. The error is of kind Damaged if the object is longer than limit
// bytes, or if its checksum stays wrong when it is read again.
func (r *Registry) readObject(ctx context.Context, object string, limit int64) ([]byte, blob.Generation, error) {
	data, attrs, err := blob.ReadAll(ctx, r.store, object, limit)
	switch {
	case problem.Is(err, problem.Damaged):
		return nil, 0, Damaged(object, err)
	case err != nil:
		return nil, 0, fmt.Errorf("registry: %w", err)
	}
	return data, attrs.Generation, nil
}

// listNames calls each with the names under a prefix, ascending.
func (r *Registry) listNames(ctx context.Context, prefix string, each func(object string)) error {
	for attrs, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("registry: list %s: %w", strings.TrimSuffix(prefix, "/"), err)
		}
		each(attrs.Name)
	}
	return nil
}
