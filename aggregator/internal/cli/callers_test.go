package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/aggregator/internal/conclude"
	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// guests is an authenticator that knows callers by their whole Authorization header, each with the error for it, or
// nil if the caller is accepted. Package idtoken tests real tokens.
type guests map[string]error

// Verify implements program.Callers.
func (g guests) Verify(_ context.Context, authorization string) (string, error) {
	err, known := g[authorization]
	switch {
	case !known:
		return "", &refusal{http.StatusUnauthorized, errors.New("the token's audience is elsewhere")}
	case err != nil:
		return "", err
	}
	return "push@example.iam.gserviceaccount.com", nil
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a stranger was read, want it left")
	return 0, errors.New("unread")
}

// TestOnlyCallersAreLetIn: a request without an accepted token is refused before its body is read. The caller is told
// the status alone; the reason is in the log, without the token.
func TestOnlyCallersAreLetIn(t *testing.T) {
	const good, other, unsure = "Bearer very.secret.token", "Bearer anothers.secret.token", "Bearer unsure.secret.token"
	known := guests{good: nil, other: &refusal{http.StatusForbidden, errors.New("eve may not call")},
		unsure: errors.New("no keys to be had")}
	message, oversized := push("x"), push(strings.Repeat("x", maxEnvelope))
	for name, tc := range map[string]struct {
		method, path, header string
		body                 string // empty: must not be read
		want                 int
		log                  string
	}{
		"nobody":              {"POST", "/push", "", "", 401, "audience is elsewhere"},
		"a stranger":          {"POST", "/push", "Bearer made.up.token", "", 401, "audience is elsewhere"},
		"another":             {"POST", "/push", other, "", 403, "eve may not call"},
		"nobody knows":        {"POST", "/push", unsure, "", 503, "no keys to be had"},
		"reconcile, nobody":   {"POST", "/reconcile", "", "", 401, "audience is elsewhere"},
		"reconcile, another":  {"POST", "/reconcile", other, "", 403, "eve may not call"},
		"another path":        {"POST", "/admin", "", "", 404, ""},
		"GET, as a stranger":  {"GET", "/reconcile", "", "", 405, ""},
		"health, as anybody":  {"GET", "/healthz", "", "", 200, ""},
		"push, as a guest":    {"POST", "/push", good, message, 204, ""},
		"oversized, as guest": {"POST", "/push", good, oversized, 413, "too large"},
		// a change of a job's state: the body does not matter
		"reconcile, as guest": {"POST", "/reconcile", good, "", 204, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			a := aggregator(blob.Memory())
			a.Log = program.Logger(&log, program.LogOrigin{})
			var body io.Reader = unread{t}
			if tc.body != "" {
				body = strings.NewReader(tc.body)
			}
			r := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, body)
			if tc.header != "" {
				r.Header.Set("Authorization", tc.header)
			}
			rec := httptest.NewRecorder()
			handler(a, known, func(context.Context) {}).ServeHTTP(rec, r)
			if rec.Code != tc.want || !strings.Contains(log.String(), tc.log) {
				t.Errorf("status %d, log %s; want %d, and a log that says %q", rec.Code, log.String(), tc.want, tc.log)
			}
			if all := log.String() + rec.Body.String(); strings.Contains(all, "secret") || strings.Contains(all,
				"made.up") {
				t.Errorf("the token is in the log or the answer, want it in neither: %s", all)
			}
			if body := rec.Body.String(); rec.Code >= 401 && rec.Code <= 403 &&
				strings.TrimSpace(body) != http.StatusText(rec.Code) {
				t.Errorf("a stranger is told %q, want the status alone", body)
			}
		})
	}
}

