// Package tracking calls an MLflow tracking server's REST interface (https://mlflow.org/docs/latest/rest-api.html) and
// its proxy for artifacts. It sends the credentials to that address only, and repeats them in no error.
package tracking

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"coppice/internal/cloud"
	"coppice/internal/sweep"
)

// Limits of one call.
const (
	attemptLimit = 30 * time.Second
	slowest      = 128 << 10 // bytes per second: an upload may take so much longer than attemptLimit
	retryFor     = 2 * time.Minute
	maxAttempts  = 5
	maxPause     = 15 * time.Second
	maxAnswer    = 4 << 20 // bytes of an answer
	maxRefusal   = 64 << 10
	maxMessage   = 300 // characters of the server's own words in an error
)

// Paths of the server, below its address.
const (
	apiPath      = "/api/2.0/mlflow/"
	artifactPath = "/api/2.0/mlflow-artifacts/artifacts/"
)

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base  *url.URL
	env   sweep.TrackingEnv
	http  *http.Client
	pause time.Duration // before the second attempt
}

// New makes a Client for an address such as https://mlflow.example.com/team. One that cannot be used is a
// *cloud.SetupError.
func New(address string, env sweep.TrackingEnv) (*Client, error) {
	if err := env.Check(address); err != nil {
		return nil, &cloud.SetupError{What: "the MLflow server cannot be used",
			Hint: "launcher registry export --help shows an example", Err: err}
	}
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return nil, &cloud.SetupError{What: "the MLflow server's address is not a URL",
			Hint: "launcher registry export --help shows an example"}
	}
	// Redirects are not followed: they could lead anywhere, with the model and the credentials. They count as a
	// failure.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: base, env: env, http: &http.Client{CheckRedirect: stay}, pause: time.Second}, nil
}

// Get calls an endpoint that reads, such as experiments/get-by-name.
func (c *Client) Get(ctx context.Context, endpoint string, query url.Values, out any) error {
	return c.call(ctx, &request{method: http.MethodGet, path: apiPath + endpoint, query: query.Encode()}, out)
}

// Post calls an endpoint for which a second call with the same contents is harmless.
func (c *Client) Post(ctx context.Context, endpoint string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode a request for %s: %w", endpoint, err)
	}
	return c.call(ctx, &request{method: http.MethodPost, path: apiPath + endpoint, kind: "application/json",
		body: body}, out)
}

// PostOnce calls an endpoint for which a second call is not harmless: it is not repeated if the first may have been
// carried out.
func (c *Client) PostOnce(ctx context.Context, endpoint string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode a request for %s: %w", endpoint, err)
	}
	return c.call(ctx, &request{method: http.MethodPost, path: apiPath + endpoint, kind: "application/json", body: body,
		once: true}, out)
}

// Upload stores a file under a location that the server gave for artifacts (mlflow-artifacts:/..., or a URL of its own
// proxy). A second upload replaces the first.
func (c *Client) Upload(ctx context.Context, location, name string, data []byte) error {
	folder, err := c.Path(location)
	if err != nil {
		return err
	}
	if !filepath.IsLocal(name) { // it may come from another registry
		return fmt.Errorf("upload to the MLflow server: %.100q is not the name of a file of a version", name)
	}
	return c.call(ctx, &request{method: http.MethodPut, path: path.Join(folder, name), kind: "application/octet-stream",
		body: data}, nil)
}

// Path is the path of a location for artifacts on this server. A location to be written without the server is a
// *cloud.SetupError.
func (c *Client) Path(location string) (string, error) {
	elsewhere := &cloud.SetupError{What: fmt.Sprintf("the MLflow server has artifacts in %.200q, which it does not "+
		"take itself", location),
		Hint: "start it with --serve-artifacts and --artifacts-destination, and export to an experiment made since; " +
			"or export to a folder"}
	u, err := url.Parse(location)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Opaque != "" {
		return "", elsewhere
	}
	if u.Host != "" && u.Host != c.base.Host {
		return "", elsewhere
	}

	rest := u.Path
	switch root := c.base.Path + artifactPath; {
	case u.Scheme == "mlflow-artifacts":
	case u.Scheme == c.base.Scheme && strings.HasPrefix(u.Path, root):
		rest = u.Path[len(root):]
	default:
		return "", elsewhere
	}
	for _, part := range strings.Split(rest, "/") {
		if part == ".." || part == "." {
			return "", elsewhere
		}
	}
	return path.Join(artifactPath, rest), nil
}

// request is one call, which may take several attempts.
type request struct {
	method, path, query, kind string
	body                      []byte
	once                      bool
}

