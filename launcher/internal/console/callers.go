package console

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"

	"coppice/internal/problem"
	"coppice/internal/program"
)

// tooOpen is the error about an address that the console does not listen on.
func tooOpen(address string) error {
	return problem.New(problem.Input,
		"%s can be reached from other machines: set COPPICE_AUDIENCE and COPPICE_CALLERS, "+
			"so that every request needs an identity token, or listen on 127.0.0.1 and use `ssh -L` from elsewhere",
		address)
}

// Listen returns a listener on an address. If other machines can reach it, an audience is needed, for which callers are
// authenticated; without one it is an error of kind Input. hosts are those that requests may name: the address itself,
// all names of a loopback address, and the host of the audience if that is a URL.
func Listen(ctx context.Context, address, audience string) (l net.Listener, hosts []string, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, tooOpen(address)
	}
	ip, err := netip.ParseAddr(host)
	loopback := host == "localhost" || err == nil && ip.IsLoopback()
	if !loopback && audience == "" {
		return nil, nil, tooOpen(address)
	}

	if l, err = program.Listen(ctx, address); err != nil {
		return nil, nil, err
	}
	at := l.Addr().String()
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	hosts = []string{at}
	if loopback {
		hosts = append(hosts, "localhost:"+port, "127.0.0.1:"+port, "[::1]:"+port)
	}
	if u, err := url.Parse(audience); err == nil && u.Host != "" {
		hosts = append(hosts, u.Host)
	}
	return l, hosts, nil
}
