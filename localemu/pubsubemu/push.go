package pubsubemu

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
)

// Push is a push subscription. Post sends a body to its endpoint; after an error the message is sent again, with the
// pauses and up to the number of attempts that the subscription has.
// Source: https://cloud.google.com/pubsub/docs/push
type Push struct {
	Subscription *pubsubpb.Subscription
	Post         func(body []byte) error
}

// pushAtOnce is how many messages are under way at a time: what terraform/ lets one instance of the aggregator take.
const pushAtOnce = 16

// publish publishes messages through pstest, for those who pull, and begins to deliver each to the push subscriptions
// of the topic. It does not wait for these deliveries.
func (s *Server) publish(ctx context.Context, r *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	messages := clones(r.GetMessages()) // pstest changes its own
	reply, err := s.fake.GServer.Publish(ctx, r)
	if err != nil {
		return nil, err
	}

	s.closing.Lock() // no delivery begins after Close
	defer s.closing.Unlock()
	for _, p := range s.pushes {
		for i, m := range messages {
			if p.Subscription.GetTopic() == r.GetTopic() && s.running.Err() == nil {
				s.served.Go(func() { s.deliver(p, m, reply.GetMessageIds()[i]) })
			}
		}
	}
	return reply, nil
}

// deliver posts a message to a push subscription until it is accepted, with pauses in between. After the last attempt
// that the subscription's policy allows, it publishes the message to the dead letters. It gives up when the server is
// closed. A fault may lose the acceptance, so that the message is posted again.
func (s *Server) deliver(p Push, m *pubsubpb.PubsubMessage, id string) {
	published := time.Now().UTC()
	dead := p.Subscription.GetDeadLetterPolicy()
	for attempt := 1; ; attempt++ {
		body, err := json.Marshal(map[string]any{
			"message": map[string]any{"data": m.GetData(), "attributes": m.GetAttributes(), "messageId": id,
				"publishTime": published},
			"subscription": p.Subscription.GetName(), "deliveryAttempt": attempt,
		})

		if err == nil {
			s.pushing <- struct{}{} // waits while as many are under way as the channel holds
			err = p.Post(body)
			<-s.pushing
		}
		if err == nil && slices.Contains(s.chaos.keptAcks([]string{id}), id) {
			return
		}
		if dead != nil && attempt == int(dead.GetMaxDeliveryAttempts()) {
			break
		}

		select {
		case <-time.After(pause(p.Subscription.GetRetryPolicy(), attempt)):
		case <-s.running.Done():
			return
		}
	}

	if err := s.PublishOwn(s.running, dead.GetDeadLetterTopic(), proto.CloneOf(m)); err != nil {
		s.log.Error("a message that was given up is lost", "subscription", p.Subscription.GetName(), "error", err)
	}
}

// pause is how long a message waits after so many deliveries, from 1: the policy's minimum, doubled each time up to its
// maximum. Without a policy it is 0. More than 20 doublings would overflow.
func pause(policy *pubsubpb.RetryPolicy, deliveries int) time.Duration {
	least := policy.GetMinimumBackoff().AsDuration()
	return min(least<<min(deliveries-1, 20), max(least, policy.GetMaximumBackoff().AsDuration()))
}
