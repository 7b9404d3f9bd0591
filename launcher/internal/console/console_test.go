package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/report"
)

var planned = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// counted is a store that counts its requests: each Stat, each Open, and one for every 1000 names of a listing.
type counted struct {
	blob.Store
	asked atomic.Int64
}

func (c *counted) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	c.asked.Add(1)
	return c.Store.Stat(ctx, name)
}

func (c *counted) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	c.asked.Add(1)
	return c.Store.Open(ctx, name, r)
}

// List counts each page of 1000 names once it is begun, and a listing without names as one.
func (c *counted) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		n := 0
		for a, err := range c.Store.List(ctx, prefix) {
			if n%1000 == 0 { // a page of a listing
				c.asked.Add(1)
			}
			n++
			if !yield(a, err) {
				return
			}
		}
		if n == 0 {
			c.asked.Add(1)
		}
	}
}

// night is a sweep of n trials, each held by a task.
func night(t *testing.T, n int) (*counted, *sweep.Plan, *sweepstore.Trials) {
	t.Helper()
	bucket := &counted{Store: blob.Memory()}
	p := &sweep.Plan{Format: 1, Sweep: "night-1", Created: planned, Maximize: true,
		Heartbeat: sweep.Duration(time.Second), Takeover: sweep.Duration(time.Minute),
		Spec: sweep.Spec{Name: "night", Model: "ctr", Metric: "auc"}, Dataset: sweep.DatasetRef{Name: "clicks",
			Version: "0123456789abcdef"},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "valid"},
			Test: sweep.Rows{Split: "valid"}}}
	for i := range n {
		p.Trials = append(p.Trials, sweep.Trial{Number: i, Params: sweep.Params{"x": float64(i)}})
	}
	must.Get(sweepstore.New(bucket, p.Sweep).CreatePlan(t.Context(), *p))(t)
	trials := sweepstore.NewTrials(bucket, p)
	for i := range n {
		c := sweep.Claim{Format: 1, Sweep: p.Sweep, Trial: i, Task: i, Host: fmt.Sprint("vm-", i/2), Nonce: "n",
			At: planned.Add(time.Second)}
		must.Get(trials.CreateClaim(t.Context(), c))(t)
	}
	return bucket, p, trials
}

// conclude writes the conclusion of a sweep without a winner.
func conclude(t *testing.T, bucket blob.Store, p *sweep.Plan) {
	t.Helper()
	c := sweep.Conclusion{Format: 1, Sweep: p.Sweep, Outcome: sweep.OutcomeNoWinner,
		Reason: "none met the requirements", At: planned.Add(time.Hour)}
	must.Get(sweepstore.New(bucket, p.Sweep).CreateConclusion(t.Context(), c))(t)
}

var quiet = slog.New(slog.DiscardHandler)

// get returns the handler's answer to a GET of a path by the name of a host.
func get(h http.Handler, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestSameBytesAsAReport: the console serves the bytes of a sweep's page that `launcher report` writes. The index links
// to it.
func TestSameBytesAsAReport(t *testing.T) {
	bucket, p, _ := night(t, 3)
	conclude(t, bucket, p)
	h := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet).Handler([]string{"localhost:1"})

	s := must.Get(report.OpenSweep(t.Context(), bucket, registry.New(blob.Memory()), p.Sweep))(t)
	view, _ := must.Get2(s.Look(t.Context()))(t)
	var want bytes.Buffer
	must.Do(t, view.Write(&want))
	if got := get(h, "localhost:1", "/sweeps/night-1"); got.Code != http.StatusOK ||
		got.Body.String() != want.String() {
		t.Errorf("the console answered %d with %d bytes, a report has %d", got.Code, got.Body.Len(), want.Len())
	}
	if got := get(h, "localhost:1", "/"); !strings.Contains(got.Body.String(), `href="/sweeps/night-1"`) ||
		!strings.Contains(got.Body.String(), "no winner") {
		t.Errorf("the index is %d, want the sweep with a link, without a winner: %s", got.Code, got.Body)
	}
}