// TestStrangersAreAnsweredAtOnce: a rejected request whose announced body never comes is answered at once, not after
// readTime.
func TestStrangersAreAnsweredAtOnce(t *testing.T) {
	a := aggregator(blob.Memory())
	a.Log = program.Logger(io.Discard, program.LogOrigin{})
	server := httptest.NewServer(handler(a, guests{}, func(context.Context) {}))
	defer server.Close()

	for request, want := range map[string]string{"POST /push": "401", "POST /reconcile": "401", "POST /admin": "404",
		"PUT /push": "405"} {
		conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil { // less than readTime
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", request)
		answer, err := io.ReadAll(conn) // until the connection is closed
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
			t.Errorf("%s with a body that does not come: %q, %v; expected %s and the end", request, answer, err, want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNobodyIsLetInByAccident: if other machines can reach the address, the settings for checking callers are
// required. On an address of this machine, there may be none, but not half of them.
func TestNobodyIsLetInByAccident(t *testing.T) {
	far, near := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	both := map[string]string{"COPPICE_AUDIENCE": "a", "COPPICE_CALLERS": "x@y.z,v@w.z"}
	for name, tc := range map[string]struct {
		at      net.Addr
		env     map[string]string
		checked bool   // there is an authenticator
		refuses string // part of the error; empty for none
	}{
		"in the cloud":          {at: far, env: both, checked: true},
		"this machine, checked": {at: near, env: both, checked: true},
		"this machine":          {at: near},
		"IPv6, this machine":    {at: &net.TCPAddr{IP: net.IPv6loopback}},
		"everywhere":            {at: far, refuses: "COPPICE_AUDIENCE"},
		"IPv6, everywhere":      {at: &net.TCPAddr{IP: net.IPv6unspecified}, refuses: "COPPICE_AUDIENCE"},
		"only an audience":      {at: near, env: map[string]string{"COPPICE_AUDIENCE": "a"}, refuses: "0 callers"},
		"only callers":          {at: near, env: map[string]string{"COPPICE_CALLERS": "x@y.z"}, refuses: "no audience"},
		"local keys, this machine": {at: near, env: map[string]string{"COPPICE_AUDIENCE": "a",
			"COPPICE_CALLERS": "x@y.z,v@w.z", "COPPICE_KEYS_URL": "http://127.0.0.1:1/keys"}, checked: true},
		"local keys, everywhere": {at: far, env: map[string]string{"COPPICE_AUDIENCE": "a",
			"COPPICE_CALLERS": "x@y.z,v@w.z", "COPPICE_KEYS_URL": "http://127.0.0.1:1/keys"},
			refuses: "COPPICE_KEYS_URL"},
		"misspelt": {at: far, env: map[string]string{"COPPICE_SIGNATURES": "cloudrun"},
			refuses: "COPPICE_SIGNATURES"},
	} {
		w := Setup{World: program.World{Env: envconfig.MapLookuper(tc.env)},
			Callers: func(_ context.Context, env environment.CallersEnv) (program.Callers, error) { // as in wire.go
				switch {
				case env.Audience == "":
					return nil, errors.New("no audience")
				case len(env.Callers) != 2:
					return nil, errors.New("0 callers")
				}
				return guests{}, nil
			}}
		got, err := w.callersAt(t.Context(), tc.at)
		if (got != nil) != tc.checked || (err != nil) != (tc.refuses != "") || err != nil &&
			!strings.Contains(err.Error(), tc.refuses) {
			t.Errorf("%s: callers %v, error %v; want them checked: %t, and an error that says %q", name, got, err,
				tc.checked, tc.refuses)
		}
	}
}

// TestServeRefusesTheWorld: serving all addresses without settings for callers ends with the exit code of a wrong
// setup, and a port that does not exist with that of a wrong input.
func TestServeRefusesTheWorld(t *testing.T) {
	var out lockedBuffer
	if code := Run(t.Context(), world(&out, blob.Memory(), "serve", "--listen",
		":0")); code != sweep.ExitSetup || !strings.Contains(out.String(), "COPPICE_CALLERS") {
		t.Errorf("served all addresses without callers: exit code %d, want that of a wrong setup: "+
			"%s", code, out.String())
	}
	if code := Run(t.Context(), world(&out, blob.Memory(), "serve", "--listen", "127.0.0.1:99999")); code !=
		sweep.ExitInput || !strings.Contains(out.String(), "invalid port 99999") {
		t.Errorf("--listen with a port that does not exist: exit code %d, expected %d: %s", code, sweep.ExitInput,
			out.String())
	}
}

// refusal is the error of a request that is not let in.
type refusal struct {
	status int
	error
}

func (r *refusal) HTTPStatus() int { return r.status }

var errBroken = errors.New("storage is out of reach")

// unreachable is a hook of a store that fails every call.
func unreachable(context.Context, string) error { return errBroken }

// aggregator returns an aggregator whose other buckets are empty.
func aggregator(sweeps blob.Store) *conclude.Aggregator {
	return &conclude.Aggregator{Datasets: blob.Memory(), Sweeps: sweeps, Registry: registry.New(blob.Memory()),
		Now: time.Now, Log: program.Logger(io.Discard, program.LogOrigin{})}
}

// push returns the body of a Pub/Sub push with a message of these data.
func push(data string) string {
	return `{"message":{"data":"` + base64.StdEncoding.EncodeToString([]byte(data)) +
		`","messageId":"1"},"subscription":"s"}`
}

// TestEndpoints: the status of an answer says whether Pub/Sub or the scheduler should send again. It is 5xx, which
// asks for that, only after an error of the store, whose text is not in the answer.
func TestEndpoints(t *testing.T) {
	message, _ := json.Marshal(sweep.ScoreMessage{Format: 1, Sweep: "night-1"})
	fine, bad := aggregator(blob.Memory()), aggregator(blobtest.Before(blob.Memory(), blobtest.List, unreachable))
	// A cancelled sweep is concluded at once, which shows that a push about it reached the handler.
	plan := sweep.Plan{Format: 1, Sweep: "night-1", Job: "projects/p/locations/l/jobs/night-1", Heartbeat: 1,
		Takeover: 2, Trials: []sweep.Trial{{}}, Dataset: sweep.DatasetRef{Name: "d", Version: "0123456789abcdef"}}
	plan.Spec.Model = "m"
	plan.Holdout = sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
		Test: sweep.Rows{Split: "test"}}
	for _, a := range []*conclude.Aggregator{fine, bad} {
		if ok, err := blobtest.CreateJSON(t.Context(), a.Sweeps, sweep.Names(plan.Sweep).Plan(), plan); !ok ||
			err != nil {
			t.Fatalf("stored the plan: created %t, error %v", ok, err)
		}
		must.Get(blob.Create(t.Context(), a.Sweeps, sweep.Names(plan.Sweep).Cancel(), []byte("{}")))(t)
	}
	for name, tc := range map[string]struct {
		a                  *conclude.Aggregator
		method, path, body string
		want               int
	}{
		"health":           {fine, "GET", "/healthz", "", 200},
		"push":             {fine, "POST", "/push", push(string(message)), 204},
		"push of nonsense": {fine, "POST", "/push", push("nonsense"), 204}, // acknowledged: redelivery would not help
		"no envelope":      {fine, "POST", "/push", "nonsense", 400},
		"too long":         {fine, "POST", "/push", push(strings.Repeat("x", maxEnvelope)), 413},
		"wrong method":     {fine, "GET", "/push", "", 405},
		"unknown path":     {fine, "GET", "/admin", "", 404},
		"reconcile":        {fine, "POST", "/reconcile", "", 204},
		"push fails":       {bad, "POST", "/push", push(string(message)), 500},
		"reconcile fails":  {bad, "POST", "/reconcile", "", 500},
	} {
		t.Run(name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			handler(tc.a, nil, func(context.Context) {}).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(),
				tc.method, tc.path, strings.NewReader(tc.body)))
			if rec.Code != tc.want {
				t.Errorf("status %d, want %d; the answer is %s", rec.Code, tc.want, rec.Body)
			}
			if strings.Contains(rec.Body.String(), errBroken.Error()) {
				t.Error("the answer tells a stranger what failed inside, want it kept back")
			}
		})
	}
	if _, err := fine.Sweeps.Stat(t.Context(), sweep.Names(plan.Sweep).Conclusion()); err != nil {
		t.Errorf("the pushed sweep was not concluded, want it to be: %v", err)
	}
}

