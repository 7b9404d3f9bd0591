package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/problem"
)

// Register makes a new version of a model from files. Repeating the call is harmless: with the same key, after a crash
// or concurrently, it returns the same version. The key says what the version is the result of: a sweep's id.
//
// Numbers are 1, 2, 3 ... in the order in which keys first claimed one; a key that claimed one and was never completed
// leaves a gap. An error says by its kind whether the input is at fault or a record is damaged; a *ConflictError says
// that the key's version has other files, which is checked before anything is written.
func (r *Registry) Register(ctx context.Context, model, key string, files map[string][]byte, info Info) (Version,
	error) {
	info.At = utc(info.At)
	if err := cmp.Or(checkModel(model), checkKey(key), checkFiles(files), info.check()); err != nil {
		return Version{}, err
	}

	w := &registration{Registry: r, model: model, key: key, files: files, sums: make(map[string]string, len(files))}
	for name, data := range files {
		w.sums[name] = sum(data)
	}
	if err := w.claimNumber(ctx); err != nil {
		return Version{}, err
	}

	// A deleted version does not come back because its sweep is concluded once more.
	if err := r.notDeleted(ctx, model, w.number); err != nil {
		return Version{}, err
	}

	// An earlier call with the key may have completed.
	v, err := r.readCommitted(ctx, model, w.number)
	if err == nil {
		return w.checkSame(v)
	}
	if !isAbsent(err) {
		return Version{}, err
	}

	written, err := w.writeFiles(ctx)
	if err != nil {
		return Version{}, err
	}
	return w.commit(ctx, Version{Model: model, Number: w.number, Key: key, Info: info, Files: written})
}

// registration is one call of Register.
type registration struct {
	*Registry
	model, key string
	files      map[string][]byte
	sums       map[string]string // SHA-256 by file name
	number     int
}

// claimNumber sets w.number: the number that belongs to the key already, or the next free one, which it claims.
// FORMAT.md explains why concurrent callers with the same key cannot get different numbers.
func (w *registration) claimNumber(ctx context.Context) error {
	l, err := w.listVersions(ctx, w.model) // before looking for the key's own object
	if err != nil {
		return err
	}

	// The key's own object holds its number, once written.
	w.number, err = w.numberOfKey(ctx, w.model, w.key)
	if err == nil || !isAbsent(err) {
		return err
	}

	if err := w.findOrTake(ctx, l); err != nil {
		return err
	}

	// The model's first version also lists the model.
	if len(l.committed) == 0 {
		if _, err := w.create(ctx, modelObject(w.model), modelRecord{format, w.model}); err != nil {
			return err
		}
	}
	return w.recordKey(ctx)
}

// findOrTake sets w.number to that of the key's claim, if it is among the claims without a version in l, the listing of
// the model's versions. Otherwise it claims the first free number.
func (w *registration) findOrTake(ctx context.Context, l listed) error {
	// An earlier call with the key may have died after its claim.
	for _, n := range l.claimed {
		mine, err := w.isMine(ctx, n)
		if mine || err != nil {
			w.number = n
			return err
		}
	}

	// Others may claim numbers at the same time, so try one after the other.
	for n := l.last + 1; n <= maxNumber; n++ {
		created, err := w.create(ctx, versionDir(w.model, n)+claimFile, claimRecord{format, w.model, n, w.key})
		if err != nil {
			return err
		}

		mine := created
		if !created { // it may be the key's all the same: claimed by a concurrent call, or if an answer was lost
			if mine, err = w.isMine(ctx, n); err != nil {
				return err
			}
		}
		if mine {
			w.number = n
			return nil
		}
	}
	return wrong("model", "%s has no version number left", w.model)
}

// isMine reports whether a number is claimed for the key. A damaged claim counts as another key's: its number is taken.
func (w *registration) isMine(ctx context.Context, number int) (bool, error) {
	c, err := w.loadClaim(ctx, w.model, number)
	if problem.Is(err, problem.Damaged) {
		return false, nil
	}
	return err == nil && c.Key == w.key, err
}

// recordKey stores the number under the key, so that it can be found later without reading every claim.
func (w *registration) recordKey(ctx context.Context) error {
	object := keyObject(w.model, w.key)
	created, err := w.create(ctx, object, claimRecord{format, w.model, w.number, w.key})
	if created || err != nil {
		return err
	}

	// Another caller was faster; it must have found the same number.
	number, err := w.loadKey(ctx, w.model, w.key)
	if err == nil && number != w.number {
		err = Damaged(object, fmt.Errorf("it says version %d, and %d is claimed for the key", number, w.number))
	}
	return err
}

