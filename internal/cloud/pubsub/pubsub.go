// Package pubsub publishes and receives messages over Google Cloud Pub/Sub, and is the only importer of its client
// library. Messages are hints: they may arrive twice, late, in any order or never, and a receiver looks at the bucket
// for the facts.
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

	"coppice/internal/cloud"
)

const service = "Pub/Sub"

// Limits on publishing and receiving.
const (
	publishLimit   = 30 * time.Second // per message, including retries
	maxOutstanding = 100              // messages handled at once
	shutdownLimit  = 15 * time.Second // for handlers to return after the end
)

// Client is the connection of one project. It is safe for concurrent use.
type Client struct {
	c       *pubsub.Client
	project string
	limit   time.Duration
}

// New connects to the emulator named by PUBSUB_EMULATOR_HOST (read by Google's library), else to Pub/Sub with the
// application default credentials. Without either, the error is a *cloud.SetupError. Options are for tests.
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

// Close closes the connection. Publishers must be closed first.
func (c *Client) Close() error { return c.c.Close() }

// Publisher publishes to one topic. It is safe for concurrent use.
type Publisher struct {
	p     *pubsub.Publisher
	topic string
	limit time.Duration
}

// Publisher returns a Publisher for a topic of this project. It does not check that the topic exists; the first Publish
// does.
func (c *Client) Publisher(topic string) *Publisher {
	p := c.c.Publisher(topic)
	p.PublishSettings.Timeout = c.limit
	p.PublishSettings.DelayThreshold = time.Millisecond // messages are few, and each one is waited for
	return &Publisher{p: p, topic: "projects/" + c.project + "/topics/" + topic, limit: c.limit}
}

// Publish returns once the service has accepted the message, or with an error after half a minute at most. A missing
// topic, credentials or emulator is a *cloud.SetupError. A message for which Publish fails may still have been
// published.
func (p *Publisher) Publish(ctx context.Context, data []byte, attrs map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	_, err := p.p.Publish(ctx, &pubsub.Message{Data: data, Attributes: attrs}).Get(ctx)
	if err != nil {
		return cloud.FromStatus(service, "topic "+p.topic,
			"terraform/ and localemu make it; check COPPICE_PROJECT and the variable that names it, such as "+
				"COPPICE_SCORES_TOPIC or COPPICE_VERDICTS_TOPIC", err)
	}
	return nil
}

// Close waits for pending messages and ends the Publisher.
func (p *Publisher) Close() { p.p.Stop() }

// Receiver receives from one subscription.
type Receiver struct {
	s    *pubsub.Subscriber
	name string
}

// Subscription returns the subscription of this project with that name. It does not check that it exists; Receive does.
func (c *Client) Subscription(name string) *Receiver {
	s := c.c.Subscriber(name)
	s.ReceiveSettings.MaxOutstandingMessages = maxOutstanding
	s.ReceiveSettings.ShutdownOptions = &pubsub.ShutdownOptions{Timeout: shutdownLimit,
		Behavior: pubsub.ShutdownBehaviorWaitForProcessing}
	return &Receiver{s: s, name: "projects/" + c.project + "/subscriptions/" + name}
}

// Receive calls handle with the data of every message, from several goroutines at once, until ctx ends (then it returns
// nil) or receiving fails permanently. A message for which handle returns nil is acknowledged; after an error it is
// redelivered, with a pause and possibly elsewhere. A missing subscription, credentials or emulator is a
// *cloud.SetupError. The context of handle ends with ctx.
func (s *Receiver) Receive(ctx context.Context, handle func(ctx context.Context, data []byte) error) error {
	err := s.s.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		if handle(ctx, m.Data) != nil {
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
