package pubsubemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"coppice/internal/must"
)

const (
	topic        = "projects/p/topics/scores"
	subscription = "projects/p/subscriptions/aggregator"
)

// world is an emulator with a topic, a subscription and a real client.
type world struct {
	*testing.T
	ctx    context.Context
	server *Server
	client *pubsub.Client
}

// start starts an emulator with the topic and a subscription to it, which change may adapt, and a client. All of it
// ends with the test.
func start(t *testing.T, o Options, change func(*pubsubpb.Subscription)) *world {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := must.Get(Start(l, o))(t)
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := must.Get(pubsub.NewClient(ctx, "p", option.WithEndpoint(s.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))(t)
	t.Cleanup(func() { c.Close() })
	must.Do(t, s.CreateTopic(ctx, topic))
	sub := &pubsubpb.Subscription{Name: subscription, Topic: topic, AckDeadlineSeconds: 10}
	if change != nil {
		change(sub)
	}
	must.Do(t, s.CreateSubscription(ctx, sub))
	return &world{t, ctx, s, c}
}

// publish publishes a message for each text, one after the other.
func (w *world) publish(data ...string) {
	w.Helper()
	p := w.client.Publisher("scores")
	defer p.Stop()
	for _, d := range data {
		must.Get(p.Publish(w.ctx, &pubsub.Message{Data: []byte(d)}).Get(w.ctx))(w)
	}
}

// receive pulls messages until done returns true for the texts received so far, and returns these. ack says for each
// whether to acknowledge it; all others are refused, and so come again.
func (w *world) receive(done func([]string) bool, ack func(*pubsub.Message) bool) []string {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var mu sync.Mutex
	var got []string
	err := w.client.Subscriber("aggregator").Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		mu.Lock()
		defer mu.Unlock()
		if done(got) {
			m.Nack()
			return
		}
		got = append(got, string(m.Data))
		if ack(m) {
			m.Ack()
		} else {
			m.Nack()
		}
		if done(got) {
			cancel()
		}
	})
	must.Do(w, err)
	if !done(got) {
		w.Fatalf("time is over, received %q", got)
	}
	return got
}

// count is a done for receive: n texts have been received.
func count(n int) func([]string) bool { return func(got []string) bool { return len(got) == n } }

// always is an ack for receive.
func always(*pubsub.Message) bool { return true }

// numbers returns n texts, "00", "01" and so on.
func numbers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%02d", i))
	}
	return out
}

// TestDelivery: what is published is received, once each.
func TestDelivery(t *testing.T) {
	w := start(t, Options{}, nil)
	w.publish(numbers(5)...)
	got := w.receive(count(5), always)
	slices.Sort(got)
	if !slices.Equal(got, numbers(5)) {
		t.Errorf("received %q, want each of the five once", got)
	}
}

// TestLongMessages: a message of 9 MB, below the 10 MB that Pub/Sub takes, is received whole.
func TestLongMessages(t *testing.T) {
	w := start(t, Options{}, nil)
	p := w.client.Publisher("scores")
	defer p.Stop()
	if _, err := p.Publish(w.ctx, &pubsub.Message{Data: make([]byte, 9_000_000)}).Get(w.ctx); err != nil {
		t.Errorf("publishing 9,000,000 bytes: got error %v, want none", err)
	}
	if got := w.receive(count(1), always); len(got[0]) != 9_000_000 {
		t.Errorf("received %d bytes, want 9,000,000", len(got[0]))
	}
}

