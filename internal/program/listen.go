package program

import (
	"context"
	"fmt"
	"net"

	"coppice/internal/problem"
)

// Listen listens on an address that a user has given. An address that is not HOST:PORT, or whose port is neither a
// number nor a known name, is of the kind problem.Input. The caller closes the listener.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if _, port, err := net.SplitHostPort(address); err != nil {
		return nil, problem.New(problem.Input, "%s is not an address: use HOST:PORT, such as 127.0.0.1:8765", address)
	} else if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil {
		return nil, problem.New(problem.Input, "listen on %s: invalid port %s", address, port)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}
