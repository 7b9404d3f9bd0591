package sweepstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"coppice/blob"
	"coppice/protocol"
	"coppice/sweep"
)

// written is what tells one write from all others.
func written() sweep.Written { return sweep.Written{WriteID: rand.Text()} }

// create writes v, indented for people, if nothing is there, and says whether what is there now is v. v carries a write id of
// its own.
func create(ctx context.Context, s blob.Store, object string, v any) (created bool, err error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return false, fmt.Errorf("write %s: %w", object, err)
	}
	return createBytes(ctx, s, object, append(data, '\n'))
}

// createBytes is create for bytes that no other write has. The answer to a write may be lost. Then either the store's client
// repeats it and hears that something is there, or it gives up with an error; in both cases the object may be the one that was
// written here. So only a write that is confirmed is believed, and any other outcome is settled by reading what is there.
func createBytes(ctx context.Context, s blob.Store, object string, data []byte) (created bool, err error) {
	_, err = s.Put(ctx, object, blob.Absent, bytes.NewReader(data))
	if err == nil {
		return true, nil
	}

	look, cancel := lastLook(ctx)
	defer cancel()
	own, unsettled := holds(look, s, object, data)
	refused := errors.Is(err, blob.ErrPrecondition)
	if created, known := (protocol.Creation{Refused: refused, Read: unsettled == nil, Own: own}).Settled(); known {
		return created, nil
	}
	if refused { // somebody's object is there, and nobody can say whose
		return false, fmt.Errorf("write %s: whose object is there: %w", object, unsettled)
	}
	return false, fmt.Errorf("write %s: %w", object, err)
}

// lastLookLimit is little of what a process has left that is told to go.
const lastLookLimit = 2 * time.Second

// lastLook is a context for looking what has come of a write. A caller whose ctx has ended may have written all the same; who is told to
// go then has something to give back.
func lastLook(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), lastLookLimit)
}

// holds says whether an object's contents are data. One that is not there is blob.ErrNotExist.
func holds(ctx context.Context, s blob.Store, object string, data []byte) (bool, error) {
	there, _, err := blob.ReadAll(ctx, s, object, int64(len(data)))
	if errors.Is(err, blob.ErrTooLong) {
		return false, nil
	}
	return bytes.Equal(there, data), err
}
