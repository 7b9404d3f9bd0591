// Package pubsub publishes messages over Google Cloud Pub/Sub, and is the only importer of its client library. Messages
// are hints: they may arrive twice, late, in any order or never, and who gets one looks at the bucket for the facts.
package pubsub

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/api/option"

	"coppice/internal/cloud"
)

const service = "Pub/Sub"

const publishLimit = 30 * time.Second // per message, including retries

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
