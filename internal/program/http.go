package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Callers authenticates the callers of a service. Verify may be called concurrently, before a request's body is read.
type Callers interface {
	// Verify returns the sender of a request, given the value of its Authorization header. The error of a request that
	// is refused has a method HTTPStatus, 401 or 403; any other means that this cannot be determined now.
	Verify(ctx context.Context, authorization string) (caller string, err error)
}

// RefusedStatus is what a request is answered with after an error of Verify.
func RefusedStatus(err error) int {
	var refused interface{ HTTPStatus() int }
	if errors.As(err, &refused) {
		return refused.HTTPStatus()
	}
	return http.StatusServiceUnavailable
}

// Refusal says what a rejected caller sees.
type Refusal int

// Refusals.
const (
	StatusOnly Refusal = iota
	WithReason
)

// Verified passes on only requests that callers accepts; nil accepts all. The reason for a refusal goes to the log,
// which never contains a token.
func Verified(log *slog.Logger, callers Callers, refusal Refusal, next http.Handler) http.Handler {
	if callers == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := callers.Verify(r.Context(), r.Header.Get("Authorization"))
		if err == nil {
			log.Debug("called", "path", r.URL.Path, "caller", caller)
			next.ServeHTTP(w, r)
			return
		}
		status := RefusedStatus(err)
		log.Warn("refused a caller", "path", r.URL.Path, "status", status, "error", err.Error())
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		text := http.StatusText(status)
		if refusal == WithReason {
			text = err.Error()
		}
		http.Error(w, text, status)
	})
}

// Prompt returns a handler that lets a request with a body be answered before the body has come. Otherwise net/http
// would read the announced body after an answer that rejects the request, and a stranger could keep the connection by
// sending none. So the connection is closed after the answer, unless next, when it reads the body, deletes the header
// "Connection: close" from its answer.
func Prompt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
		if w.Header().Get("Connection") == "close" {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // if unsupported, ReadTimeout applies
		}
	})
}

// Serve serves on l until ctx ends, and for the time grace after that. Then it takes no new requests, and those under
// way may take the time drain to finish; with a drain of 0 they are broken off. It returns nil if the server ended in
// that way and all requests were finished in time.
func Serve(ctx context.Context, server *http.Server, l net.Listener, grace, drain time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// New requests are still taken, while those who send them learn of the end.
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
	}

	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	var err error
	if drain == 0 {
		err = server.Close()
	} else if err = server.Shutdown(rest); err != nil {
		err = errors.Join(fmt.Errorf("end the server: requests took longer than %v: %w", drain, err), server.Close())
	}
	if ended := <-done; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
