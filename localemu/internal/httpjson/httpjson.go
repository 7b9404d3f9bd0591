// Package httpjson is what the emulators of Google's JSON APIs share: answers and errors in Google's form,
// and the refusal of callers that are no clients of the local cloud.
package httpjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listener serves a handler.
type Listener struct {
	http   http.Server
	addr   string
	served sync.WaitGroup
}

// Serve starts to serve on the listener, in the background, and returns at once. Close ends it and closes the listener.
func Serve(l net.Listener, h http.HandlerFunc, log *slog.Logger) *Listener {
	s := &Listener{addr: l.Addr().String(), http: http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}}
	s.served.Go(func() {
		if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("an emulator's listener ended", "address", l.Addr(), "error", err)
		}
	})
	return s
}

// Addr is host:port.
func (s *Listener) Addr() string { return s.addr }

// Close ends all connections. A second Close does nothing.
func (s *Listener) Close() {
	s.http.Close()
	s.served.Wait()
}

// Error is an error in the form of Google's APIs: the services' clients act on the code.
type Error struct {
	Code    int // of HTTP
	Message string
}

// Errorf returns an error with an HTTP status.
func Errorf(code int, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Message }

// NotImitated returns the error for a call that the real service answers and localemu does not. It has the status 501,
// which clients do not retry.
func NotImitated(r *http.Request) error {
	return Errorf(http.StatusNotImplemented, "localemu does not imitate %s %s", r.Method, r.URL.Path)
}

// Foreign returns an error if a request does not come from a client of the local cloud, and nil if it does. Web pages
// must not reach the local cloud. A browser sets Origin in their requests, but for images, scripts and the like, which
// only read and whose answers a page does not see. A page may also use a host name of its own that resolves to this
// machine; so Host has to be this machine's name or address, with the listener's port.
func Foreign(r *http.Request) error {
	if r.Header.Get("Origin") != "" {
		return Errorf(http.StatusForbidden, "requests from web pages are refused")
	}
	own := fmt.Sprint(r.Context().Value(http.LocalAddrContextKey))
	_, ownPort, _ := net.SplitHostPort(own)
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil || port != ownPort || host != "localhost" && host != "127.0.0.1" && host != "::1" {
		return Errorf(http.StatusForbidden, "the host name %.100q is not this server's: use %s", r.Host, own)
	}
	return nil
}

// Reply sends a value. The client may have left.
func Reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// names are the reasons of Cloud Storage's errors, and the status of the other services'.
var names = map[int][2]string{
	http.StatusBadRequest:            {"invalid", "INVALID_ARGUMENT"},
	http.StatusForbidden:             {"forbidden", "PERMISSION_DENIED"},
	http.StatusNotFound:              {"notFound", "NOT_FOUND"},
	http.StatusConflict:              {"conflict", "ALREADY_EXISTS"},
	http.StatusPreconditionFailed:    {"conditionNotMet", "FAILED_PRECONDITION"},
	http.StatusRequestEntityTooLarge: {"uploadTooLarge", "INVALID_ARGUMENT"},
	http.StatusTooManyRequests:       {"rateLimitExceeded", "RESOURCE_EXHAUSTED"},
	http.StatusInternalServerError:   {"internalError", "INTERNAL"},
	http.StatusNotImplemented:        {"notImplemented", "UNIMPLEMENTED"},
}

// Fail sends an error in the form of Google's APIs. An err that holds no *Error is the server's own mistake, with the
// status 500. A status without a name in names is sent as UNAVAILABLE.
func Fail(w http.ResponseWriter, err error) {
	e := &Error{http.StatusInternalServerError, err.Error()}
	errors.As(err, &e)                    // leaves e as it is if there is none
	if e.Code == http.StatusNotModified { // must not have a body
		w.WriteHeader(e.Code)
		return
	}
	name := names[e.Code]
	if name[0] == "" {
		name = [2]string{"backendError", "UNAVAILABLE"}
	}
	Reply(w, e.Code, map[string]any{"error": map[string]any{
		"code": e.Code, "message": e.Message, "status": name[1],
		"errors": []map[string]string{{"message": e.Message, "domain": "global", "reason": name[0]}},
	}})
}