// TestOthersAreRefused: the console answers only requests for its own two names, with GET, about what exists. Odd paths
// are not found. Every answer has the security headers, and no error is HTML.
func TestOthersAreRefused(t *testing.T) {
	bucket, _, _ := night(t, 1)
	h := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet).Handler([]string{"127.0.0.1:8765",
		"localhost:8765"})
	for _, tc := range []struct {
		host, path string
		code       int
	}{
		{"127.0.0.1:8765", "/sweeps/night-1", http.StatusOK},
		{"LOCALHOST:8765", "/sweeps/night-1", http.StatusOK},
		// Another name, as of a page that had it lead to this machine, or no port.
		{"evil.example:8765", "/sweeps/night-1", http.StatusMisdirectedRequest},
		{"evil.example", "/", http.StatusMisdirectedRequest},
		{"127.0.0.1", "/", http.StatusMisdirectedRequest},
		{"localhost:8765", "/sweeps/night-2", http.StatusNotFound},
		{"localhost:8765", "/sweeps/..%2f..%2fetc", http.StatusNotFound},
		{"localhost:8765", "/sweeps/%2e%2e", http.StatusNotFound},
		{"localhost:8765", "/sweeps/a%0ab", http.StatusNotFound},
		{"localhost:8765", "/sweeps/a%00b", http.StatusNotFound},
		{"localhost:8765", "/datasets/clicks@%00", http.StatusNotFound},
		{"localhost:8765", "/datasets/..%2fclicks", http.StatusNotFound},
		{"localhost:8765", "/models/a%1bb", http.StatusNotFound},
		{"localhost:8765", "/models/none", http.StatusNotFound},
		{"localhost:8765", "/models/%3Cscript%3E", http.StatusNotFound},
		{"localhost:8765", "/elsewhere", http.StatusNotFound},
	} {
		got := get(h, tc.host, tc.path)
		if got.Code != tc.code {
			t.Errorf("%s%s: %d %q, expected %d", tc.host, tc.path, got.Code, got.Body, tc.code)
		}
		if header := got.Header(); !strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			header.Get("Cache-Control") != "no-store" || header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s%s: the headers are %v, expected those of security whatever the code", tc.host, tc.path, header)
		}
		if strings.HasPrefix(got.Header().Get("Content-Type"), "text/html") && tc.code != http.StatusOK {
			t.Errorf("%s%s: an error is sent as %s, want plain "+
				"text", tc.host, tc.path, got.Header().Get("Content-Type"))
		}
	}
	post := httptest.NewRecorder()
	h.ServeHTTP(post, httptest.NewRequest(http.MethodPost, "http://localhost:8765/sweeps/night-1", nil))
	if post.Code != http.StatusMethodNotAllowed || post.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("POST: %d with %v, expected %d with the same headers: the console only reads", post.Code,
			post.Header(), http.StatusMethodNotAllowed)
	}
}

// TestListensOnThisMachineOnly: without an audience for identity tokens, Listen accepts only loopback addresses. With
// one, it accepts any, and requests may name the address or the audience's host.
func TestListensOnThisMachineOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":8765", "[::]:0", "192.168.1.2:0", "example.com:80", "nonsense",
		"127.0.0.1:99999", "127.0.0.1:x", "localhost:-1"} {
		l, _, err := Listen(t.Context(), address, "")
		if !problem.Is(err, problem.Input) {
			t.Errorf("listen on %s: %v, expected it to be refused", address, err)
		}
		if l != nil {
			l.Close()
		}
	}
	l, hosts := must.Get2(Listen(t.Context(), "127.0.0.1:0", ""))(t)
	defer l.Close()
	if hosts[0] != l.Addr().String() {
		t.Errorf("it answers to %q at %s, want its own address first", hosts, l.Addr())
	}

	open, hosts := must.Get2(Listen(t.Context(), "0.0.0.0:0", "https://console.example/x"))(t)
	defer open.Close()
	if len(hosts) != 2 || hosts[0] != open.Addr().String() || hosts[1] != "console.example" {
		t.Errorf("with tokens for https://console.example it answers to %q, expected its address and that host", hosts)
	}
}

