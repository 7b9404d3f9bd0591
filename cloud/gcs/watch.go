package gcs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var errTooLong = errors.New("no answer in time")

// because is err, with the reason why ctx ended it if ours was the reason.
func because(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errTooLong) || errors.Is(cause, errStalled) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

var errStalled = errors.New("the transfer stands still")

// transferWatch ends a context when a transfer makes no progress for too long.
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

// progress starts the clock anew; pause stops it while the wait is somebody else's.
func (w *transferWatch) progress() { w.timer.Reset(w.limit) }
func (w *transferWatch) pause()    { w.timer.Stop() }

// end frees the timer and the context.
func (w *transferWatch) end() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
