// Package inspect reads of a project what `launcher doctor` wants to know: the caller and what they may do, enabled
// services, topics, quotas, machine types, images. It changes nothing: every call is a GET, or one of the POSTs that
// only read (testIamPermissions, tokeninfo).
//
// It uses REST through the authenticated transport of Google's libraries: client libraries for these services would be
// tens of megabytes of generated code for a few calls.
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
	"slices"
	"strings"
	"time"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/transport"
	htransport "google.golang.org/api/transport/http"

	"coppice/internal/cloud"
)

// Limits of a call.
const (
	callLimit = 20 * time.Second
	maxAnswer = 8 << 20 // a region's description has 100 KB
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
		return &Client{http: &http.Client{}, opts: o,
			address: func(service string) string { return "http://" + o.Endpoint + "/" + service }}, nil
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
	return &Client{http: client, token: token, opts: o,
		address: func(service string) string { return "https://" + service }}, nil
}

// call calls a path of a service and decodes the answer into out. A nil body makes it a GET, url.Values a POST of a
// form, and any other body a POST of JSON. Errors are of the kinds listed above New.
func (c *Client) call(ctx context.Context, service, path string, query url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	method, header, text := http.MethodGet, "", []byte(nil)
	switch b := body.(type) {
	case nil:
	case url.Values:
		method, header, text = http.MethodPost, "application/x-www-form-urlencoded", []byte(b.Encode())
	default:
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		method, header, text = http.MethodPost, "application/json", data
	}
	r, err := http.NewRequestWithContext(ctx, method, c.address(service)+path+"?"+query.Encode(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	if header != "" {
		r.Header.Set("Content-Type", header)
	}

	if err := c.send(r, out); err != nil {
		return translate("https://"+service+path, err)
	}
	return nil
}

// send sends one request and decodes its answer, which may have maxAnswer bytes, from JSON into out. An error of the
// service is its *googleapi.Error.
func (c *Client) send(r *http.Request, out any) error {
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

// translate turns the error of a call into one of package cloud's: ErrNotThere, ErrNotImitated, a *PermissionError or a
// *SetupError. Others are wrapped. what names the address that was called.
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

// formatPath fills the %s of a path with parts, which it escapes.
func formatPath(format string, parts ...string) string {
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
	err := c.call(ctx, "oauth2.googleapis.com", "/tokeninfo", nil, form, &info)
	return info.Email, err
}

// Enabled returns those of the services, such as batch.googleapis.com, that are enabled in the project.
func (c *Client) Enabled(ctx context.Context, services []string) ([]string, error) {
	prefix := "projects/" + c.opts.Project + "/services/"
	query := url.Values{}
	for _, s := range services {
		query.Add("names", prefix+s)
	}
	var answer struct {
		Services []struct {
			State  string `json:"state"`
			Config struct {
				Name string `json:"name"`
			} `json:"config"`
		} `json:"services"`
	}
	path := formatPath("/v1/projects/%s/services:batchGet", c.opts.Project)
	err := c.call(ctx, "serviceusage.googleapis.com", path, query, nil, &answer)
	var names []string
	for _, s := range answer.Services {
		if s.State == "ENABLED" {
			names = append(names, s.Config.Name)
		}
	}
	return names, err
}

// Held returns those of the permissions that the caller has on the resource. Each kind of resource has a service of its
// own that knows, and the bucket's wants a GET where the others want a POST.
func (c *Client) Held(ctx context.Context, r cloud.Resource, permissions []string) ([]string, error) {
	var held struct {
		Permissions []string `json:"permissions"`
	}
	post := map[string]any{"permissions": permissions}

	var err error
	switch r.Kind {
	case "project":
		err = c.call(ctx, "cloudresourcemanager.googleapis.com",
			formatPath("/v1/projects/%s:testIamPermissions", r.Name), nil, post, &held)
	case "bucket":
		err = c.call(ctx, "storage.googleapis.com", formatPath("/storage/v1/b/%s/iam/testPermissions", r.Name),
			url.Values{"permissions": permissions}, nil, &held)
	case "account": // its project is in its address, unless Google made the account
		project := c.opts.Project
		if _, domain, _ := strings.Cut(r.Name, "@"); strings.HasSuffix(domain, ".iam.gserviceaccount.com") {
			project = strings.TrimSuffix(domain, ".iam.gserviceaccount.com")
		}
		err = c.call(ctx, "iam.googleapis.com",
			formatPath("/v1/projects/%s/serviceAccounts/%s:testIamPermissions", project, r.Name), nil, post, &held)
	default:
		err = fmt.Errorf("no rights are read of a %q", r.Kind)
	}
	return held.Permissions, err
}

// Topic returns nil if the topic with this full name exists.
func (c *Client) Topic(ctx context.Context, name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[2] != "topics" {
		return fmt.Errorf("%.200q is not projects/PROJECT/topics/NAME", name)
	}
	var t struct{}
	topic := formatPath("/v1/projects/%s/topics/%s", parts[1], parts[3])
	return c.call(ctx, "pubsub.googleapis.com", topic, nil, nil, &t)
}

// limits is the part that the descriptions of a project and of a region have in common.
type limits struct {
	Zones  []string `json:"zones"` // URLs
	Quotas []struct {
		Metric string  `json:"metric"`
		Limit  float64 `json:"limit"`
		Usage  float64 `json:"usage"`
	} `json:"quotas"`
}

// Region returns the zones and quotas of the region in Options, and among the quotas that of the whole project for
// vCPUs in all regions. If the caller may not read the project's quotas, Region.Unread has the reason and there is no
// error.
func (c *Client) Region(ctx context.Context) (cloud.Region, error) {
	r := cloud.Region{Quotas: map[string]cloud.Quota{}}
	project := formatPath("/compute/v1/projects/%s", c.opts.Project)
	for _, what := range []string{project, project + formatPath("/regions/%s", c.opts.Location)} {
		fields, answer := "quotas", limits{}
		if what != project {
			fields = "zones,quotas"
		}
		err := c.call(ctx, "compute.googleapis.com", what, url.Values{"fields": {fields}}, nil, &answer)
		var denied *cloud.PermissionError
		if what == project && errors.As(err, &denied) { // a role may be for regions alone
			r.Unread = err
			continue
		}
		if err != nil {
			return cloud.Region{}, err
		}
		for _, q := range answer.Quotas {
			if what != project || q.Metric == cloud.CPUsAllRegions {
				r.Quotas[q.Metric] = cloud.Quota{Limit: q.Limit, Usage: q.Usage}
			}
		}
		for _, z := range answer.Zones { // URLs that end in the zone's name
			r.Zones = append(r.Zones, z[strings.LastIndexByte(z, '/')+1:])
		}
	}
	slices.Sort(r.Zones)
	return r, nil
}

// Offered returns nil if the zone offers the machine type, and cloud.ErrNotThere if it does not.
func (c *Client) Offered(ctx context.Context, zone, machineType string) error {
	var m struct{}
	return c.call(ctx, "compute.googleapis.com", formatPath("/compute/v1/projects/%s/zones/%s/machineTypes/%s",
		c.opts.Project, zone, machineType), url.Values{"fields": {"name"}}, nil, &m)
}

// Image returns nil if the image exists, and cloud.ErrNotThere if it does not. If the reference has a digest, that
// decides, and the tag is not looked at.
func (c *Client) Image(ctx context.Context, i cloud.Image) error {
	what := formatPath("/v1/projects/%s/locations/%s/repositories/%s/packages/%s", i.Project, i.Location, i.Repository,
		i.Name)
	if i.Digest != "" {
		what += formatPath("/versions/%s", i.Digest)
	} else {
		what += formatPath("/tags/%s", i.Tag)
	}
	var found struct{}
	return c.call(ctx, "artifactregistry.googleapis.com", what, nil, nil, &found)
}
