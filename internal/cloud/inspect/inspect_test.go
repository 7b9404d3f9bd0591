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
	"coppice/internal/must"
)

// google stands for Google's services. A test gives the answers by method and path; all else is not found. It records
// what it was asked.
type google struct {
	answers map[string]string // "GET /SERVICE/PATH" to a body, or to a status in words and a body: "Forbidden {}"
	asked   []string
	bodies  []string
}

// ServeHTTP notes the request and gives the answer that answers has for it, 404 if there is none.
func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Method + " " + r.URL.EscapedPath()
	g.asked, g.bodies = append(g.asked, r.Method+" "+r.URL.RequestURI()), append(g.bodies, string(body))
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

// serve starts such a server and returns a client of it, for the project p1.
func serve(t testing.TB, answers map[string]string) (*Client, *google) {
	g := &google{answers: answers}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	c := must.Get(New(t.Context(), Options{Project: "p1", Location: "us-central1",
		Endpoint: strings.TrimPrefix(s.URL, "http://")}))(t)
	return c, g
}

// TestCallerAndEnabled: Caller and Enabled ask Google's services for what they return, and the caller's token is sent
// in the body, not in a URL, which servers log. Without a token, Caller returns a *cloud.SetupError.
func TestCallerAndEnabled(t *testing.T) {
	c, g := serve(t, map[string]string{
		"POST /oauth2.googleapis.com/tokeninfo": `{"email":"ana@example.com","scope":"x"}`,
		"GET /serviceusage.googleapis.com/v1/projects/p1/services:batchGet": `{"services":[` +
			`{"state":"ENABLED","config":{"name":"a"}},{"state":"DISABLED","config":{"name":"b"}}]}`,
	})
	c.token = func() (string, error) { return "secret", nil }
	ctx := t.Context()
	if email, err := c.Caller(ctx); err != nil || email != "ana@example.com" || g.bodies[0] != "access_token=secret" ||
		strings.Contains(g.asked[0], "secret") {
		t.Errorf("the caller is %q, %v; want ana, with the token in the body: asked %q with "+
			"%q", email, err, g.asked, g.bodies)
	}
	if names, err := c.Enabled(ctx, []string{"a", "b"}); err != nil || !slices.Equal(names, []string{"a"}) ||
		!strings.HasSuffix(g.asked[1], "?names=projects%2Fp1%2Fservices%2Fa&names=projects%2Fp1%2Fservices%2Fb") {
		t.Errorf("the enabled services: got %q (error %v), asked %q; want a of a and b", names, err, g.asked[1])
	}
	c.token = func() (string, error) { return "", errors.New("expired") }
	var setup *cloud.SetupError
	if _, err := c.Caller(ctx); !errors.As(err, &setup) {
		t.Errorf("without a token: error %v, expected a *cloud.SetupError", err)
	}
}

