package pubsubemu

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	dead       = "projects/p/topics/dead"
	deadReader = "projects/p/subscriptions/dead"
	picky      = "projects/p/subscriptions/picky"
)

// letters is a world with a dead letter topic, its subscription, and picky, which gives up messages after five
// deliveries.
func letters(t *testing.T) *world {
	t.Helper()
	w := start(t, Options{}, nil)
	if err := w.server.CreateTopic(w.ctx, dead); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []*pubsubpb.Subscription{{Name: deadReader, Topic: dead},
		{Name: picky, Topic: topic, DeadLetterPolicy: fiveAttempts()}} {
		if err := w.server.CreateSubscription(w.ctx, sub); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func fiveAttempts() *pubsubpb.DeadLetterPolicy {
	return &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead}
}

// pull returns the messages that the subscription has.
func (w *world) pull(subscription string) []*pubsubpb.ReceivedMessage {
	w.Helper()
	r, err := w.client.SubscriptionAdminClient.Pull(w.ctx, &pubsubpb.PullRequest{Subscription: subscription,
		MaxMessages: 100})
	if err != nil {
		w.Fatalf("Pull(%s): %v", subscription, err)
	}
	return r.GetReceivedMessages()
}

func (w *world) refuse(subscription string, m *pubsubpb.ReceivedMessage) {
	w.Helper()
	if err := w.client.SubscriptionAdminClient.ModifyAckDeadline(w.ctx,
		&pubsubpb.ModifyAckDeadlineRequest{Subscription: subscription, AckIds: []string{m.GetAckId()}}); err != nil {
		w.Fatalf("ModifyAckDeadline(%s, 0): %v", m.GetAckId(), err)
	}
}

// TestDeadLetters has one subscription refuse a message while another takes it: five deliveries, counted for that
// subscription alone, and a dead letter that says where it comes from.
func TestDeadLetters(t *testing.T) {
	w := letters(t)
	before := time.Now().UTC()
	p := w.client.Publisher("scores")
	defer p.Stop()
	if _, err := p.Publish(w.ctx,
		&pubsub.Message{Data: []byte("poison"), Attributes: map[string]string{"trial": "7"}}).Get(w.ctx); err != nil {
		t.Fatal(err)
	}

	for n := range 3 {
		for _, m := range w.pull(subscription) {
			if m.GetDeliveryAttempt() != 0 {
				t.Errorf("delivery %d without a policy: attempt %d, expected none", n, m.GetDeliveryAttempt())
			}
			w.refuse(subscription, m)
		}
	}

	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var mu sync.Mutex
	var attempts []int
	var group sync.WaitGroup
	group.Go(func() {
		err := w.client.Subscriber("picky").Receive(ctx, func(_ context.Context, m *pubsub.Message) {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, *m.DeliveryAttempt)
			m.Nack()
		})
		if err != nil {
			t.Errorf("Receive(picky): %v", err)
		}
	})
	var letter *pubsub.Message
	group.Go(func() {
		err := w.client.Subscriber("dead").Receive(ctx,
			func(_ context.Context, m *pubsub.Message) { letter = m; m.Ack(); cancel() })
		if err != nil {
			t.Errorf("Receive(dead): %v", err)
		}
	})
	group.Wait()

	if want := []int{1, 2, 3, 4, 5}; !slices.Equal(attempts, want) {
		t.Errorf("picky got the deliveries %v, expected %v", attempts, want)
	}
	if string(letter.Data) != "poison" || letter.DeliveryAttempt != nil {
		t.Errorf("the dead letter is %q with attempt %v, expected poison without one", letter.Data,
			letter.DeliveryAttempt)
	}
	at, err := time.Parse("2006-01-02T15:04:05.000-07:00", letter.Attributes[sourceTime])
	if err != nil || at.Before(before.Truncate(time.Millisecond)) || at.After(time.Now()) {
		t.Errorf("the dead letter was published %q (%v), expected a time after %v", letter.Attributes[sourceTime], err,
			before)
	}
	delete(letter.Attributes, sourceTime)
	want := map[string]string{"trial": "7", sourceCount: "5", sourceName: "picky", sourceProject: "p"}
	if !maps.Equal(letter.Attributes, want) {
		t.Errorf("the dead letter has the attributes %v, expected %v", letter.Attributes, want)
	}
	if rest := w.pull(picky); len(rest) != 0 {
		t.Errorf("picky still has %v, expected nothing after the dead letter", rest)
	}
	if left := w.pull(subscription); len(left) != 1 {
		t.Errorf("the other subscription has %v, expected its message still", left)
	}
}

