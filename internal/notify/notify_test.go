package notify_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// channels are two that write down what they were told; the second fails as long as broken says so.
func channels(heard map[string]int, broken *bool) []notify.Channel {
	return []notify.Channel{
		{Name: "topic", Send: func(_ context.Context, m *notify.VerdictMessage) error {
			heard["topic "+m.ID]++
			return nil
		}},
		{Name: "webhook", Only: []sweep.Verdict{sweep.VerdictBlocked},
			Send: func(_ context.Context, m *notify.VerdictMessage) error {
				if *broken {
					return errors.New("no answer")
				}
				heard["webhook "+m.ID]++
				return nil
			}},
	}
}

// TestEachChannelOnce: a channel that failed is tried again at the next call, and the other one is not.
func TestEachChannelOnce(t *testing.T) {
	heard, broken := map[string]int{}, true
	var log bytes.Buffer
	n := &notify.Notifier{Channels: channels(heard, &broken), Now: time.Now,
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	marks := sweepstore.New(blob.Memory(), "night-1").Told(sweep.OccasionRefused)
	m := notify.RefusedMessage("night-1", "ctr", "clicks@1", "it is old", time.Now())

	if n.Tell(t.Context(), m, marks) {
		t.Error("done, though a channel has failed")
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "no answer") {
		t.Errorf("logged %s", log.String())
	}
	broken = false
	for range 3 {
		if !n.Tell(t.Context(), m, marks) {
			t.Error("not done")
		}
	}
	if want := map[string]int{"topic sweep/night-1/refused": 1, "webhook sweep/night-1/refused": 1}; !maps.Equal(heard,
		want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

func TestOnlyWhatAChannelWants(t *testing.T) {
	heard, broken := map[string]int{}, false
	n := &notify.Notifier{Channels: channels(heard, &broken), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeNoWinner, Reason: "none"}
	told := sweepstore.New(blob.Memory(), "night-1").Told(sweep.OccasionConcluded)
	if !n.Tell(t.Context(), notify.ConcludedMessage(c, "", "", time.Time{}), told) {
		t.Error("not done")
	}
	if got := slices.Collect(maps.Keys(heard)); !slices.Equal(got, []string{"topic sweep/night-1/concluded"}) {
		t.Errorf("heard %v; the webhook wants what is blocked only", got)
	}
}

func TestNobodyToTell(t *testing.T) {
	var n *notify.Notifier
	if !n.Silent() || !n.Tell(t.Context(), notify.VerdictMessage{}, nil) {
		t.Error("a nil Notifier has somebody to tell")
	}
}

// TestAChannelThatHangsIsLeftAlone: of many messages the first waits for it, and the others a minute later at the
// earliest; one that refuses at once is asked for each.
func TestAChannelThatHangsIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		tries []int // after each round of five messages, half a minute apart
	}{"it hangs": {45 * time.Second, []int{1, 1, 2}}, "it refuses": {time.Second, []int{5, 10, 15}}} {
		t.Run(name, func(t *testing.T) {
			now, tries := time.Unix(1e9, 0), 0
			send := func(context.Context, *notify.VerdictMessage) error {
				tries++
				now = now.Add(c.takes)
				return errors.New("no answer")
			}
			n := &notify.Notifier{Channels: []notify.Channel{{Name: "webhook", Send: send}},
				Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
			for round, want := range c.tries {
				for range 5 {
					if n.Tell(t.Context(), notify.RefusedMessage("night-1", "ctr", "clicks@1", "it is old", now),
						sweepstore.New(blob.Memory(), "night-1").Told(sweep.OccasionRefused)) {
						t.Error("done, though the channel fails")
					}
				}
				if tries != want {
					t.Errorf("in round %d the channel was tried %d times in all, want %d", round+1, tries, want)
				}
				now = now.Add(30 * time.Second)
			}
		})
	}
}
