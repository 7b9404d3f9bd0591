package pubsubemu

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/protobuf/proto"
)

// Attributes that say where a dead letter comes from. Source: https://cloud.google.com/pubsub/docs/handling-failures
const (
	sourceCount   = "CloudPubSubDeadLetterSourceDeliveryCount"
	sourceName    = "CloudPubSubDeadLetterSourceSubscription"
	sourceProject = "CloudPubSubDeadLetterSourceSubscriptionProject"
	sourceTime    = "CloudPubSubDeadLetterSourceTopicPublishTime"
)

// sourceTimeLayout is the service's format of the time in sourceTime.
const sourceTimeLayout = "2006-01-02T15:04:05.000-07:00"

// deadLetters keeps the dead letter policies of subscriptions and applies them. pstest never sees a policy: it counts
// deliveries of a message over all subscriptions together, and does not say where a dead letter comes from.
type deadLetters struct {
	fake *pstest.GServer
	log  *slog.Logger

	mu       sync.Mutex
	policies map[string]*pubsubpb.DeadLetterPolicy // by subscription
	attempts map[string]map[string]*attempt        // by subscription and message id
}

// attempt is the latest delivery of a message to one subscription.
type attempt struct {
	number  int32
	ackID   string
	message *pubsubpb.PubsubMessage
}

func newDeadLetters(fake *pstest.GServer, log *slog.Logger) *deadLetters {
	return &deadLetters{fake: fake, log: log, policies: map[string]*pubsubpb.DeadLetterPolicy{},
		attempts: map[string]map[string]*attempt{}}
}

// check returns an error if the policy's topic does not exist; no policy is fine.
func (d *deadLetters) check(ctx context.Context, p *pubsubpb.DeadLetterPolicy) error {
	if p == nil {
		return nil
	}
	_, err := d.fake.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: p.GetDeadLetterTopic()})
	return err
}

// set gives the subscription the policy; nil removes it.
func (d *deadLetters) set(subscription string, p *pubsubpb.DeadLetterPolicy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p == nil {
		delete(d.policies, subscription)
		delete(d.attempts, subscription)
		return
	}

	p = proto.CloneOf(p)
	if p.MaxDeliveryAttempts == 0 {
		p.MaxDeliveryAttempts = leastAttempts
	}
	d.policies[subscription] = p
	if d.attempts[subscription] == nil {
		d.attempts[subscription] = map[string]*attempt{}
	}
}

// shown returns pstest's subscription with its policy added.
func (d *deadLetters) shown(sub *pubsubpb.Subscription) *pubsubpb.Subscription {
	sub = proto.CloneOf(sub)
	d.mu.Lock()
	defer d.mu.Unlock()
	sub.DeadLetterPolicy = proto.CloneOf(d.policies[sub.GetName()])
	return sub
}

// deliver counts the messages' deliveries, and leaves out those that have had all of theirs and are dead letters now.
func (d *deadLetters) deliver(ctx context.Context, subscription string,
	messages []*pubsubpb.ReceivedMessage) []*pubsubpb.ReceivedMessage {
	var out []*pubsubpb.ReceivedMessage
	for _, m := range messages {
		a, policy := d.count(subscription, m)
		if policy == nil {
			out = append(out, m)
			continue
		}

		if a.number > policy.GetMaxDeliveryAttempts() && d.forward(ctx, subscription, policy, a) {
			continue
		}
		out = append(out, &pubsubpb.ReceivedMessage{AckId: m.GetAckId(), Message: m.GetMessage(),
			DeliveryAttempt: a.number})
	}
	return out
}

// count records one more delivery; without a policy there is nothing to count.
func (d *deadLetters) count(subscription string, m *pubsubpb.ReceivedMessage) (attempt, *pubsubpb.DeadLetterPolicy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	policy := d.policies[subscription]
	if policy == nil {
		return attempt{}, nil
	}

	id := m.GetMessage().GetMessageId()
	a := d.attempts[subscription][id]
	if a == nil {
		a = &attempt{message: m.GetMessage()}
		d.attempts[subscription][id] = a
	}
	a.number++
	a.ackID = m.GetAckId()
	return *a, policy
}

