package tracking

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/cloud"
	"coppice/internal/sweep"
)

const token = "very-secret-token"

// client calls a server of its own, which counts the attempts.
func client(t *testing.T, env sweep.TrackingEnv, handle http.HandlerFunc) (c *Client, attempts *atomic.Int64) {
	t.Helper()
	attempts = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempts.Add(1)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/team/", env)
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Millisecond
	return c, attempts
}

func TestCalls(t *testing.T) {
	c, _ := client(t, sweep.TrackingEnv{Token: token}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"said": %q}`,
			strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("Authorization"),
				string(body)}, " "))
	})
	var out struct{ Said string }
	for _, tc := range []struct {
		call func() error
		want string
	}{
		{func() error { return c.Get(t.Context(), "runs/get", url.Values{"run_id": {"a b"}}, &out) },
			"GET /team/api/2.0/mlflow/runs/get?run_id=a+b  Bearer " + token + " "},
		{func() error { return c.Post(t.Context(), "runs/create", map[string]int{"a": 1}, &out) },
			`POST /team/api/2.0/mlflow/runs/create application/json Bearer ` + token + ` {"a":1}`},
	} {
		if err := tc.call(); err != nil || out.Said != tc.want {
			t.Errorf("error %v; the server saw\n%s\nexpected\n%s", err, out.Said, tc.want)
		}
	}
}

func TestUpload(t *testing.T) {
	var seen []string
	c, _ := client(t, sweep.TrackingEnv{Username: "ana", Password: token, Token: "not this one"},
		func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			seen = append(seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization")+" "+string(body))
		})
	own := c.base.String() + artifactPath + "3/run/artifacts"
	for _, location := range []string{"mlflow-artifacts:/3/run/artifacts", "mlflow-artifacts://" + c.base.Host +
		"/3/run/artifacts", own} {
		if err := c.Upload(t.Context(), location, "model/a b.txt", []byte("tree")); err != nil {
			t.Errorf("upload to %s: %v, expected no error", location, err)
		}
	}
	want := "PUT /team/api/2.0/mlflow-artifacts/artifacts/3/run/artifacts/model/a%20b.txt Basic " +
		base64.StdEncoding.EncodeToString([]byte("ana:"+token)) + " tree"
	for _, got := range seen {
		if got != want {
			t.Errorf("the server saw\n%s\nexpected\n%s", got, want)
		}
	}
	if len(seen) != 3 {
		t.Fatalf("%d requests, expected 3", len(seen))
	}

	// Nothing goes anywhere else.
	var setup *cloud.SetupError
	for _, location := range []string{"gs://bucket/x", "/srv/mlruns/3", "file:///srv/mlruns",
		"mlflow-artifacts://elsewhere.example.com/3", "https://elsewhere.example.com/x",
		c.base.String() + "/other/x", "mlflow-artifacts:/3/../../x", "mlflow-artifacts:/3?x=1", "mlflow-artifacts:3",
		"", "%zz"} {
		if err := c.Upload(t.Context(), location, "model.txt", nil); !errors.As(err, &setup) {
			t.Errorf("upload to %q: %v, expected a *cloud.SetupError", location, err)
		}
	}
	if err := c.Upload(t.Context(), own, "../model.txt", nil); err == nil || len(seen) != 3 {
		t.Errorf("a file named ../model.txt: error %v, %d requests in all; expected an error and 3", err, len(seen))
	}
}

// TestHostileAnswers: what may pass is tried again, what will not is not, nothing is followed, and no error has the
// token.
func TestHostileAnswers(t *testing.T) {
	huge := strings.Repeat(" ", maxAnswer+1)
	refuse := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for name, tc := range map[string]struct {
		handle http.HandlerFunc
		many   int64 // attempts of Post; PostOnce makes one, unless it was not carried out
		says   string
	}{
		"always 500": {refuse(500, "<html>"), maxAttempts, "500 Internal Server Error"},
		"always 503": {refuse(503, ""), maxAttempts, "503 Service Unavailable"},
		"no such run": {refuse(404, `{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no run\n\nx"}`), 1,
			"RESOURCE_DOES_NOT_EXIST: no run x"},
		"unauthorized":   {refuse(401, `{"message": "not `+token+`"}`), 1, "not (secret); set MLFLOW_TRACKING_TOKEN"},
		"a long refusal": {refuse(400, `{"message": "`+strings.Repeat("é", 5000)+`"}`), 1, "ééé..."},
		"an endless one": {refuse(400, `{"message": "`+huge), 1, "400 Bad Request"},
		"not JSON":       {refuse(200, "<html>welcome</html>"), 1, "not the expected JSON"},
		"truncated JSON": {refuse(200, `{"said": "abc`), 1, "not the expected JSON"},
		"other JSON":     {refuse(200, `{"said": ["abc"]}`), 1, "not the expected JSON"},
		"a huge answer":  {refuse(200, huge), 1, "larger than 4 MiB"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"said": "abc"}`)
		}, maxAttempts, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			c, attempts := client(t, sweep.TrackingEnv{Token: token}, tc.handle)
			var out struct{ Said string }
			err := c.Post(t.Context(), "runs/create", nil, &out)
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), token) ||
				len(err.Error()) > 1000 {
				t.Errorf("error %v; expected one without the token that says %q", err, tc.says)
			}
			if n := attempts.Load(); n != tc.many {
				t.Errorf("%d attempts, expected %d", n, tc.many)
			}
			if once := c.PostOnce(t.Context(), "runs/create", nil, &out); once == nil || attempts.Load() != tc.many+1 {
				t.Errorf("PostOnce: error %v after %d attempts, expected one attempt and an error", once,
					attempts.Load()-tc.many)
			}
		})
	}
}

// TestRedirect: neither model nor token goes where a server points.
func TestRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirection was followed, with the token %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 307, 308} {
		c, attempts := client(t, sweep.TrackingEnv{Token: token}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, status)
		})
		err := c.Upload(t.Context(), "mlflow-artifacts:/1", "model.txt", []byte("tree"))
		var refused *RefusedError
		if !errors.As(err, &refused) || !refused.IsSetup() || attempts.Load() != 1 ||
			!strings.Contains(err.Error(), "not followed") {
			t.Errorf("%d: error %v after %d attempts, expected one attempt and an error of setup", status, err,
				attempts.Load())
		}
	}
}

func TestAgainWhereItHelps(t *testing.T) {
	for name, tc := range map[string]struct {
		statuses []int
		once     bool
		fine     bool
	}{
		"busy, then not":             {[]int{503, 502, 200}, false, true},
		"busy, once":                 {[]int{503, 200}, true, false},
		"too many, which is no call": {[]int{429, 200}, true, true},
	} {
		var n int
		c, _ := client(t, sweep.TrackingEnv{}, func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) != `{"a":1}` {
				t.Errorf("%s: the server saw %q, expected the same body each time", name, body)
			}
			w.WriteHeader(tc.statuses[min(n, len(tc.statuses)-1)])
			n++
		})
		post := c.Post
		if tc.once {
			post = c.PostOnce
		}
		if err := post(t.Context(), "runs/create", map[string]int{"a": 1}, nil); (err == nil) != tc.fine {
			t.Errorf("%s: error %v, expected success %t", name, err, tc.fine)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := New(s.URL, sweep.TrackingEnv{})
	if err != nil {
		t.Fatal(err)
	}
	var setup *cloud.SetupError
	if err := c.Get(t.Context(), "runs/get", nil, nil); !errors.As(err, &setup) {
		t.Errorf("a server that is not running: %v, expected a *cloud.SetupError", err)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	none, some, half := sweep.TrackingEnv{}, sweep.TrackingEnv{Token: token}, sweep.TrackingEnv{Username: "ana"}
	for _, tc := range []struct {
		address string
		env     sweep.TrackingEnv
		fine    bool
	}{
		{"https://mlflow.example.com/team", some, true},
		{"http://localhost:5000", some, true},
		{"http://mlflow.internal:5000", none, true},
		{"http://mlflow.internal:5000", some, false}, // the token would be readable on the way
		{"https://mlflow.example.com", half, false},
		{"https://ana:" + token + "@mlflow.example.com", none, false},
		{"https://mlflow.example.com?x=" + token, none, false},
		{"https://", none, false},
		{"https://%zz" + token, none, false},
		{"ftp://mlflow.example.com", none, false},
	} {
		_, err := New(tc.address, tc.env)
		var setup *cloud.SetupError
		if (err == nil) != tc.fine || err != nil && (!errors.As(err, &setup) || strings.Contains(err.Error(), token)) {
			t.Errorf("%s: error %v; expected success %t, or a *cloud.SetupError without secrets", tc.address, err,
				tc.fine)
		}
	}
}
