package pubsubemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"coppice/internal/must"
)

// endpoint records what is posted to it, and answers with the next of its answers, the last one for good.
type endpoint struct {
	mu      sync.Mutex
	answers []error
	got     []string
	at      []time.Time
	enough  func() // called with each delivery
}

func (e *endpoint) post(body []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var p struct {
		Message struct {
			Data        []byte
			Attributes  map[string]string
			MessageID   string
			PublishTime time.Time
		}
		Subscription    string
		DeliveryAttempt int
	}
	err := json.Unmarshal(body, &p)
	e.got = append(e.got, fmt.Sprintf("%s %v %t %t %s %d %v", p.Message.Data, p.Message.Attributes,
		p.Message.MessageID != "", p.Message.PublishTime.IsZero(), p.Subscription, p.DeliveryAttempt, err))
	e.at = append(e.at, time.Now())
	answer := e.answers[0]
	e.answers = e.answers[min(1, len(e.answers)-1):]
	if e.enough != nil {
		e.enough()
	}
	return answer
}

func pushTo(e *endpoint, change func(*pubsubpb.Subscription)) Options {
	sub := &pubsubpb.Subscription{Name: "projects/p/subscriptions/pushed", Topic: topic,
		RetryPolicy: &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Millisecond),
			MaximumBackoff: durationpb.New(2 * time.Millisecond)},
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topic + "-dead", MaxDeliveryAttempts: 5}}
	if change != nil {
		change(sub)
	}
	return Options{Pushes: []Push{{Subscription: sub, Post: e.post}}}
}

// TestPush: a message is posted in the service's form until it is accepted; subscriptions that are pulled get it, too.
func TestPush(t *testing.T) {
	done := make(chan bool, 9)
	e := &endpoint{answers: []error{errors.New("503"), errors.New("500"), nil}, enough: func() { done <- true }}
	w := start(t, pushTo(e, nil), nil)
	p := w.client.Publisher("scores")
	defer p.Stop()
	must.Get(p.Publish(w.ctx, &pubsub.Message{Data: []byte("x"), Attributes: map[string]string{"a": "b"}}).Get(
		w.ctx))(t)
	if got := w.receive(count(1), always); got[0] != "x" {
		t.Errorf("pulled %q, expected x", got)
	}
	for range 3 {
		<-done
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	want := []string{"x map[a:b] true false projects/p/subscriptions/pushed 1 <nil>",
		"x map[a:b] true false projects/p/subscriptions/pushed 2 <nil>",
		"x map[a:b] true false projects/p/subscriptions/pushed 3 <nil>"}
	if !slices.Equal(e.got, want) {
		t.Errorf("posted %q, want %q", e.got, want)
	}
}

// TestPushGivesUp: after its last attempt a message is published to the topic of dead letters.
func TestPushGivesUp(t *testing.T) {
	e := &endpoint{answers: []error{errors.New("500")}}
	w := start(t, pushTo(e, nil), nil)
	must.Do(t, w.server.CreateTopic(w.ctx, topic+"-dead"))
	must.Do(t, w.server.CreateSubscription(w.ctx, &pubsubpb.Subscription{Name: subscription + "-dead",
		Topic: topic + "-dead"}))
	w.publish("x")
	pull := &pubsubpb.PullRequest{Subscription: subscription + "-dead", MaxMessages: 9}
	r, err := w.client.SubscriptionAdminClient.Pull(w.ctx, pull)
	for err == nil && len(r.GetReceivedMessages()) == 0 { // a pull that finds nothing answers after half a second
		r, err = w.client.SubscriptionAdminClient.Pull(w.ctx, pull)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || len(r.GetReceivedMessages()) != 1 || string(r.ReceivedMessages[0].Message.Data) != "x" ||
		len(e.got) != 5 {
		t.Errorf("dead letters %v, %v after %d attempts; expected x after 5", r.GetReceivedMessages(), err, len(e.got))
	}
}

// TestPushedAcknowledgementsAreLost: what was accepted comes again.
func TestPushedAcknowledgementsAreLost(t *testing.T) {
	done := make(chan bool, 99)
	e := &endpoint{answers: []error{nil}, enough: func() { done <- true }}
	o := pushTo(e, nil)
	o.Faults.LoseAcks = 1
	w := start(t, o, nil)
	w.publish("x")
	for range 3 {
		<-done
	}
}

// TestPause: the pauses before a message that was refused comes again double from the policy's least to its most.
func TestPause(t *testing.T) {
	policy := &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second),
		MaximumBackoff: durationpb.New(10 * time.Second)}
	for deliveries, want := range map[int]int{1: 1, 2: 2, 4: 8, 5: 10, 1000: 10} {
		if got := pause(policy, deliveries); got.Seconds() != float64(want) {
			t.Errorf("after %d deliveries it is %s, want %d s", deliveries, got, want)
		}
	}
	if got := pause(nil, 3); got != 0 {
		t.Errorf("without a policy: %s", got)
	}
	if got := pause(&pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)}, 3); got != time.Second {
		t.Errorf("a maximum below the minimum is the minimum: %s", got)
	}
}

// TestRefusedMessagesComeBackLater: the pauses are kept.
func TestRefusedMessagesComeBackLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answers: []error{errors.New("500"), errors.New("500"), errors.New("500"), nil}}
		o := pushTo(e, func(s *pubsubpb.Subscription) {
			s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second),
				MaximumBackoff: durationpb.New(3 * time.Second)}
		})
		s := &Server{pushing: make(chan struct{}, 1), chaos: newChaos(Faults{}, nil), running: t.Context()}
		s.deliver(o.Pushes[0], &pubsubpb.PubsubMessage{Data: []byte("x")}, "1")
		for i, want := range []int{1, 2, 3} {
			if got := e.at[i+1].Sub(e.at[i]); got.Seconds() != float64(want) {
				t.Errorf("delivery %d came %s after the one before it, want %d s", i+2, got, want)
			}
		}
	})
}
