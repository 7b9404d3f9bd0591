package pubsub

import (
	"context"
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"coppice/internal/cloud"
	"coppice/internal/must"
	"coppice/localemu/pubsubemu"
)

// connect is a client of an emulator at an address, for the project p.
func connect(t *testing.T, addr string) *Client {
	t.Helper()
	c := must.Get(New(t.Context(), "p", option.WithEndpoint(addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// emulator starts an emulator that has the topic scores with the subscription aggregator, and returns its address.
func emulator(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := must.Get(pubsubemu.Start(l, pubsubemu.Options{}))(t)
	t.Cleanup(s.Close)
	must.Do(t, s.CreateTopic(t.Context(), "projects/p/topics/scores"))
	must.Do(t, s.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: "projects/p/subscriptions/aggregator",
		Topic: "projects/p/topics/scores"}))
	return s.Addr()
}

// TestPublish: messages arrive with their attributes; a closed publisher returns an error.
func TestPublish(t *testing.T) {
	c := connect(t, emulator(t))
	p := c.Publisher("scores")
	for _, d := range []string{"a", "b", "c"} {
		must.Do(t, p.Publish(t.Context(), []byte(d), map[string]string{"sweep": "s-" + d}))
	}
	p.Close()
	if err := p.Publish(t.Context(), []byte("late"), nil); err == nil {
		t.Error("published through a closed publisher: got no error, want one")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	seen := map[string]int{}
	err := c.c.Subscriber("aggregator").Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		mu.Lock()
		defer mu.Unlock()
		m.Ack()
		seen[string(m.Data)+m.Attributes["sweep"]]++
		if len(seen) == 3 {
			cancel()
		}
	})
	// A message's data and attribute, joined, and how often it came.
	if want := map[string]int{"as-a": 1, "bs-b": 1, "cs-c": 1}; err != nil || !maps.Equal(seen, want) {
		t.Errorf("received %v, %v; want %v", seen, err, want)
	}
}

// TestMissing: a topic that does not exist is a *cloud.SetupError that names it.
func TestMissing(t *testing.T) {
	c := connect(t, emulator(t))
	var setup *cloud.SetupError
	p := c.Publisher("absent")
	defer p.Close()
	if err := p.Publish(t.Context(), []byte("x"), nil); !errors.As(err, &setup) ||
		!strings.Contains(setup.What, "topic projects/p/topics/absent") {
		t.Errorf("published to a topic that does not exist: %v; want a *cloud.SetupError that names it", err)
	}
}

// TestNobodyThere: without an emulator, publishing fails within seconds and says how to start one.
func TestNobodyThere(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	l.Close()
	c := connect(t, addr)
	began := time.Now()
	var setup *cloud.SetupError
	p := c.Publisher("scores")
	defer p.Close()
	if err := p.Publish(t.Context(), []byte("x"), nil); !errors.As(err, &setup) ||
		!strings.Contains(err.Error(), "localemu exec") {
		t.Errorf("publish: got error %v, want one of the setup that advises `localemu exec`", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to say so, want 5s at most", took)
	}
}

// TestNoCredentials: without credentials or a project the error says what to do.
func TestNoCredentials(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")
	var setup *cloud.SetupError
	if _, err := New(t.Context(), "p"); !errors.As(err, &setup) ||
		!strings.Contains(err.Error(), "gcloud auth application-default login") {
		t.Errorf("without credentials: got error %v; want one of the setup that advises `gcloud auth "+
			"application-default login`", err)
	}
	if _, err := New(t.Context(), ""); !errors.As(err, &setup) || !strings.Contains(err.Error(), "COPPICE_PROJECT") {
		t.Errorf("without a project: got error %v; want one of the setup that names COPPICE_PROJECT", err)
	}
}

// TestStandingStill: a server that accepts and never answers holds a publisher no longer than its limit.
func TestStandingStill(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close() // never accepts; the kernel does
	c := connect(t, l.Addr().String())
	c.limit = 100 * time.Millisecond
	p := c.Publisher("scores")
	if err := p.Publish(t.Context(), []byte("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publishing to a server that never answers: got error %v; want its deadline exceeded", err)
	}
	p.Close() // must not hang either
}

// TestEnvironmentVariable: PUBSUB_EMULATOR_HOST names the emulator, and many goroutines may publish at once.
func TestEnvironmentVariable(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", emulator(t))
	c := must.Get(New(t.Context(), "p"))(t)
	defer c.Close()
	p := c.Publisher("scores")
	defer p.Close()
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if err := p.Publish(t.Context(), []byte("x"), nil); err != nil {
				t.Errorf("one of 50 that publish at once: got error %v, want none", err)
			}
		})
	}
	group.Wait()
}
