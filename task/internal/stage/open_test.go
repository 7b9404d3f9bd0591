package stage

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset"
)

// hearing is a log handler that runs a function at a given message.
type hearing struct {
	slog.Handler
	message string
	do      func()
}

func (h hearing) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.do()
	}
	return h.Handler.Handle(ctx, r)
}

// TestACopyThatIsDamagedBeforeItIsOpened: a file is cut between verifying and mapping the copy. That is the disk's
// fault, not the dataset's, so the copy is fetched again; an error blaming the dataset would end the whole job. If it
// happens every time, staging gives up.
func TestACopyThatIsDamagedBeforeItIsOpened(t *testing.T) {
	for _, times := range []int{1, opens - 1, opens} {
		_, q, m := world(t)
		dir := filepath.Join(q.Scratch, "datasets", m.Name, m.Version)
		left, replaced := times, 0
		again := hearing{slog.NewTextHandler(io.Discard, nil),
			"the machine's copy of the dataset is damaged; fetching it again", func() { replaced++ }}
		q.Log = slog.New(hearing{again, "dataset staged", func() {
			if left--; left >= 0 {
				if err := os.Truncate(filepath.Join(dir, dataset.TrainSplit, "rows.arrow"), 1000); err != nil {
					t.Error(err)
				}
			}
		}})

		ds, err := Open(t.Context(), q)
		if times < opens {
			if err != nil || replaced != times {
				t.Errorf("damaged %d times: %v, replaced %d times; want it opened after that", times, err, replaced)
				continue
			}
			if err := ds.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "rows.arrow") || left != 0 {
			t.Errorf("damaged each of %d times: %v; want an error about the file", times, err)
		}
	}
}
