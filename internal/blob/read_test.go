package blob_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"coppice/internal/blob"
)

// damaging breaks the first reads of contents.
type damaging struct {
	blob.Store
	left  int
	opens int
}

var errTransfer = errors.New("bad CRC on read")

func (d *damaging) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	body, attrs, err := d.Store.Open(ctx, name, r)
	if d.opens++; err != nil || d.left == 0 {
		return body, attrs, err
	}
	d.left--
	return io.NopCloser(io.MultiReader(strings.NewReader("dam"), iotest.ErrReader(errTransfer))), attrs, body.Close()
}

// TestWhatArrivesDamagedIsReadAgain: a few times; an object that is not there or too long is so at once.
func TestWhatArrivesDamagedIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := blob.Memory()
		if _, err := whole.Put(t.Context(), "a", blob.Any, strings.NewReader("whole")); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name    string
			limit   int64
			damaged int
			opens   int
			want    error
		}{
			{"a", 5, 0, 1, nil}, {"a", 5, 4, 5, nil}, {"a", 5, 5, 5, errTransfer},
			{"a", 4, 0, 1, blob.ErrTooLong}, {"b", 5, 0, 1, blob.ErrNotExist},
		} {
			s := &damaging{Store: whole, left: tc.damaged}
			data, _, err := blob.ReadAll(t.Context(), s, tc.name, tc.limit)
			if !errors.Is(err, tc.want) || err == nil && string(data) != "whole" || s.opens != tc.opens {
				t.Errorf("%s of at most %d bytes, %d times damaged: %q, %v after %d reads; want %v after %d", tc.name,
					tc.limit, tc.damaged, data, err, s.opens, tc.want, tc.opens)
			}
		}
	})
}