// TestLimits: messages, topics and subscriptions that Pub/Sub refuses are refused with its code; those that localemu
// does not imitate are answered with Unimplemented.
func TestLimits(t *testing.T) {
	w := start(t, Options{}, nil)
	refused := func(what string, err error, want codes.Code) {
		t.Helper()
		if status.Code(err) != want {
			t.Errorf("%s: got error %v, want the code %s", what, err, want)
		}
	}

	// Messages just above the service's limits.
	many := map[string]string{}
	for i := range 101 {
		many[strconv.Itoa(i)] = "x"
	}
	for name, m := range map[string]*pubsubpb.PubsubMessage{
		"too long":        {Data: make([]byte, 10_000_001)},
		"empty":           {},
		"attributes":      {Attributes: many},
		"attribute key":   {Attributes: map[string]string{strings.Repeat("k", 257): "x"}},
		"attribute value": {Attributes: map[string]string{"k": strings.Repeat("x", 1025)}},
		"reserved key":    {Attributes: map[string]string{"googx": "x"}},
	} {
		_, err := w.client.TopicAdminClient.Publish(w.ctx,
			&pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{m}})
		refused("publishing "+name, err, codes.InvalidArgument)
	}

	// Topics that are not there, or cannot be.
	_, err := w.client.TopicAdminClient.Publish(w.ctx, &pubsubpb.PublishRequest{Topic: topic + "x",
		Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}})
	refused("publishing to a topic that is not there", err, codes.NotFound)
	for _, name := range []string{"projects/p/topics/ab", "projects/p/topics/goog-x", "projects/p/topics/1abc",
		"topics/abc"} {
		_, err := w.client.TopicAdminClient.CreateTopic(w.ctx, &pubsubpb.Topic{Name: name})
		refused("the topic "+name, err, codes.InvalidArgument)
	}

	// What is not imitated.
	_, err = w.client.SubscriptionAdminClient.CreateSubscription(w.ctx, &pubsubpb.Subscription{Topic: topic,
		Name: subscription + "2", PushConfig: &pubsubpb.PushConfig{PushEndpoint: "http://x"}})
	refused("a subscription that pushes", err, codes.Unimplemented)
	_, err = w.client.SubscriptionAdminClient.Seek(w.ctx, &pubsubpb.SeekRequest{Subscription: subscription})
	refused("seek", err, codes.Unimplemented)
}

// TestShuffle: with the fault Duplicate each of 20 messages comes twice, as two messages with ids of their own, and
// with Shuffle, too, they come in another order. The seed 3 is one with which they do not happen to stay in order.
func TestShuffle(t *testing.T) {
	twice := slices.Sorted(slices.Values(append(numbers(20), numbers(20)...)))
	for _, shuffle := range []bool{false, true} {
		w := start(t, Options{Faults: Faults{Shuffle: shuffle, Duplicate: true, Seed: 3}}, nil)
		w.publish(numbers(20)...)
		ids := map[string]bool{}
		got := w.receive(count(40), func(m *pubsub.Message) bool { ids[m.ID] = true; return true })
		if shuffle && slices.IsSorted(got) {
			t.Error("the order was kept, want another")
		}
		slices.Sort(got)
		if !slices.Equal(got, twice) || len(ids) != 40 {
			t.Errorf("shuffled %t: received %q with %d ids; want each of the twenty twice, with 40 ids", shuffle, got,
				len(ids))
		}
	}
}

// TestStruckIsCounted: each fault is counted as often as it strikes. Shuffling counts once for a full batch, and not
// again when the time is over and nothing waits. Doubling counts once for each message that is not lost.
func TestStruckIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			faults Faults
			want   map[string]int
		}{
			"shuffled":         {Faults{Shuffle: true}, map[string]int{"messages shuffled": 1}},
			"doubled":          {Faults{Duplicate: true}, map[string]int{"message doubled": shuffleCount}},
			"doubled and lost": {Faults{Duplicate: true, Drop: 1}, map[string]int{"message dropped": shuffleCount}},
		} {
			struck := map[string]int{}
			next := func(_ context.Context, r *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
				return &pubsubpb.PublishResponse{MessageIds: make([]string, len(r.GetMessages()))}, nil
			}
			c := newChaos(tc.faults, next)
			c.struck = func(class string) { struck[class]++ }
			for range shuffleCount { // the first of them starts the timer, and the last makes the batch full
				must.Get(c.publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic,
					Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}}))(t)
			}
			<-time.After(2 * shuffleTime) // of the test's own clock
			c.mu.Lock()
			got := maps.Clone(struck)
			c.mu.Unlock()
			if !maps.Equal(got, tc.want) {
				t.Errorf("%s: struck %v, want %v", name, got, tc.want)
			}
		}
	})
}

// TestDrop: with a share of 0.5, about half of 40 messages are kept, and which of them depends on the seed alone.
// Chance gives less than 8 or more than 32 once in thousands of seeds, and the seeds here are fixed.
func TestDrop(t *testing.T) {
	kept := func(seed uint64) []string {
		w := start(t, Options{Faults: Faults{Drop: 0.5, Seed: seed}}, nil)
		w.publish(numbers(40)...)
		var texts []string
		for _, m := range w.server.fake.Messages() {
			texts = append(texts, string(m.Data))
		}
		return texts
	}
	first := kept(1)
	if len(first) < 8 || len(first) > 32 {
		t.Errorf("%d of 40 messages were kept, want 8 to 32", len(first))
	}
	again, other := kept(1), kept(2)
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Errorf("kept with seed 1 %q, again %q, with seed 2 %q; want the first two equal, the third not", first, again,
			other)
	}
}

