package sweepstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"coppice/internal/blob"
)

// Checkpoints are the saved training states of one trial's claims. A store cannot delete (package blob), so a dropped
// object becomes empty, and its name is reused.
type Checkpoints struct {
	bucket blob.Store
	folder string // ends in a slash
	limit  int64
}

// Checkpoints returns those of a trial. An object of more than limit bytes is not a checkpoint.
func (t *Trials) Checkpoints(trial int, limit int64) Checkpoints {
	return Checkpoints{t.bucket, t.names.Checkpoints(trial), limit}
}

// Prefix begins the names of one claim's checkpoints. Only that claim's holder writes to them.
func (c Checkpoints) Prefix(claim int) string { return c.folder + strconv.Itoa(claim) + "/" }

// List names the checkpoints that are not empty.
func (c Checkpoints) List(ctx context.Context) ([]string, error) {
	var names []string
	for attrs, err := range c.bucket.List(ctx, c.folder) {
		if err != nil {
			return nil, err
		}
		if attrs.Size > 0 {
			names = append(names, attrs.Name)
		}
	}
	return names, nil
}

// Read returns a checkpoint's bytes; none if it is too long to be one.
func (c Checkpoints) Read(ctx context.Context, name string) ([]byte, error) {
	data, _, err := blob.ReadAll(ctx, c.bucket, name, c.limit)
	if errors.Is(err, blob.ErrTooLong) {
		return nil, nil
	}
	return data, err
}

// Write replaces a checkpoint and verifies the stored length and checksum.
func (c Checkpoints) Write(ctx context.Context, name string, data []byte) error {
	if _, err := c.bucket.Put(ctx, name, blob.Any, bytes.NewReader(data)); err != nil {
		return err
	}
	attrs, err := c.bucket.Stat(ctx, name)
	if err != nil {
		return err
	}
	if sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); attrs.Size != int64(len(data)) ||
		attrs.CRC32C != sum {
		return fmt.Errorf("%s: the store has %d bytes with checksum %08x, written were %d with %08x", name, attrs.Size,
			attrs.CRC32C, len(data), sum)
	}
	return nil
}

// Drop empties a checkpoint. The object stays: it shows that its claim got further than the one before.
func (c Checkpoints) Drop(ctx context.Context, name string) error {
	_, err := c.bucket.Put(ctx, name, blob.Any, bytes.NewReader(nil))
	return err
}
