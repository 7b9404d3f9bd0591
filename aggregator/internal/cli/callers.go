package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// Callers authenticates callers. Verify may be called concurrently, before a request's body is read.
type Callers interface {
	// Verify returns the sender of a request, given the value of its Authorization header. The error of a request that
	// is refused has a method HTTPStatus, 401 or 403; any other means that this cannot be determined now.
	Verify(ctx context.Context, authorization string) (caller string, err error)
}

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
		var refused interface{ HTTPStatus() int }
		if errors.As(err, &refused) {
			status = refused.HTTPStatus()
		}
		log.Warn("refused a caller", "path", r.URL.Path, "status", status, "error", err.Error())
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(status), status)
	}
}
