// Package cloud holds what the adapters of Google Cloud (cloud/gcs, cloud/pubsub, cloud/batch) have in common: errors
// that mean "the environment is not set up", with the remedy. Everything else stays in the adapters.
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

	"coppice/internal/problem"
)

// SetupError means that the environment is incomplete: no credentials, no running emulator, a bucket or topic that does
// not exist. Retrying does not help.
type SetupError struct {
	What string // what is missing
	Hint string // what to do
	Err  error  // the client library's error, or nil
}

func (e *SetupError) Error() string { return join(e.What, e.Err, e.Hint) }

func (e *SetupError) Unwrap() error { return e.Err }

// Kind is problem.Environment.
func (*SetupError) Kind() problem.Kind { return problem.Environment }

// PermissionError means that the credentials are valid but lack the permission.
type PermissionError struct {
	What string
	Hint string
	Err  error
}

func (e *PermissionError) Error() string { return join(e.What, e.Err, e.Hint) }

func (e *PermissionError) Unwrap() error { return e.Err }

// Kind is problem.Environment.
func (*PermissionError) Kind() problem.Kind { return problem.Environment }

// join makes an error's text of what is wrong, the library's error if there is one, and the remedy.
func join(what string, err error, hint string) string {
	if err != nil {
		what += ": " + err.Error()
	}
	return what + "; " + hint
}

// credentialsHint is the remedy for missing credentials, and for a missing emulator: without either no service can be
// used.
const credentialsHint = "run inside the local cloud (localemu exec -- COMMAND), or log in with `gcloud auth " +
	"application-default login`"

// Dial turns the error of a client's constructor into a SetupError that names the service.
func Dial(service string, err error) error {
	return &SetupError{What: "no emulator and no credentials for " + service, Hint: credentialsHint, Err: err}
}

// Environment returns a SetupError if err is about the environment and not about the request: nothing listens at an
// emulator's address, or the credentials cannot be used. Otherwise it returns nil. service names the service in texts.
func Environment(service string, err error) error {
	if addr, ok := NobodyAt(err); ok {
		return &SetupError{
			What: fmt.Sprintf("no answer for %s at %s", service, addr),
			Hint: "the local cloud is not running any more: start it again (`localemu up --data DIR`, then `. " +
				"DIR/env`), or start the command with localemu exec -- COMMAND; " +
				"else unset the *_EMULATOR_HOST and the COPPICE_*_ENDPOINT variables that are left over from it",
			Err: err,
		}
	}
	if credentialsRefused(err.Error()) {
		return &SetupError{What: "the credentials for " + service + " cannot be used", Hint: credentialsHint, Err: err}
	}
	return nil
}

// The libraries report these only as text.
var (
	credentialsPattern = regexp.MustCompile(`could not find default credentials|cannot fetch token: metadata: GCE ` +
		`metadata .* not defined|invalid_grant|invalid_rapt|reauth related error`)
	tokenPattern   = regexp.MustCompile(`cannot fetch token: (?:compute: Received )?(\d{3})\b`)
	refusedPattern = regexp.MustCompile(`dial tcp (127\.0\.0\.1:\d+|\[::1\]:\d+): ` +
		`(connect: connection refused|connectex: No connection could be made because)`)
)

// credentialsRefused reports whether an error's text says that credentials are missing or were rejected. It does not
// count a token server that did not answer (408), was asked too often (429) or failed (5xx): that is temporary, and a
// task that runs for hours must survive it.
func credentialsRefused(text string) bool {
	if credentialsPattern.MatchString(text) {
		return true
	}

	m := tokenPattern.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	code, err := strconv.Atoi(m[1])
	return err == nil && code >= 400 && code < 500 && code != http.StatusRequestTimeout &&
		code != http.StatusTooManyRequests
}

// errWinRefused is Windows' WSAECONNREFUSED, which no other system has.
const errWinRefused = syscall.Errno(10061)

// NobodyAt reports whether err means that nothing listens at a loopback address, and returns that address. Then an
// emulator is not running, and waiting does not help. A refused connection to any other address may be an outage that
// passes, and does not count.
func NobodyAt(err error) (addr string, ok bool) {
	var op *net.OpError
	refused := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errWinRefused)
	if refused && errors.As(err, &op) && op.Addr != nil {
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

// FromStatus turns the error of a gRPC call into a SetupError or a PermissionError if it means that, and wraps it
// otherwise. what names the object in use, such as "topic projects/p/topics/t". missing says what to do if the object
// does not exist; if it is "", a missing object is not a SetupError.
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
		if strings.Contains(err.Error(), "cannot fetch token") { // gRPC's code for any failure to get a token
			break
		}
		return Unauthorized(service, err)
	case codes.PermissionDenied:
		return Forbidden(what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// permissionHint says what to do after a refusal: enable the API if the error says that it is disabled, else grant a
// role.
func permissionHint(err error) string {
	if strings.Contains(err.Error(), "SERVICE_DISABLED") ||
		strings.Contains(err.Error(), "has not been used in project") {
		return "enable the API in the project (terraform/ does so)"
	}
	return "grant the role to the account that runs this (terraform/ lists who needs which)"
}

// Forbidden returns the PermissionError for an HTTP 403.
func Forbidden(what string, err error) error {
	return &PermissionError{What: "no permission to use " + what, Hint: permissionHint(err), Err: err}
}

// Unauthorized returns the SetupError for an HTTP 401.
func Unauthorized(service string, err error) error {
	return &SetupError{What: "the credentials for " + service + " are not accepted", Hint: credentialsHint, Err: err}
}
