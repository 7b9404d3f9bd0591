package pubsubemu

import (
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
)

// stream intercepts StreamingPull, the call over which clients pull messages and acknowledge them.
func (s *Server) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &pullStream{ServerStream: ss, server: s})
}

// pullStream answers keep-alive pings itself: pstest answers them while it holds its only lock, and would hang forever
// if the client went away at that moment.
type pullStream struct {
	grpc.ServerStream
	server *Server

	opened  bool
	pings   bool
	sending sync.Mutex // pstest's goroutine sends, and the one that answers pings
}

// SendMsg sends one message at a time, since two goroutines do.
func (p *pullStream) SendMsg(m any) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.ServerStream.SendMsg(m)
}

// RecvMsg reads the client's next request that pstest has to see into m. These are the one that opens the stream, and
// acknowledgements and changes of deadlines, without the acknowledgements that a fault loses. Keep-alive pings, which
// have neither, are answered here, if the client's version of the protocol wants answers.
func (p *pullStream) RecvMsg(m any) error {
	for {
		if err := p.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		r, ok := m.(*pubsubpb.StreamingPullRequest)
		if !ok {
			return nil
		}

		ping := len(r.GetAckIds()) == 0 && len(r.GetModifyDeadlineAckIds()) == 0
		switch {
		case !p.opened:
			p.opened, p.pings = true, r.GetProtocolVersion() >= 1
			return nil
		case !ping:
			r.AckIds = p.server.chaos.keptAcks(r.GetAckIds())
			if len(r.GetAckIds()) > 0 || len(r.GetModifyDeadlineAckIds()) > 0 {
				return nil
			}
		case p.pings:
			if err := p.SendMsg(&pubsubpb.StreamingPullResponse{}); err != nil {
				return err
			}
		}
	}
}