// world returns the setup of a program with these arguments, whose backends are in memory and whose output goes to out.
func world(out io.Writer, sweeps blob.Store, args ...string) Setup {
	env := map[string]string{"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "d", "COPPICE_SWEEPS_BUCKET": "s",
		"COPPICE_REGISTRY_BUCKET": "r"}
	return Setup{
		World: program.World{Args: args, Env: envconfig.MapLookuper(env), Out: program.To(out), Err: program.To(out),
			Now: time.Now},
		Connect: func(context.Context, environment.Deployment) (*Backends, error) {
			return &Backends{Datasets: blob.Memory(), Sweeps: sweeps, Registry: blob.Memory(),
				Close: func() error { return nil }}, nil
		},
	}
}

// lockedBuffer is a log that tests can wait for: it closes seen when the log contains wants.
type lockedBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wants string
	seen  chan struct{} // nil once it is closed, or if nobody waits
}

// Write appends to the log, and closes seen if that is now due.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.b.Write(p)
	if l.seen != nil && strings.Contains(l.b.String(), l.wants) {
		close(l.seen)
		l.seen = nil
	}
	return n, err
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestServeEndsWhenTold: serve ends with exit code 0 when its context ends, and with another one if it cannot listen.
func TestServeEndsWhenTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	serving := make(chan struct{})
	out := lockedBuffer{wants: "aggregator serves", seen: serving}
	done := make(chan int)
	go func() { done <- Run(ctx, world(&out, blob.Memory(), "serve", "--listen", "127.0.0.1:0")) }()
	<-serving
	stop()
	if code := <-done; code != 0 {
		t.Errorf("stopped: exit code %d, want 0: %s", code, out.String())
	}
	var l lockedBuffer
	if code := Run(t.Context(), world(&l, blob.Memory(), "serve", "--listen", "nowhere:1")); code == 0 {
		t.Error("serve on a host that does not exist ended with exit code 0, want another one")
	}
}