// TestPing: on a stream of StreamingPull, a keep-alive ping is answered, and messages and acknowledgements still get
// through after it. The test uses the stream itself, since clients send pings only after half a minute.
func TestPing(t *testing.T) {
	w := start(t, Options{}, nil)
	stream := must.Get(w.client.SubscriptionAdminClient.StreamingPull(w.ctx))(t)
	send := func(r *pubsubpb.StreamingPullRequest) {
		must.Do(t, stream.Send(r))
	}
	// The first request opens the stream; those without any acknowledgement are pings.
	send(&pubsubpb.StreamingPullRequest{Subscription: subscription, StreamAckDeadlineSeconds: 10, ProtocolVersion: 1})
	for range 3 {
		send(&pubsubpb.StreamingPullRequest{})
		r, err := stream.Recv()
		if err != nil || len(r.ReceivedMessages) != 0 {
			t.Fatalf("answer to a ping: %v, %v; want one without messages", r, err)
		}
	}

	w.publish("x")
	r, err := stream.Recv()
	if err != nil || len(r.ReceivedMessages) != 1 {
		t.Fatalf("received %v, %v; expected one message", r, err)
	}
	send(&pubsubpb.StreamingPullRequest{AckIds: []string{r.ReceivedMessages[0].AckId}})
	send(&pubsubpb.StreamingPullRequest{}) // once this ping is answered, the acknowledgement has been read
	must.Get(stream.Recv())(t)
	if m := w.server.fake.Messages(); len(m) != 1 || m[0].Acks != 1 {
		t.Errorf("the messages are %v; want one, acknowledged once", m)
	}
}

// TestSubscriptionsAreHeldToTheLimits: acknowledgement deadlines other than 10 to 600 seconds, and delivery attempts
// other than 5 to 100, are refused as by the service; 0 stands for its default.
func TestSubscriptionsAreHeldToTheLimits(t *testing.T) {
	for name, c := range map[string]struct {
		seconds, attempts int32
		refused           bool
	}{
		"defaults": {}, "bounds": {10, 5, false}, "upper bounds": {600, 100, false},
		"short deadline": {5, 0, true}, "long deadline": {601, 0, true}, "few attempts": {10, 4, true},
		"many attempts": {10, 101, true},
	} {
		sub := &pubsubpb.Subscription{Name: "projects/p/subscriptions/sub", AckDeadlineSeconds: c.seconds,
			DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{MaxDeliveryAttempts: c.attempts}}
		if err := checkSubscription(sub); (status.Code(err) == codes.InvalidArgument) != c.refused {
			t.Errorf("%s: %v, expected a refusal: %t", name, err, c.refused)
		}
	}
}

const (
	dead       = "projects/p/topics/dead"
	deadReader = "projects/p/subscriptions/dead"
	picky      = "projects/p/subscriptions/picky"
)