// writeFiles writes the files and returns where each is, by name. A file's object has the file's name, unless an
// earlier attempt, which was never completed, has left other bytes there; then its name includes the checksum. A file
// that is there already is not written again.
func (w *registration) writeFiles(ctx context.Context) ([]File, error) {
	var written []File
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		f := File{Name: name, Object: versionDir(w.model, w.number) + name, Bytes: int64(len(w.files[name])),
			SHA256: w.sums[name]}
		there, err := w.putFile(ctx, f)

		// The name is taken by other bytes: use one that includes the checksum.
		if err == nil && !there {
			f.Object = otherObject(w.model, w.number, name, f.SHA256)
			if there, err = w.putFile(ctx, f); err == nil && !there {
				err = Damaged(f.Object, errors.New("its bytes are not those that its name promises"))
			}
		}

		if err != nil {
			return nil, err
		}
		written = append(written, f)
	}

	return written, nil
}

// putFile writes the file unless the object exists, and reports whether the object has the file's bytes.
func (w *registration) putFile(ctx context.Context, f File) (bool, error) {
	created, err := blob.Create(ctx, w.store, f.Object, w.files[f.Name])
	if err != nil {
		return false, fmt.Errorf("registry: write %s: %w", f.Object, err)
	}
	if created {
		return true, nil
	}

	data, _, err := w.readObject(ctx, f.Object, f.Bytes)
	if problem.Is(err, problem.Damaged) {
		return false, nil // it is longer
	}
	return err == nil && sum(data) == f.SHA256, err
}

// commit makes the version visible by writing its record, version.json, and returns it as it was stored. If another
// attempt has done so first, its record counts, and must have the same files.
func (w *registration) commit(ctx context.Context, v Version) (Version, error) {
	object := versionDir(w.model, w.number) + versionFile
	created, err := w.create(ctx, object, versionRecord{format, v})
	if err != nil {
		return Version{}, err
	}

	there, err := w.readCommitted(ctx, w.model, w.number)
	if err != nil {
		return Version{}, err
	}

	if created {
		return there, nil
	}
	return w.checkSame(there)
}

// checkSame returns v, a version that exists under the key, if its files have the names and checksums of those to be
// registered. Otherwise the error is a *ConflictError.
func (w *registration) checkSame(v Version) (Version, error) {
	conflict := func(file string) error {
		return &ConflictError{fmt.Sprintf("registry: version %d of %s is already registered under the key %s, with a "+
			"different %s; use another key", v.Number, w.model, w.key, file)}
	}

	if v.Key != w.key {
		return Version{}, Damaged(versionDir(w.model, v.Number)+versionFile,
			fmt.Errorf("its key is %q, and the claim's is %q", v.Key, w.key))
	}

	for _, name := range slices.Sorted(maps.Keys(w.sums)) {
		if f, ok := v.File(name); !ok || f.SHA256 != w.sums[name] {
			return Version{}, conflict(name)
		}
	}
	for _, f := range v.Files {
		if _, ok := w.sums[f.Name]; !ok {
			return Version{}, conflict(f.Name)
		}
	}
	return v, nil
}

// Find returns the version that was registered under a key. An error of kind NotFound says that there is none; if it
// is a *DeletedError, there was one. A version whose own record is damaged is returned with an error of kind Damaged,
// and then has only model, number and key.
func (r *Registry) Find(ctx context.Context, model, key string) (Version, error) {
	if err := cmp.Or(checkModel(model), checkKey(key)); err != nil {
		return Version{}, err
	}
	none := missing("version", key, " registered for "+model+" under that key")

	number, err := r.numberOfKey(ctx, model, key)
	if isAbsent(err) {
		return Version{}, none
	}
	if err != nil {
		return Version{}, err
	}

	if err := r.notDeleted(ctx, model, number); err != nil {
		return Version{}, err
	}
	v, err := r.readCommitted(ctx, model, number)
	switch {
	case isAbsent(err):
		return Version{}, none // its registration was not completed
	case problem.Is(err, problem.Damaged):
		return Version{Model: model, Number: number, Key: key}, err
	}
	return v, err
}

// numberOfKey returns the number that belongs to a key. The error for an unused key wraps blob.ErrNotExist. If the
// key's own object is damaged, it searches all versions and claims instead: the claim was written before that object.
// If they do not have the key, the error is that of the damaged object.
func (r *Registry) numberOfKey(ctx context.Context, model, key string) (int, error) {
	number, err := r.loadKey(ctx, model, key)
	if !problem.Is(err, problem.Damaged) {
		return number, err
	}

	l, errList := r.listVersions(ctx, model)
	if errList != nil {
		return 0, errList
	}
	w := registration{Registry: r, model: model, key: key}
	for _, n := range slices.Concat(l.committed, l.claimed) {
		if v, err := r.readCommitted(ctx, model, n); err == nil && v.Key == key {
			return n, nil
		}
		if mine, err := w.isMine(ctx, n); mine || err != nil && !isAbsent(err) {
			return n, err
		}
	}
	return 0, err
}
