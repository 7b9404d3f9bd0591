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

// TestAWebhookIsAChannel: with a webhook in the environment there is one channel for notifications, and without one
// there is none.
func TestAWebhookIsAChannel(t *testing.T) {
	for webhook, want := range map[notify.Secret]int{"": 0, "https://hooks.example/x": 1} {
		// With Slurm and folders as buckets, nothing is asked of a cloud.
		env := environment.Deployment{DatasetsBucket: t.TempDir(), SweepsBucket: t.TempDir(),
			RegistryBucket: t.TempDir(), Engine: environment.EngineSlurm}
		env.Verdicts.Webhook, env.Verdicts.WebhookFormat = webhook, notify.WebhookSlack
		b := must.Get(connect(t.Context(), env))(t)
		must.Do(t, b.Close())
		if len(b.Channels) != want {
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
		t.Errorf("without a token: got error %v; want one of the status 401", err)
	}

	// Settings of which one is missing.
	for _, env := range []environment.CallersEnv{{Audience: "a"}, {Callers: env.Callers}, {Audience: "a",
		Callers: []string{""}}} {
		var setup *cloud.SetupError
		if _, err := callers(t.Context(), env); !errors.As(err, &setup) {
			t.Errorf("callers of %+v: got error %v; want one of the setup", env, err)
		}
	}

	// A token whose signature Cloud Run has removed. Its claims are {"email":"push@example.iam.gserviceaccount.com"},
	// without an issuer. So it is refused in both cases: in front of Cloud Run for its signature, behind it for its
	// issuer.
	stripped := "Bearer eyJhbGciOiJSUzI1NiJ9.eyJlbWFpbCI6InB1c2hAZXhhbXBsZS5pYW0uZ3NlcnZpY2VhY2NvdW50LmNvbSJ9.SIGNATURE_REMOVED_BY_GOOGLE"
	_, before := c.Verify(t.Context(), stripped)
	env.Signatures = environment.SignaturesCloudRun
	c = must.Get(callers(t.Context(), env))(t)
	_, behind := c.Verify(t.Context(), stripped)
	if !errors.As(before, &refused) || !errors.As(behind, &refused) || before.Error() == behind.Error() {
		t.Errorf("refused in front with %v, behind Cloud Run with %v; want two reasons", before, behind)
	}
}
