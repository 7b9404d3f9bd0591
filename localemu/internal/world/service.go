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

// newKey makes the key that signs tokens in place of Google's. 1,024 bits are enough for a key that lives as long as a
// command on this machine; making a longer one may take a third of a second.
func newKey() (jose.JSONWebKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	return jose.JSONWebKey{Key: key, KeyID: "local", Algorithm: string(jose.RS256), Use: "sig"}, err
}

// restKeys answers with the public keys by which the aggregator checks tokens, in the form of Google's page of them.
func (w *World) restKeys(*http.Request) (any, error) {
	key, err := w.key()
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}, err
}

// signToken makes an identity token that says that its bearer is the account with this email. It is for one audience,
// the service that is called, and is valid for an hour from now.
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

// serving matches the line in which an aggregator logs where it listens.
var serving = regexp.MustCompile(`"message":"aggregator serves","address":"([^"]+)"`)

// address returns the host:port of an aggregator, the next one in turn that serves. If none does yet, it waits for the
// first; it returns an error once the service is shut.
func (as *aggregators) address() (string, error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		as.mu.Lock()
		for range as.running {
			// An aggregator picks a free port itself and writes it to its log.
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

// postAs sends a body to a path of the service, at the next aggregator in turn, with a token of the account named
// caller ("push", "scheduler"). Any answer but a 2xx is an error. If calls have failed for longer than waitForRoom, in
// each of which a write was refused as the disk was full, World.Failed delivers that: no sweep can be concluded, and
// the aggregator has no other way to tell those who wait for it.
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
	began := time.Now()
	reply, err := as.client.Do(r)
	if err != nil {
		return err
	}
	reply.Body.Close()
	var full error
	if reply.StatusCode/100 != 2 {
		full, err = as.w.storage.RefusedSince(began), fmt.Errorf("POST %s: %s", path, reply.Status)
	}
	as.noteRoom(began, full)
	return err
}

// waitForRoom is how long calls may fail as the disk is full: a job's end frees what its machines hold.
const waitForRoom = 3 * time.Second

// noteRoom notes whether a call that began then has ended without room (full), or else with it.
func (as *aggregators) noteRoom(began time.Time, full error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	switch {
	case full == nil:
		as.fullSince = time.Time{}
	case as.fullSince.IsZero():
		as.fullSince = began
	case time.Since(as.fullSince) > waitForRoom:
		as.fail(full)
	}
}

// schedule calls the aggregator's /reconcile every reconcileEvery until the service is shut, as Cloud Scheduler does. A
// call that fails is not repeated: the next one comes soon.
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
