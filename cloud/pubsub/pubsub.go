// Package pubsub publishes and receives messages over Google Cloud Pub/Sub, and is the only importer of its client
// library. Messages are hints: they may come twice, late, in any order or never, and whoever receives one looks at the
// bucket.
package pubsub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"coppice/cloud"
)

const service = "Pub/Sub"

// Bounds of publishing and receiving.
const (
	publishLimit   = 30 * time.Second // of one message, retries included
	maxOutstanding = 100              // messages handled at once
	shutdownLimit  = 15 * time.Second // for handlers to return after the end
)

// Client holds the connection of one project. It may be used from any goroutine.
type Client struct {
	c       *pubsub.Client
	project string
	limit   time.Duration
}

// New connects to the emulator that PUBSUB_EMULATOR_HOST names (Google's library reads it), else to Pub/Sub with the
// application default credentials. Without either it is a *cloud.SetupError. Options are for tests.
func New(ctx context.Context, project string, opts ...option.ClientOption) (*Client, error) {
	if project == "" {
		return nil, &cloud.SetupError{What: "no project for " + service, Hint: "set COPPICE_PROJECT"}
	}
	var all []option.ClientOption
	for _, dial := range cloud.FailFast() {
		all = append(all, option.WithGRPCDialOption(dial))
	}
	c, err := pubsub.NewClient(ctx, project, append(all, opts...)...)
	if err != nil {
		return nil, cloud.Dial(service, err)
	}
	return &Client{c: c, project: project, limit: publishLimit}, nil
}

// Close frees the connection. Publishers have to be closed before.
func (c *Client) Close() error { return c.c.Close() }

// Publisher publishes to one topic. It may be used from any goroutine.
type Publisher struct {
	p     *pubsub.Publisher
	topic string
	limit time.Duration
}

// Publisher is a Publisher for the topic of this project. It does not ask whether the topic exists; the first Publish does.
func (c *Client) Publisher(topic string) *Publisher {
	p := c.c.Publisher(topic)
	p.PublishSettings.Timeout = c.limit
	p.PublishSettings.DelayThreshold = time.Millisecond // our messages are few, and each is waited for
	return &Publisher{p: p, topic: "projects/" + c.project + "/topics/" + topic, limit: c.limit}
}

// Publish returns when the service has the message, or with the reason why it does not, after half a minute at most. A
// missing topic, missing credentials and a missing emulator are *cloud.SetupError. A message of which Publish says that it
// failed may still have been published.
func (p *Publisher) Publish(ctx context.Context, data []byte, attrs map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	_, err := p.p.Publish(ctx, &pubsub.Message{Data: data, Attributes: attrs}).Get(ctx)
	if err != nil {
		return cloud.FromStatus(service, "topic "+p.topic, "terraform/ and localemu make it; check COPPICE_PROJECT and the variable that names it, such as COPPICE_SCORES_TOPIC or COPPICE_VERDICTS_TOPIC", err)
	}
	return nil
}

// Close waits for what is being published and ends the Publisher.
func (p *Publisher) Close() { p.p.Stop() }

// Message is one message as it was delivered.
type Message struct {
	ID         string // the service's; a message published twice has two
	Data       []byte
	Attributes map[string]string
	Published  time.Time
	Attempt    int // of delivery, from 1; 0 when the subscription does not count
}

// Subscription receives from one subscription.
type Subscription struct {
	s    *pubsub.Subscriber
	name string
}

// Subscription is the subscription of this project with the name. It does not ask whether it exists; Receive does.
func (c *Client) Subscription(name string) *Subscription {
	s := c.c.Subscriber(name)
	s.ReceiveSettings.MaxOutstandingMessages = maxOutstanding
	s.ReceiveSettings.ShutdownOptions = &pubsub.ShutdownOptions{Timeout: shutdownLimit, Behavior: pubsub.ShutdownBehaviorWaitForProcessing}
	return &Subscription{s: s, name: "projects/" + c.project + "/subscriptions/" + name}
}

// Receive calls handle for every message, from several goroutines at once, until ctx ends (then it returns nil) or
// receiving has become impossible. A message for which handle returns nil is done with; one for which it returns an error
// comes again, after a pause and possibly elsewhere. A missing subscription, missing credentials and a missing emulator are
// *cloud.SetupError. The context of handle ends with ctx.
func (s *Subscription) Receive(ctx context.Context, handle func(context.Context, Message) error) error {
	err := s.s.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		attempt := 0
		if m.DeliveryAttempt != nil {
			attempt = *m.DeliveryAttempt
		}
		if handle(ctx, Message{ID: m.ID, Data: m.Data, Attributes: m.Attributes, Published: m.PublishTime, Attempt: attempt}) != nil {
			m.Nack()
			return
		}
		m.Ack()
	})

	if err == nil || ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
		return nil
	}
	return fmt.Errorf("receive: %w", cloud.FromStatus(service, "subscription "+s.name,
		"terraform/ and localemu make it; check COPPICE_SUBSCRIPTION and COPPICE_PROJECT", err))
}
