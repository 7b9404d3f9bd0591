package blob_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// damaging breaks the first reads of contents.
type damaging struct {
	blob.Store
	left  int
	opens int
	why   error
}

var errTransfer = errors.New("the connection broke")

func (d *damaging) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	body, attrs, err := d.Store.Open(ctx, name, r)
	if d.opens++; err != nil || d.left == 0 {
		return body, attrs, err
	}
	d.left--
	return io.NopCloser(io.MultiReader(strings.NewReader("dam"), iotest.ErrReader(d.why))), attrs, body.Close()
}

// TestWhatArrivesDamagedIsReadAgain: a few times; an object that is not there or too long is so at once. One whose
// checksum is never right is damaged, one that is lost on the way each time is not.
func TestWhatArrivesDamagedIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := blob.Memory()
		must.Get(whole.Put(t.Context(), "a", blob.Any, strings.NewReader("whole")))(t)
		for _, tc := range []struct {
			name    string
			limit   int64
			damaged int
			opens   int
			want    error
		}{
			{"a", 5, 0, 1, nil}, {"a", 5, 6, 7, nil}, {"a", 5, 7, 7, errTransfer}, {"a", 5, 7, 7, blob.ErrChecksum},
			{"a", 4, 0, 1, blob.ErrTooLong}, {"b", 5, 0, 1, blob.ErrNotExist},
		} {
			s := &damaging{Store: whole, left: tc.damaged, why: cmp.Or(tc.want, errTransfer)}
			data, _, err := blob.ReadAll(t.Context(), s, tc.name, tc.limit)
			never := errors.Is(tc.want, blob.ErrChecksum) || errors.Is(tc.want, blob.ErrTooLong)
			if problem.Is(err, problem.Damaged) != never {
				t.Errorf("%s, %d times %v: %v; want it damaged: %t", tc.name, tc.damaged, tc.want, err, never)
			}
			if !errors.Is(err, tc.want) || err == nil && string(data) != "whole" || s.opens != tc.opens {
				t.Errorf("%s of at most %d bytes, %d times damaged: %q, %v after %d reads; want %v after %d", tc.name,
					tc.limit, tc.damaged, data, err, s.opens, tc.want, tc.opens)
			}
		}
	})
}
