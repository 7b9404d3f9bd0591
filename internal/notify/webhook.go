package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Limits of one message.
const (
	attemptLimit = 10 * time.Second
	retryFor     = 45 * time.Second // all attempts and the pauses between them
	maxPause     = 10 * time.Second
	maxAnswer    = 64 << 10 // of the response, read so that the connection can be reused
)

// Webhook is the channel of a configured URL, for the verdicts that are configured: an incoming webhook of Slack, or of
// anything compatible (Mattermost, Google Chat, Discord with /slack appended), or a server that accepts the message as
// JSON. Anyone with the URL can post there, so it appears in no error and no log line.
func Webhook(env VerdictsEnv) Channel {
	c, err := newWebhook(env)
	if err != nil {
		return Broken("webhook", err)
	}
	only := []sweep.Verdict{} // not nil, which would stand for all verdicts
	for _, v := range env.Verdicts {
		only = append(only, sweep.Verdict(v))
	}
	return Channel{Name: "webhook", Only: only, Send: c.send}
}

// webhook posts to one URL. It is safe for concurrent use.
type webhook struct {
	address Secret
	slack   bool
	http    *http.Client
	pause   time.Duration // before the second attempt
}

// newWebhook returns a webhook that posts to the configured URL, or an error if env.Check rejects the settings.
func newWebhook(env VerdictsEnv) (*webhook, error) {
	if err := env.Check(); err != nil {
		return nil, problem.New(problem.Environment, "the webhook cannot be used: %v; fix or unset it", err)
	}
	// Redirects are not followed: they could lead anywhere, including to unencrypted URLs. They count as a failure.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &webhook{address: env.Webhook, slack: env.WebhookFormat == WebhookSlack,
		http: &http.Client{CheckRedirect: stay}, pause: time.Second}, nil
}

// send posts the message, and returns nil once the other side has accepted it. Network errors and the statuses 408, 429
// and 5xx are retried, with growing pauses, for retryFor; other answers are errors at once.
func (c *webhook) send(ctx context.Context, m *VerdictMessage) error {
	body, err := c.formatBody(m)
	if err != nil {
		return err
	}
	pauses := &backoff.ExponentialBackOff{InitialInterval: c.pause, RandomizationFactor: 0.3, Multiplier: 2,
		MaxInterval: maxPause}
	var last error
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		last = c.post(ctx, m.ID, body)
		var asked *pauseError
		if errors.As(last, &asked) {
			return struct{}{}, backoff.RetryAfter(asked.seconds)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(retryFor))

	// The last answer asked for a pause that is longer than the time left. Retry's error does not say its status.
	var tooLong *backoff.RetryAfterError
	if errors.As(err, &tooLong) {
		err = last
	}
	if err != nil {
		return fmt.Errorf("post to the webhook: %w", err)
	}
	return nil
}

// pauseError is of an answer that asks for a pause before the next attempt.
type pauseError struct {
	error
	seconds int // at least 1
}

// statusError returns the error about an answer with a status other than 2xx, with advice if a person has to act.
func statusError(status int) error {
	text := fmt.Sprintf("it answered %d %s", status, http.StatusText(status))
	switch {
	case status/100 == 3:
		text += ": redirections are not followed; set COPPICE_WEBHOOK to the address itself"
	case !mayPass(status):
		text += ": is COPPICE_WEBHOOK still valid, and COPPICE_WEBHOOK_FORMAT right?"
	}
	return errors.New(text)
}

// mayPass reports whether another attempt may succeed after an answer with this status.
func mayPass(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}

// post makes one attempt. id, the message's, lets the receiver recognise a repeated message. The error is a
// backoff.PermanentError if another attempt would end alike, and a pauseError if the answer asks for a pause. It never
// contains the address, which is a secret.
func (c *webhook) post(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, string(c.address), bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(errors.New("the address cannot be used")) // the original error contains the URL
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "coppice")
	r.Header.Set("Idempotency-Key", id)

	answer, err := c.http.Do(r)
	if err != nil {
		return withoutAddress(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // its contents might repeat the URL

	switch {
	case answer.StatusCode/100 == 2:
		return nil
	case !mayPass(answer.StatusCode):
		return backoff.Permanent(statusError(answer.StatusCode))
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		return &pauseError{statusError(answer.StatusCode), seconds}
	}
	return statusError(answer.StatusCode)
}

// withoutAddress returns an error of the HTTP client without the URL, with which such errors begin.
func withoutAddress(err error) error {
	var e *url.Error
	if !errors.As(err, &e) {
		return errors.New("the request failed")
	}
	if e.Timeout() {
		return fmt.Errorf("no answer within %s", attemptLimit)
	}
	return e.Err
}

// formatBody returns the message in the receiver's format. That is JSON with all fields, or Slack's: a text with a bold
// title, and the command that shows more, which is the last line, as code.
func (c *webhook) formatBody(m *VerdictMessage) ([]byte, error) {
	if !c.slack {
		return m.Encode()
	}
	lines := append([]string{"*" + escape(m.Title()) + "*"}, m.Lines()...)
	for i := range lines[1:] {
		lines[i+1] = escape(lines[i+1])
	}

	if m.Next != "" {
		lines[len(lines)-1] = "`" + lines[len(lines)-1] + "`"
	}
	body, err := json.Marshal(map[string]any{"text": strings.Join(lines, "\n"), "unfurl_links": false})
	if err != nil {
		return nil, fmt.Errorf("encode a verdict: %w", err)
	}
	return body, nil
}

// escape replaces the characters by which a text could notify a whole channel or contain a link: reasons contain
// names of columns and levels, which anybody may have chosen. See
// https://docs.slack.dev/messaging/formatting-message-text#escaping.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'", "*", "∗").Replace(text)
}
