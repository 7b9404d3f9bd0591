package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// atOnce is how many objects are read at the same time.
const atOnce = 16

// scanned is what a listing shows of a model's versions.
type scanned struct {
	committed []int // ascending
	claimed   []int // not committed, ascending
	deleted   []int // ascending
	last      int   // the highest of all; 0 for none
}

func (r *Registry) scan(ctx context.Context, model string) (scanned, error) {
	var s scanned
	claims := map[int]bool{}
	deleted := map[int]bool{}
	err := r.list(ctx, versionsDir(model), func(object string) bool {
		number, rest, ok := parseVersionObject(model, object)
		switch {
		case ok && rest == claimFile:
			claims[number] = true
		case ok && rest == versionFile:
			s.committed = append(s.committed, number)
		case ok && rest == deletedFile:
			deleted[number] = true
		default:
			return true
		}
		s.last = max(s.last, number)
		return true
	})
	if err != nil {
		return s, err
	}
	for n := range deleted {
		if r.notDeleted(ctx, model, n) == nil { // withdrawn; a record that cannot be read hides the version
			delete(deleted, n)
		}
	}

	// A claim is complete once its version exists, or existed.
	for _, n := range s.committed {
		delete(claims, n)
	}
	s.committed = slices.DeleteFunc(s.committed, func(n int) bool { return deleted[n] })
	for n := range deleted {
		delete(claims, n)
		s.deleted = append(s.deleted, n)
	}
	slices.Sort(s.deleted)
	for n := range claims {
		s.claimed = append(s.claimed, n)
	}

	slices.Sort(s.committed) // the listing sorts 10 before 2
	slices.Sort(s.claimed)
	return s, nil
}

// version reads a committed version; the error for any other wraps blob.ErrNotExist.
func (r *Registry) version(ctx context.Context, model string, number int) (Version, error) {
	v, _, err := load(ctx, r, versionDir(model, number)+versionFile,
		func(v *versionRecord) error { return v.check(model, number) })
	return v.Version, err
}

// Models returns the names of the models that have a version, ascending.
func (r *Registry) Models(ctx context.Context) ([]string, error) {
	var candidates, models []string
	err := r.list(ctx, modelsDir, func(object string) bool {
		name := object[len(modelsDir):]
		if n := len(name) - len(jsonSuffix); n > 0 && name[n:] == jsonSuffix && checkModel(name[:n]) == nil {
			candidates = append(candidates, name[:n])
		}
		return true
	})
	if err != nil {
		return nil, err
	}

	// A first registration that was not completed leaves only the name.
	for _, model := range candidates {
		s, err := r.scan(ctx, model)
		if err != nil {
			return nil, err
		}
		if len(s.committed) > 0 {
			models = append(models, model)
		}
	}

	slices.Sort(models)
	return models, nil
}

// Versions returns all versions of a model, ascending. If some cannot be read, the others are returned with an error
// that names these. A model without versions is not found.
func (r *Registry) Versions(ctx context.Context, model string) ([]Version, error) {
	if err := checkModel(model); err != nil {
		return nil, err
	}
	s, err := r.scan(ctx, model)
	if err != nil {
		return nil, err
	}
	if len(s.committed) == 0 {
		return nil, r.noModel(ctx, model)
	}
	return readAll(ctx, s.committed, func(ctx context.Context, n int) (Version,
		error) {
		return r.version(ctx, model, n)
	})
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
	if err := g.Wait(); err != nil {
		return nil, err
	}

	var out []V
	for i, v := range values {
		if errs[i] == nil {
			out = append(out, v)
		}
	}
	return out, errors.Join(errs...)
}

// Get finds a version: ref is its number, an alias, "latest" for the newest unless that is an alias, or empty for the
// champion, or the newest version if there is no champion. The error for a missing one says what exists.
func (r *Registry) Get(ctx context.Context, model, ref string) (Version, error) {
	if err := checkModel(model); err != nil {
		return Version{}, err
	}
	if number, ok := parseNumber(ref); ok {
		return r.numbered(ctx, model, number)
	}

	if ref != "" {
		a, err := r.Alias(ctx, model, ref)
		switch {
		case err == nil:
			return r.numbered(ctx, model, a.Version)
		case ref != "latest" || problem.Of(err) != problem.NotFound:
			return Version{}, err
		}
	} else if a, _, err := r.alias(ctx, model, Champion); err != nil {
		return Version{}, err
	} else if a.Version > 0 {
		return r.numbered(ctx, model, a.Version)
	}

	s, err := r.scan(ctx, model)
	if err != nil {
		return Version{}, err
	}
	if len(s.committed) == 0 {
		return Version{}, r.noModel(ctx, model)
	}
	return r.numbered(ctx, model, slices.Max(s.committed))
}

// numbered returns a version by its number.
func (r *Registry) numbered(ctx context.Context, model string, number int) (Version, error) {
	if err := r.notDeleted(ctx, model, number); err != nil {
		return Version{}, err
	}
	v, err := r.version(ctx, model, number)
	if !isAbsent(err) {
		return v, err
	}

	s, err := r.scan(ctx, model)
	if err != nil {
		return Version{}, err
	}
	if len(s.committed) == 0 {
		return Version{}, r.noModel(ctx, model)
	}
	hint := fmt.Sprintf(" of %s (its versions are %s)", model, ranges(s.committed))
	return Version{}, missing("version", strconv.Itoa(number), hint)
}

// ranges formats ascending numbers as 1-3, 5.
func ranges(numbers []int) string {
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

// noModel is the error about a model without versions.
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

// ReadFile reads a file of a version and verifies the registered length and SHA-256. A missing file is
// not found, one that has changed is damaged.
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

	data, _, err := r.read(ctx, f.Object, f.Bytes)
	if isAbsent(err) {
		return nil, Damaged(f.Object, err)
	}
	if err != nil {
		return nil, err
	}

	if int64(len(data)) != f.Bytes || sum(data) != f.SHA256 {
		err := fmt.Errorf("%d bytes with SHA-256 %s, registered were %d with %s", len(data), sum(data), f.Bytes,
			f.SHA256)
		return nil, Damaged(f.Object, err)
	}
	return data, nil
}
