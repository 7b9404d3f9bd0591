package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/registry"
)

const token = "a-token-for-this-test-only"

// acting is a console with one sweep that notes what it is asked to do.
func acting(t *testing.T) (c *Console, h http.Handler, done *[]Action) {
	t.Helper()
	bucket, _, _ := night(t, 1)
	done = &[]Action{}
	c = New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet)
	c.Actions = Actions{Token: token, Do: func(_ context.Context, a Action) (string, error) {
		*done = append(*done, a)
		return "done", nil
	}}
	return c, c.Handler([]string{"localhost:1"}), done
}

// post sends an action as the page does; with changes the request that changes it.
func post(t *testing.T, h http.Handler, a Action, changes ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost:1/actions", strings.NewReader(string(text)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "http://localhost:1")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set(tokenHeader, token)
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// Nothing is done without the token, from another page, or without the name of what it is about.
func TestActionsNeedTokenAndConfirmation(t *testing.T) {
	_, h, done := acting(t)
	cancel := Action{Do: Cancel, Name: "night-1", Confirm: "night-1"}
	for _, tc := range []struct {
		what    string
		action  Action
		changes []func(*http.Request)
		code    int
	}{
		{"without a token", cancel, []func(*http.Request){func(r *http.Request) { r.Header.Del(tokenHeader) }},
			http.StatusForbidden},
		{"with another token", cancel, []func(*http.Request){header(tokenHeader, token+"x")}, http.StatusForbidden},
		{"from another site", cancel, []func(*http.Request){header("Sec-Fetch-Site", "cross-site")},
			http.StatusForbidden},
		{"from another port, by an old browser", cancel,
			[]func(*http.Request){func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") },
				header("Origin", "http://localhost:2")}, http.StatusForbidden},
		{"for another host", cancel, []func(*http.Request){func(r *http.Request) { r.Host = "evil.example" }},
			http.StatusMisdirectedRequest},
		{"as a form", cancel, []func(*http.Request){header("Content-Type", "text/plain")},
			http.StatusUnsupportedMediaType},
		{"without confirmation", Action{Do: Cancel, Name: "night-1"}, nil, http.StatusBadRequest},
		{"confirmed as another", Action{Do: Cancel, Name: "night-1", Confirm: "night-2"}, nil, http.StatusBadRequest},
		{"a version confirmed as the model", Action{Do: Promote, Name: "ctr", Version: 2, Confirm: "ctr"}, nil,
			http.StatusBadRequest},
		{"without a version", Action{Do: Promote, Name: "ctr", Confirm: "ctr@0"}, nil, http.StatusBadRequest},
		{"of a name that is none", Action{Do: Cancel, Name: "../x", Confirm: "../x"}, nil, http.StatusBadRequest},
		{"with a long reason", Action{Do: Rollback, Name: "ctr", Confirm: "ctr", Why: strings.Repeat("x", mostWhy+1)},
			nil, http.StatusBadRequest},
		{"with a longer body", Action{Do: Rollback, Name: "ctr", Confirm: "ctr",
			Why: strings.Repeat("x", 2*mostAction)}, nil, http.StatusBadRequest},
		{"of another kind", Action{Do: "delete", Name: "ctr", Confirm: "ctr"}, nil, http.StatusBadRequest},
	} {
		if got := post(t, h, tc.action, tc.changes...); got.Code != tc.code || len(*done) > 0 {
			t.Errorf("%s: %d %q, %d actions done; expected %d and none", tc.what, got.Code, got.Body, len(*done),
				tc.code)
		}
	}

	// What two readers would understand differently is not read at all.
	right := `"do":"cancel","name":"night-1","version":0,"champion":0,"why":"","confirm":"night-1"`
	for what, text := range map[string]string{"with more after it": "{" + right + "} {}", "with a key twice": "{" +
		right +
		`,"name":"night-1"}`, "with a key in another case": "{" + strings.Replace(right, "name", "NAME", 1) + "}",
		"with an unknown key": "{" + right + `,"by":"ana"}`, "with null": "null", "cut off": "{" + right} {
		got := post(t, h, cancel, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(text)) })
		if got.Code != http.StatusBadRequest || len(*done) > 0 {
			t.Errorf("%s: %d %q, %d actions done; expected %d and none", what, got.Code, got.Body, len(*done),
				http.StatusBadRequest)
		}
	}

	if got := post(t, h, cancel); got.Code != http.StatusOK || got.Body.String() != "done\n" || len(*done) != 1 ||
		(*done)[0] != cancel {
		t.Errorf("with all of it: %d %q, done is %+v, expected %+v", got.Code, got.Body, *done, cancel)
	}
}

