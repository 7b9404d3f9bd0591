// Package sweepstore reads and writes the objects of a sweep: the plan, what tasks write, and how it ends. It is the
// only place that knows each object's contents, its size limit, and what it means if it cannot be read
// (internal/sweep/WIRE.md), so that a task, the aggregator and an observer see the same sweep.
//
// It contains no policy. Who may claim a trial, when a holder counts as dead and when a sweep is over is decided by its
// users, who declare interfaces with the few methods that they need.
package sweepstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
)

// kind is what all objects of one kind have in common.
type kind[T any] struct {
	name   string
	limit  int64 // bytes; a longer object is damaged
	decode func([]byte) (*T, error)
}

// The kinds of objects. A plan and a conclusion name up to sweep.MaxTrials trials; a decision, a rung, a promotion and
// an end by rule name all that they were based on.
var (
	planKind          = kind[sweep.Plan]{"plan", 64 << 20, sweep.DecodePlan}
	conclusionKind    = kind[sweep.Conclusion]{"conclusion", 64 << 20, sweep.DecodeConclusion}
	claimKind         = kind[sweep.Claim]{"claim", 1 << 20, sweep.DecodeClaim}
	troubleKind       = kind[sweep.Trouble]{"trouble", 64 << 10, sweep.DecodeTrouble}
	heartbeatKind     = kind[sweep.Heartbeat]{"heartbeat", 1 << 20, sweep.DecodeHeartbeat}
	curveKind         = kind[sweep.Curve]{"learning curve", 64 << 10, sweep.DecodeCurve}
	resultKind        = kind[sweep.Result]{"result", 16 << 20, sweep.DecodeResult}
	decisionKind      = kind[sweep.Decision]{"decision", 16 << 20, sweep.DecodeDecision}
	configurationKind = kind[sweep.Configuration]{"configuration", 64 << 10, sweep.DecodeConfiguration}
	rungKind          = kind[sweep.Rung]{"rung", 16 << 20, sweep.DecodeRung}
	promotionKind     = kind[sweep.Promotion]{"promotion", 16 << 20, sweep.DecodePromotion}
)

// damaged returns the error, of kind problem.Damaged, that an object is not what its name says: it is too long, has a
// wrong checksum, is not JSON of its kind or of a format that this build reads, or is about another sweep, trial or
// claim.
func (k kind[T]) damaged(object string, why error) error {
	if !errors.As(why, new(*sweep.DecodeError)) {
		why = sweep.NotA(k.name, why)
	}
	return problem.Wrap(problem.Damaged, why, "%s", object)
}

// checkOwn returns nil if own is true. Otherwise it returns the error that an object belongs to something else than its
// name says, which the format describes.
func checkOwn(own bool, format string, args ...any) error {
	if own {
		return nil
	}
	return fmt.Errorf("it belongs to "+format, args...)
}

// read returns an object, without its write id, which only the writer needs, and its bytes. check, which may be nil,
// compares the object with its name. The error about a missing object is blob.ErrNotExist, and the one about a damaged
// object is of kind problem.Damaged. Other errors are the store's.
func (k kind[T]) read(ctx context.Context, s blob.Store, object string, check func(*T) error) (*T, []byte, error) {
	data, _, err := blob.ReadAll(ctx, s, object, k.limit)
	if problem.Is(err, problem.Damaged) {
		return nil, nil, k.damaged(object, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", object, err)
	}

	v, err := k.decode(data)
	if err == nil && check != nil {
		err = check(v)
	}
	if err != nil {
		return nil, nil, k.damaged(object, err)
	}
	if once, ok := any(v).(interface{ ForgetWrite() }); ok {
		once.ForgetWrite()
	}
	return v, data, nil
}

// readOptional is read, except that a missing object is nil and no error.
func (k kind[T]) readOptional(ctx context.Context, s blob.Store, object string, check func(*T) error) (*T, error) {
	v, _, err := k.read(ctx, s, object, check)
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

// create writes v as indented JSON if the object does not exist. It gives v a write id of its own first. created is
// false if the object exists already. If the answer to the write is lost, it finds out: see createBytes.
func create(ctx context.Context, s blob.Store, object string, v interface{ MarkWrite(id string) }) (created bool,
	err error) {
	v.MarkWrite(rand.Text())
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return false, fmt.Errorf("write %s: %w", object, err)
	}
	return createBytes(ctx, s, object, append(data, '\n'))
}

// createBytes is create for bytes that no other writer writes.
//
// The answer to a write may be lost. Then the storage client either repeats the write and hears that the object exists,
// or gives up with an error. In both cases the object may be the one written here. So only a write that the store
// confirms counts at once. After any other outcome the object is read, to see whose it is.
func createBytes(ctx context.Context, s blob.Store, object string, data []byte) (created bool, err error) {
	_, err = s.Put(ctx, object, blob.Absent, bytes.NewReader(data))
	if err == nil {
		return true, nil
	}

	look, cancel := lastLook(ctx)
	defer cancel()
	own, unsettled := holds(look, s, object, data)
	if created, known := (protocol.Creation{Read: unsettled == nil, Own: own}).Settled(); known {
		return created, nil
	}
	if errors.Is(err, blob.ErrPrecondition) { // the object exists, but it cannot be told whose it is
		return false, fmt.Errorf("write %s: it exists, and could not be compared with what was written: %w", object,
			unsettled)
	}
	return false, fmt.Errorf("write %s: %w", object, err)
}

// LookLimit is how long a process that was told to stop checks the outcome of a write: a small part of the time it has
// left.
const LookLimit = 1500 * time.Millisecond

// lastLook returns a context for checking the outcome of a write: ctx, or a short one of its own if ctx has ended. Even
// then the write may have succeeded, and a process that is stopping has to know that it has a claim to release.
func lastLook(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), LookLimit)
}

// holds reports whether an object's contents are data. A missing object is blob.ErrNotExist.
func holds(ctx context.Context, s blob.Store, object string, data []byte) (bool, error) {
	there, _, err := blob.ReadAll(ctx, s, object, int64(len(data)))
	if problem.Is(err, problem.Damaged) { // longer than data, or with a wrong checksum: not what was written
		return false, nil
	}
	return bytes.Equal(there, data), err
}
