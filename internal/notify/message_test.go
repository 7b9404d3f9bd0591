package notify_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"coppice/internal/notify"
	"coppice/internal/sweep"
)

func TestVerdictMessageOfAConclusion(t *testing.T) {
	c := &sweep.Conclusion{Format: 1, Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ctr", Version: 12,
		At: time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC),
		Gate: &sweep.GateDecision{Champion: 11, Reason: strings.Repeat("ä", 4000),
			Checks: []sweep.GateCheck{{Name: "tonight", Passed: true}, {Name: "ece", Reason: "too far off"}}}}
	m := notify.ConcludedMessage(c, "", "clicks@1a2b3c4d5e6f7a8b", time.Time{})
	if m.ID != "sweep/night-1/concluded" || m.Verdict != sweep.VerdictNotPromoted || m.Champion != 11 ||
		len(m.Checks) != 1 || m.Checks[0].Name != "ece" {
		t.Errorf("message %+v", m)
	}
	if again := notify.ConcludedMessage(c, "", "clicks@1a2b3c4d5e6f7a8b", time.Time{}); again.ID != m.ID {
		t.Errorf("told again it has the id %s, at first %s", again.ID, m.ID)
	}

	data, err := m.Encode()
	if err != nil || len(data) > sweep.MaxMessage {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	var back notify.VerdictMessage
	if err := json.Unmarshal(data, &back); err != nil || back.Reason != m.Reason ||
		!strings.HasSuffix(back.Reason, "ä ...") {
		t.Errorf("read back %+v", back)
	}
	if a := m.Attributes(); a["verdict"] != "not_promoted" || a["traceparent"] == "" ||
		a["dataset"] != "clicks@1a2b3c4d5e6f7a8b" || a["model"] != "ctr" {
		t.Errorf("attributes %v", a)
	}
}

func TestVerdictTitles(t *testing.T) {
	at := time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC)
	c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeNoWinner, Reason: "none meets require"}
	none := notify.ConcludedMessage(c, "", "", time.Time{})
	for _, tc := range []struct {
		m    notify.VerdictMessage
		want string
	}{
		{none, "sweep night-1: no winner | none meets require | coppice status night-1"},
		{notify.StagedMessage("clicks@1", "labels are inverted", at),
			"dataset clicks@1: blocked | labels are inverted | coppice datasets show clicks@1"},
		{notify.RefusedMessage("night-2", "ctr", "clicks@1", "it is old", at),
			"sweep night-2: not started | it is old | dataset clicks@1 | coppice datasets show clicks@1"},
	} {
		if got := strings.Join(append([]string{tc.m.Title()}, tc.m.Lines()...), " | "); got != tc.want {
			t.Errorf("%s reads\n%s\nwant\n%s", tc.m.ID, got, tc.want)
		}
	}
}

// TestMorning: the message and status say a night in a headline and a few numbers.
func TestMorning(t *testing.T) {
	planned := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	gain := sweep.GateCheck{Name: "tonight", Passed: true, Version: 6, Old: 0.125, Value: 0.0005, Low: -0.00085,
		High: 0.002}
	calibration := sweep.GateCheck{Name: "calibration", Passed: true, Value: 1.02, Low: 0.96, High: 1.07}
	for _, tc := range []struct {
		gate   sweep.GateDecision
		within *sweep.Within
		metric string
		want   string
	}{
		{sweep.GateDecision{Promoted: true, Champion: 6, Metric: "log_loss", Reason: "no worse than version 6",
			Checks: []sweep.GateCheck{gain, calibration}}, nil, "auc",
			"ads v7 is live | As good as version 6: log_loss 0.4 % better (-0.68 to +1.6 %); calibrated within 7 %. " +
				"6 trials, $0.01, 3 min."},
		{sweep.GateDecision{Promoted: true, Metric: "auc", Reason: "first version of this model",
			Checks: []sweep.GateCheck{calibration}}, &sweep.Within{Low: 0.61, High: 0.65, Metric: "auc"}, "auc",
			"ads v7 is live | On test auc 0.63 (0.61 to 0.65). First version of this model. 6 trials, $0.01, 3 min."},
		{sweep.GateDecision{Promoted: true, Metric: "auc", Reason: "first version of this model",
			Checks: []sweep.GateCheck{calibration}}, &sweep.Within{Low: 0.11, High: 0.12, Metric: "log_loss"}, "auc",
			"ads v7 is live | On test auc 0.63. First version of this model. 6 trials, $0.01, 3 min."},
		{sweep.GateDecision{Promoted: true, Metric: "log_loss", Reason: "first version of this model"},
			&sweep.Within{Low: 0.61, High: 0.65, Metric: "auc"}, "auc", // the sweep's, whatever the gate compares
			"ads v7 is live | On test auc 0.63 (0.61 to 0.65). First version of this model. 6 trials, $0.01, 3 min."},
		{sweep.GateDecision{Champion: 6, Reason: "worse than version 6 on tonight's rows",
			Checks: []sweep.GateCheck{gain}}, nil, "", "ads v7 is not live: not promoted | Worse than version 6 on " +
			"tonight's rows. 6 trials, $0.01, 3 min."},
	} {
		c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ads", Version: 7, Done: 6,
			Test: map[string]float64{"auc": 0.63, "log_loss": 0.125}, Within: tc.within, Gate: &tc.gate,
			Cost: &sweep.Cost{USD: 0.0123}, At: planned.Add(3 * time.Minute)}
		m := notify.ConcludedMessage(c, tc.metric, "", planned)
		if got := m.Title() + " | " + m.Lines()[0]; got != tc.want {
			t.Errorf("it reads\n%s\nexpected\n%s", got, tc.want)
		}
		if got := c.Headline() + " | " + strings.Join(c.Facts(tc.metric, planned), " "); got != tc.want {
			t.Errorf("status reads\n%s\nexpected\n%s", got, tc.want)
		}
	}
}
