package sweepstore

import (
	"context"
	"time"

	"coppice/sweep"
)

// Told are the marks of what has been told of a sweep on one occasion.
type Told struct {
	s  *Sweep
	on sweep.Occasion
}

// Told gives access to them.
func (s *Sweep) Told(on sweep.Occasion) Told { return Told{s, on} }

// Has says whether it was told on the channel.
func (t Told) Has(ctx context.Context, channel string) (bool, error) {
	return exists(ctx, t.s.bucket, t.s.names.Told(t.on, channel))
}

// Put says that it was. Somebody may have said so before.
func (t Told) Put(ctx context.Context, id, channel string, at time.Time) error {
	_, err := create(ctx, t.s.bucket, t.s.names.Told(t.on, channel), sweep.Mark{Format: sweep.FormatVersion, ID: id, Channel: channel, At: at.UTC(), Written: written()})
	return err
}