// TestDeadLetters: a message that is pulled and, five times, either refused or not acknowledged before its deadline is
// published to the dead letter topic. One that is acknowledged is not.
func TestDeadLetters(t *testing.T) {
	w := start(t, Options{}, nil)
	must.Do(t, w.server.CreateTopic(w.ctx, dead))
	for _, sub := range []*pubsubpb.Subscription{{Name: deadReader, Topic: dead},
		{Name: picky, Topic: topic, DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead}}} {
		must.Do(t, w.server.CreateSubscription(w.ctx, sub))
	}
	pull := func(subscription string) []*pubsubpb.ReceivedMessage {
		t.Helper()
		r, err := w.client.SubscriptionAdminClient.Pull(w.ctx, &pubsubpb.PullRequest{Subscription: subscription,
			MaxMessages: 100})
		if err != nil {
			t.Fatalf("pull from %s: %v", subscription, err)
		}
		return r.GetReceivedMessages()
	}

	// The subscription has the defaults: five attempts, and a deadline of ten seconds. Each round delivers what is left
	// and then moves the emulator's clock past the deadline.
	const attempts, pastDeadline = 5, 11 * time.Second
	w.publish("poison", "slow", "good")
	for n := range attempts {
		for _, m := range pull(picky) {
			text := string(m.GetMessage().GetData())
			if got := int(m.GetDeliveryAttempt()); got != n+1 {
				t.Errorf("delivery %d of %q: got attempt %d, want %d", n+1, text, got, n+1)
			}
			var err error
			switch text {
			case "poison": // is refused
				err = w.client.SubscriptionAdminClient.ModifyAckDeadline(w.ctx,
					&pubsubpb.ModifyAckDeadlineRequest{Subscription: picky, AckIds: []string{m.GetAckId()}})
			case "slow": // its deadline passes
			case "good":
				err = w.client.SubscriptionAdminClient.Acknowledge(w.ctx,
					&pubsubpb.AcknowledgeRequest{Subscription: picky, AckIds: []string{m.GetAckId()}})
			}
			must.Do(t, err)
		}
		later := time.Now().Add(time.Duration(n+1) * pastDeadline)
		w.server.fake.SetTimeNowFunc(func() time.Time { return later })
	}

	if rest := pull(picky); len(rest) != 0 {
		t.Errorf("after %d deliveries: got %v once more, want none", attempts, rest)
	}
	var letters []string
	for _, m := range pull(deadReader) {
		letters = append(letters, string(m.GetMessage().GetData()))
	}
	if slices.Sort(letters); !slices.Equal(letters, []string{"poison", "slow"}) {
		t.Errorf("the dead letters are %q, expected poison and slow", letters)
	}
}

// TestUpdatesNeedAMask: an update of a topic or subscription without a mask of fields is InvalidArgument, as for the
// service. Google's fake behind the emulator would crash.
func TestUpdatesNeedAMask(t *testing.T) {
	w := start(t, Options{}, nil)
	api := w.client.SubscriptionAdminClient
	update := &pubsubpb.UpdateSubscriptionRequest{Subscription: &pubsubpb.Subscription{Name: subscription}}
	if _, err := api.UpdateSubscription(w.ctx, update); status.Code(err) != codes.InvalidArgument {
		t.Errorf("update of a subscription without a mask: %v, expected InvalidArgument", err)
	}
	if _, err := w.client.TopicAdminClient.UpdateTopic(w.ctx,
		&pubsubpb.UpdateTopicRequest{Topic: &pubsubpb.Topic{Name: topic}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("update of a topic without a mask: %v, expected InvalidArgument", err)
	}
}

// endpoint is where a push subscription delivers. It records what is posted to it, and answers with the first of its
// answers, then the second, and so on; the last one is for all deliveries that follow.
type endpoint struct {
	mu      sync.Mutex
	answers []error
	got     []string    // each delivery as text: see post
	at      []time.Time // of each delivery
	enough  func()      // called with each delivery, if not nil
}

// post records a delivery as "DATA ATTRIBUTES HAS-AN-ID HAS-NO-TIME SUBSCRIPTION ATTEMPT DECODING-ERROR".
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

// pushTo are the options of an emulator that pushes to e: with pauses of 1 to 2 ms, and up to five attempts, after
// which a message is a dead letter. change may adapt the subscription.
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

// TestPush: a message is posted in the service's form until it is accepted, here at the third attempt. A subscription
// of the topic that is pulled gets the message, too.
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

// TestPushedAcknowledgementsAreLost: with the fault that loses all acknowledgements, a message that was accepted is
// posted again and again. Without a second and third delivery, the test does not end.
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

// TestPause: the pauses between deliveries double from the policy's minimum to its maximum. Without a policy there are
// none, and a maximum below the minimum (0 if it is left out) counts as the minimum.
func TestPause(t *testing.T) {
	policy := &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second),
		MaximumBackoff: durationpb.New(10 * time.Second)}
	for deliveries, want := range map[int]int{1: 1, 2: 2, 4: 8, 5: 10, 1000: 10} {
		if got := pause(policy, deliveries); got.Seconds() != float64(want) {
			t.Errorf("after %d deliveries it is %s, want %d s", deliveries, got, want)
		}
	}
	if got := pause(nil, 3); got != 0 {
		t.Errorf("without a policy: got %s, want no pause", got)
	}
	if got := pause(&pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)}, 3); got != time.Second {
		t.Errorf("a maximum of 0 and a minimum of 1 s: got %s, want 1s", got)
	}
}

// TestRefusedMessagesComeBackLater: between deliveries of a message that is refused three times pass the pauses of the
// policy: 1, 2 and, at its maximum, 3 seconds. The test's clock is synctest's, so nothing really waits.
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
