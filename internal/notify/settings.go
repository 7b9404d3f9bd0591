package notify

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"coppice/internal/sweep"
)

// VerdictsEnv says where launcher and aggregator send the outcome of a night, in addition to logs and measurements. An
// error in it does not keep a sweep from being concluded: it is reported when a notification is to be sent.
type VerdictsEnv struct {
	Topic string `env:"COPPICE_VERDICTS_TOPIC"` // empty for no topic
	// Webhook is a URL to which verdicts in Verdicts are posted; empty for none. Anyone who has it can post
	// there.
	Webhook       Secret `env:"COPPICE_WEBHOOK"`
	WebhookFormat string `env:"COPPICE_WEBHOOK_FORMAT, default=slack"` // slack, or json: the VerdictMessage

	Verdicts []string `env:"COPPICE_WEBHOOK_VERDICTS, default=promoted,not_promoted,not_comparable,blocked,no_winner"`
}

// Values for a webhook.
const (
	WebhookSlack = "slack"
	WebhookJSON  = "json"
)

// Check returns an error if there is a webhook with settings that cannot work. The error does not contain the URL.
func (e VerdictsEnv) Check() error {
	if e.Webhook == "" {
		return nil
	}
	if e.WebhookFormat != WebhookSlack && e.WebhookFormat != WebhookJSON {
		return fmt.Errorf("the environment variable COPPICE_WEBHOOK_FORMAT is %.40q: use %s or %s", e.WebhookFormat,
			WebhookSlack, WebhookJSON)
	}
	if err := sweep.CheckVerdicts(e.Verdicts); err != nil {
		return fmt.Errorf("the environment variable COPPICE_WEBHOOK_VERDICTS: %w", err)
	}
	return checkWebhook(e.Webhook)
}

// checkWebhook returns an error unless the address is an https URL, or an http URL of this machine. The error does not
// contain the URL.
func checkWebhook(address Secret) error {
	u, err := url.Parse(string(address))
	switch {
	case err != nil || u.Host == "":
		return errors.New("the environment variable COPPICE_WEBHOOK is not a URL")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("the environment variable COPPICE_WEBHOOK has to begin with https://: what is posted to " +
		"anything but this machine is encrypted")
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Secret is a text that must not appear in logs: it is replaced in every printed form.
type Secret string

// String hides the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides it, too.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides it, too: in JSON and in structured logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
