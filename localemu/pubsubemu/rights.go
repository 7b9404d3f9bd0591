package pubsubemu

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// need is the permission that a call requires, by the last part of its method's name.
type need struct{ kind, permission string }

// Source: https://cloud.google.com/pubsub/docs/access-control. A call that is not listed is for the owner only.
var needs = map[string]need{
	"Publish":            {"topic", "pubsub.topics.publish"},
	"GetTopic":           {"topic", "pubsub.topics.get"},
	"GetSubscription":    {"subscription", "pubsub.subscriptions.get"},
	"Pull":               {"subscription", "pubsub.subscriptions.consume"},
	"Acknowledge":        {"subscription", "pubsub.subscriptions.consume"},
	"ModifyAckDeadline":  {"subscription", "pubsub.subscriptions.consume"},
	"CreateTopic":        {"project", "pubsub.topics.create"},
	"CreateSubscription": {"project", "pubsub.subscriptions.create"},
}

// authorize refuses calls that the caller has no right to make; StreamingPull is checked once its subscription is
// known.
func (s *Server) authorize(ctx context.Context, method string, req any) error {
	n, ok := needs[method[strings.LastIndexByte(method, '/')+1:]]
	if !ok {
		n = need{"project", "pubsub." + method[strings.LastIndexByte(method, '/')+1:]}
	}
	name := ""
	switch r := req.(type) {
	case interface{ GetSubscription() string }:
		name = r.GetSubscription()
	case interface{ GetTopic() string }:
		name = r.GetTopic()
	}
	return s.allowed(ctx, n.kind, name, n.permission)
}

func (s *Server) allowed(ctx context.Context, kind, name, permission string) error {
	var at net.Addr
	if p, ok := peer.FromContext(ctx); ok {
		at = p.LocalAddr
	}
	if err := s.opts.Allow(at, kind, name, permission); err != nil {
		return status.Error(codes.PermissionDenied, "User not authorized to perform this action: "+err.Error())
	}
	return nil
}
