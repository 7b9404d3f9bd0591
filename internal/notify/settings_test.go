package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coppice/internal/must"
)

// TestSecretIsNotPrinted in any format.
func TestSecretIsNotPrinted(t *testing.T) {
	env := VerdictsEnv{Webhook: "https://hooks.slack.com/services/hush"}
	text := must.Get(json.Marshal(env))(t)
	for _, shown := range []string{string(text), fmt.Sprint(env), fmt.Sprintf("%+v", env), fmt.Sprintf("%#v", env),
		fmt.Sprintf("%q %s %v %x", env.Webhook, env.Webhook, &env, env.Webhook)} {
		if strings.Contains(shown, "hush") {
			t.Errorf("printed: %s", shown)
		}
	}
}

func TestVerdictsEnvCheck(t *testing.T) {
	good := VerdictsEnv{Webhook: "https://example.com/x", WebhookFormat: "json",
		Verdicts: []string{"blocked"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*VerdictsEnv){
		"COPPICE_WEBHOOK_FORMAT":   func(e *VerdictsEnv) { e.WebhookFormat = "teams" },
		"COPPICE_WEBHOOK_VERDICTS": func(e *VerdictsEnv) { e.Verdicts = []string{"bad"} },
		"https://":                 func(e *VerdictsEnv) { e.Webhook = "http://example.com/hush" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