// A console that was not started to act offers nothing and does nothing, whatever it is sent; the page is the same.
func TestNoActionsUnlessAsked(t *testing.T) {
	c, h, done := acting(t)
	with := get(h, "localhost:1", "/sweeps/night-1").Body.String()
	if offer := get(h, "localhost:1", "/actions").Body.String(); offer != "[\"cancel\",\"promote\",\"rollback\"]\n" {
		t.Errorf("the offer is %q", offer)
	}

	c.Actions.Token = ""
	if offer := get(h, "localhost:1", "/actions").Body.String(); offer != "[]\n" {
		t.Errorf("without actions the offer is %q, expected none", offer)
	}
	got := post(t, h, Action{Do: Cancel, Name: "night-1", Confirm: "night-1"}, header(tokenHeader, ""))
	if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "--actions") || len(*done) > 0 {
		t.Errorf("without actions: %d %q, %d done; expected %d, a hint and none", got.Code, got.Body, len(*done),
			http.StatusForbidden)
	}
	if without := get(h, "localhost:1", "/sweeps/night-1").Body.String(); without != with {
		t.Error("with actions and without, the page has other bytes")
	}
}

// twoVersions is a registry with two versions of a model, the first of which is the champion.
func twoVersions(t *testing.T) (models blob.Store, reg *registry.Registry) {
	t.Helper()
	models = blob.Memory()
	reg = registry.New(models)
	for _, key := range []string{"one", "two"} {
		if _, err := reg.Register(t.Context(), "ctr", key, map[string][]byte{"model.txt": []byte(key)},
			registry.Info{At: planned, By: "test", Why: "best", Metrics: map[string]float64{"auc": 0.6}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reg.Promote(t.Context(), "ctr", 1, registry.Expect{}, registry.Act{By: "test", Why: "because",
		At: planned}); err != nil {
		t.Fatal(err)
	}
	return models, reg
}

// TestARollbackDoesNotWaitForACancellation: that takes until Batch has come to rest, minutes. A second one does wait,
// and is told when its viewer leaves that nothing was done.
func TestARollbackDoesNotWaitForACancellation(t *testing.T) {
	c, h, done := acting(t)
	begun, rest := make(chan struct{}), make(chan struct{})
	quick := c.Actions.Do
	c.Actions.Do = func(ctx context.Context, a Action) (string, error) {
		if a.Do == Cancel {
			close(begun)
			<-rest
			return "cancelled", nil
		}
		return quick(ctx, a)
	}

	cancel := Action{Do: Cancel, Name: "night-1", Confirm: "night-1"}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- post(t, h, cancel) }()
	<-begun
	impatient := func(r *http.Request) {
		ctx, leave := context.WithCancel(r.Context())
		leave()
		*r = *r.WithContext(ctx)
	}
	if got := post(t, h, Action{Do: Rollback, Name: "ctr", Confirm: "ctr"}, limited(t)); got.Code != http.StatusOK ||
		len(*done) != 1 {
		t.Errorf("a rollback during a cancellation: %d %q, %d done; want %d and one", got.Code, got.Body, len(*done),
			http.StatusOK)
	}
	if got := post(t, h, cancel, impatient); got.Code != http.StatusServiceUnavailable ||
		!strings.Contains(got.Body.String(), "nothing was done") {
		t.Errorf("a second cancellation whose viewer has left: %d %q; want %d and that nothing was done", got.Code,
			got.Body, http.StatusServiceUnavailable)
	}
	close(rest)
	if got := <-first; got.Code != http.StatusOK || got.Body.String() != "cancelled\n" {
		t.Errorf("the cancellation: %d %q; want %d", got.Code, got.Body, http.StatusOK)
	}
}

// limited gives a request five seconds, so that one that waits fails.
func limited(t *testing.T) func(*http.Request) {
	return func(r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		t.Cleanup(cancel)
		*r = *r.WithContext(ctx)
	}
}

// TestAnEndWaitsForActions: a console that ends waits for actions, but not for long ones.
func TestAnEndWaitsForActions(t *testing.T) {
	for last, want := range map[time.Duration]time.Duration{0: 0, 3 * time.Second: 3 * time.Second,
		time.Hour: actionGrace} {
		synctest.Test(t, func(t *testing.T) {
			c, _, _ := acting(t)
			if err := c.acting[Cancel].take(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(last, c.acting[Cancel].give)

			ctx, stop := context.WithCancel(t.Context())
			stop()
			began := time.Now()
			c.finishActions(ctx)
			if took := time.Since(began); took != want {
				t.Errorf("with an action of %s, the console ends after %s; want %s", last, took, want)
			}
		})
	}
}

// conflict is an error of its class.
type conflict struct{ error }

func (conflict) IsConflict() bool { return true }

// After an action a page shows what has become of it; an action that fails says why.
func TestActionsShow(t *testing.T) {
	bucket, _, _ := night(t, 1)
	models, reg := twoVersions(t)
	c := New(bucket, blob.Memory(), models, time.Now, quiet)
	c.Actions = Actions{Token: token, Do: func(ctx context.Context, a Action) (string, error) {
		if a.Champion != 1 {
			return "", conflict{errors.New("the champion is another")}
		}
		_, err := reg.Promote(ctx, a.Name, a.Version, registry.Expect{Version: a.Champion},
			registry.Act{By: "test", Why: "because", At: planned})
		return "moved", err
	}}
	h := c.Handler([]string{"localhost:1"})

	if text := get(h, "localhost:1", "/models/ctr").Body.String(); !strings.Contains(text, "Version 1 is live") ||
		!strings.Contains(text, `"acts":["promote","rollback"],"champion":1`) {
		t.Errorf("before, the page says %.600q", text)
	}
	if got := post(t, h, Action{Do: Promote, Name: "ctr", Version: 2, Champion: 2,
		Confirm: "ctr@2"}); got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "another") {
		t.Errorf("with another champion: %d %q, expected %d and why", got.Code, got.Body, http.StatusConflict)
	}
	if got := post(t, h, Action{Do: Promote, Name: "ctr", Version: 2, Champion: 1,
		Confirm: "ctr@2"}); got.Code != http.StatusOK {
		t.Fatalf("promoting answers %d %q", got.Code, got.Body)
	}
	if text := get(h, "localhost:1", "/models/ctr").Body.String(); !strings.Contains(text, "Version 2 is live") {
		t.Errorf("after it, the page says %.600q, expected version 2", text)
	}
}

// refusal is how the verifier refuses a request.
type refusal struct{ status int }

func (r refusal) Error() string   { return "refused" }
func (r refusal) HTTPStatus() int { return r.status }

type callersFunc func(context.Context, string) (string, error)

func (f callersFunc) Verify(ctx context.Context, authorization string) (string, error) {
	return f(ctx, authorization)
}

// On an address that others can reach nothing is shown or done without a token of one who may call, and the history
// says who acted.
func TestCallersAreVerified(t *testing.T) {
	c, _, done := acting(t)
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

	for _, path := range []string{"/", "/sweeps/night-1", "/models/ctr", "/datasets/clicks", "/events/sweeps/night-1",
		"/actions", "/elsewhere"} {
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

	cancel := Action{Do: Cancel, Name: "night-1", Confirm: "night-1"}
	if got := post(t, h, cancel); got.Code != http.StatusUnauthorized || len(*done) > 0 {
		t.Errorf("an action of nobody: %d, %d done; expected %d and none", got.Code, len(*done),
			http.StatusUnauthorized)
	}
	if got := post(t, h, cancel, header("Authorization", "Bearer ann")); got.Code != http.StatusOK || len(*done) != 1 ||
		(*done)[0].By != "ann@example.com" {
		t.Errorf("an action of ann: %d, done is %+v, expected it to be hers", got.Code, *done)
	}
}

// TestStrangersAreAnsweredAtOnce: a request that is refused is answered without waiting for the body that it announced.
func TestStrangersAreAnsweredAtOnce(t *testing.T) {
	_, h, _ := acting(t)
	server := httptest.NewServer(h)
	defer server.Close()

	for request, want := range map[string]string{"POST /actions": "415", "POST /admin": "404",
		"PUT /sweeps/night-1": "405"} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n3e8\r\n{"} {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost:1\r\n%s", request, body)
			answer, err := io.ReadAll(conn) // until the connection is closed
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
				t.Errorf("%s with a body that does not come: %.100q, %v; expected %s and the end", request, answer, err,
					want)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
