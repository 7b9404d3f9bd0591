package inspect

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/cloud"
)

// google answers with what a test says, by method and path, and remembers what it was asked.
type google struct {
	answers map[string]string // "GET /SERVICE/PATH" to a body, or to "STATUS body"
	asked   []string
	bodies  []string
}

func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Method + " " + r.URL.EscapedPath()
	g.asked, g.bodies = append(g.asked, r.Method+" "+r.URL.RequestURI()), append(g.bodies, string(body))
	if page := r.URL.Query().Get("pageToken"); page != "" {
		key += " page " + page
	}
	text, ok := g.answers[key]
	if !ok {
		text = "404 {}"
	}
	for _, code := range []int{400, 401, 403, 404, 429, 501} {
		if rest, bad := strings.CutPrefix(text, http.StatusText(code)+" "); bad {
			w.WriteHeader(code)
			text = rest
		}
	}
	if text == "404 {}" {
		w.WriteHeader(http.StatusNotFound)
		text = "{}"
	}
	_, _ = io.WriteString(w, text)
}

func serve(t testing.TB, answers map[string]string) (*Client, *google) {
	g := &google{answers: answers}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	c, err := New(t.Context(), Options{Project: "p1", Location: "us-central1",
		Endpoint: strings.TrimPrefix(s.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	return c, g
}

func TestProject(t *testing.T) {
	c, g := serve(t, map[string]string{
		"POST /oauth2.googleapis.com/tokeninfo":                           `{"email":"ana@example.com","scope":"x"}`,
		"GET /cloudresourcemanager.googleapis.com/v1/projects/p1":         `{"projectNumber":"42","projectId":"p1"}`,
		"GET /serviceusage.googleapis.com/v1/projects/p1/services":        `{"services":[{"config":{"name":"a"}}],"nextPageToken":"2"}`,
		"GET /serviceusage.googleapis.com/v1/projects/p1/services page 2": `{"services":[{"config":{"name":"b"}}]}`,
	})
	c.token = func() (string, error) { return "secret", nil }
	ctx := t.Context()
	if email, err := c.Caller(ctx); err != nil || email != "ana@example.com" || g.bodies[0] != "access_token=secret" ||
		strings.Contains(g.asked[0], "secret") {
		t.Errorf("%q, %v, asked %q with %q", email, err, g.asked, g.bodies)
	}
	if n, err := c.Number(ctx); err != nil || n != "42" {
		t.Errorf("the project's number: got %q (error %v); want 42", n, err)
	}
	if names, err := c.Enabled(ctx); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("the enabled services: got %q (error %v); want a and b", names, err)
	}
	c.token = func() (string, error) { return "", errors.New("expired") }
	var setup *cloud.SetupError
	if _, err := c.Caller(ctx); !errors.As(err, &setup) {
		t.Errorf("without a token: error %v, expected a *cloud.SetupError", err)
	}
	c.opts.Project = "a/b"
	if _, err := c.Number(ctx); !errors.As(err, &setup) {
		t.Errorf("project %q: error %v, expected a *cloud.SetupError", c.opts.Project, err)
	}
}

// TestCallerOfAnAccount is what the launcher's account meets: Google names an account only to a token that was asked
// for with the scope of e-mail addresses. The token of New comes from a real exchange, and the fake checks the scopes
// it was asked for.
func TestCallerOfAnAccount(t *testing.T) {
	const who = "coppice-launcher@p1.iam.gserviceaccount.com"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	exchanges := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		exchanges++
		var claims struct {
			Scope string `json:"scope"`
		}
		parts := strings.Split(r.FormValue("assertion"), ".")
		if text, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)]); err != nil ||
			json.Unmarshal(text, &claims) != nil {
			t.Errorf("an exchange of %q", parts)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": claims.Scope, "token_type": "Bearer",
			"expires_in": 3600})
	})
	mux.HandleFunc("POST /oauth2.googleapis.com/tokeninfo", func(w http.ResponseWriter, r *http.Request) {
		scopes := strings.Fields(r.FormValue("access_token"))
		if header := r.Header.Get("Authorization"); header != "Bearer "+strings.Join(scopes, " ") ||
			!slices.Contains(scopes, "https://www.googleapis.com/auth/cloud-platform") {
			t.Errorf("called with %q about a token for %q", header, scopes)
		}
		info := map[string]string{"scope": strings.Join(scopes, " ")}
		if slices.Contains(scopes, "https://www.googleapis.com/auth/userinfo.email") {
			info["email"] = who
		}
		_ = json.NewEncoder(w).Encode(info)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	text, err := json.Marshal(map[string]string{"type": "service_account", "client_email": who, "token_uri": s.URL +
		"/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	c, err := New(t.Context(), Options{Project: "p1", Location: "us-central1"})
	if err != nil {
		t.Fatal(err)
	}
	c.address = func(service string) string { return s.URL + "/" + service }
	if email, err := c.Caller(t.Context()); err != nil || email != who || exchanges != 1 {
		t.Errorf("%q, %v, after %d exchanges", email, err, exchanges)
	}
}

// TestRights asks each kind of resource as its service wants to be asked.
func TestRights(t *testing.T) {
	const policy = `{"version":3,"bindings":[{"role":"roles/a","members":["user:x","user:y"]},{"role":"roles/b","members":["user:x"],"condition":{"expression":"false"}}]}`
	const held = `{"permissions":["one"]}`
	for _, tc := range []struct {
		r            cloud.Resource
		policy, test string
	}{
		{cloud.Resource{Kind: "project", Name: "p1"},
			"POST /cloudresourcemanager.googleapis.com/v1/projects/p1:getIamPolicy",
			"POST /cloudresourcemanager.googleapis.com/v1/projects/p1:testIamPermissions"},
		{cloud.Resource{Kind: "bucket", Name: "b"}, "GET /storage.googleapis.com/storage/v1/b/b/iam",
			"GET /storage.googleapis.com/storage/v1/b/b/iam/testPermissions"},
		{cloud.Resource{Kind: "topic", Name: "projects/p2/topics/t"},
			"GET /pubsub.googleapis.com/v1/projects/p2/topics/t:getIamPolicy",
			"POST /pubsub.googleapis.com/v1/projects/p2/topics/t:testIamPermissions"},
		{cloud.Resource{Kind: "subscription", Name: "projects/p1/subscriptions/s"},
			"GET /pubsub.googleapis.com/v1/projects/p1/subscriptions/s:getIamPolicy",
			"POST /pubsub.googleapis.com/v1/projects/p1/subscriptions/s:testIamPermissions"},
		{cloud.Resource{Kind: "account", Name: "a@p2.iam.gserviceaccount.com"},
			"POST /iam.googleapis.com/v1/projects/p2/serviceAccounts/a@p2.iam.gserviceaccount.com:getIamPolicy",
			"POST /iam.googleapis.com/v1/projects/p2/serviceAccounts/a@p2.iam.gserviceaccount.com:testIamPermissions"},
		{cloud.Resource{Kind: "repository", Name: "projects/p1/locations/l/repositories/r"},
			"GET /artifactregistry.googleapis.com/v1/projects/p1/locations/l/repositories/r:getIamPolicy",
			"POST /artifactregistry.googleapis.com/v1/projects/p1/locations/l/repositories/r:testIamPermissions"},
	} {
		c, g := serve(t, map[string]string{tc.policy: policy, tc.test: held})
		p, err := c.Policy(t.Context(), tc.r)
		if err != nil || !slices.Equal(p["roles/a"], []string{"user:x", "user:y"}) || len(p) != 1 {
			t.Errorf("%s: %v, %v; asked %q", tc.r, p, err, g.asked)
		}
		if said := g.asked[0] + g.bodies[0]; !strings.Contains(strings.ToLower(said), "requestedpolicyversion") {
			t.Errorf("%s: conditions are not asked for: %s", tc.r, said)
		}
		h, err := c.Held(t.Context(), tc.r, []string{"one", "two"})
		if err != nil || !slices.Equal(h, []string{"one"}) {
			t.Errorf("%s: %q, %v; asked %q", tc.r, h, err, g.asked)
		}
		if said := g.asked[1] + g.bodies[1]; !strings.Contains(said, "one") || !strings.Contains(said, "two") {
			t.Errorf("rights on %s were asked for as %s; want both permissions named", tc.r, said)
		}
	}
	c, _ := serve(t, nil)
	for _, r := range []cloud.Resource{{Kind: "topic", Name: "t"}, {Kind: "subscription", Name: "projects/p/topics/t"},
		{Kind: "repository", Name: "r"}, {Kind: "moon", Name: "m"}} {
		if _, err := c.Policy(t.Context(), r); err == nil {
			t.Errorf("%s has a policy", r)
		}
		if _, err := c.Held(t.Context(), r, nil); err == nil {
			t.Errorf("%s has permissions", r)
		}
	}
}

func TestThings(t *testing.T) {
	c, g := serve(t, map[string]string{
		"GET /storage.googleapis.com/storage/v1/b/b": `{"location":"US-CENTRAL1","iamConfiguration":{"uniformBucketLevelAccess":{"enabled":true},"publicAccessPrevention":"enforced"},
			"versioning":{"enabled":true},"softDeletePolicy":{"retentionDurationSeconds":"604800"}}`,
		"GET /storage.googleapis.com/storage/v1/b/bare":                                                             `{"location":"EU"}`,
		"GET /storage.googleapis.com/storage/v1/b/odd":                                                              `{"softDeletePolicy":{"retentionDurationSeconds":"-5"}}`,
		"GET /pubsub.googleapis.com/v1/projects/p1/topics/t":                                                        `{"name":"x"}`,
		"GET /pubsub.googleapis.com/v1/projects/p1/subscriptions/s":                                                 `{"topic":"projects/p1/topics/t","deadLetterPolicy":{"deadLetterTopic":"projects/p1/topics/d","maxDeliveryAttempts":7}}`,
		"GET /compute.googleapis.com/compute/v1/projects/p1/regions/us-central1":                                    `{"zones":["https://x/zones/us-central1-b","https://x/zones/us-central1-a"],"quotas":[{"metric":"CPUS","limit":24,"usage":2.5}]}`,
		"GET /compute.googleapis.com/compute/v1/projects/p1/zones/z/machineTypes/n2-highmem-2":                      `{"name":"n2-highmem-2"}`,
		"GET /artifactregistry.googleapis.com/v1/projects/p1/locations/l/repositories/r/packages/i/tags/v1":         `{}`,
		"GET /artifactregistry.googleapis.com/v1/projects/p1/locations/l/repositories/r/packages/a%2Fi/tags/latest": `{}`,
		"GET /artifactregistry.googleapis.com/v1/projects/p1/locations/l/repositories/r/packages/i/versions/sha256:" +
			strings.Repeat("a", 64): `{}`,
	})
	ctx := t.Context()
	for name, want := range map[string]cloud.Bucket{
		"b": {Location: "us-central1", Uniform: true, PublicPrevented: true, Versioned: true,
			SoftDelete: 7 * 24 * time.Hour},
		"bare": {Location: "eu"}, "odd": {},
	} {
		if b, err := c.Bucket(ctx, name); err != nil || b != want {
			t.Errorf("bucket %s: got %+v (error %v); want %+v", name, b, err, want)
		}
	}
	if err := errors.Join(c.Topic(ctx, "projects/p1/topics/t"), c.Offered(ctx, "z", "n2-highmem-2")); err != nil {
		t.Error(err)
	}
	if s, err := c.Subscription(ctx, "projects/p1/subscriptions/s"); err != nil ||
		s != (cloud.Subscription{Topic: "projects/p1/topics/t", DeadLetterTopic: "projects/p1/topics/d",
			MaxAttempts: 7}) {
		t.Errorf("the subscription: got %+v (error %v); want topic t, and topic d after 7 attempts", s, err)
	}
	if r, err := c.Region(ctx); err != nil || !slices.Equal(r.Zones, []string{"us-central1-a", "us-central1-b"}) ||
		r.Quotas["CPUS"] != (cloud.Quota{Limit: 24, Usage: 2.5}) {
		t.Errorf("the region: got %+v (error %v); want zones a and b, and 2.5 of 24 CPUS used", r, err)
	}
	for _, reference := range []string{"l-docker.pkg.dev/p1/r/i:v1", "l-docker.pkg.dev/p1/r/a/i",
		"l-docker.pkg.dev/p1/r/i@sha256:" + strings.Repeat("a", 64)} {
		image, ok := cloud.ParseImage(reference)
		if err := c.Image(ctx, image); !ok || err != nil {
			t.Errorf("%s: %t %v; asked %q", reference, ok, err, g.asked[len(g.asked)-1])
		}
	}
	for _, err := range []error{c.Topic(ctx, "projects/p1/topics/none"), c.Offered(ctx, "z", "x"),
		c.Image(ctx, cloud.Image{})} {
		if !errors.Is(err, cloud.ErrNotThere) {
			t.Errorf("an absent bucket: got error %v; want ErrNotThere", err)
		}
	}
	for _, asked := range g.asked {
		if !strings.HasPrefix(asked, "GET ") {
			t.Errorf("it was not only read: %s", asked)
		}
	}
}

func TestErrors(t *testing.T) {
	const topic = "projects/p1/topics/t"
	call := func(answer string) error {
		c, _ := serve(t, map[string]string{"GET /pubsub.googleapis.com/v1/" + topic: answer})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return c.Topic(ctx, topic)
	}
	var denied *cloud.PermissionError
	var setup *cloud.SetupError
	if err := call(`Forbidden {"error":{"code":403,"message":"no"}}`); !errors.As(err, &denied) ||
		!strings.Contains(denied.Hint, "grant") {
		t.Errorf("after a refusal: error %v, expected advice to grant a permission", err)
	}
	if err := call(`Forbidden {"error":{"code":403,"message":"Pub/Sub API has not been used in project ` +
		`1","details":[{"reason":"SERVICE_DISABLED"}]}}`); !errors.As(err, &denied) ||
		!strings.Contains(denied.Hint, "enable") {
		t.Errorf("of a service that is not enabled: error %v, expected advice to enable it", err)
	}
	if err := call(`Unauthorized {}`); !errors.As(err, &setup) {
		t.Errorf("without valid credentials: error %v, expected a *cloud.SetupError", err)
	}
	if err := call(`Not Implemented {}`); !errors.Is(err, cloud.ErrNotImitated) {
		t.Errorf("of an emulator that does not have it: error %v, expected %v", err, cloud.ErrNotImitated)
	}
	if err := call(`Bad Request {}`); err == nil || !strings.Contains(err.Error(), "https://pubsub.googleapis.com/v1/"+
		topic) {
		t.Errorf("after a bad request: error %v, expected its URL", err)
	}
	if err := call(`not JSON`); err == nil {
		t.Error("an answer that is no JSON")
	}
	if err := call(`"` + strings.Repeat("x", maxAnswer) + `"`); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("a long answer: %v", err)
	}
	if _, err := New(t.Context(), Options{Endpoint: "10.0.0.1:80"}); !errors.As(err, &setup) {
		t.Errorf("an endpoint elsewhere: %v", err)
	}
	c, err := New(t.Context(), Options{Project: "p1", Endpoint: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Topic(t.Context(), topic); !errors.As(err, &setup) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestRetries: what passes is asked again.
func TestRetries(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer s.Close()
	c, err := New(t.Context(), Options{Project: "p1", Endpoint: strings.TrimPrefix(s.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Topic(t.Context(), "projects/p1/topics/t"); err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// canned answers every request alike.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// FuzzAnswers gives every call an answer of anybody's making.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"bindings":[{"role":"r","members":["m"],"condition":null}]}`,
		`{"zones":["a/b",""],"quotas":[{"metric":"","limit":1e400}]}`,
		`{"location":1}`, `{"services":[{}],"nextPageToken":"x"}`, `[`,
		`{"softDeletePolicy":{"retentionDurationSeconds":"9223372036854775807"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := newClient(&http.Client{Transport: canned(answer)}, nil, Options{Project: "p1", Location: "l"},
			func(s string) string { return "http://" + s })
		ctx := t.Context()
		if b, err := c.Bucket(ctx, "b"); err == nil && b.SoftDelete < 0 {
			t.Errorf("soft delete for %s", b.SoftDelete)
		}
		_, errRegion := c.Region(ctx)
		policy, errPolicy := c.Policy(ctx, cloud.Resource{Kind: "bucket", Name: "b"})
		_, errHeld := c.Held(ctx, cloud.Resource{Kind: "project", Name: "p"}, nil)
		_, errServices := c.Enabled(ctx)
		_, errSubscription := c.Subscription(ctx, "projects/p/subscriptions/s")
		if !json.Valid(answer) && (errRegion == nil || errPolicy == nil || errHeld == nil || errServices == nil ||
			errSubscription == nil) {
			t.Errorf("no JSON, and policy %v", policy)
		}
	})
}
