package cli

import (
	"context"
	"errors"

	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
)

// Usually the aggregator notifies people of a night's outcome. If a night stops before there is a sweep, the aggregator
// never learns of it, and the launcher sends the notification. The person who typed the command sees its error, which
// does not depend on whether others could be notified.

// tellRefused sends the notification that a scheduled sweep was not started because its dataset is blocked, if that is
// what err says; for other errors it does nothing.
func tellRefused(ctx context.Context, w *Setup, id sweep.ID, model string, err error) {
	var blocked *stager.BlockedError
	if errors.As(err, &blocked) {
		tellNotStarted(ctx, w, id, model, blocked.Record.Dataset+"@"+blocked.Record.Version, blocked.Reason)
	}
}

// tellNotStarted sends the notification that a scheduled sweep was not started on the dataset ref, and why. Of each
// sweep id it is sent once.
func tellNotStarted(ctx context.Context, w *Setup, id sweep.ID, model, ref, why string) {
	w.sendVerdict(ctx, notify.RefusedMessage(id, model, ref, why, w.Now()),
		sweepstore.New(w.sweeps, id).Told(sweep.OccasionRefused))
}

// sendVerdict sends a message on all channels, once: marks remember what was sent. If a channel fails, a warning says
// so; the command does not fail because of it. It does nothing where there are no channels.
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
