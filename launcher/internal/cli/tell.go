package cli

import (
	"context"
	"errors"

	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
)

// If a night stops before there is a sweep, the launcher sends the notification: the aggregator never learns of it. The
// person who typed a command sees its error; others are notified. The outcome of the command does not depend on the
// notification.

// tellRefused sends the notification that a scheduled sweep was not started, if that is what the error says.
func tellRefused(ctx context.Context, w *Setup, id sweep.ID, model string, err error) {
	var blocked *stager.BlockedError
	if errors.As(err, &blocked) {
		tellNotStarted(ctx, w, id, model, blocked.Record.Dataset+"@"+blocked.Record.Version, blocked.Reason)
	}
}

// tellNotStarted sends the notification that a scheduled sweep was not started on a dataset, and why.
func tellNotStarted(ctx context.Context, w *Setup, id sweep.ID, model, ref, why string) {
	w.sendVerdict(ctx, notify.RefusedMessage(id, model, ref, why, w.Now()),
		sweepstore.New(w.sweeps, id).Told(sweep.OccasionRefused))
}

// sendVerdict tells people of an outcome, once. A channel that fails is only noted: it is no reason for the command to
// fail.
func (w *Setup) sendVerdict(ctx context.Context, m notify.VerdictMessage, marks notify.Marks) {
	if w.Verdicts == nil {
		return
	}
	channels, closeAll, err := w.Verdicts(ctx)
	if err != nil {
		channels, closeAll = []notify.Channel{notify.Broken("topic", err)}, func() {}
	}
	defer closeAll()
	n := &notify.Notifier{Channels: channels, Now: w.Now, Log: w.log()}
	if !n.Tell(ctx, m, marks) && !w.Structured() {
		w.warn("note: a notification could not be sent: %s\n", m.Title())
	}
}