// TestCallerOfAnAccount: a client made by New learns the address of a service account. Google tells that only for a
// token that was asked for with the scope of e-mail addresses. The fake gives out tokens that consist of the scopes
// they were asked for, and names the account only if the right one is among them.
func TestCallerOfAnAccount(t *testing.T) {
	const who = "coppice-launcher@p1.iam.gserviceaccount.com"
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	der := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
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
			t.Errorf("got an exchange of %q; want a signed claim of scopes in its second part", parts)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": claims.Scope, "token_type": "Bearer",
			"expires_in": 3600})
	})
	mux.HandleFunc("POST /oauth2.googleapis.com/tokeninfo", func(w http.ResponseWriter, r *http.Request) {
		scopes := strings.Fields(r.FormValue("access_token"))
		if header := r.Header.Get("Authorization"); header != "Bearer "+strings.Join(scopes, " ") ||
			!slices.Contains(scopes, "https://www.googleapis.com/auth/cloud-platform") {
			t.Errorf("called with the header %q about a token for %q; want that token, for Google Cloud", header,
				scopes)
		}
		info := map[string]string{"scope": strings.Join(scopes, " ")}
		if slices.Contains(scopes, "https://www.googleapis.com/auth/userinfo.email") {
			info["email"] = who
		}
		_ = json.NewEncoder(w).Encode(info)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	text := must.Get(json.Marshal(map[string]string{"type": "service_account", "client_email": who, "token_uri": s.URL +
		"/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}))(t)
	file := filepath.Join(t.TempDir(), "credentials.json")
	must.Do(t, os.WriteFile(file, text, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	c := must.Get(New(t.Context(), Options{Project: "p1", Location: "us-central1"}))(t)
	c.address = func(service string) string { return s.URL + "/" + service }
	if email, err := c.Caller(t.Context()); err != nil || email != who || exchanges != 1 {
		t.Errorf("the caller is %q, %v, after %d exchanges; want the account, after one", email, err, exchanges)
	}
}

// TestRights: Held asks the service of each kind of resource in the form that it wants, and returns the permissions
// that the service grants. A kind that does not exist is an error, and a resource that does not exist ErrNotThere.
func TestRights(t *testing.T) {
	for _, tc := range []struct {
		r    cloud.Resource
		call string
	}{
		{cloud.Resource{Kind: "project", Name: "p1"},
			"POST /cloudresourcemanager.googleapis.com/v1/projects/p1:testIamPermissions"},
		{cloud.Resource{Kind: "bucket", Name: "b"}, "GET /storage.googleapis.com/storage/v1/b/b/iam/testPermissions"},
		{cloud.Resource{Kind: "account", Name: "a@p2.iam.gserviceaccount.com"},
			"POST /iam.googleapis.com/v1/projects/p2/serviceAccounts/a@p2.iam.gserviceaccount.com:testIamPermissions"},
	} {
		c, g := serve(t, map[string]string{tc.call: `{"permissions":["one"]}`})
		h, err := c.Held(t.Context(), tc.r, []string{"one", "two"})
		if err != nil || !slices.Equal(h, []string{"one"}) {
			t.Errorf("%s: held %q, %v; want one alone; asked %q", tc.r, h, err, g.asked)
		}
		if said := g.asked[0] + g.bodies[0]; !strings.Contains(said, "one") || !strings.Contains(said, "two") {
			t.Errorf("rights on %s were asked for as %s; want both permissions named", tc.r, said)
		}
	}
	c, _ := serve(t, nil)
	if _, err := c.Held(t.Context(), cloud.Resource{Kind: "moon", Name: "m"}, nil); err == nil {
		t.Error("permissions on a resource of the kind moon: got no error, want one")
	}
	if _, err := c.Held(t.Context(), cloud.Resource{Kind: "bucket", Name: "b"}, nil); !errors.Is(err,
		cloud.ErrNotThere) {
		t.Errorf("a bucket that does not exist: got %v, expected %v", err, cloud.ErrNotThere)
	}
}

// TestThings: topics, machine types, the region with its quotas, and images are read from answers as Google gives them.
// What does not exist is ErrNotThere, and all calls are GETs.
func TestThings(t *testing.T) {
	const project = "GET /compute.googleapis.com/compute/v1/projects/p1"
	const images = "GET /artifactregistry.googleapis.com/v1/projects/p1/locations/l/repositories/r/packages/"
	c, g := serve(t, map[string]string{
		project: `{"quotas":[{"metric":"CPUS_ALL_REGIONS","limit":12,"usage":4},{"metric":"CPUS","limit":1}]}`,
		project + "/regions/us-central1": `{"zones":["https://x/zones/us-central1-b","https://x/zones/us-central1-a"],` +
			`"quotas":[{"metric":"CPUS","limit":24,"usage":2.5}]}`,
		project + "/zones/z/machineTypes/n2-highmem-2": `{"name":"n2-highmem-2"}`,

		"GET /pubsub.googleapis.com/v1/projects/p1/topics/t": `{"name":"x"}`,

		images + "i/tags/v1":                                    `{}`,
		images + "a%2Fi/tags/latest":                            `{}`,
		images + "i/versions/sha256:" + strings.Repeat("a", 64): `{}`,
	})
	ctx := t.Context()
	if err := errors.Join(c.Topic(ctx, "projects/p1/topics/t"), c.Offered(ctx, "z", "n2-highmem-2")); err != nil {
		t.Errorf("a topic and a machine type that exist: got %v, want no error", err)
	}
	if r, err := c.Region(ctx); err != nil || !slices.Equal(r.Zones, []string{"us-central1-a", "us-central1-b"}) ||
		r.Quotas["CPUS"] != (cloud.Quota{Limit: 24, Usage: 2.5}) {
		t.Errorf("the region: got %+v (error %v); want zones a and b, and 2.5 of 24 CPUS used", r, err)
	} else if r.Quotas[cloud.CPUsAllRegions] != (cloud.Quota{Limit: 12, Usage: 4}) {
		t.Errorf("the project's quotas: %+v, want that 4 of 12 vCPUs in all regions are used", r.Quotas)
	}
	for _, reference := range []string{"l-docker.pkg.dev/p1/r/i:v1", "l-docker.pkg.dev/p1/r/a/i",
		"l-docker.pkg.dev/p1/r/i@sha256:" + strings.Repeat("a", 64)} {
		image, ok := cloud.ParseImage(reference)
		if err := c.Image(ctx, image); !ok || err != nil {
			t.Errorf("%s: parsed %t, %v, asked %q; want it found", reference, ok, err, g.asked[len(g.asked)-1])
		}
	}
	for _, err := range []error{c.Topic(ctx, "projects/p1/topics/none"), c.Offered(ctx, "z", "x"),
		c.Image(ctx, cloud.Image{})} {
		if !errors.Is(err, cloud.ErrNotThere) {
			t.Errorf("what does not exist: got error %v; want ErrNotThere", err)
		}
	}
	if err := c.Topic(ctx, "t"); err == nil {
		t.Error("a topic without its project: got no error, want one")
	}
	for _, asked := range g.asked {
		if !strings.HasPrefix(asked, "GET ") {
			t.Errorf("it called %s, want GETs only", asked)
		}
	}
}

// TestTheProjectsQuotasAreRefused: if the caller may not read the project's quotas, Region still returns the region's,
// and the reason in Unread.
func TestTheProjectsQuotasAreRefused(t *testing.T) {
	c, _ := serve(t, map[string]string{
		"GET /compute.googleapis.com/compute/v1/projects/p1": `Forbidden {"error":{"code":403}}`,
		"GET /compute.googleapis.com/compute/v1/projects/p1/regions/us-central1": `{"quotas":[` +
			`{"metric":"CPUS","limit":24}]}`,
	})
	r, err := c.Region(t.Context())
	if err != nil || r.Unread == nil || r.Quotas["CPUS"].Limit != 24 {
		t.Errorf("got %+v, %v; want 24 CPUS, and why the project's are unknown", r, err)
	}
}

// TestErrors: each answer that refuses becomes the error of its kind, with advice or the address that was called.
// Answers that are not JSON or too long are errors, and so are endpoints on other machines or without a listener.
func TestErrors(t *testing.T) {
	const topic = "projects/p1/topics/t"
	// call asks for a topic, and gets the answer: the words of an HTTP status, if it is not 200, and the body.
	call := func(answer string) error {
		c, _ := serve(t, map[string]string{"GET /pubsub.googleapis.com/v1/" + topic: answer})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return c.Topic(ctx, topic)
	}
	var denied *cloud.PermissionError
	var setup *cloud.SetupError
	var other error
	for what, c := range map[string]struct {
		answer string
		target any    // a pointer to an error of the kind
		says   string // part of the error
	}{
		"a refusal": {`Forbidden {"error":{"code":403,"message":"no"}}`, &denied, "grant the role"},
		"not enabled": {`Forbidden {"error":{"code":403,"message":"Pub/Sub API has not been used in project ` +
			`1","details":[{"reason":"SERVICE_DISABLED"}]}}`, &denied, "enable the API"},
		"no valid credentials": {`Unauthorized {}`, &setup, ""},
		"a bad request":        {`Bad Request {}`, &other, "https://pubsub.googleapis.com/v1/" + topic},
		"no JSON":              {`not JSON`, &other, "invalid character"},
		"too long":             {`"` + strings.Repeat("x", maxAnswer) + `"`, &other, "bytes"},
	} {
		if err := call(c.answer); !errors.As(err, c.target) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got error %v, want a %T with %q in it", what, err, c.target, c.says)
		}
	}
	if err := call(`Not Implemented {}`); !errors.Is(err, cloud.ErrNotImitated) {
		t.Errorf("of an emulator that does not have it: error %v, expected %v", err, cloud.ErrNotImitated)
	}
	if _, err := New(t.Context(), Options{Endpoint: "10.0.0.1:80"}); !errors.As(err, &setup) {
		t.Errorf("an endpoint elsewhere: %v; want a *cloud.SetupError", err)
	}
	c := must.Get(New(t.Context(), Options{Project: "p1", Endpoint: "127.0.0.1:1"}))(t)
	if err := c.Topic(t.Context(), topic); !errors.As(err, &setup) {
		t.Errorf("nobody there: %v; want a *cloud.SetupError", err)
	}
}

// canned is a transport that answers every request with the same body.
type canned []byte

// RoundTrip answers with 200 and the body.
func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// FuzzAnswers: no answer of a service makes a call crash, and one that is not JSON is an error.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"permissions":["p"]}`, `{"email":1}`,
		`{"zones":["a/b",""],"quotas":[{"metric":"","limit":1e400}]}`,
		`{"services":[{}]}`, `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := &Client{http: &http.Client{Transport: canned(answer)}, opts: Options{Project: "p1", Location: "l"},
			address: func(s string) string { return "http://" + s }}
		ctx := t.Context()
		_, errCaller := c.Caller(ctx)
		_, errRegion := c.Region(ctx)
		_, errHeld := c.Held(ctx, cloud.Resource{Kind: "project", Name: "p"}, nil)
		_, errServices := c.Enabled(ctx, nil)
		if !json.Valid(answer) && (errCaller == nil || errRegion == nil || errHeld == nil || errServices == nil) {
			t.Errorf("%q is not JSON, and is read", answer)
		}
	})
}