// TestMissingEnvironment: without its environment the program ends with the code for a faulty setup, and names what is
// missing.
func TestMissingEnvironment(t *testing.T) {
	var out lockedBuffer
	w := world(&out, blob.Memory(), "reconcile")
	w.Env = envconfig.MapLookuper(nil)
	if code := Run(t.Context(), w); code != sweep.ExitSetup || !strings.Contains(out.String(), "COPPICE_PROJECT") {
		t.Errorf("without the environment: exit code %d, output %s; want the code for a faulty setup, and "+
			"COPPICE_PROJECT named", code, out.String())
	}
}

// TestAPushExportsBeforeItAnswers: metrics are exported once before a request is answered, since Cloud Run may take
// the CPU away after the answer. A collector that refuses them does not fail the request.
func TestAPushExportsBeforeItAnswers(t *testing.T) {
	for name, status := range map[string]int{"takes": http.StatusOK, "refuses": http.StatusBadRequest} {
		for _, path := range []string{"/push", "/reconcile"} {
			t.Run(name+path, func(t *testing.T) {
				var exported atomic.Int64
				collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					exported.Add(1)
					w.WriteHeader(status)
				}))
				defer collector.Close()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				serving := make(chan struct{})
				out := lockedBuffer{wants: "aggregator serves", seen: serving}
				w := world(&out, blob.Memory(), "serve", "--listen", "127.0.0.1:0")
				w.Env = envconfig.MultiLookuper(w.Env,
					envconfig.MapLookuper(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}))
				done := make(chan int, 1)
				go func() { done <- Run(ctx, w) }()
				<-serving
				q := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+served(t, out.String())+path,
					strings.NewReader(push("nonsense"))))(t)
				r, err := http.DefaultClient.Do(q)
				must.Do(t, err)
				r.Body.Close()
				if n := exported.Load(); r.StatusCode != http.StatusNoContent || n != 1 {
					t.Errorf("answered %d, and %d exports before it; want 204 after one", r.StatusCode, n)
				}
				stop()
				if code := <-done; code != 0 {
					t.Errorf("stopped: exit code %d, want 0: %s", code, out.String())
				}
			})
		}
	}
}

// served returns the address in the log line that announces the server.
func served(t *testing.T, log string) string {
	t.Helper()
	for text := range strings.Lines(log) {
		var line struct{ Message, Address string }
		must.Do(t, json.Unmarshal([]byte(text), &line))
		if line.Message == "aggregator serves" {
			return line.Address
		}
	}
	t.Fatalf("the log has no address, want one: %s", log)
	return ""
}