// refused reports whether refusing that delivery made the message a dead letter: it was the last one that its policy
// allows.
func (d *deadLetters) refused(ctx context.Context, subscription, ackID string) bool {
	d.mu.Lock()
	policy := d.policies[subscription]
	a := d.attempts[subscription][messageOf(ackID)]
	last := policy != nil && a != nil && a.ackID == ackID && a.number >= policy.GetMaxDeliveryAttempts()
	var of attempt
	if last {
		of = *a
	}
	d.mu.Unlock()
	return last && d.forward(ctx, subscription, policy, of)
}

// forward publishes the message to the policy's topic and acknowledges it. Without the topic the message stays where it
// is, as with the service.
func (d *deadLetters) forward(ctx context.Context, subscription string, policy *pubsubpb.DeadLetterPolicy,
	a attempt) bool {
	part := strings.Split(subscription, "/") // projects/PROJECT/subscriptions/NAME
	attributes := maps.Clone(a.message.GetAttributes())
	if attributes == nil {
		attributes = map[string]string{}
	}
	attributes[sourceCount] = strconv.Itoa(int(policy.GetMaxDeliveryAttempts()))
	attributes[sourceName] = part[len(part)-1]
	attributes[sourceProject] = part[1]
	attributes[sourceTime] = a.message.GetPublishTime().AsTime().UTC().Format(sourceTimeLayout)

	letter := &pubsubpb.PubsubMessage{Data: a.message.GetData(), Attributes: attributes,
		OrderingKey: a.message.GetOrderingKey()}
	_, err := d.fake.Publish(ctx, &pubsubpb.PublishRequest{Topic: policy.GetDeadLetterTopic(),
		Messages: []*pubsubpb.PubsubMessage{letter}})
	if err != nil {
		d.log.Error("forward a dead letter", "subscription", subscription, "topic", policy.GetDeadLetterTopic(),
			"error", err)
		return false
	}

	if _, err := d.fake.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: subscription,
		AckIds: []string{a.ackID}}); err != nil {
		d.log.Error("acknowledge a dead letter", "subscription", subscription, "error", err)
	}
	d.acknowledged(subscription, []string{a.ackID})
	return true
}

// acknowledged forgets messages that will not be delivered again.
func (d *deadLetters) acknowledged(subscription string, ackIDs []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.attempts[subscription]
	for _, id := range ackIDs {
		if a := of[messageOf(id)]; a != nil && a.ackID == id {
			delete(of, messageOf(id))
		}
	}
}

// messageOf returns the message id in one of pstest's acknowledgement ids, MESSAGE:DELIVERY.
func messageOf(ackID string) string {
	id, _, _ := strings.Cut(ackID, ":")
	return id
}

// createSubscription is pstest's, except for the dead letter policy, which is kept here.
func (s *Server) createSubscription(ctx context.Context, sub *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := checkSubscription(sub); err != nil {
		return nil, err
	}
	policy := sub.GetDeadLetterPolicy()
	if err := s.dead.check(ctx, policy); err != nil {
		return nil, err
	}

	plain := proto.CloneOf(sub)
	plain.DeadLetterPolicy = nil
	made, err := s.fake.GServer.CreateSubscription(ctx, plain)
	if err != nil {
		return nil, err
	}
	s.dead.set(sub.GetName(), policy)
	return s.dead.shown(made), nil
}

// updateSubscription is pstest's, except for the dead letter policy.
func (s *Server) updateSubscription(ctx context.Context, r *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription,
	error) {
	if err := checkUpdate(r.GetUpdateMask()); err != nil {
		return nil, err
	}
	if err := checkSubscription(r.GetSubscription()); err != nil {
		return nil, err
	}

	rest := proto.CloneOf(r)
	const policyField = "dead_letter_policy"
	rest.UpdateMask.Paths = slices.DeleteFunc(rest.UpdateMask.Paths,
		func(path string) bool { return path == policyField })
	changes := len(rest.UpdateMask.Paths) < len(r.GetUpdateMask().GetPaths())
	if changes {
		if err := s.dead.check(ctx, r.GetSubscription().GetDeadLetterPolicy()); err != nil {
			return nil, err
		}
	}

	made, err := s.fake.GServer.UpdateSubscription(ctx, rest)
	if err != nil {
		return nil, err
	}
	if changes {
		s.dead.set(made.GetName(), r.GetSubscription().GetDeadLetterPolicy())
	}
	return s.dead.shown(made), nil
}