// call makes attempts until the server has answered, and decodes the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, q *request, out any) error {
	var last error
	pauses := &backoff.ExponentialBackOff{InitialInterval: c.pause, RandomizationFactor: 0.3, Multiplier: 2,
		MaxInterval: maxPause}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = c.attempt(ctx, q, out)
		return struct{}{}, again(last, q.once)
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(maxAttempts), backoff.WithMaxElapsedTime(retryFor+q.limit()))
	if err == nil {
		return nil
	}

	if ctx.Err() != nil {
		return ctx.Err()
	}
	if setup, ok := cloud.NobodyAt(last); ok {
		return &cloud.SetupError{What: "no answer from the MLflow server", Hint: "is it running at " + setup + "?",
			Err: last}
	}
	return fmt.Errorf("MLflow server %s, %s %s: %w", c.base.Host, q.method, q.path, last)
}

// again marks an error after which another attempt makes no sense as permanent, and passes on how long the server asks
// to wait.
func again(err error, once bool) error {
	var refused *RefusedError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		_, missing := cloud.NobodyAt(err)
		var broken *answerError
		if once || missing || errors.As(err, &broken) {
			return backoff.Permanent(err)
		}
		return err

	case refused.Status == http.StatusTooManyRequests: // not carried out
		if refused.after > 0 {
			return backoff.RetryAfter(refused.after)
		}
		return err

	case once || !refused.passing():
		return backoff.Permanent(err)
	}
	return err
}

// limit is the time for one attempt.
func (q *request) limit() time.Duration {
	return attemptLimit + time.Duration(len(q.body)/slowest)*time.Second
}

// attempt makes one.
func (c *Client) attempt(ctx context.Context, q *request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, q.limit())
	defer cancel()
	target := *c.base
	target.Path, target.RawQuery = c.base.Path+q.path, q.query
	r, err := http.NewRequestWithContext(ctx, q.method, target.String(), bytes.NewReader(q.body))
	if err != nil {
		return &answerError{"the request cannot be made"} // the original error contains the URL
	}
	r.Header.Set("User-Agent", "coppice")
	if q.kind != "" {
		r.Header.Set("Content-Type", q.kind)
	}
	c.authorize(r)

	answer, err := c.http.Do(r)
	if err != nil {
		return short(err, q.limit())
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return c.refused(answer)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return short(err, q.limit())
	case len(text) > maxAnswer:
		return &answerError{fmt.Sprintf("its answer is larger than %d MiB", maxAnswer>>20)}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &answerError{"its answer is not the expected JSON; is this an MLflow server, and the address complete?"}
	}
	return nil
}

// authorize adds the credentials, as MLflow's own client does: a user's name and password before a token.
func (c *Client) authorize(r *http.Request) {
	switch e := c.env; {
	case e.Username != "" && e.Password != "":
		r.SetBasicAuth(e.Username, string(e.Password))
	case e.Token != "":
		r.Header.Set("Authorization", "Bearer "+string(e.Token))
	}
}

// answerError is an answer that another attempt would not better.
type answerError struct{ what string }

func (e *answerError) Error() string { return e.what }

// short removes the URL, which the HTTP client's errors begin with.
func short(err error, limit time.Duration) error {
	var e *url.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Timeout() {
		return fmt.Errorf("no complete answer within %s", limit)
	}
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// RefusedError is an answer other than 2xx.
type RefusedError struct {
	Status  int
	Code    string // MLflow's, such as RESOURCE_ALREADY_EXISTS
	Message string
	after   int // seconds that the server asks to wait
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("it answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Code != "" {
		text += ", " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}

	switch e.Status / 100 {
	case 3:
		return text + "; redirections are not followed: give the address itself"
	}
	if e.IsSetup() {
		return text + "; set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, to " +
			"what the server accepts"
	}
	return text
}

// IsSetup says that the address or the credentials are at fault.
func (e *RefusedError) IsSetup() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || e.Status/100 == 3
}

// ErrorCode is MLflow's.
func (e *RefusedError) ErrorCode() string { return e.Code }

// passing reports whether another attempt may succeed.
func (e *RefusedError) passing() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout || e.Status >= 500
}

// refused reads what the server says about a failure.
func (c *Client) refused(answer *http.Response) error {
	e := &RefusedError{Status: answer.StatusCode}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = seconds
	}

	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	var said struct {
		Code    string `json:"error_code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &said) == nil {
		e.Code, e.Message = c.quote(said.Code), c.quote(said.Message)
	}
	return e
}

// quote is the beginning of what a server says, without the credentials, should it repeat them.
func (c *Client) quote(text string) string {
	for _, secret := range []sweep.Secret{c.env.Token, c.env.Password} {
		if secret != "" {
			text = strings.ReplaceAll(text, string(secret), secret.String())
		}
	}
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage]) + "..."
	}
	return strings.Join(strings.Fields(text), " ")
}
