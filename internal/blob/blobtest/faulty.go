package blobtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/problem"
)

// Fault is what is wrong with an object, for good.
type Fault string

// The faults.
const (
	Checksum  Fault = "checksum"  // the store has it, and what arrives never matches its checksum
	Forbidden Fault = "403"       // nobody may read it
	Refused   Fault = "5xx"       // the store answers every call about it with an error
	Truncated Fault = "truncated" // it has lost its second half
	Absent    Fault = "absent"    // it does not exist, until it is written again
)

// Faults are all of them.
var Faults = []Fault{Checksum, Forbidden, Refused, Truncated, Absent}

// ErrRefused is the error of a store that refuses an object.
var ErrRefused = errors.New("503 Service Unavailable")

// Faulty is a store in which something is wrong with some objects. Objects that are written anew are whole.
type Faulty struct {
	*Hooked
	fault Fault
	bad   map[string]blob.Generation // the generation with the fault, by the object's name
}

// NewFaulty returns a copy of s in memory, whose objects are written in the same order, with the fault in all objects
// that match. The fault strikes only these contents: an object that is written anew is whole.
func NewFaulty(ctx context.Context, s blob.Store, fault Fault, match func(name string) bool) (*Faulty, error) {
	var all []blob.Attrs
	for attrs, err := range s.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		all = append(all, attrs)
	}
	slices.SortFunc(all, func(a, b blob.Attrs) int { return cmp.Compare(a.Generation, b.Generation) })

	// Copy the objects, without those that are to be absent, and half of those that are to be truncated. f has no hooks
	// yet, so that copying meets no faults.
	f := &Faulty{Hooked: &Hooked{Store: blob.Memory()}, fault: fault, bad: map[string]blob.Generation{}}
	for _, attrs := range all {
		hit := match(attrs.Name)
		if hit && fault == Absent {
			f.bad[attrs.Name] = blob.Absent
			continue
		}
		data, _, err := blob.ReadAll(ctx, s, attrs.Name, attrs.Size)
		if err != nil {
			return nil, err
		}
		if hit && fault == Truncated {
			data = data[:len(data)/2]
		}
		copied, err := f.Put(ctx, attrs.Name, blob.Any, bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if hit {
			f.bad[attrs.Name] = copied.Generation
		}
	}

	// All other faults but a wrong checksum are met when an object is looked for or opened.
	f.Before = func(ctx context.Context, call Call, name string) error {
		if wrong := f.fails(ctx, name); fault != Checksum && (call == Stat || call == Open) {
			return wrong
		}
		return nil
	}
	f.Reads = func(name string, data []byte) ([]byte, error) {
		wrong := f.fails(ctx, name)
		if wrong != nil { // wrong bytes come first, and the error behind them, as from a client that checks the sum
			for i := range data {
				data[i] ^= 1
			}
		}
		return data, wrong
	}
	return f, nil
}

// Struck is the number of objects with the fault.
func (f *Faulty) Struck() int { return len(f.bad) }

// fails returns the error of a call about an object: nil if it has no fault, if it was written anew, or if the fault
// (Truncated, Absent) is no error of the store.
func (f *Faulty) fails(ctx context.Context, name string) error {
	bad, ok := f.bad[name]
	if !ok {
		return nil
	}
	if attrs, err := f.Store.Stat(ctx, name); err != nil || attrs.Generation != bad {
		return nil //nolint:nilerr // the caller meets it again
	}
	switch f.fault {
	case Forbidden:
		return problem.New(problem.Environment, "no permission to use %s", name)
	case Refused:
		return fmt.Errorf("%s: %w", name, ErrRefused)
	case Checksum:
		return fmt.Errorf("%s: %w", name, blob.ErrChecksum)
	}
	return nil
}
