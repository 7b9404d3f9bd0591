// Package pubsubemu is Google Cloud Pub/Sub on one machine: Google's own fake (pstest) behind a server that adds what
// the fake lacks and Coppice relies on.
//
// Added: push subscriptions of the local cloud's own, with the pauses of their retry policy and their dead letters;
// messages up to the service's 10 MB (pstest's own server stops at 4 MiB), and the service's limits on sizes, names,
// deadlines and delivery attempts; answers to keep-alive pings that cannot block the whole server; scripted faults.
//
// Not imitated:
//   - Subscriptions of clients are pulled: push, BigQuery and Cloud Storage delivery, snapshots and seeking, schemas,
//     changing IAM policies are UNIMPLEMENTED. Those that are pushed are not listed, and at most 16 of their messages
//     are under way, where Pub/Sub's limit grows while answers are good.
//   - A pulled message that is refused comes back at once, whatever the retry policy.
//   - Exactly-once delivery is announced but not kept: a late acknowledgement is silently accepted.
//   - Messages not delivered within ten minutes are dropped, regardless of the subscription's retention; pushed ones
//     live as long as the server.
//   - Deliveries are counted over all pulled subscriptions of a topic together. A message that has had all of them
//     becomes a dead letter when its subscription would deliver it again, not before. None says where it comes from.
//   - Everything published stays in memory until the server ends, and does not survive it.
package pubsubemu

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Options say what is pushed, and which failures to inject.
type Options struct {
	Faults Faults
	Pushes []Push
	// Struck, if not nil, is called for every fault that strikes, with its class. It must not block.
	Struck func(class string)
	// Log, if not nil, gets what is worth knowing but no client is told.
	Log *slog.Logger
}

// Server is the emulator.
type Server struct {
	fake   *pstest.Server
	grpc   *grpc.Server
	addr   string
	served sync.WaitGroup
	chaos  *chaos
	log    *slog.Logger

	pushes  []Push
	pushing chan struct{} // holds what is under way
	running context.Context
	end     func()
	closing sync.Mutex
}

// maxRequest is above the largest request of the service, 10 MB, so that one that is too large gets the service's
// error.
const maxRequest = 20 << 20

// Start starts to serve on the listener, in the background, until Close.
func Start(l net.Listener, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	s := &Server{addr: l.Addr().String(), log: o.Log, pushes: o.Pushes, pushing: make(chan struct{}, pushAtOnce)}
	s.running, s.end = context.WithCancel(context.Background())
	s.fake = pstest.NewServer() // its own port stays unused
	s.chaos = newChaos(o.Faults, s.publish)
	if o.Struck != nil {
		s.chaos.struck = o.Struck
	}

	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest), grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream))
	pubsubpb.RegisterPublisherServer(s.grpc, &s.fake.GServer)
	pubsubpb.RegisterSubscriberServer(s.grpc, &s.fake.GServer)
	s.served.Go(func() {
		if err := s.grpc.Serve(l); err != nil && err != grpc.ErrServerStopped { //nolint:errorlint // not wrapped
			o.Log.Error("Pub/Sub emulator ended", "error", err)
		}
	})
	return s, nil
}

// Addr is host:port, the value for PUBSUB_EMULATOR_HOST.
func (s *Server) Addr() string { return s.addr }

// Close ends all connections, waits until what is being posted has been answered, and drops what is left.
func (s *Server) Close() {
	s.grpc.Stop()
	s.closing.Lock() // publish begins no delivery from now on
	s.end()
	s.closing.Unlock()
	s.served.Wait()
	s.chaos.stop()
	s.fake.Close()
}

// CreateTopic makes the topic; an existing one is left unchanged.
func (s *Server) CreateTopic(ctx context.Context, name string) error {
	if _, err := s.fake.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: name}); err != nil &&
		status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("create topic: %w", err)
	}
	return nil
}

// CreateSubscription makes the subscription; an existing one is left unchanged.
func (s *Server) CreateSubscription(ctx context.Context, sub *pubsubpb.Subscription) error {
	if _, err := s.createSubscription(ctx, sub); err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("create subscription: %w", err)
	}
	return nil
}

// Topic returns the topic of the full name, or the service's error.
func (s *Server) Topic(ctx context.Context, name string) (*pubsubpb.Topic, error) {
	return s.fake.GServer.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: name})
}

// unary intercepts every call but StreamingPull before it reaches pstest. It refuses requests that the service would
// refuse but pstest does not, and those that are not imitated; and it applies the faults to publishing and to
// acknowledgements.
func (s *Server) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	switch r := req.(type) {
	case *pubsubpb.PublishRequest:
		if err := checkPublish(r); err != nil {
			return nil, err
		}
		return s.chaos.publish(ctx, r)
	case *pubsubpb.AcknowledgeRequest:
		r.AckIds = s.chaos.keptAcks(r.GetAckIds())
	case *pubsubpb.Topic:
		if err := checkName(r.GetName(), "topics"); err != nil {
			return nil, err
		}
	case *pubsubpb.UpdateTopicRequest:
		if err := checkUpdate(r.GetUpdateMask()); err != nil {
			return nil, err
		}
		if err := checkName(r.GetTopic().GetName(), "topics"); err != nil {
			return nil, err
		}
	case *pubsubpb.Subscription:
		return s.createSubscription(ctx, r)
	case *pubsubpb.UpdateSubscriptionRequest:
		if err := checkUpdate(r.GetUpdateMask()); err != nil {
			return nil, err
		}
		if err := checkSubscription(r.GetSubscription()); err != nil {
			return nil, err
		}
		attempts(r.GetSubscription())
	case *pubsubpb.SeekRequest, *pubsubpb.CreateSnapshotRequest:
		return nil, status.Error(codes.Unimplemented, "localemu does not imitate snapshots and seeking")
	}
	return next(ctx, req)
}

// createSubscription checks a subscription as the service does and makes it.
func (s *Server) createSubscription(ctx context.Context, sub *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := checkSubscription(sub); err != nil {
		return nil, err
	}
	attempts(sub)
	return s.fake.GServer.CreateSubscription(ctx, sub)
}

// attempts sets the service's default number of delivery attempts before a message becomes a dead letter, where a
// policy leaves it out. pstest takes 0 for no limit.
func attempts(sub *pubsubpb.Subscription) {
	if p := sub.GetDeadLetterPolicy(); p != nil && p.MaxDeliveryAttempts == 0 {
		p.MaxDeliveryAttempts = leastAttempts
	}
}

// PublishOwn publishes a message of the cloud itself, such as Batch's about a job. It bypasses the faults, which are
// meant for what the programs publish.
func (s *Server) PublishOwn(ctx context.Context, topic string, m *pubsubpb.PubsubMessage) error {
	r := &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{m}}
	if err := checkPublish(r); err != nil {
		return err
	}
	if _, err := s.publish(ctx, r); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}
