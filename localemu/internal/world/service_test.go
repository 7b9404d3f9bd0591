//go:build unix

package world

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"coppice/internal/cloud/idtoken"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// stand stands for an aggregator: an HTTP server of the test, which checks its callers' tokens as an aggregator does,
// records the requests, and answers the first push with 503.
type stand struct {
	mu    sync.Mutex
	heard []string  // each request as "PATH CALLER "STATE OR DATA" ATTEMPT ERROR"
	more  chan bool // gets a value with each request
}

// start starts the server, and a local cloud whose aggregator is a script that only logs the server's address, as an
// aggregator logs where it serves. So the local cloud sends the aggregator's requests to the server.
func (s *stand) start(t *testing.T) (w *World) {
	t.Helper()
	s.more = make(chan bool, 99)
	refused, started := false, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		<-started // the local cloud calls before Start has returned w
		caller, err := verifier(t, w).Verify(r.Context(), r.Header.Get("Authorization"))
		body, _ := io.ReadAll(r.Body)
		var p struct {
			Message struct {
				Data       []byte
				Attributes map[string]string
			}
			DeliveryAttempt int
		}
		if err == nil && len(body) > 0 {
			err = json.Unmarshal(body, &p)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heard = append(s.heard, fmt.Sprintf("%s %s %q %d %v", r.URL.Path, caller,
			cmp.Or(p.Message.Attributes["NewJobState"], string(p.Message.Data)), p.DeliveryAttempt, err))
		s.more <- true
		if r.URL.Path == "/push" && !refused {
			refused = true
			to.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	program := filepath.Join(t.TempDir(), "aggregator")
	text := fmt.Sprintf("#!/bin/sh\n[ $1 = serve ] || exit 2\necho '{\"message\":\"aggregator serves\","+
		"\"address\":%q}'\nexec sleep 100\n", server.Listener.Addr())
	must.Do(t, os.WriteFile(program, []byte(text), 0o700))
	w = must.Get(Start(t.Context(), Options{Data: t.TempDir(), Aggregator: program, Environ: os.Environ(),
		Images: map[string]string{TaskImage: "/bin/true"}, Stderr: io.Discard}))(t)
	close(started)
	t.Cleanup(w.Close)
	return w
}

// verifier returns what an aggregator of the local cloud w would check tokens with.
func verifier(t *testing.T, w *World) *idtoken.Verifier {
	v, err := idtoken.New(t.Context(), idtoken.Options{Audience: audience, Callers: []string{account("push"),
		account("scheduler")}, KeysURL: "http://" + w.rest.Addr() + keysPath})
	if err != nil {
		t.Errorf("making the verifier: got error %v, want none", err)
	}
	return v
}

// until waits until a request has come, as stand.heard writes it; the test fails after 30 s without any request.
func (s *stand) until(t *testing.T, want string) {
	t.Helper()
	for {
		s.mu.Lock()
		found := slices.Contains(s.heard, want)
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-s.more:
		case <-time.After(30 * time.Second):
			t.Fatalf("the service has not heard %q, but %q", want, s.heard)
		}
	}
}

// TestTheServiceIsCalledAsInTheCloud: the schedule calls the aggregator's /reconcile, scores are posted to /push until
// they are accepted, a job's end is posted to /reconcile, and each caller proves by a token who it is.
func TestTheServiceIsCalledAsInTheCloud(t *testing.T) {
	var s stand
	w := s.start(t)
	s.until(t, fmt.Sprintf("/reconcile %s \"\" 0 <nil>", account("scheduler")))

	must.Get(pubsubpb.NewPublisherClient(connect(t, w.pubsub.Addr())).Publish(t.Context(), &pubsubpb.PublishRequest{
		Topic: topic(scoresTopic), Messages: []*pubsubpb.PubsubMessage{{Data: []byte("score")}}}))(t)

	// The server refuses the first push with 503, so a second attempt follows.
	s.until(t, fmt.Sprintf("/push %s \"score\" 1 <nil>", account("push")))
	s.until(t, fmt.Sprintf("/push %s \"score\" 2 <nil>", account("push")))

	batch := batchpb.NewBatchServiceClient(connect(t, w.batch.Addr()))
	must.Get(batch.CreateJob(t.Context(), tellingJob()))(t)
	s.until(t, fmt.Sprintf("/reconcile %s \"SUCCEEDED\" 1 <nil>", account("push")))
}

// TestTokensOfOthersAreRefused: the aggregator refuses a token signed with another key, for another audience or that
// has expired with 401, and one of an account that may not call with 403. A good one names its account.
func TestTokensOfOthersAreRefused(t *testing.T) {
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Stderr: io.Discard}))(t)
	defer w.Close()
	other := &World{key: newKey}
	for name, c := range map[string]struct {
		of              *World
		email, audience string
		at              time.Time
		status          int
	}{
		"good":     {w, account("push"), audience, time.Now(), 0},
		"key":      {other, account("push"), audience, time.Now(), 401},
		"audience": {w, account("push"), "coppice-aggregator.elsewhere", time.Now(), 401},
		"expired":  {w, account("push"), audience, time.Now().Add(-tokenLife - time.Minute), 401},
		"account":  {w, account("task"), audience, time.Now(), 403},
	} {
		token := must.Get(c.of.signToken(c.email, c.audience, c.at))(t)
		var refused interface{ HTTPStatus() int }
		caller, err := verifier(t, w).Verify(t.Context(), "Bearer "+token)
		if errors.As(err, &refused) != (c.status > 0) || err != nil && refused.HTTPStatus() != c.status ||
			(caller == c.email) != (c.status == 0) {
			t.Errorf("%s: got the caller %q, %v; want status %d (0: accepted)", name, caller, err, c.status)
		}
	}
}

// TestAFullDiskEndsTheWaiting: the local cloud fails once calls of the aggregator have found the disk full for longer
// than waitForRoom, and not before; a call that finds room begins the time anew. The error is the environment's.
func TestAFullDiskEndsTheWaiting(t *testing.T) {
	as := newAggregators(nil)
	full := problem.New(problem.Environment, "no room")
	long, now := time.Now().Add(-2*waitForRoom), time.Now()
	for i, c := range []struct {
		began time.Time
		full  error
		fails bool
	}{{long, full, false}, {now, nil, false}, {now, full, false}, {now, full, false}, {now, nil, false},
		{long, full, false}, {now, full, true}} {
		as.noteRoom(c.began, c.full)
		select {
		case err := <-as.failed:
			if !c.fails || !errors.Is(err, full) {
				t.Errorf("call %d: the local cloud failed with %v, expected %t", i, err, c.fails)
			}
		default:
			if c.fails {
				t.Errorf("call %d: the local cloud goes on, expected %v", i, full)
			}
		}
	}
}
