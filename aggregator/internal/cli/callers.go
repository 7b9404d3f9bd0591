package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// Callers knows who calls. Verify is called from any goroutine, before a request's body is read.
type Callers interface {
	// Verify says who sent a request, given the value of its Authorization header. Whoever may not call is a *RefusedError;
	// any other error means that it could not be found out now.
	Verify(ctx context.Context, authorization string) (caller string, err error)
}

// RefusedError is a caller who is not let in.
type RefusedError struct {
	Status int // 401: not known; 403: known, and may not
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// guarded lets only those in whom callers know; nil knows everybody. A stranger is told no more than the status; why is in
// the log, where no token ever is.
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
