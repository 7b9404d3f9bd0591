// Package inspect reads a project's configuration for `launcher doctor`: the caller, enabled services, role bindings,
// buckets, topics, subscriptions, quotas, machine types, images. It changes nothing: every call is a GET, or one of the
// POSTs that only read (testIamPermissions, getIamPolicy of some services, tokeninfo).
//
// It uses REST through the authenticated transport of Google's libraries: client libraries for the eight services would
// be tens of megabytes of generated code for fifteen calls.
package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/transport"
	htransport "google.golang.org/api/transport/http"

	"coppice/internal/cloud"
)

// Limits of a call.
const (
	callLimit = 20 * time.Second
	retryFor  = 30 * time.Second
	maxAnswer = 8 << 20 // a region's description has 100 KB, a large project's policy 1 MB
	pageLimit = 50
)

// The scopes of a token. tokeninfo names the caller only for a token with the second one: a person's login has it
// anyway, a token made for an account (by impersonation, in Cloud Run, on a machine) only on request.
const (
	cloudScope = "https://www.googleapis.com/auth/cloud-platform"
	emailScope = "https://www.googleapis.com/auth/userinfo.email"
)

// Options say which project to inspect.
type Options struct {
	Project  string
	Location string // region
	// Endpoint is host:port of an emulator on this machine, where https://SERVICE/PATH is http://Endpoint/SERVICE/PATH;
	// "" is Google Cloud with the application default credentials.
	Endpoint string
}

// Client inspects a project. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	token   func() (string, error) // an access token of the caller; nil if there are no credentials
	opts    Options
	address func(service string) string
}

// Errors of a Client are: *cloud.SetupError for missing or rejected credentials, *cloud.PermissionError,
// cloud.ErrNotThere, cloud.ErrNotImitated, or others.

// New connects. Without credentials the error is a *cloud.SetupError.
func New(ctx context.Context, o Options) (*Client, error) {
	if o.Endpoint != "" {
		if err := cloud.Loopback("COPPICE_INSPECT_ENDPOINT", o.Endpoint); err != nil {
			return nil, err
		}
		return newClient(&http.Client{}, nil, o, func(service string) string {
			return "http://" + o.Endpoint + "/" +
				service
		}), nil
	}

	creds, err := transport.Creds(ctx, option.WithScopes(cloudScope, emailScope))
	if err != nil {
		return nil, cloud.Dial("Google Cloud", err)
	}
	client, _, err := htransport.NewClient(ctx, option.WithCredentials(creds))
	if err != nil {
		return nil, cloud.Dial("Google Cloud", err)
	}

	token := func() (string, error) {
		t, err := creds.TokenSource.Token()
		if err != nil {
			return "", err
		}
		return t.AccessToken, nil
	}
	return newClient(client, token, o, func(service string) string { return "https://" + service }), nil
}

func newClient(c *http.Client, token func() (string, error), o Options, address func(string) string) *Client {
	return &Client{http: c, token: token, opts: o, address: address}
}

// read sends a request and decodes the answer into out. With a nil body it is a GET, otherwise a POST.
func (c *Client) read(ctx context.Context, service, path string, query url.Values, body, out any) error {
	target := c.address(service) + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	what := "https://" + service + path

	method := http.MethodGet
	header := ""
	text := []byte(nil)
	switch b := body.(type) {
	case nil:
	case url.Values: // a form
		method = http.MethodPost
		header = "application/x-www-form-urlencoded"
		text = []byte(b.Encode())
	default:
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		method = http.MethodPost
		header = "application/json"
		text = data
	}

	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(text))
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}

		if header != "" {
			r.Header.Set("Content-Type", header)
		}

		err = c.do(r, out)
		if err != nil && !passes(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(retryFor))

	if err != nil {
		return translate(what, err)
	}
	return nil
}

// do sends one request.
func (c *Client) do(r *http.Request, out any) error {
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := googleapi.CheckResponse(response); err != nil {
		return err
	}

	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(data) > maxAnswer {
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return json.Unmarshal(data, out)
}

// passes reports whether a retry may help.
func passes(err error) bool {
	var api *googleapi.Error
	return errors.As(err, &api) && (api.Code == http.StatusTooManyRequests || api.Code >= 500 &&
		api.Code != http.StatusNotImplemented)
}

// translate converts a service's error.
func translate(what string, err error) error {
	var api *googleapi.Error
	if errors.As(err, &api) {
		switch api.Code {
		case http.StatusNotFound:
			return fmt.Errorf("%s: %w", what, cloud.ErrNotThere)
		case http.StatusNotImplemented:
			return fmt.Errorf("%s: %w", what, cloud.ErrNotImitated)
		case http.StatusForbidden:
			return cloud.Forbidden(what, err)
		case http.StatusUnauthorized:
			return cloud.Unauthorized("Google Cloud", err)
		}
	}

	if env := cloud.Environment("Google Cloud", err); env != nil {
		return env
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// projectPattern matches project ids that are safe in a path.
var projectPattern = regexp.MustCompile(`^[a-z0-9:.-]{1,100}$`)

// path formats a path with escaped parts.
func path(format string, parts ...string) string {
	escaped := make([]any, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return fmt.Sprintf(format, escaped...)
}

// Caller returns the e-mail address of the credentials; "" if their token does not include it, for instance on a
// machine started without the scope.
func (c *Client) Caller(ctx context.Context) (string, error) {
	form := url.Values{}
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return "", &cloud.SetupError{What: "the credentials for Google Cloud cannot be used",
				Hint: "log in with `gcloud auth application-default login`", Err: err}
		}
		form.Set("access_token", token)
	}

	var info struct {
		Email string `json:"email"`
	}
	err := c.read(ctx, "oauth2.googleapis.com", "/tokeninfo", nil, form, &info)
	return info.Email, err
}

// Number returns the project's number.
func (c *Client) Number(ctx context.Context) (string, error) {
	if !projectPattern.MatchString(c.opts.Project) {
		return "", &cloud.SetupError{What: fmt.Sprintf("%.80q is not a project", c.opts.Project),
			Hint: "set COPPICE_PROJECT"}
	}
	var p struct {
		Number string `json:"projectNumber"`
	}
	err := c.read(ctx, "cloudresourcemanager.googleapis.com", path("/v1/projects/%s", c.opts.Project), nil, nil, &p)
	return p.Number, err
}

// Enabled returns the services enabled in the project, such as batch.googleapis.com.
func (c *Client) Enabled(ctx context.Context) ([]string, error) {
	var names []string
	query := url.Values{"filter": {"state:ENABLED"}, "pageSize": {"200"},
		"fields": {"services.config.name,nextPageToken"}}
	for range pageLimit {
		var page struct {
			Services []struct {
				Config struct {
					Name string `json:"name"`
				} `json:"config"`
			} `json:"services"`
			Next string `json:"nextPageToken"`
		}
		if err := c.read(ctx, "serviceusage.googleapis.com", path("/v1/projects/%s/services", c.opts.Project), query,
			nil, &page); err != nil {
			return nil, err
		}

		for _, s := range page.Services {
			names = append(names, s.Config.Name)
		}
		if page.Next == "" {
			return names, nil
		}
		query.Set("pageToken", page.Next)
	}
	return nil, fmt.Errorf("the list of enabled services has more than %d pages", pageLimit)
}
