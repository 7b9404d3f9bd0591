package sweep_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

func TestVerdictMessageOfAConclusion(t *testing.T) {
	c := &sweep.Conclusion{Format: 1, Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ctr", Version: 12,
		At: time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC),
		Gate: &sweep.GateDecision{Champion: 11, Reason: strings.Repeat("ä", 4000),
			Checks: []sweep.GateCheck{{Name: "tonight", Passed: true}, {Name: "ece", Reason: "too far off"}}}}
	m := c.Message("clicks@1a2b3c4d5e6f7a8b", time.Time{})
	if m.ID != "sweep/night-1/concluded" || m.Verdict != sweep.VerdictNotPromoted || m.Champion != 11 ||
		len(m.Checks) != 1 || m.Checks[0].Name != "ece" {
		t.Errorf("message %+v", m)
	}
	if again := c.Message("clicks@1a2b3c4d5e6f7a8b", time.Time{}); again.ID != m.ID {
		t.Errorf("told again it has the id %s, at first %s", again.ID, m.ID)
	}

	data, err := m.Encode()
	if err != nil || len(data) > sweep.MaxMessage {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	var back sweep.VerdictMessage
	if err := json.Unmarshal(data, &back); err != nil || back.Reason != m.Reason || !strings.HasSuffix(back.Reason, "ä ...") {
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
	none := c.Message("", time.Time{})
	for _, tc := range []struct {
		m    sweep.VerdictMessage
		want string
	}{
		{none, "sweep night-1: no winner | none meets require | launcher status night-1"},
		{sweep.StagedMessage("clicks@1", "labels are inverted", at),
			"dataset clicks@1: blocked | labels are inverted | launcher datasets show clicks@1"},
		{sweep.RefusedMessage("night-2", "ctr", "clicks@1", "it is old", at),
			"sweep night-2: not started | it is old | dataset clicks@1 | launcher datasets show clicks@1"},
	} {
		if got := strings.Join(append([]string{tc.m.Title()}, tc.m.Lines()...), " | "); got != tc.want {
			t.Errorf("%s reads\n%s\nwant\n%s", tc.m.ID, got, tc.want)
		}
	}
}

// TestSecretIsNotPrinted in any format.
func TestSecretIsNotPrinted(t *testing.T) {
	env := sweep.VerdictsEnv{Webhook: "https://hooks.slack.com/services/hush"}
	text := must.Get(json.Marshal(env))(t)
	for _, shown := range []string{string(text), fmt.Sprint(env), fmt.Sprintf("%+v", env), fmt.Sprintf("%#v", env),
		fmt.Sprintf("%q %s %v %x", env.Webhook, env.Webhook, &env, env.Webhook)} {
		if strings.Contains(shown, "hush") {
			t.Errorf("printed: %s", shown)
		}
	}
}

func TestVerdictsEnvCheck(t *testing.T) {
	good := sweep.VerdictsEnv{Webhook: "https://example.com/x", WebhookFormat: "json",
		WebhookVerdicts: []string{"blocked"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*sweep.VerdictsEnv){
		"COPPICE_WEBHOOK_FORMAT":   func(e *sweep.VerdictsEnv) { e.WebhookFormat = "teams" },
		"COPPICE_WEBHOOK_VERDICTS": func(e *sweep.VerdictsEnv) { e.WebhookVerdicts = []string{"bad"} },
		"https://":                 func(e *sweep.VerdictsEnv) { e.Webhook = "http://example.com/hush" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
