package gcs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var errTooLong = errors.New("no answer in time")

// withCause returns err, with the reason why ctx ended if this package ended it.
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
