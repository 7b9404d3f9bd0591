package command

import (
	"errors"
	"net/http"
	"testing"

	"coppice/internal/cloud"
	"coppice/internal/must"
	"coppice/internal/notify"
	"coppice/internal/program/environment"
)

// TestAWebhookIsAChannel: people are told where the environment says so, and nowhere else.
func TestAWebhookIsAChannel(t *testing.T) {
	for webhook, want := range map[notify.Secret]int{"": 0, "https://hooks.example/x": 1} {
		env := environment.Deployment{DatasetsBucket: t.TempDir(), SweepsBucket: t.TempDir(),
			RegistryBucket: t.TempDir(), Engine: environment.EngineSlurm}
		env.Verdicts.Webhook, env.Verdicts.WebhookFormat = webhook, notify.WebhookSlack
		b := must.Get(connect(t.Context(), env))(t)
		if must.Do(t, b.Close()); len(b.Channels) != want {
			t.Errorf("with the webhook %q: %d channels, want %d", string(webhook), len(b.Channels), want)
		}
	}
}

// TestCallers: callers are checked with an audience and a list of addresses, both given, and a signature that Cloud Run
// has removed is believed only behind Cloud Run.
func TestCallers(t *testing.T) {
	env := environment.CallersEnv{Audience: "coppice-aggregator.example",
		Callers: []string{"push@example.iam.gserviceaccount.com"}}
	c := must.Get(callers(t.Context(), env))(t)
	var refused interface{ HTTPStatus() int }
	if _, err := c.Verify(t.Context(), ""); !errors.As(err, &refused) ||
		refused.HTTPStatus() != http.StatusUnauthorized {
		t.Errorf("without a token: %v", err)
	}
	for _, env := range []environment.CallersEnv{{Audience: "a"}, {Callers: env.Callers}, {Audience: "a",
		Callers: []string{""}}} {
		var setup *cloud.SetupError
		if _, err := callers(t.Context(), env); !errors.As(err, &setup) {
			t.Errorf("callers of %+v: got error %v; want one of the setup", env, err)
		}
	}
	// What Cloud Run hands on is believed only where the deployment says that it stands in front; the claims are
	// {"email":"push@example.iam.gserviceaccount.com"}, so a believed signature is refused for its issuer.
	stripped := "Bearer eyJhbGciOiJSUzI1NiJ9.eyJlbWFpbCI6InB1c2hAZXhhbXBsZS5pYW0uZ3NlcnZpY2VhY2NvdW50LmNvbSJ9.SIGNATURE_REMOVED_BY_GOOGLE"
	_, before := c.Verify(t.Context(), stripped)
	env.Signatures = environment.SignaturesCloudRun
	c = must.Get(callers(t.Context(), env))(t)
	_, behind := c.Verify(t.Context(), stripped)
	if !errors.As(before, &refused) || !errors.As(behind, &refused) || before.Error() == behind.Error() {
		t.Errorf("refused in front with %v, behind Cloud Run with %v; want two reasons", before, behind)
	}
}
