package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"coppice/internal/program"
	"coppice/internal/strictjson"
	"coppice/internal/sweep"
)

// Action is what a viewer asks for: to cancel a sweep, to promote a version of a model, or to roll its champion back.
type Action struct {
	Do       string `json:"do"`
	Name     string `json:"name"`     // of the sweep or the model
	Version  int    `json:"version"`  // to promote
	Champion int    `json:"champion"` // that the viewer saw; 0 for none. If it is another one by now, nothing is done
	Why      string `json:"why"`
	Confirm  string `json:"confirm"` // Target, typed by the viewer

	By string `json:"-"` // the caller's address, if callers are authenticated
}

// The values of Action.Do.
const (
	Cancel   = "cancel"
	Promote  = "promote"
	Rollback = "rollback"
)

// Target names what is acted on: SWEEP, MODEL@VERSION or MODEL.
func (a Action) Target() string {
	if a.Do == Promote {
		return fmt.Sprintf("%s@%d", a.Name, a.Version)
	}
	return a.Name
}

// Actions are what viewers may do. A console without a token has none.
type Actions struct {
	Token string // whoever has it may act
	// Do acts, with the console's own permissions, and says what it did. It is called once at a time.
	Do func(context.Context, Action) (said string, err error)
}

// tokenHeader holds the token. A page elsewhere cannot make a browser send it: that takes a preflight request, which is
// not answered.
const tokenHeader = "Coppice-Token"

const (
	mostAction = 4 << 10 // bytes of a request
	mostWhy    = 500     // bytes of a reason
)

// serveOffer says what viewers may do. The page itself is the same for all, byte by byte.
func (c *Console) serveOffer(w http.ResponseWriter, _ *http.Request) {
	offer := []string{}
	if c.Actions.Token != "" {
		offer = append(offer, Cancel, Promote, Rollback)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(offer) // the viewer may have left
}

// serveAction does what a viewer asks for, if all of it is right: where it comes from, the token, and the name that was
// typed.
func (c *Console) serveAction(w http.ResponseWriter, r *http.Request) {
	a, status, err := c.asked(r)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	acting := c.acting[a.Do] // a cancellation takes minutes, and must not delay a rollback
	if err := acting.take(r.Context()); err != nil {
		http.Error(w, "the console is closing, or you have left: nothing was done", http.StatusServiceUnavailable)
		return
	}
	defer acting.give()

	// What has begun is brought to its end, even if the viewer leaves.
	said, err := c.Actions.Do(context.WithoutCancel(r.Context()), a)
	c.renew()
	if err != nil {
		c.log.Warn("an action failed", "do", a.Do, "of", a.Target(), "by", a.By, "error", err.Error())
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	c.log.Info("an action is done", "do", a.Do, "of", a.Target(), "by", a.By, "said", said)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, said)
}

// asked reads and judges a request for an action.
func (c *Console) asked(r *http.Request) (a Action, status int, err error) {
	if c.Actions.Token == "" {
		return a, http.StatusForbidden,
			errors.New("this console only reads; `launcher console --actions` starts one that acts")
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return a, http.StatusForbidden, errors.New("the request comes from another page")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return a, http.StatusUnsupportedMediaType, errors.New("an action is an application/json object")
	}

	given, right := sha256.Sum256([]byte(r.Header.Get(tokenHeader))), sha256.Sum256([]byte(c.Actions.Token))
	if subtle.ConstantTimeCompare(given[:], right[:]) != 1 {
		c.log.Warn("an action with a wrong token was refused", "by", callerOf(r.Context()))
		return a, http.StatusForbidden,
			errors.New("the token is wrong: it is the one that the console printed when it started")
	}

	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, mostAction))
	if err == nil {
		err = strictjson.Decode(text, &a)
	}
	if err != nil {
		return a, http.StatusBadRequest, fmt.Errorf("the action cannot be read: %w", err)
	}
	a.By = callerOf(r.Context())
	return a, http.StatusBadRequest, a.check()
}

// check says what is wrong with an action.
func (a Action) check() error {
	var name error
	switch a.Do {
	case Cancel:
		name = sweep.CheckID(a.Name)
	case Promote, Rollback:
		name = sweep.CheckName("model", a.Name)
	default:
		return fmt.Errorf("unknown action %.40q: use %s", a.Do, strings.Join([]string{Cancel, Promote, Rollback},
			", "))
	}

	switch {
	case name != nil:
		return name
	case a.Do == Promote && a.Version < 1:
		return fmt.Errorf("version %d: versions count from 1", a.Version)
	case a.Champion < 0:
		return fmt.Errorf("champion %d: versions count from 1", a.Champion)
	case len(a.Why) > mostWhy:
		return fmt.Errorf("a reason of %d bytes: use at most %d", len(a.Why), mostWhy)
	case a.Confirm != a.Target():
		return fmt.Errorf("%.100q was typed to confirm, expected %q", a.Confirm, a.Target())
	}
	return nil
}

// statusOf is the status of an action that failed.
func statusOf(err error) int {
	switch program.ExitCode(context.Background(), err) {
	case sweep.ExitUsage, sweep.ExitInput:
		return http.StatusBadRequest
	case sweep.ExitNotFound:
		return http.StatusNotFound
	case sweep.ExitConflict:
		return http.StatusConflict
	}
	return http.StatusBadGateway
}

// renew has every page made anew from what is there now.
func (c *Console) renew() {
	for _, s := range []*steady{c.sweeps, c.datasets, c.models} {
		s.forget()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.still)
}
