package world

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"coppice/internal/cloud/idtoken"
)

// The aggregator as terraform/ deploys it: a service that Pub/Sub pushes messages to and that the schedule calls, both
// with a token that says who they are.

const (
	audience       = "coppice-aggregator." + project
	keysPath       = "/www.googleapis.com/oauth2/v3/certs"
	tokenLife      = time.Hour
	reconcileEvery = 10 * time.Second // terraform/ has five minutes
)

// newKey makes the key that signs tokens here in place of Google's. It lives as long as a command on this machine,
// which should not wait the third of a second that a longer one may take.
func newKey() (jose.JSONWebKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	return jose.JSONWebKey{Key: key, KeyID: "local", Algorithm: string(jose.RS256), Use: "sig"}, err
}

// restKeys is the page of public keys.
func (w *World) restKeys(*http.Request) (any, error) {
	key, err := w.key()
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}, err
}

// signToken is an account's identity token for an audience.
func (w *World) signToken(email, audience string, now time.Time) (string, error) {
	key, err := w.key()
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(map[string]any{"iss": idtoken.Issuer, "aud": audience, "sub": email,
		"email": email, "email_verified": true, "iat": now.Unix(), "exp": now.Add(tokenLife).Unix()}).Serialize()
}

// serving is how an aggregator logs where it listens.
var serving = regexp.MustCompile(`"message":"aggregator serves","address":"([^"]+)"`)

// address is where an aggregator serves, which they take in turn; a request waits for the first to have started.
func (as *aggregators) address() (string, error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		as.mu.Lock()
		for range as.running {
			as.turn++
			a := as.running[as.turn%len(as.running)]
			if a.address == "" && !a.gone {
				log, _ := os.ReadFile(a.log)
				if found := serving.FindSubmatch(log); found != nil {
					a.address = string(found[1])
				}
			}
			if a.address != "" && !a.gone && !a.killed {
				defer as.mu.Unlock()
				return a.address, nil
			}
		}
		as.mu.Unlock()

		select {
		case <-tick.C:
		case <-as.open.Done():
			return "", as.open.Err()
		}
	}
}

// postAs calls the service as an account.
func (as *aggregators) postAs(path, caller string, body []byte) error {
	address, err := as.address()
	if err != nil {
		return err
	}
	token, err := as.w.signToken(account(caller), audience, time.Now())
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(as.open, 10*time.Minute) // the subscriptions' deadline
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	reply, err := as.client.Do(r)
	if err != nil {
		return err
	}
	reply.Body.Close()
	if reply.StatusCode/100 != 2 {
		return fmt.Errorf("POST %s: %s", path, reply.Status)
	}
	return nil
}

// schedule is Cloud Scheduler: it does not try again, since the next time comes soon.
func (as *aggregators) schedule() {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for {
		_ = as.postAs("/reconcile", "scheduler", nil) // the aggregator's log says why not
		select {
		case <-tick.C:
		case <-as.open.Done():
			return
		}
	}
}
