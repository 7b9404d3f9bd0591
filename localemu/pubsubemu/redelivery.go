package pubsubemu

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// modifyAckDeadline turns the refusal of a message (a deadline of 0) into a deadline at which it is delivered again, by
// the subscription's retry policy. The client extends deadlines in the background: extensions of a message that it has
// refused are dropped.
func (s *Server) modifyAckDeadline(ctx context.Context, r *pubsubpb.ModifyAckDeadlineRequest,
	next grpc.UnaryHandler) (any, error) {
	policy := s.retryPolicy(ctx, r.GetSubscription())
	for _, id := range r.GetAckIds() {
		one := proto.CloneOf(r)
		one.AckIds = []string{id}
		switch {
		case s.refused.has(r.GetSubscription(), id):
			continue
		case r.GetAckDeadlineSeconds() == 0:
			one.AckDeadlineSeconds = policy.pause(id)
			s.refused.add(r.GetSubscription(), id)
		}

		if _, err := next(ctx, one); err != nil {
			return nil, err
		}
	}
	return &emptypb.Empty{}, nil
}

// refusals remembers which deliveries were refused; old ones are dropped.
type refusals struct {
	mu     sync.Mutex
	recent map[[2]string]struct{}
	older  map[[2]string]struct{}
}

// refusalsKept is how many refusals one generation of the memory holds.
const refusalsKept = 10_000

func (r *refusals) add(subscription, ackID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.recent) >= refusalsKept || r.recent == nil {
		r.recent, r.older = map[[2]string]struct{}{}, r.recent
	}
	r.recent[[2]string{subscription, ackID}] = struct{}{}
}

func (r *refusals) has(subscription, ackID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{subscription, ackID}
	_, recent := r.recent[key]
	_, older := r.older[key]
	return recent || older
}

// retry is a subscription's retry policy; without one, a refused message comes back at once, as with the service.
type retry struct{ low, high time.Duration }

func (s *Server) retryPolicy(ctx context.Context, subscription string) retry {
	sub, err := s.fake.GServer.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: subscription})
	if err != nil || sub.GetRetryPolicy() == nil {
		return retry{}
	}
	p := retry{10 * time.Second, 600 * time.Second} // the service's defaults
	if d := sub.GetRetryPolicy().GetMinimumBackoff(); d != nil {
		p.low = d.AsDuration()
	}
	if d := sub.GetRetryPolicy().GetMaximumBackoff(); d != nil {
		p.high = d.AsDuration()
	}
	return p
}

// pause returns the number of seconds until a refused message is delivered again. pstest's acknowledgement ids end in
// the number of the delivery.
func (r retry) pause(ackID string) int32 {
	if r.low <= 0 {
		return 0
	}
	deliveries := 1
	if i := strings.LastIndexByte(ackID, ':'); i >= 0 {
		if n, err := strconv.Atoi(ackID[i+1:]); err == nil && n > 1 {
			deliveries = n
		}
	}
	pause := r.low << min(deliveries-1, 20)
	pause = min(pause, max(r.low, r.high))
	return int32((pause + time.Second - 1) / time.Second)
}

// stream intercepts StreamingPull.
func (s *Server) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &pullStream{ServerStream: ss, server: s})
}

// pullStream answers keep-alive pings itself: pstest answers them while it holds its only lock, and would hang forever
// if the client went away at that moment.
type pullStream struct {
	grpc.ServerStream
	server *Server

	first        sync.Once
	subscription string
	pings        bool
	sending      sync.Mutex // pstest's goroutine sends, and the one that answers pings
}

func (p *pullStream) SendMsg(m any) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.ServerStream.SendMsg(m)
}

func (p *pullStream) RecvMsg(m any) error {
	for {
		if err := p.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		r, ok := m.(*pubsubpb.StreamingPullRequest)
		if !ok {
			return nil
		}

		opening := false
		p.first.Do(func() {
			opening = true
			p.subscription = r.GetSubscription()
			p.pings = r.GetProtocolVersion() >= 1
		})
		if opening {
			return nil
		}

		ping := len(r.GetAckIds()) == 0 && len(r.GetModifyDeadlineAckIds()) == 0
		p.delay(r)
		r.AckIds = p.server.chaos.acks(r.GetAckIds())
		if len(r.GetAckIds()) > 0 || len(r.GetModifyDeadlineAckIds()) > 0 {
			return nil
		}
		if ping && p.pings {
			if err := p.SendMsg(&pubsubpb.StreamingPullResponse{}); err != nil {
				return err
			}
		}
	}
}

// delay does for refusals on the stream what modifyAckDeadline does for the others.
func (p *pullStream) delay(r *pubsubpb.StreamingPullRequest) {
	ids, seconds := r.GetModifyDeadlineAckIds(), r.GetModifyDeadlineSeconds()
	r.ModifyDeadlineAckIds, r.ModifyDeadlineSeconds = nil, nil
	for i, id := range ids[:min(len(ids), len(seconds))] {
		if p.server.refused.has(p.subscription, id) {
			continue
		}

		deadline := seconds[i]
		if deadline == 0 {
			deadline = p.server.retryPolicy(p.Context(), p.subscription).pause(id)
			p.server.refused.add(p.subscription, id)
		}

		r.ModifyDeadlineAckIds = append(r.ModifyDeadlineAckIds, id)
		r.ModifyDeadlineSeconds = append(r.ModifyDeadlineSeconds, deadline)
	}
}
