package pubsubemu

import (
	"context"
	"net"
	"regexp"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// Limits of Pub/Sub. Source: https://cloud.google.com/pubsub/quotas#resource_limits
const (
	maxMessages       = 1000
	maxMessageBytes   = 10_000_000
	maxRequestBytes   = 10_000_000
	maxAttributes     = 100
	maxAttributeKey   = 256
	maxAttributeValue = 1024
	leastAckDeadline  = 10 // seconds
	mostAckDeadline   = 600
	leastAttempts     = 5 // before a message becomes a dead letter
	mostAttempts      = 100
)

var namePattern = regexp.MustCompile(`^projects/[^/]+/(topics|subscriptions)/([A-Za-z][A-Za-z0-9_.~+%-]{2,254})$`)

// checkName rejects names that the service would reject; kind is topics or subscriptions.
func checkName(name, kind string) error {
	m := namePattern.FindStringSubmatch(name)
	if m == nil || m[1] != kind || strings.HasPrefix(m[2], "goog") {
		return status.Errorf(codes.InvalidArgument,
			"%.200q is not projects/PROJECT/%s/NAME with 3 to 255 letters, digits and -_.~+%%, "+
				"beginning with a letter and not with goog", name, kind)
	}
	return nil
}

func checkSubscription(s *pubsubpb.Subscription) error {
	if s.GetPushConfig().GetPushEndpoint() != "" || s.GetBigqueryConfig() != nil || s.GetCloudStorageConfig() != nil {
		return status.Error(codes.Unimplemented, "localemu imitates pull subscriptions only")
	}
	if n := s.GetAckDeadlineSeconds(); n != 0 && (n < leastAckDeadline || n > mostAckDeadline) {
		return status.Errorf(codes.InvalidArgument, "an acknowledgement deadline of %d seconds: use %d to %d", n,
			leastAckDeadline, mostAckDeadline)
	}
	if n := s.GetDeadLetterPolicy().GetMaxDeliveryAttempts(); n != 0 && (n < leastAttempts || n > mostAttempts) {
		return status.Errorf(codes.InvalidArgument, "%d delivery attempts before a message is given up: use %d to %d",
			n, leastAttempts, mostAttempts)
	}
	return checkName(s.GetName(), "subscriptions")
}

// checkUpdate refuses an update without a mask; pstest would crash.
func checkUpdate(mask *fieldmaskpb.FieldMask) error {
	if len(mask.GetPaths()) == 0 {
		return status.Error(codes.InvalidArgument,
			"The update_mask in the request must be set and must contain a non-empty list of paths.")
	}
	return nil
}

func checkPublish(r *pubsubpb.PublishRequest) error {
	if n := len(r.GetMessages()); n == 0 || n > maxMessages {
		return status.Errorf(codes.InvalidArgument, "%d messages in a request: 1 to %d", n, maxMessages)
	}
	if n := proto.Size(r); n > maxRequestBytes+maxMessages {
		return status.Errorf(codes.InvalidArgument,
			"The value for request_size is too large. You passed %d in the request, but the maximum value is %d.", n,
			maxRequestBytes)
	}
	for _, m := range r.GetMessages() {
		if err := checkMessage(m); err != nil {
			return err
		}
	}
	return nil
}

func checkMessage(m *pubsubpb.PubsubMessage) error {
	size := len(m.GetData())
	for k, v := range m.GetAttributes() {
		size += len(k) + len(v)
		if k == "" || len(k) > maxAttributeKey || len(v) > maxAttributeValue || strings.HasPrefix(k, "goog") {
			return status.Errorf(codes.InvalidArgument,
				"attribute %.60q: keys have 1 to %d bytes and do not begin with goog, values up to %d",
				k, maxAttributeKey, maxAttributeValue)
		}
	}

	switch {
	case len(m.GetAttributes()) > maxAttributes:
		return status.Errorf(codes.InvalidArgument, "%d attributes: at most %d", len(m.GetAttributes()), maxAttributes)
	case size == 0:
		return status.Error(codes.InvalidArgument, "a message must have data or attributes")
	case size > maxMessageBytes:
		return status.Errorf(codes.InvalidArgument,
			"The value for message_size is too large. You passed %d in the request, but the maximum value is %d.", size,
			maxMessageBytes)
	}
	return nil
}

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
