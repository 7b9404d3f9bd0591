package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// Callers authenticates callers. Verify may be called concurrently, before a request's body is read.
type Callers interface {
	// Verify returns the sender of a request, given the value of its Authorization header. A caller who is not allowed
	// gets a
	// *RefusedError; any other error means that this cannot be determined now.
	Verify(ctx context.Context, authorization string) (caller string, err error)
}

// RefusedError is a caller that is not let in.
type RefusedError struct {
	Status int // 401: not authenticated; 403: not authorised
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// guarded passes on only requests that callers accepts; nil accepts all. A rejected caller sees only the status; the
// reason goes to the log, which never contains a token.
func guarded(log *slog.Logger, callers Callers, next http.HandlerFunc) http.HandlerFunc {
	if callers == nil {
		return func(w http.ResponseWriter, r *http.Request) {
			letIn(w)
			next(w, r)
		}
	}

	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := callers.Verify(r.Context(), r.Header.Get("Authorization"))
		if err == nil {
			log.Debug("called", "path", r.URL.Path, "caller", caller)
			letIn(w)
			next(w, r)
			return
		}
		status := http.StatusServiceUnavailable
		var refused *RefusedError
		if errors.As(err, &refused) {
			status = refused.Status
		}
		log.Warn("refused a caller", "path", r.URL.Path, "status", status, "error", err.Error())
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(status), status)
	}
}
