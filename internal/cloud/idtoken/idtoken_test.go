package idtoken

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"coppice/internal/cloud"
	"coppice/internal/must"
)

const (
	audience = "coppice-aggregator.example"
	push     = "coppice-push@example.iam.gserviceaccount.com"
)

var now = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// google stands for Google: a key that signs tokens, and a server with the page of its public key, named "one".
type google struct {
	key     *rsa.PrivateKey
	server  *httptest.Server
	fetches atomic.Int64 // of the page
	status  atomic.Int64 // of its answers
}

// newGoogle makes a key and starts a server with the page of keys, which runs until the test ends.
func newGoogle(t testing.TB) *google {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	g := &google{key: key}
	g.status.Store(http.StatusOK)
	page := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one",
		Algorithm: "RS256", Use: "sig"}}}))(t)
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.fetches.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(g.status.Load()))
		_, _ = w.Write(page)
	}))
	t.Cleanup(g.server.Close)
	return g
}

// claims are those of a good token of the account push at the time now, which change may adapt.
func claims(change func(map[string]any)) map[string]any {
	c := map[string]any{"iss": Issuer, "aud": audience, "sub": "1", "azp": "1", "email": push, "email_verified": true,
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix()}
	if change != nil {
		change(c)
	}
	return c
}

// sign makes a token of claims, signed with an algorithm and a key that the header calls kid.
func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, c map[string]any) string {
	t.Helper()
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid)))(t)
	text := must.Get(json.Marshal(c))(t)
	signed := must.Get(signer.Sign(text))(t)
	return must.Get(signed.CompactSerialize())(t)
}

// token is a token that Google has signed.
func (g *google) token(t testing.TB, change func(map[string]any)) string {
	t.Helper()
	return sign(t, jose.RS256, g.key, "one", claims(change))
}

// verifier accepts tokens for the audience from two accounts, with the keys of g.
func verifier(t testing.TB, g *google, clock func() time.Time) *Verifier {
	t.Helper()
	v := must.Get(New(t.Context(),
		Options{Audience: audience, Callers: []string{push, "coppice-scheduler@example.iam.gserviceaccount.com"},
			KeysURL: g.server.URL, Now: clock}))(t)
	return v
}

// at is a clock that stands still.
func at(when time.Time) func() time.Time { return func() time.Time { return when } }

// raw encodes a text as parts of tokens are.
func raw(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// outcome is the HTTP status with which a request is answered after Verify has returned err.
func outcome(err error) int {
	var refused *refusedError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused):
		return refused.HTTPStatus()
	}
	return http.StatusServiceUnavailable
}

// TestTokens: a header without a valid token is answered with 401, and one with the valid token of an account that may
// not call with 403. A caller's token gives its address. No error quotes the token, and all of these headers together
// cause one fetch of the keys.
func TestTokens(t *testing.T) {
	g, stranger := newGoogle(t), newGoogle(t)
	v := verifier(t, g, at(now))
	good := g.token(t, nil)
	parts := strings.Split(good, ".")
	body, _ := json.Marshal(claims(nil))
	public := g.key.PublicKey
	for name, tc := range map[string]struct {
		header string
		want   int
	}{
		"nothing":        {"", 401},
		"no scheme":      {good, 401},
		"another scheme": {"Basic " + good, 401},
		"two tokens":     {"Bearer " + good + " " + good, 401},
		"not a token":    {"Bearer a.b", 401},
		"too long":       {"Bearer " + good + strings.Repeat("A", maxToken), 401},
		"forged":         {"Bearer " + sign(t, jose.RS256, stranger.key, "one", claims(nil)), 401},
		"unknown key":    {"Bearer " + sign(t, jose.RS256, stranger.key, "two", claims(nil)), 401},
		"no key's name":  {"Bearer " + sign(t, jose.RS256, stranger.key, "", claims(nil)), 401},
		"other claims": {"Bearer " + parts[0] + "." +
			raw(strings.Replace(string(body), push, "coppice-scheduler@example.iam.gserviceaccount.com", 1)) + "." +
			parts[2], 401},
		"unsigned": {"Bearer " + raw(`{"alg":"none","typ":"JWT"}`) + "." + raw(string(body)) + ".", 401},
		"unsigned with text": {"Bearer " + raw(`{"alg":"none","typ":"JWT"}`) + "." + raw(string(body)) + "." +
			parts[2], 401},
		"public key as HMAC":  {"Bearer " + sign(t, jose.HS256, public.N.Bytes(), "one", claims(nil)), 401},
		"other RSA algorithm": {"Bearer " + sign(t, jose.PS256, g.key, "one", claims(nil)), 401},
		"signature removed":   {"Bearer " + parts[0] + "." + parts[1] + "." + removed, 401},
		"null header":         {"Bearer " + raw("null") + "." + parts[1] + "." + parts[2], 401},
		"null claims":         {"Bearer " + parts[0] + "." + raw("null") + "." + parts[2], 401},
		"expired": {"Bearer " +
			g.token(t, func(c map[string]any) { c["exp"] = now.Add(-time.Second).Unix() }), 401},
		"never expires": {"Bearer " + g.token(t, func(c map[string]any) { delete(c, "exp") }), 401},
		"not yet valid": {"Bearer " + g.token(t, func(c map[string]any) { c["nbf"] = now.Add(time.Hour).Unix() }),
			401},
		"wrong audience": {"Bearer " +
			g.token(t, func(c map[string]any) { c["aud"] = "https://elsewhere.example" }), 401},
		"no audience": {"Bearer " + g.token(t, func(c map[string]any) { delete(c, "aud") }), 401},
		"wrong issuer": {"Bearer " +
			g.token(t, func(c map[string]any) { c["iss"] = "https://accounts.example.com" }), 401},
		"no issuer":       {"Bearer " + g.token(t, func(c map[string]any) { delete(c, "iss") }), 401},
		"email a number":  {"Bearer " + g.token(t, func(c map[string]any) { c["email"] = 7 }), 401},
		"unverified":      {"Bearer " + g.token(t, func(c map[string]any) { c["email_verified"] = false }), 403},
		"verified unsaid": {"Bearer " + g.token(t, func(c map[string]any) { delete(c, "email_verified") }), 403},
		"another caller": {"Bearer " +
			g.token(t, func(c map[string]any) { c["email"] = "eve@example.iam.gserviceaccount.com" }), 403},
		"no email": {"Bearer " + g.token(t, func(c map[string]any) { delete(c, "email") }), 403},
		"longer email": {"Bearer " + g.token(t, func(c map[string]any) { c["email"] = push + ".example.com" }),
			403},
		"email in capitals": {"Bearer " + g.token(t, func(c map[string]any) { c["email"] = strings.ToUpper(push) }),
			403},
		"good":                {"Bearer " + good, 200},
		"good, small letters": {"bearer " + good, 200},
	} {
		email, err := v.Verify(t.Context(), tc.header)
		if got := outcome(err); got != tc.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, tc.want)
		}
		if caller := map[bool]string{true: push}[err == nil]; email != caller {
			t.Errorf("%s: caller %q with error %v; want %q", name, email, err, caller)
		}
		for _, secret := range append(strings.Split(tc.header, "."), parts...) {
			if err != nil && len(secret) > 8 && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: got error %v; want none that quotes the token", name, err)
			}
		}
	}
	if n := g.fetches.Load(); n != 1 {
		t.Errorf("tokens of all kinds had the keys fetched %d times, want once", n)
	}
}

