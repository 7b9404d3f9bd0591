package gcs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var errTooLong = errors.New("no answer in time")

// withCause returns err, and in front of it the reason why ctx was ended if this package did that: errTooLong or
// errStalled. The library's error would only say that the context has ended. nil stays nil.
func withCause(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errTooLong) || errors.Is(cause, errStalled) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

var errStalled = errors.New("the transfer stands still")

// transferWatch cancels a context if a transfer makes no progress for too long.
type transferWatch struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// watchTransfer returns a context that ends with errStalled if progress is not called for limit, and the watch, which
// the caller has to end. The clock runs from now on.
func watchTransfer(ctx context.Context, limit time.Duration) (context.Context, *transferWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &transferWatch{limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(errStalled) })
	return ctx, w
}

// progress restarts the clock; pause stops it while waiting for something else.
func (w *transferWatch) progress() { w.timer.Reset(w.limit) }
func (w *transferWatch) pause()    { w.timer.Stop() }

// end releases the timer and the context.
func (w *transferWatch) end() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
