package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
)

// refusal is how the verifier refuses a request.
type refusal struct{ status int }

func (r refusal) Error() string   { return "refused" }
func (r refusal) HTTPStatus() int { return r.status }

type callersFunc func(context.Context, string) (string, error)

func (f callersFunc) Verify(ctx context.Context, authorization string) (string, error) {
	return f(ctx, authorization)
}

// On an address that others can reach nothing is shown without a token of one who may call.
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

// TestStrangersAreAnsweredAtOnce: a request that is refused is answered without waiting for the body that it announced.
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
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