// TestNewKeysAreFound: a token with a key's name that is not known has the keys fetched again, since Google changes
// them, but only once in fetchPause, however many such tokens come.
func TestNewKeysAreFound(t *testing.T) {
	g := newGoogle(t)
	clock := now
	v := verifier(t, g, func() time.Time { return clock })
	forged := sign(t, jose.RS256, newGoogle(t).key, "next", claims(nil))
	ask := func() {
		t.Helper()
		if _, err := v.Verify(t.Context(), "Bearer "+forged); outcome(err) != http.StatusUnauthorized {
			t.Fatalf("a forged token: got error %v; want it refused as unauthorised", err)
		}
	}
	for range 3 {
		ask()
	}
	if n := g.fetches.Load(); n != 1 {
		t.Errorf("three forged tokens at one time: %d fetches, want one", n)
	}
	clock = now.Add(fetchPause)
	for range 1000 { // the library may still hand out the answer of the request before
		ask()
	}
	if n := g.fetches.Load(); n != 2 {
		t.Errorf("forged tokens at two times, fetchPause apart: %d fetches, want two", n)
	}
}

// TestWithoutKeysNobodyIsJudged: while Google's keys cannot be fetched, a good token is neither accepted nor refused,
// but answered with 503. Once they can be, after fetchPause, it is accepted.
func TestWithoutKeysNobodyIsJudged(t *testing.T) {
	g := newGoogle(t)
	g.status.Store(http.StatusBadGateway)
	clock := now
	v := verifier(t, g, func() time.Time { return clock })
	for range 2 { // the second is not even tried
		if _, err := v.Verify(t.Context(), "Bearer "+g.token(t, nil)); outcome(err) != http.StatusServiceUnavailable ||
			!strings.Contains(err.Error(), "502") {
			t.Errorf(`no keys can be had: got error %v; want "unavailable", with the server's 502`, err)
		}
	}
	g.status.Store(http.StatusOK)
	clock = clock.Add(fetchPause)
	err := errors.New("not asked")
	for token, tries := g.token(t, nil), 0; err != nil && tries < 1000; tries++ { // see TestNewKeysAreFound
		_, err = v.Verify(t.Context(), "Bearer "+token)
	}
	if err != nil {
		t.Errorf("the keys can be had again: got error %v, want the token accepted", err)
	}
}

