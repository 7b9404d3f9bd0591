// Package idtoken authenticates the callers of an HTTP service: it verifies the identity token that Pub/Sub and Cloud
// Scheduler send, signed by Google on behalf of a service account. It is the only importer of the library for that.
//
// A token is accepted if its signature is by one of Google's published keys (RS256 only), its issuer is Google, its
// audience is this service, it has not expired, Google has verified its e-mail address, and the address is on the list.
// Source: https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions
//
// If Cloud Run itself checks callers by IAM, it removes the token's signature before forwarding the request, so that
// the token cannot be reused. Then only the claims can be checked here. Such tokens are accepted only if the deployment
// says so: anyone able to reach the service without passing Cloud Run's check could forge one. Source:
// https://cloud.google.com/run/docs/troubleshooting#signature-removed
package idtoken

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"coppice/internal/cloud"
	"coppice/internal/problem"
)

// Issuer is the signer, and KeysURL the address of its public keys.
const (
	Issuer  = "https://accounts.google.com"
	KeysURL = "https://www.googleapis.com/oauth2/v3/certs"
)

const (
	maxToken    = 16 << 10         // bytes of an Authorization header; Google's tokens have about 1,000
	fetchLimit  = 10 * time.Second // per fetch of the keys
	fetchPause  = 10 * time.Second // between fetches: a token with an unknown key id triggers one
	maxCallers  = 100
	tokenScheme = "Bearer"
	// removed is what Cloud Run substitutes for a signature that it has checked.
	removed = "SIGNATURE_REMOVED_BY_GOOGLE"
)

var compact = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// Options say which tokens to accept.
type Options struct {
	Audience string   // the required audience
	Callers  []string // e-mail addresses of service accounts
	// CloudRunChecks says that Cloud Run's IAM check is in front and lets no unchecked request pass.
	CloudRunChecks bool
	KeysURL        string // of the local cloud; if empty, of Google
	// For tests; if empty, the default transport and the real time are used.
	Transport http.RoundTripper
	Now       func() time.Time
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	keys    oidc.KeySet
	config  *oidc.Config
	callers []string
	behind  bool // behind Cloud Run's IAM check
}

// refusedError is a request that is answered with a status: 401 without a valid token, 403 with that of a caller who is
// not allowed. Its text contains nothing from the token except claims vouched for by a signature.
type refusedError struct {
	status int
	msg    string
}

func (e *refusedError) Error() string { return e.msg }

// HTTPStatus is what such a request is answered with.
func (e *refusedError) HTTPStatus() int { return e.status }

// unknown is the refusal of a request without a valid token.
func unknown(why error) error {
	return &refusedError{http.StatusUnauthorized, "the caller is not known: " + why.Error()}
}

// forbidden is the refusal of a caller whose token is valid but who may not call.
func forbidden(email, why string) error {
	return &refusedError{http.StatusForbidden, fmt.Sprintf("%.200q may not call: %s", email, why)}
}