// TestOnePollerReadsForAllViewers: while a hundred tasks send a heartbeat every second, three viewers of a page cause
// no more requests to the bucket than one, but for what a single reading takes. Without a viewer there are none.
func TestOnePollerReadsForAllViewers(t *testing.T) {
	seconds := 300
	if testing.Short() {
		seconds = 60
	}
	asked := map[int]int64{} // by viewers
	for _, viewers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			bucket, p, trials := night(t, 100)
			beat := func(round int) {
				for i := range p.Trials {
					if err := trials.Beat(t.Context(), i, 0, sweep.Heartbeat{Format: 1, Nonce: "n", Trees: round,
						At: planned.Add(time.Duration(round) * time.Second)}); err != nil {
						t.Errorf("heartbeat of trial %d: got error %v, want none", i, err)
					}
				}
			}
			beat(1)
			c := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet)
			h := c.Handler([]string{"localhost:1"})
			first := get(h, "localhost:1", "/sweeps/night-1").Body.String()

			before := bucket.asked.Load()
			for s := range seconds {
				<-time.After(time.Second)
				beat(2 + s)
				for range viewers {
					get(h, "localhost:1", "/sweeps/night-1")
				}
			}
			asked[viewers] = bucket.asked.Load() - before
			if now := get(h, "localhost:1", "/sweeps/night-1").Body.String(); now == first {
				t.Error("the page is the same after all heartbeats; want their news on it")
			}

			before = bucket.asked.Load()
			<-time.After(10 * time.Minute)
			if asked := bucket.asked.Load() - before; asked != 0 {
				t.Errorf("%d requests though nobody looks, want none", asked)
			}
		})
	}
	t.Logf("%d requests in %d seconds, 100 tasks that send a heartbeat every second", asked[3], seconds)
	// What one reading requests at most: a hundred new heartbeats, and lists and other objects. How many are new is not
	// the same twice, so three viewers may cause that many requests more.
	const round = 150
	if asked[1] == 0 || asked[3] > asked[1]+round {
		t.Errorf("one viewer takes %d requests in %d seconds, three take %d; want some, and at most %d more", asked[1],
			seconds, asked[3], round)
	}
}

// TestNews: a viewer who asks again with the page's version gets 304 if it has not changed, else the new page. A sweep
// that has ended is not read again, and its page does not ask again.
func TestNews(t *testing.T) {
	bucket, p, trials := night(t, 2)
	now := planned
	c := New(bucket, blob.Memory(), blob.Memory(), func() time.Time { return now }, quiet)
	h := c.Handler([]string{"localhost:1"})
	version := ""
	ask := func(want int) string {
		t.Helper()
		now = now.Add(pollPause) // else the console would answer from what it has read, without looking
		r := httptest.NewRequest(http.MethodGet, "http://localhost:1/sweeps/night-1", nil)
		r.Header.Set("If-None-Match", version)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("Poll") != "10000" || (want == http.StatusOK) != (w.Body.Len() > 0) {
			t.Fatalf("got %d with %d bytes and %v, want %d, and when to ask again", w.Code, w.Body.Len(), w.Header(),
				want)
		}
		version = w.Header().Get("ETag")
		return w.Body.String()
	}

	if first := ask(http.StatusOK); version != `"`+page.VersionOf([]byte(first))+`"` {
		t.Errorf("the version is %s, want the page's", version)
	}
	ask(http.StatusNotModified)
	o := sweep.Object{Name: sweep.Names(p.Sweep).Attempt(0, 0) + "x"}
	done := sweep.Result{Format: 1, Sweep: p.Sweep, Status: sweep.StatusDone, Score: 0.7, Model: &o,
		Scores: &sweep.Scored{Calib: o, Test: o}, Started: planned, Ended: planned.Add(time.Minute)}
	must.Get(trials.CreateResult(t.Context(), done))(t)
	if text := ask(http.StatusOK); !strings.Contains(text, `"open":true`) {
		t.Error("the page of a running sweep does not have \"open\":true; want it to ask again")
	}
	conclude(t, bucket, p)
	if text := ask(http.StatusOK); strings.Contains(text, `"open":true`) {
		t.Error("the page of a sweep that has ended has \"open\":true; want it not to ask again")
	}
	before := bucket.asked.Load()
	if ask(http.StatusNotModified); bucket.asked.Load() != before {
		t.Errorf("a sweep that has ended was read again: %d requests, want none", bucket.asked.Load()-before)
	}
}

