package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// channels returns two channels that count in heard what they send, by channel and message. The second one wants
// blocked verdicts only, and fails while broken is true.
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
		t.Error("Tell with a channel that fails returned true, want false: it is to be called again")
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "no answer") {
		t.Errorf("logged %s, want an error that says no answer", log.String())
	}
	broken = false
	for range 3 {
		if !n.Tell(t.Context(), m, marks) {
			t.Error("Tell returned false, want true: each channel that wants it was told")
		}
	}
	if want := map[string]int{"topic sweep/night-1/refused": 1, "webhook sweep/night-1/refused": 1}; !maps.Equal(heard,
		want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

// TestOnlyWhatAChannelWants: a channel that wants some verdicts only is not sent others.
func TestOnlyWhatAChannelWants(t *testing.T) {
	heard, broken := map[string]int{}, false
	n := &notify.Notifier{Channels: channels(heard, &broken), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeNoWinner, Reason: "none"}
	told := sweepstore.New(blob.Memory(), "night-1").Told(sweep.OccasionConcluded)
	if !n.Tell(t.Context(), notify.ConcludedMessage(c, "", "", time.Time{}), told) {
		t.Error("Tell returned false, want true: each channel that wants it was told")
	}
	if got := slices.Collect(maps.Keys(heard)); !slices.Equal(got, []string{"topic sweep/night-1/concluded"}) {
		t.Errorf("heard %v; want the topic's message alone, as the webhook wants what is blocked only", got)
	}
}

// brokenMarks are marks of which reading or writing fails.
type brokenMarks struct{ read, write error }

func (m brokenMarks) Has(context.Context, string) (bool, error) { return false, m.read }

func (m brokenMarks) Put(context.Context, string, string, time.Time) error { return m.write }

// TestMarksThatFail: where it is not known whether a channel was told, it is not told now. Where it cannot be noted
// that it was told, it was told all the same. Tell returns false for both, to be called again.
func TestMarksThatFail(t *testing.T) {
	away := errors.New("the storage is away")
	for sent, marks := range []brokenMarks{{read: away}, {write: away}} {
		heard, broken := map[string]int{}, false
		n := &notify.Notifier{Channels: channels(heard, &broken), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		m := notify.RefusedMessage("night-1", "ctr", "clicks@1", "it is old", time.Now())
		again := !n.Tell(t.Context(), m, marks)
		if !again || heard["topic sweep/night-1/refused"] != sent {
			t.Errorf("marks of which reading fails with %v and writing with %v: sent %v, to be called again: %t; want "+
				"%d messages on each channel, and true", marks.read, marks.write, heard, again, sent)
		}
	}
}

// TestNobodyToTell: a nil Notifier is silent, and telling it something succeeds.
func TestNobodyToTell(t *testing.T) {
	var n *notify.Notifier
	if !n.Silent() || !n.Tell(t.Context(), notify.VerdictMessage{}, nil) {
		t.Error("a nil Notifier is not silent, or telling it something fails; want neither")
	}
}

// TestAChannelThatHangsIsLeftAlone: a channel that takes 45 seconds to fail is tried for the first of five messages
// only, and again after a minute. One that fails within a second is tried for each message. The first one fails at 45 s
// and is skipped until 105 s; its rounds of messages begin at 0, 75 and 105 s.
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
						t.Error("Tell with a channel that fails returned true, want false")
					}
				}
				must.Equal(t, tries, want, "attempts in all after round %d", round+1)
				now = now.Add(30 * time.Second)
			}
		})
	}
}

