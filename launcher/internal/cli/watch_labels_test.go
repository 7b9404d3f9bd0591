package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"coppice/internal/notify"
	"coppice/internal/sweep"
)

// TestWatchLabels: an hour in which twice as many rows are positive is shown, ends with the exit code of a bad night,
// and reaches people as one.
func TestWatchLabels(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	rows := func(positive int) string {
		var b strings.Builder
		b.WriteString("time,prediction,click\n")
		for i := range 2000 {
			click := 0
			if i < positive {
				click = 1
			}
			fmt.Fprintf(&b, "2026-11-20 07:%02d:00,0.1,%d\n", i%60, click)
		}
		return b.String()
	}
	good, bad := w.file("good.csv", rows(205)), w.file("bad.csv", rows(400))
	if out := w.must("watch-labels", "--in", good, "--label", "click"); !strings.Contains(out, "0.976") {
		t.Errorf("got\n%s\nwant the calibration ratio .976", out)
	}

	empty := w.file("empty.csv", "time,prediction,click\n")
	if out := w.must("watch-labels", "--in", empty, "--label", "click"); !strings.Contains(out, "no row was judged") {
		t.Errorf("of a log without rows it says\n%s\nwant that no row was judged", out)
	}

	var told []sweep.VerdictMessage
	w.verdicts = func(context.Context) ([]notify.Channel, func(), error) {
		return []notify.Channel{{Name: "topic", Send: func(_ context.Context, m *sweep.VerdictMessage) error {
			told = append(told, *m)
			return nil
		}}}, func() {}, nil
	}
	w.refused(sweep.ExitBlocked, "50 % fewer", "watch-labels", "--in", bad, "--label", "click", "--tell", "ctr@1")
	if len(told) != 1 || told[0].ID != "version/ctr@1/labels/2026-11-20T07" ||
		told[0].Title() != "ctr@1: what it serves needs a look" || !strings.Contains(told[0].Reason, "50 % fewer") {
		t.Errorf("people were told %+v, want the one hour of ctr@1", told)
	}
	w.refused(sweep.ExitNotFound, "no version \"9\"", "watch-labels", "--in", good, "--label", "click", "--tell",
		"ctr@9")
	data, err := told[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sweep.DecodeVerdictMessage(data); err != nil {
		t.Errorf("the message cannot be read again: %v", err)
	}
	w.refused(sweep.ExitUsage, "copy it to this machine", "watch-labels", "--in", "gs://b/a.csv", "--label", "click")
	w.refused(sweep.ExitUsage, "belong together", "watch-labels", "--in", bad, "--label", "click", "--key", "k")
	w.refused(sweep.ExitUsage, "is for --labels", "watch-labels", "--in", bad, "--label", "click", "--positives-only")
}
