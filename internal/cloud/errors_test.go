package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"coppice/internal/must"
)

// nobody returns a loopback address at which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// TestNobodyAt: a refused connection is recognised, with its address; the same words in another error are not.
func TestNobodyAt(t *testing.T) {
	addr := nobody(t)
	var d net.Dialer
	_, err := d.DialContext(t.Context(), "tcp", addr)
	if got, ok := NobodyAt(fmt.Errorf("post: %w", err)); !ok || got != addr {
		t.Errorf("nobody listens (%v): got address %q, recognised %t; want %q", err, got, ok, addr)
	}
	for _, other := range []error{nil, errors.New("x"),
		errors.New("dial tcp 10.0.0.1:443: connect: connection refused")} {
		if got, ok := NobodyAt(other); ok {
			t.Errorf("another error (%v): taken for nobody listening at %q; want it not recognised", other, got)
		}
	}
}

// TestFailFast: where no server listens, a call ends at once instead of after its time limit, and says how to start the
// emulator.
func TestFailFast(t *testing.T) {
	addr := nobody(t)
	cc, err := grpc.NewClient(addr, append(FailFast(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must.Do(t, err)
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := grpc_health_v1.NewHealthClient(cc)
	_, err = client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a call: got error %v, want its status FailedPrecondition", err)
	}
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a stream: got error %v, want its status FailedPrecondition", err)
	}
	var setup *SetupError
	if err := FromStatus("Pub/Sub", "topic t", "", err); !errors.As(err, &setup) ||
		!strings.Contains(setup.What, addr) ||
		!strings.Contains(setup.Hint, "localemu up --data DIR`, then `. DIR/env`") {
		t.Errorf("nobody listens: got error %v; want one of the setup that names the address and advises `localemu up`",
			err)
	}
}

// TestFromStatus: a status of a service becomes an error with advice, if a person can act on it.
func TestFromStatus(t *testing.T) {
	var setup *SetupError
	var permission *PermissionError
	for _, c := range []struct {
		err    error
		target any
		words  string
	}{
		{status.Error(codes.NotFound, "gone"), &setup, "topic t does not exist"},
		{status.Error(codes.Unauthenticated, "who"), &setup, "gcloud auth"},
		{status.Error(codes.Unavailable, "auth: cannot fetch token: 400"), &setup, "gcloud auth"},
		{status.Error(codes.PermissionDenied, "no"), &permission, "grant the role"},
		{status.Error(codes.PermissionDenied, "Cloud Batch API has not been used in project 7"), &permission,
			"enable the API"},
	} {
		err := FromStatus("Pub/Sub", "topic t", "make it", c.err)
		if !errors.As(err, c.target) || !strings.Contains(err.Error(), c.words) || !errors.Is(err, c.err) {
			t.Errorf("%v became %v, want a %T with %q that wraps it", c.err, err, c.target, c.words)
		}
	}
	err := FromStatus("Pub/Sub", "topic t", "", status.Error(codes.NotFound, "gone"))
	if errors.As(err, &setup) || status.Code(err) != codes.NotFound {
		t.Errorf("an error of the service itself: got %v; want its status NotFound, and no error of the setup", err)
	}
}

// TestTokenServerDown: an error that the credentials were refused is a SetupError. One that the token server is down,
// busy or slow is not, since it passes. Each text comes as a plain error and in the two ways in which gRPC wraps it.
func TestTokenServerDown(t *testing.T) {
	for _, c := range []struct {
		text  string
		setup bool
	}{
		{"credentials: cannot fetch token: compute: Received 503 `busy`", false},
		{"credentials: cannot fetch token: compute: Received 429 `slow down`", false},
		{"credentials: cannot fetch token: Get " +
			"\"http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token\": dial tcp " +
			"169.254.169.254:80: i/o timeout", false},
		{"credentials: cannot fetch token: context deadline exceeded", false},
		{"auth: cannot fetch token: 500\nResponse: {}", false},
		{"credentials: cannot fetch token: compute: Received 403 `no account`", true},
		{"credentials: cannot fetch token: metadata: GCE metadata \"instance/service-accounts/default/token\" not " +
			"defined", true},
		{"auth: cannot fetch token: 400\nResponse: {\"error\": \"invalid_grant\"}", true},
		{"oauth2: cannot fetch token: 401 Unauthorized", true},
		{"auth: \"invalid_grant\" \"Account has been deleted\"", true},
		{"google: could not find default credentials", true},
	} {
		for _, err := range []error{errors.New(c.text), status.New(codes.Unavailable, c.text).Err(),
			status.New(codes.Unauthenticated, "transport: per-RPC creds failed: "+c.text).Err()} {
			got := FromStatus("Cloud Storage", "bucket b", "", err)
			var setup *SetupError
			if errors.As(got, &setup) != c.setup {
				t.Errorf("%v became a %T, %v; want a SetupError: %t", err, got, got, c.setup)
			}
		}
	}
}