// TestDeadLettersOfSilence: expired deadlines count as refusals, and a message acknowledged in time does not become a
// dead letter.
func TestDeadLettersOfSilence(t *testing.T) {
	w := letters(t)
	w.publish("slow", "good")
	for n := range 5 {
		for _, m := range w.pull(picky) {
			if string(m.GetMessage().GetData()) == "good" {
				if err := w.client.SubscriptionAdminClient.Acknowledge(w.ctx,
					&pubsubpb.AcknowledgeRequest{Subscription: picky, AckIds: []string{m.GetAckId()}}); err != nil {
					t.Fatal(err)
				}
			} else if int(m.GetDeliveryAttempt()) != n+1 {
				t.Errorf("delivery %d says that it is %d", n+1, m.GetDeliveryAttempt())
			}
		}
		later := time.Now().Add(time.Duration(n+1) * 11 * time.Second)
		w.server.fake.SetTimeNowFunc(func() time.Time { return later })
	}

	if rest := w.pull(picky); len(rest) != 0 {
		t.Errorf("a sixth delivery: %v, expected a dead letter", rest)
	}
	got := w.pull(deadReader)
	if len(got) != 1 || string(got[0].GetMessage().GetData()) != "slow" {
		t.Errorf("dead letters %v, expected the one of slow", got)
	}
}

// TestDeadLetterPolicies are returned as they were set, in every answer, and follow updates.
func TestDeadLetterPolicies(t *testing.T) {
	w := letters(t)
	api := w.client.SubscriptionAdminClient
	shown := func(action string, sub *pubsubpb.Subscription, err error, attempts int32) {
		t.Helper()
		if err != nil || sub.GetDeadLetterPolicy().GetMaxDeliveryAttempts() != attempts ||
			(attempts > 0 && sub.GetDeadLetterPolicy().GetDeadLetterTopic() != dead) {
			t.Errorf("%s: policy %v, error %v; expected %d attempts and no error", action, sub.GetDeadLetterPolicy(),
				err, attempts)
		}
	}
	update := func(sub *pubsubpb.Subscription, paths ...string) (*pubsubpb.Subscription, error) {
		r := &pubsubpb.UpdateSubscriptionRequest{Subscription: sub}
		if len(paths) > 0 {
			r.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
		}
		return api.UpdateSubscription(w.ctx, r)
	}

	sub, err := api.GetSubscription(w.ctx, &pubsubpb.GetSubscriptionRequest{Subscription: picky})
	shown("get", sub, err, 5)
	sub, err = update(&pubsubpb.Subscription{Name: picky, DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 7}}, "dead_letter_policy")
	shown("update", sub, err, 7)
	sub, err = update(&pubsubpb.Subscription{Name: picky, Labels: map[string]string{"a": "b"}}, "labels")
	shown("update of labels", sub, err, 7)
	// aggregator, of dead, picky
	sub, err = api.ListSubscriptions(w.ctx, &pubsubpb.ListSubscriptionsRequest{Project: "projects/p"}).Next()
	shown("list, one without", sub, err, 0)
	sub, err = w.server.Subscription(w.ctx, picky)
	shown("the server's", sub, err, 7)
	sub, err = update(&pubsubpb.Subscription{Name: picky}, "dead_letter_policy")
	shown("update to none", sub, err, 0)

	for name, c := range map[string]struct {
		sub   *pubsubpb.Subscription
		paths []string
		want  codes.Code
	}{
		"no subscription": {nil, []string{"labels"}, codes.InvalidArgument},
		"no mask":         {&pubsubpb.Subscription{Name: picky}, nil, codes.InvalidArgument},
		"few attempts": {&pubsubpb.Subscription{Name: picky,
			DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 4}},
			[]string{"dead_letter_policy"}, codes.InvalidArgument},
		"absent topic": {&pubsubpb.Subscription{Name: picky,
			DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead + "er"}}, []string{"dead_letter_policy"},
			codes.NotFound},
	} {
		if _, err := update(c.sub, c.paths...); status.Code(err) != c.want {
			t.Errorf("update with %s: %v, expected %v", name, err, c.want)
		}
	}
	if _, err := w.client.TopicAdminClient.UpdateTopic(w.ctx,
		&pubsubpb.UpdateTopicRequest{Topic: &pubsubpb.Topic{Name: topic}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("update of a topic with no mask: %v, expected %v", err, codes.InvalidArgument)
	}
	absent := &pubsubpb.Subscription{Name: picky + "er", Topic: topic,
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead + "er"}}
	if _, err := api.CreateSubscription(w.ctx, absent); status.Code(err) != codes.NotFound {
		t.Errorf("a subscription whose dead letters have no topic: %v, expected %v", err, codes.NotFound)
	}
}

// TestDeadLettersWithoutATopic stay in their subscription, as with the service.
func TestDeadLettersWithoutATopic(t *testing.T) {
	w := letters(t)
	w.publish("x")
	if err := w.client.TopicAdminClient.DeleteTopic(w.ctx, &pubsubpb.DeleteTopicRequest{Topic: dead}); err != nil {
		t.Fatal(err)
	}
	for n := int32(1); n <= 7; n++ {
		got := w.pull(picky)
		if len(got) != 1 || got[0].GetDeliveryAttempt() != n {
			t.Fatalf("delivery %d: %v, expected the message again", n, got)
		}
		w.refuse(picky, got[0])
	}
}
