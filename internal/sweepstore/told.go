package sweepstore

import (
	"context"
	"time"

	"coppice/internal/sweep"
)

// Told records the notifications sent for a sweep on one occasion.
type Told struct {
	s  *Sweep
	on sweep.Occasion
}

// Told returns them.
func (s *Sweep) Told(on sweep.Occasion) Told { return Told{s, on} }

// Has reports whether the notification was sent on the channel.
func (t Told) Has(ctx context.Context, channel string) (bool, error) {
	return exists(ctx, t.s.bucket, t.s.names.Told(t.on, channel))
}

// Put records that it was sent. Recording it again is harmless.
func (t Told) Put(ctx context.Context, id, channel string, at time.Time) error {
	_, err := create(ctx, t.s.bucket, t.s.names.Told(t.on, channel), sweep.Mark{Format: sweep.FormatVersion, ID: id,
		Channel: channel, At: at.UTC(), Written: written()})
	return err
}