// TestWhoHasGoneWaitsForNothing: while another request reads a sweep, one whose caller has left is answered at once,
// and one for the list does not wait.
func TestWhoHasGoneWaitsForNothing(t *testing.T) {
	bucket, _, _ := night(t, 1)
	synctest.Test(t, func(t *testing.T) {
		c := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet)
		h := c.Handler([]string{"localhost:1"})
		if !c.first.TryAcquire(1) { // another request reads a large sweep
			t.Fatal("the turn to read is taken, want it free at the beginning")
		}

		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost:1/sweeps/night-1",
				nil).WithContext(ctx))
			answered <- w.Code
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		select {
		case code := <-answered:
			if code == http.StatusOK {
				t.Error("a request that was taken back was served, want it refused: nobody had read the sweep")
			}
		default:
			t.Error("a request that was taken back still waits for its turn, want it ended")
			defer func() { <-answered }()
		}

		if got := get(h, "localhost:1", "/"); got.Code != http.StatusOK {
			t.Errorf("the list while a sweep is read is %d, expected %d", got.Code, http.StatusOK)
		}
		c.first.Release(1)
	})
}

// refusal is how the verifier refuses a request.
type refusal struct{ status int }

func (r refusal) Error() string   { return "refused" }
func (r refusal) HTTPStatus() int { return r.status }

type callersFunc func(context.Context, string) (string, error)

func (f callersFunc) Verify(ctx context.Context, authorization string) (string, error) {
	return f(ctx, authorization)
}

// TestCallersAreVerified: with Callers set, every path answers a request without a token 401, one of a caller who may
// not call 403, and one that cannot be verified now 503. A caller who may call gets the page.
func TestCallersAreVerified(t *testing.T) {
	bucket, _, _ := night(t, 1)
	c := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet)
	c.Callers = callersFunc(func(_ context.Context, authorization string) (string, error) {
		switch authorization {
		case "Bearer ann":
			return "ann@example.com", nil
		case "Bearer bob":
			return "", refusal{http.StatusForbidden}
		case "Bearer later":
			return "", errors.New("the keys are away")
		}
		return "", refusal{http.StatusUnauthorized}
	})
	h := c.Handler([]string{"localhost:1"})

	for _, path := range []string{"/", "/sweeps/night-1", "/models/ctr", "/datasets/clicks", "/elsewhere"} {
		for given, code := range map[string]int{"": http.StatusUnauthorized, "Bearer bob": http.StatusForbidden,
			"Bearer later": http.StatusServiceUnavailable} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost:1"+path, nil)
			r.Header.Set("Authorization", given)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != code || strings.Contains(w.Body.String(), "<") {
				t.Errorf("%s with %q: %d %.100q, expected %d and no page", path, given, w.Code, w.Body, code)
			}
		}
	}

	r := httptest.NewRequest(http.MethodGet, "http://localhost:1/sweeps/night-1", nil)
	r.Header.Set("Authorization", "Bearer ann")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "night-1") {
		t.Errorf("to ann the sweep is %d %.100q, expected its page", w.Code, w.Body)
	}
}

// TestStrangersAreAnsweredAtOnce: a refused request is answered, and its connection closed, without waiting for the
// body that it has announced and does not send.
func TestStrangersAreAnsweredAtOnce(t *testing.T) {
	bucket, _, _ := night(t, 1)
	c := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet)
	server := httptest.NewServer(c.Handler([]string{"localhost:1"}))
	defer server.Close()

	for request, want := range map[string]string{"POST /admin": "404", "PUT /sweeps/night-1": "405"} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n3e8\r\n{"} {
			conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
			must.Do(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost:1\r\n%s", request, body)
			answer, err := io.ReadAll(conn) // until the connection is closed
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
				t.Errorf("%s with a body that does not come: %.100q, %v; expected %s and the end", request, answer, err,
					want)
			}
			must.Do(t, conn.Close())
		}
	}
}
