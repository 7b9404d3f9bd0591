package cloud

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FailFast returns dial options that make a gRPC client give up at once if nothing listens at a loopback address. The
// libraries would keep trying for minutes, or forever.
func FailFast() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return forbidRetry(call(ctx, method, req, reply, cc, opts...))
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
			method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, forbidRetry(err)
			}
			return &failFastStream{s}, nil
		}),
	}
}

// forbidRetry returns an error that says that no emulator is running with the code FailedPrecondition, which no retry
// policy retries, and any other error, or nil, as it is.
func forbidRetry(err error) error {
	if _, gone := NobodyAt(err); gone {
		return status.Error(codes.FailedPrecondition, status.Convert(err).Message())
	}
	return err
}

// failFastStream is a stream whose errors forbidRetry goes over.
type failFastStream struct{ grpc.ClientStream }

// RecvMsg receives a message, as grpc.ClientStream says.
func (s *failFastStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil || err == io.EOF { //nolint:errorlint // gRPC's streams end with exactly this
		return err
	}
	return forbidRetry(err)
}
