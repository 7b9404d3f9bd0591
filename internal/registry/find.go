package registry

import (
	"context"
	"errors"
)

// Find returns the version registered under a key, at any time. If there is none, the error is a *NotFoundError. A
// version whose own record is damaged is returned with a *CorruptError, and then only has model, number and key.
func (r *Registry) Find(ctx context.Context, model, key string) (Version, error) {
	for _, err := range []error{checkModel(model), checkKey(key)} {
		if err != nil {
			return Version{}, err
		}
	}
	none := &NotFoundError{Kind: "version", Name: key, Hint: " registered for " + model + " under that key"}

	s, err := r.scan(ctx, model)
	if err != nil {
		return Version{}, err
	}
	number, err := r.keyed(ctx, model, key, s)
	if isAbsent(err) {
		return Version{}, none
	}
	if err != nil {
		return Version{}, err
	}

	if err := r.notDeleted(ctx, model, number); err != nil {
		return Version{}, err
	}
	v, err := r.version(ctx, model, number)
	var damaged *CorruptError
	switch {
	case isAbsent(err):
		return Version{}, none // its registration was not completed
	case errors.As(err, &damaged):
		return Version{Model: model, Number: number, Key: key}, err
	}
	return v, err
}

// keyed returns the number that belongs to a key. The error for an unused key wraps blob.ErrNotExist. If the key's own
// object is damaged, the versions and claims of s are searched: the key's claim was written before it.
func (r *Registry) keyed(ctx context.Context, model, key string, s scanned) (int, error) {
	object := keyObject(model, key)
	data, _, err := r.read(ctx, object, maxRecord)
	if err == nil {
		var number int
		if number, err = decodeKey(data, model, key); err == nil {
			return number, nil
		}
		err = &CorruptError{object, err}
	}
	var damaged *CorruptError
	if !errors.As(err, &damaged) {
		return 0, err
	}

	w := registration{Registry: r, model: model, key: key}
	for _, n := range append(s.committed, s.claimed...) {
		if v, err := r.version(ctx, model, n); err == nil && v.Key == key {
			return n, nil
		}
		if mine, err := w.isMine(ctx, n); mine || err != nil && !isAbsent(err) {
			return n, err
		}
	}
	return 0, damaged
}
