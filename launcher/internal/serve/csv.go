package serve

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"coppice/internal/dataset/table"
)

// readText reads rows as `launcher predict` reads a file of that name: CSV with a header, or one JSON object per line.
// Compressed text is refused: a few kilobytes could become gigabytes.
func readText(ctx context.Context, m *Model, name string, body []byte, limit int) (*table.Batch, error) {
	for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "PAR1", "ARROW1"} {
		if bytes.HasPrefix(body, []byte(magic)) {
			return nil, errors.New("the request is compressed, Parquet or an Arrow file; send plain text or JSON")
		}
	}
	t, err := table.Open([]table.File{{URI: name, Contents: body, Bytes: int64(len(body))}}, table.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	var all *table.Batch
	err = t.Read(ctx, m.columns, limit+1, func(b *table.Batch) error {
		if all != nil || b.Rows > limit {
			return tooMany(limit)
		}
		whole := *b
		whole.Columns = slices.Clone(b.Columns) // b is used again to find the end
		all = &whole
		return nil
	})
	if err == nil && all == nil {
		err = &table.InputError{File: name, Msg: "no rows"}
	}
	return all, err
}
