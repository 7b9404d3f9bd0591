package pubsubemu

import (
	"regexp"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
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

// checkSubscription returns the service's error for numbers that it does not take; 0 stands for its default. It also
// refuses subscriptions that push or export, which are not imitated.
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

// checkPublish returns the service's error for a request to publish that it does not take. The size is that of the
// encoded request, which has a few bytes more than the service counts, so maxMessages bytes more are let pass.
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

// checkMessage returns the service's error for a message that is empty, too large, or has attributes that it does not
// take.
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
