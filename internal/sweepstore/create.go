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
	"coppice/internal/protocol"
	"coppice/internal/sweep"
)

// written returns a unique id for one write.
func written() sweep.Written { return sweep.Written{WriteID: rand.Text()} }

// create writes v, indented for people, if the object does not exist, and reports whether the object is now v. v
// carries a write id of its own.
func create(ctx context.Context, s blob.Store, object string, v any) (created bool, err error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return false, fmt.Errorf("write %s: %w", object, err)
	}
	return createBytes(ctx, s, object, append(data, '\n'))
}

// createBytes is create for bytes that are unique to this write. The answer to a write may be lost. Then the storage
// client either repeats it and hears that the object exists, or gives up with an error; in both cases the object may be
// the one written here. So only a confirmed write counts as such, and any other outcome is settled by reading the
// object.
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
		return false, fmt.Errorf("write %s: whose object is there: %w", object, unsettled)
	}
	return false, fmt.Errorf("write %s: %w", object, err)
}

// LookLimit is how long a process that was told to stop checks the outcome of a write: a small part of the time it has
// left.
const LookLimit = 1500 * time.Millisecond

// lastLook returns a context for checking the outcome of a write. Even if ctx has ended, the write may have succeeded,
// and a process that is stopping then has a claim to release.
func lastLook(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), LookLimit)
}

// holds reports whether an object's contents are data. A missing object is blob.ErrNotExist.
func holds(ctx context.Context, s blob.Store, object string, data []byte) (bool, error) {
	there, _, err := blob.ReadAll(ctx, s, object, int64(len(data)))
	if errors.Is(err, blob.ErrTooLong) {
		return false, nil
	}
	return bytes.Equal(there, data), err
}