// TestVerdictMessageOfAConclusion: a conclusion's message has its verdict, champion and failed checks, the same id
// each time it is made, and attributes for filters. Long reasons, of the gate and of a check, are cut between
// characters, so that a topic takes the message.
func TestVerdictMessageOfAConclusion(t *testing.T) {
	c := &sweep.Conclusion{Format: 1, Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ctr", Version: 12,
		At: time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC),
		Gate: &sweep.GateDecision{Champion: 11, Reason: strings.Repeat("ä", 4000),
			Checks: []sweep.GateCheck{{Name: "tonight", Passed: true},
				{Name: "ece", Reason: strings.Repeat("x", sweep.MaxMessage)}}}}
	m := notify.ConcludedMessage(c, "", "clicks@1a2b3c4d5e6f7a8b", time.Time{})
	if m.ID != "sweep/night-1/concluded" || m.Verdict != sweep.VerdictNotPromoted || m.Champion != 11 ||
		len(m.Checks) != 1 || m.Checks[0].Name != "ece" {
		t.Errorf("the message is %+v; want it not promoted beside champion 11, with the check that failed", m)
	}
	must.Equal(t, notify.ConcludedMessage(c, "", "clicks@1a2b3c4d5e6f7a8b", time.Time{}).ID, m.ID, "the id, made again")

	data, err := m.Encode()
	if err != nil || len(data) > sweep.MaxMessage {
		t.Fatalf("%d bytes, %v; want no more than a message may have", len(data), err)
	}
	var back notify.VerdictMessage
	if err := json.Unmarshal(data, &back); err != nil || back.Reason != m.Reason ||
		!strings.HasSuffix(back.Reason, "ä ...") {
		t.Errorf("read back %+v; want the same reason, cut", back)
	}
	want := map[string]string{"id": m.ID, "occasion": "concluded", "verdict": "not_promoted", "model": "ctr",
		"dataset": "clicks@1a2b3c4d5e6f7a8b", "sweep": "night-1", "traceparent": c.Sweep.TraceParent("aggregator")}
	if a := m.Attributes(); !maps.Equal(a, want) {
		t.Errorf("the attributes are %v; want %v", a, want)
	}
}

// TestVerdictTitles: the title of each kind of message says what has happened, and its lines say why, what to do,
// what it is about, and which command shows more. Here they are joined with " | ".
func TestVerdictTitles(t *testing.T) {
	at := time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC)
	c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeNoWinner, Reason: "none meets require"}
	none := notify.ConcludedMessage(c, "", "", time.Time{})
	const mend = "To do: look at `coppice datasets show clicks@1`, then mend its source and `coppice stage " +
		"DATASET.yaml`, or `coppice datasets accept clicks@1 --why REASON`; until then nothing is trained on it, and " +
		"what is live stays live."
	for _, tc := range []struct {
		m    notify.VerdictMessage
		want string
	}{
		{none, "sweep night-1: no winner | none meets require | To do: look at `coppice leaderboard night-1 --all` " +
			"for why no trial won; what is live stays live. | coppice status night-1"},
		{notify.StagedMessage("clicks@1", "labels are inverted", at),
			"dataset clicks@1: blocked | labels are inverted | " + mend + " | coppice datasets show clicks@1"},
		{notify.RefusedMessage("night-2", "ctr", "clicks@1", "it is old", at), "sweep night-2: not started | " +
			"it is old | " + mend + " | dataset clicks@1 | coppice datasets show clicks@1"},
	} {
		if got := strings.Join(append([]string{tc.m.Title()}, tc.m.Lines()...), " | "); got != tc.want {
			t.Errorf("%s reads\n%s\nwant\n%s", tc.m.ID, got, tc.want)
		}
	}
}

