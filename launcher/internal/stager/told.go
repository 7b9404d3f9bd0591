package stager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// Told are the marks of notifications about a blocked version of a dataset.
type Told struct {
	Store         blob.Store
	Name, Version string
}

// Has reports whether the notification was sent on the channel.
func (m Told) Has(ctx context.Context, channel string) (bool, error) {
	_, err := m.Store.Stat(ctx, sweep.DatasetTold(m.Name, m.Version, channel))
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put records that it was sent. Recording it again is harmless.
func (m Told) Put(ctx context.Context, id, channel string, at time.Time) error {
	text, err := json.Marshal(sweep.Mark{Format: sweep.FormatVersion, ID: id, Channel: channel, At: at.UTC()})
	if err != nil {
		return fmt.Errorf("write a mark: %w", err)
	}
	_, err = m.Store.Put(ctx, sweep.DatasetTold(m.Name, m.Version, channel), blob.Absent, bytes.NewReader(text))
	if errors.Is(err, blob.ErrPrecondition) {
		return nil
	}
	return err
}
