// Package sweepstore reads and writes the objects of a sweep: the plan, what tasks write, and how it ends. It is the
// only place that knows each object's contents, its size limit, and what it means if it cannot be read
// (internal/sweep/WIRE.md), so that a task, the aggregator and an observer see the same sweep.
//
// It contains no policy. Who may claim a trial, when a holder counts as dead and when a sweep is over is decided by its
// users, who declare interfaces with the few methods that they need.
package sweepstore

import (
	"context"
	"errors"
	"fmt"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// damaged is an object whose contents do not match its name: too long, not JSON of its kind, of a format that this
// build does not read, or about another sweep, trial or claim. It is of kind problem.Damaged.
func damaged(k kind, object string, why error) error {
	if !problem.Is(why, problem.Damaged) {
		why = sweep.NotA(k.name, why)
	}
	return problem.Wrap(problem.Damaged, why, "%s", object)
}

// kind is what all objects of one kind have in common.
type kind struct {
	name  string
	limit int64 // bytes; a longer object is damaged
}

// The kinds of objects. The largest plan and conclusion are those of sweep.MaxTrials trials.
var (
	planKind       = kind{"plan", 64 << 20}
	endingKind     = kind{"ending", 16 << 20}
	conclusionKind = kind{"conclusion", 64 << 20}
	jobKind        = kind{"job record", 64 << 10}
	claimKind      = kind{"claim", 1 << 20}
	heartbeatKind  = kind{"heartbeat", 1 << 20}
	resultKind     = kind{"result", 16 << 20}
)

// read returns an object's bytes and decode's value, without the write id, which only the writer needs. A missing
// object is blob.ErrNotExist, a damaged one is of kind problem.Damaged; other errors are the store's.
func read[T any](ctx context.Context, s blob.Store, k kind, object string, decode func([]byte) (*T, error)) (*T, []byte,
	error) {
	data, _, err := blob.ReadAll(ctx, s, object, k.limit)
	if errors.Is(err, blob.ErrTooLong) {
		return nil, nil, damaged(k, object, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", object, err)
	}

	v, err := decode(data)
	if err != nil {
		return nil, nil, damaged(k, object, err)
	}
	if once, ok := any(v).(interface{ ForgetWrite() }); ok {
		once.ForgetWrite()
	}
	return v, data, nil
}

// optional is read, except that a missing object is nil and no error.
func optional[T any](ctx context.Context, s blob.Store, k kind, object string, decode func([]byte) (*T, error)) (*T,
	error) {
	v, _, err := read(ctx, s, k, object, decode)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	return v, err
}

// exists reports whether an object exists, whatever its contents.
func exists(ctx context.Context, s blob.Store, object string) (bool, error) {
	_, err := s.Stat(ctx, object)
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", object, err)
	}
	return true, nil
}