// TestMorning: the first lines of a night's message, and of `coppice status`, are the same: a headline, a few numbers
// that depend on what is known of the night, and what to do. The numbers: 0.1211 is 4.3 times 0.02816, the score of the
// base rate. The gain, 0.0005 (-0.00085 to 0.002), is 0.4 % (-0.68 to 1.6 %) of the old 0.125. A calibration between
// 0.96 and 1.07 is within 7 %. An interval of two standard errors from 0.61 to 0.65 is 0.630 ± 0.010.
func TestMorning(t *testing.T) {
	planned := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	gain := sweep.GateCheck{Name: "tonight", Passed: true, Version: 6, Old: 0.125, Value: 0.0005, Low: -0.00085,
		High: 0.002}
	calibration := sweep.GateCheck{Name: "calibration", Passed: true, Value: 1.02, Low: 0.96, High: 1.07}
	const live = " | Nothing to do: version 7 is live."
	for _, tc := range []struct {
		gate   sweep.GateDecision
		within *sweep.Within
		metric string
		want   string
	}{
		{sweep.GateDecision{Promoted: true, Metric: "log_loss", Reason: "first version of this model"}, nil,
			"average_precision", "ads version 7 is live | Trial 39 was chosen on valid; on test trial 5 is as good. " +
				"On test average_precision 0.1211, 4.3 times the base rate. First version of this model. " +
				"6 trials, $0.01, 3 min." + live},
		{sweep.GateDecision{Promoted: true, Champion: 6, Metric: "log_loss", Reason: "no worse than version 6",
			Checks: []sweep.GateCheck{gain, calibration}}, nil, "auc",
			"ads version 7 is live | As good as version 6: log_loss 0.4 % better (-0.68 to +1.6 %); calibrated " +
				"within 7 %. 6 trials, $0.01, 3 min." + live},
		{sweep.GateDecision{Promoted: true, Metric: "auc", Reason: "first version of this model",
			Checks: []sweep.GateCheck{calibration}}, &sweep.Within{Low: 0.61, High: 0.65, Metric: "auc"}, "auc",
			"ads version 7 is live | On test auc 0.630 ± 0.010. First version of this model. 6 trials, $0.01, " +
				"3 min." + live},
		{sweep.GateDecision{Promoted: true, Metric: "auc", Reason: "first version of this model",
			Checks: []sweep.GateCheck{calibration}}, &sweep.Within{Low: 0.11, High: 0.12, Metric: "log_loss"}, "auc",
			"ads version 7 is live | On test auc 0.63. First version of this model. 6 trials, $0.01, 3 min." + live},
		{sweep.GateDecision{Promoted: true, Metric: "log_loss", Reason: "first version of this model"},
			&sweep.Within{Low: 0.61, High: 0.65, Metric: "auc"}, "auc", // the sweep's, whatever the gate compares
			"ads version 7 is live | On test auc 0.630 ± 0.010. First version of this model. 6 trials, $0.01, " +
				"3 min." + live},
		{sweep.GateDecision{Champion: 6, Reason: "worse than version 6 on tonight's rows",
			Checks: []sweep.GateCheck{gain}}, nil, "", "ads version 7 is not live: not promoted | Worse than " +
			"version 6 on tonight's rows. 6 trials, $0.01, 3 min. | Nothing to do: version 6 stays live, and the " +
			"next night tries again."},
	} {
		c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ads", Version: 7, Done: 6,
			Trial:  39,
			Test:   map[string]float64{"auc": 0.63, "log_loss": 0.125, "average_precision": 0.1211},
			Within: tc.within, Gate: &tc.gate,
			Cost: &sweep.Cost{USD: 0.0123}, At: planned.Add(3 * time.Minute)}
		// Only this case has what an earlier build recorded, a trial that is as good, and the score of the base rate.
		if fifth, rate := 5, 0.02816; tc.metric == "average_precision" {
			c.AsGood, c.Without = &fifth, &rate
		}
		m := notify.ConcludedMessage(c, tc.metric, "", planned)
		if got := strings.Join(append([]string{m.Title()}, m.Lines()[:2]...), " | "); got != tc.want {
			t.Errorf("the message reads\n%s\nexpected\n%s", got, tc.want)
		}
		if got := strings.Join([]string{c.Headline(), strings.Join(c.Facts(tc.metric, planned), " "),
			c.Todo("", 0).String()}, " | "); got != tc.want {
			t.Errorf("status reads\n%s\nexpected\n%s", got, tc.want)
		}
	}
}
