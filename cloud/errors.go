// Package cloud holds what the adapters of Google Cloud (cloud/gcs, cloud/pubsub, cloud/batch) say alike: errors that mean
// "the environment is not set up", with the remedy. Everything else an adapter knows stays in the adapter.
package cloud

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SetupError means that the environment is incomplete: no credentials, an emulator that is not there, a bucket or topic
// that nobody has made. Trying again does not help.
type SetupError struct {
	What string // what is missing
	Hint string // what to do
	Err  error  // what the client library said, if anything
}

func (e *SetupError) Error() string { return join(e.What, e.Err, e.Hint) }

func (e *SetupError) Unwrap() error { return e.Err }

// IsSetup says that the environment is at fault, which no repetition mends.
func (*SetupError) IsSetup() bool { return true }

// PermissionError means that the credentials are good and the permission is missing.
type PermissionError struct {
	What string
	Hint string
	Err  error
}

func (e *PermissionError) Error() string { return join(e.What, e.Err, e.Hint) }

func (e *PermissionError) Unwrap() error { return e.Err }

// IsSetup says that the environment is at fault, which no repetition mends.
func (*PermissionError) IsSetup() bool { return true }

func join(what string, err error, hint string) string {
	if err != nil {
		what += ": " + err.Error()
	}
	return what + "; " + hint
}

// credentialsHint is the remedy for missing credentials, and for a missing emulator: without either nothing can be reached.
const credentialsHint = "run inside the local cloud (localemu exec -- COMMAND), or log in with `gcloud auth application-default login`"

// Dial turns the error of a client's constructor into a SetupError that names the service.
func Dial(service string, err error) error {
	return &SetupError{What: "no emulator and no credentials for " + service, Hint: credentialsHint, Err: err}
}

// Environment is the SetupError in err if what it says is about the environment rather than the request: nobody listens at
// a loopback address, or the credentials cannot be used. It is nil otherwise.
func Environment(service string, err error) error {
	if addr, ok := NobodyAt(err); ok {
		return &SetupError{
			What: fmt.Sprintf("nobody answers for %s at %s", service, addr),
			Hint: "the local cloud is not running any more: start it again (`localemu up --data DIR`, then `. DIR/env`), or start the command with localemu exec -- COMMAND; " +
				"else unset the *_EMULATOR_HOST and the COPPICE_*_ENDPOINT variables that are left over from it",
			Err: err,
		}
	}
	if credentialsRefused(err.Error()) {
		return &SetupError{What: "the credentials for " + service + " cannot be used", Hint: credentialsHint, Err: err}
	}
	return nil
}

// The libraries give these as text only.
var (
	credentialsPattern = regexp.MustCompile(`could not find default credentials|cannot fetch token: metadata: GCE metadata .* not defined|invalid_grant|invalid_rapt|reauth related error`)
	tokenPattern       = regexp.MustCompile(`cannot fetch token: (?:compute: Received )?(\d{3})\b`)
	refusedPattern     = regexp.MustCompile(`dial tcp (127\.0\.0\.1:\d+|\[::1\]:\d+): connect: connection refused`)
)

// credentialsRefused reports whether an error's text says that there are no credentials or that they were refused. A token server that
// did not answer, was busy or failed has refused nothing: that passes, and a long-running task must outlast it.
func credentialsRefused(text string) bool {
	if credentialsPattern.MatchString(text) {
		return true
	}

	m := tokenPattern.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	code, err := strconv.Atoi(m[1])
	return err == nil && code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
}

// NobodyAt says that err comes from a loopback address at which nobody listens. That is an emulator that is not there: no
// waiting helps, while a refused connection elsewhere may be an outage that passes.
func NobodyAt(err error) (addr string, ok bool) {
	var op *net.OpError
	if errors.As(err, &op) && errors.Is(err, syscall.ECONNREFUSED) && op.Addr != nil {
		if tcp, isTCP := op.Addr.(*net.TCPAddr); isTCP && tcp.IP.IsLoopback() {
			return tcp.String(), true
		}
	}

	if err == nil {
		return "", false
	}
	if m := refusedPattern.FindStringSubmatch(err.Error()); m != nil { // gRPC keeps only the text
		return m[1], true
	}
	return "", false
}

// FromStatus turns a gRPC error into a SetupError or PermissionError where it is one, and wraps it otherwise. what names
// the thing that was used, such as "topic projects/p/topics/t"; missing is the remedy if it does not exist, "" if a
// missing one is no matter of setup.
func FromStatus(service, what, missing string, err error) error {
	if env := Environment(service, err); env != nil {
		return env
	}

	switch status.Code(err) {
	case codes.NotFound:
		if missing != "" {
			return &SetupError{What: what + " does not exist", Hint: missing, Err: err}
		}
	case codes.Unauthenticated:
		if strings.Contains(err.Error(), "cannot fetch token") { // gRPC's code for a token that did not come, whatever the reason
			break
		}
		return &SetupError{What: "the credentials for " + service + " are not accepted", Hint: credentialsHint, Err: err}
	case codes.PermissionDenied:
		return &PermissionError{What: "no permission to use " + what, Hint: permissionHint(err), Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// permissionHint tells a disabled API from a missing role.
func permissionHint(err error) string {
	if strings.Contains(err.Error(), "SERVICE_DISABLED") || strings.Contains(err.Error(), "has not been used in project") {
		return "enable the API in the project (terraform/ does so)"
	}
	return "grant the role to the account that runs this (terraform/ lists who needs which)"
}

// Forbidden is the PermissionError for an HTTP 403.
func Forbidden(what string, err error) error {
	return &PermissionError{What: "no permission to use " + what, Hint: permissionHint(err), Err: err}
}

// Unauthorized is the SetupError for an HTTP 401.
func Unauthorized(service string, err error) error {
	return &SetupError{What: "the credentials for " + service + " are not accepted", Hint: credentialsHint, Err: err}
}
