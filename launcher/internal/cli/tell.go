package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"coppice/internal/blob"
	"coppice/internal/nights"
	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/stager"
)

// If a night stops before there is a sweep, the launcher sends the notification: the aggregator never learns of it. The
// person who typed a command sees its error; others are notified. The outcome of the command does not depend on the
// notification.

// tellStaged sends the notification that a shared dataset is blocked.
func tellStaged(ctx context.Context, w *Setup, r *nights.Record) {
	ref := r.Dataset + "@" + r.Version
	w.tell(ctx, sweep.StagedMessage(ref, nights.Reason(r.Findings), w.Now()),
		datasetMarks{w.datasets, r.Dataset, r.Version})
}

// tellRefused sends the notification that a scheduled sweep was not started, if that is what the error says.
func tellRefused(ctx context.Context, w *Setup, id sweep.ID, model string, err error) {
	var blocked *stager.BlockedError
	if !errors.As(err, &blocked) {
		return
	}
	ref := blocked.Record.Dataset + "@" + blocked.Record.Version
	w.tell(ctx, sweep.RefusedMessage(id, model, ref, blocked.Reason, w.Now()),
		sweepstore.New(w.sweeps, id).Told(sweep.OccasionRefused))
}

func (w *Setup) tell(ctx context.Context, m sweep.VerdictMessage, marks notify.Marks) {
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
		fmt.Fprintf(w.Err, "note: a notification could not be sent: %s\n", m.Title())
	}
}

// datasetMarks are the marks of notifications about a blocked version of a dataset.
type datasetMarks struct {
	store         blob.Store
	name, version string
}

// Has reports whether the notification was sent on the channel.
func (m datasetMarks) Has(ctx context.Context, channel string) (bool, error) {
	_, err := m.store.Stat(ctx, sweep.DatasetTold(m.name, m.version, channel))
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put records that it was sent. Recording it again is harmless.
func (m datasetMarks) Put(ctx context.Context, id, channel string, at time.Time) error {
	text, err := json.Marshal(sweep.Mark{Format: sweep.FormatVersion, ID: id, Channel: channel, At: at.UTC()})
	if err != nil {
		return fmt.Errorf("write a mark: %w", err)
	}
	_, err = m.store.Put(ctx, sweep.DatasetTold(m.name, m.version, channel), blob.Absent, bytes.NewReader(text))
	if errors.Is(err, blob.ErrPrecondition) {
		return nil
	}
	return err
}