// New makes a Verifier. Options that would accept no caller or any caller, more than maxCallers, or callers that are no
// e-mail addresses, are a *cloud.SetupError. It does not fetch keys yet; only ctx's values are used.
func New(ctx context.Context, o Options) (*Verifier, error) {
	if err := o.check(); err != nil {
		return nil, &cloud.SetupError{What: err.Error(), Hint: "terraform/ sets COPPICE_AUDIENCE and " +
			"COPPICE_CALLERS; without both, listen on a loopback address only"}
	}

	if o.KeysURL == "" {
		o.KeysURL = KeysURL
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Now == nil {
		o.Now = time.Now
	}

	client := &http.Client{Timeout: fetchLimit, Transport: &sparing{next: o.Transport, now: o.Now}}
	return &Verifier{
		keys:    oidc.NewRemoteKeySet(oidc.ClientContext(ctx, client), o.KeysURL),
		config:  &oidc.Config{ClientID: o.Audience, SupportedSigningAlgs: []string{oidc.RS256}, Now: o.Now},
		callers: slices.Clone(o.Callers),
		behind:  o.CloudRunChecks,
	}, nil
}

// check returns an error for options under which anybody could call (no audience) or nobody (no callers), and for
// callers that are not e-mail addresses.
func (o Options) check() error {
	if o.Audience == "" {
		return errors.New("no audience: a token made for any other service would be accepted")
	}
	if len(o.Callers) == 0 || len(o.Callers) > maxCallers {
		return fmt.Errorf("%d accounts may call; use 1 to %d", len(o.Callers), maxCallers)
	}
	for _, c := range o.Callers {
		if a, err := mail.ParseAddress(c); err != nil || a.Address != c {
			return fmt.Errorf("caller %.200q is not the e-mail address of an account", c)
		}
	}
	return nil
}

// Verify returns the e-mail address of the account that sent a request, given the value of its Authorization header.
// The error of a request that is refused has a method HTTPStatus (401 or 403). Any other error means that Google's keys
// cannot be had, so that no token can be judged now.
func (v *Verifier) Verify(ctx context.Context, authorization string) (email string, err error) {
	raw, err := bearer(authorization)
	if err != nil {
		return "", unknown(err)
	}

	// Behind Cloud Run, the signature has already been checked and removed.
	keys := &attempt{keys: v.keys}
	if strings.HasSuffix(raw, "."+removed) {
		if !v.behind {
			return "", unknown(errors.New("the token's signature was removed by Cloud Run, but it is not " +
				"configured that the service is behind Cloud Run's IAM check; if it is, set " +
				"COPPICE_SIGNATURES=cloud-run as terraform/ does"))
		}
		keys.keys = checkedBefore{}
	}

	token, err := oidc.NewVerifier(Issuer, keys, v.config).Verify(ctx, raw)
	if keys.failed != nil {
		return "", fmt.Errorf("fetch the keys of %s: %w", Issuer, keys.failed)
	}
	if err != nil {
		return "", unknown(withoutContents(err))
	}

	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	if err := token.Claims(&claims); err != nil {
		return "", unknown(errors.New("its claims email and email_verified have other types than Google's"))
	}

	switch {
	case !claims.Verified:
		return "", forbidden(claims.Email, "Google has not verified the address")
	case !slices.Contains(v.callers, claims.Email):
		return "", forbidden(claims.Email, "it is not among COPPICE_CALLERS")
	}
	return claims.Email, nil
}

// bearer returns the token in an Authorization header, or an error if the header is not "Bearer x.y.z". Nothing in the
// token is checked yet.
func bearer(authorization string) (string, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	switch {
	case authorization == "":
		return "", errors.New("the request has no Authorization header")
	case len(authorization) > maxToken:
		return "", fmt.Errorf("an Authorization header of %d bytes", len(authorization))
	// the library would accept other forms, too
	case !strings.EqualFold(scheme, tokenScheme) || !compact.MatchString(token):
		return "", errors.New("the Authorization header holds no token of the form Bearer x.y.z")
	}
	return token, nil
}

// withoutContents returns an error that may be logged for one of the library's. Messages about a token whose signature
// is valid (a wrong issuer, for instance) are kept. All others could quote what a stranger has sent, and are replaced.
func withoutContents(err error) error {
	var expired *oidc.TokenExpiredError
	switch text := err.Error(); {
	case errors.As(err, &expired), strings.HasPrefix(text, "oidc: id token issued by"),
		strings.HasPrefix(text, "oidc: expected audience"),
		strings.HasPrefix(text, "oidc: current time"):
		return fmt.Errorf("%.400s", text)
	case strings.Contains(text, "verify"):
		return errors.New("the token's signature is by none of the keys of " + Issuer)
	}
	return errors.New("the token cannot be read as one that is signed with RS256")
}

// attempt records whether the keys were available; the library's error says so only as text.
type attempt struct {
	keys   oidc.KeySet
	failed error
}

// VerifySignature asks the keys, and notes in a.failed if they could not be had.
func (a *attempt) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := a.keys.VerifySignature(ctx, jwt)
	if problem.Is(err, problem.Transient) || err != nil && ctx.Err() != nil {
		a.failed = err
	}
	return payload, err
}

// checkedBefore is the key set for tokens whose signature Cloud Run has checked and removed.
type checkedBefore struct{}

// VerifySignature returns the token's claims, undecoded, without any check.
func (checkedBefore) VerifySignature(_ context.Context, jwt string) ([]byte, error) {
	_, rest, _ := strings.Cut(jwt, ".")
	claims, _, _ := strings.Cut(rest, ".")
	return base64.RawURLEncoding.DecodeString(claims)
}

// sparing is a transport that sends at most one request in fetchPause, so that forged tokens cannot make us send Google
// one each, and that turns any status but 200 into an error.
type sparing struct {
	next http.RoundTripper
	now  func() time.Time

	mu     sync.Mutex
	last   time.Time
	failed error // of the last request
}

// errFresh is not a failure: the keys are up to date, and do not include the token's.
var errFresh = errors.New("the keys were fetched a moment ago")

// RoundTrip sends one request at a time, and none within fetchPause of the last one. A request that comes earlier gets
// the last one's error, or errFresh if that one succeeded, and is not sent. So made-up tokens cause hardly any
// requests.
func (s *sparing) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if now := s.now(); now.Sub(s.last) >= fetchPause {
		s.last = now
		resp, err := s.next.RoundTrip(r)
		if err == nil && resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			err = fmt.Errorf("the answer was %s", resp.Status)
		}

		if err == nil {
			s.failed = nil
			return resp, nil
		}
		s.failed = problem.As(problem.Transient, err)
	}

	if s.failed != nil {
		return nil, s.failed
	}
	return nil, errFresh
}