// TestOptionsThatBelieveAnybody: options that would accept any token of Google's, or none, are a *cloud.SetupError.
func TestOptionsThatBelieveAnybody(t *testing.T) {
	for name, o := range map[string]Options{
		"no audience":   {Callers: []string{push}},
		"no caller":     {Audience: audience},
		"empty caller":  {Audience: audience, Callers: []string{""}},
		"no address":    {Audience: audience, Callers: []string{"*"}},
		"named address": {Audience: audience, Callers: []string{"Eve <" + push + ">"}},
		"too many":      {Audience: audience, Callers: make([]string, maxCallers+1)},
	} {
		var setup *cloud.SetupError
		if _, err := New(t.Context(), o); !errors.As(err, &setup) {
			t.Errorf("%s: got error %v; want one of the setup", name, err)
		}
	}
}

// TestBehindCloudRun: where Cloud Run has checked and removed the signature, a token without it is accepted if all its
// claims are right; one that has a signature still needs a good one. Without the option CloudRunChecks it is refused.
func TestBehindCloudRun(t *testing.T) {
	g := newGoogle(t)
	v := must.Get(New(t.Context(), Options{Audience: audience, Callers: []string{push}, CloudRunChecks: true,
		KeysURL: g.server.URL, Now: at(now)}))(t)
	header := raw(`{"alg":"RS256","kid":"one","typ":"JWT"}`)
	stripped := func(header string, c map[string]any) string {
		text := must.Get(json.Marshal(c))(t)
		return "Bearer " + header + "." + raw(string(text)) + "." + removed
	}
	for name, tc := range map[string]struct {
		header string
		want   int
	}{
		"good":           {stripped(header, claims(nil)), 200},
		"signed":         {"Bearer " + g.token(t, nil), 200},
		"forged":         {"Bearer " + sign(t, jose.RS256, newGoogle(t).key, "one", claims(nil)), 401},
		"unsigned":       {stripped(raw(`{"alg":"none"}`), claims(nil)), 401},
		"another marker": {strings.ToLower(stripped(header, claims(nil))), 401},
		"expired": {stripped(header,
			claims(func(c map[string]any) { c["exp"] = now.Add(-time.Second).Unix() })), 401},
		"wrong audience":  {stripped(header, claims(func(c map[string]any) { c["aud"] = "x" })), 401},
		"wrong issuer":    {stripped(header, claims(func(c map[string]any) { c["iss"] = "x" })), 401},
		"unverified":      {stripped(header, claims(func(c map[string]any) { c["email_verified"] = false })), 403},
		"another account": {stripped(header, claims(func(c map[string]any) { c["email"] = "eve@example.com" })), 403},
	} {
		if _, err := v.Verify(t.Context(), tc.header); outcome(err) != tc.want {
			t.Errorf("%s: answered with %d, %v; want %d", name, outcome(err), err, tc.want)
		}
	}
	if _, err := verifier(t, g, at(now)).Verify(t.Context(), stripped(header, claims(nil))); outcome(err) != 401 ||
		!strings.Contains(err.Error(), "COPPICE_SIGNATURES") {
		t.Errorf("without Cloud Run's check in front: got error %v; want 401, naming COPPICE_SIGNATURES", err)
	}
}

// FuzzVerify: no header makes Verify crash, or accept claims that are not from Google, not verified or of another
// address than it returns. Signatures are not checked, so that the fuzzer gets to the claims.
func FuzzVerify(f *testing.F) {
	g := newGoogle(f)
	v := verifier(f, g, at(now))
	v.keys = checkedBefore{}
	good := g.token(f, nil)
	header, _, _ := strings.Cut(good, ".")
	for _, c := range []map[string]any{claims(nil),
		claims(func(c map[string]any) { c["aud"] = []string{audience, "x"} }), {}} {
		text := must.Get(json.Marshal(c))(f)
		f.Add("Bearer "+header+".", string(text), ".AAAA")
	}
	f.Add("Bearer ", "null", "")
	f.Add("Bearer "+raw("null")+".", "null", ".AA")
	f.Add("Bearer "+raw(`{"alg":"none"}`)+".", "{}", ".AA")
	f.Fuzz(func(t *testing.T, before, body, after string) {
		email, err := v.Verify(t.Context(), before+raw(body)+after)
		if err != nil {
			if email != "" {
				t.Fatalf("got the address %q with the error %v, want none", email, err)
			}
			return
		}
		var c struct {
			Iss, Email string
			Exp        json.Number
			Verified   bool `json:"email_verified"`
		}
		if err := json.Unmarshal([]byte(body), &c); err != nil || !strings.HasSuffix(c.Iss, "accounts.google.com") ||
			c.Email != email || !c.Verified {
			t.Fatalf("believed %q: %v %+v", body, err, c)
		}
	})
}

// TestSignatureIsOverHeaderAndClaims: the tokens that these tests sign have an RS256 signature over header and claims,
// as RFC 7515 says. Otherwise the cases above would be refused for another reason than they name.
func TestSignatureIsOverHeaderAndClaims(t *testing.T) {
	g := newGoogle(t)
	parts := strings.Split(g.token(t, nil), ".")
	signature := must.Get(base64.RawURLEncoding.DecodeString(parts[2]))(t)
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&g.key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		t.Errorf("verifying a token of these tests with crypto/rsa: got %v, want no error", err)
	}
}
