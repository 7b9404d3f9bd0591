package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"coppice/internal/problem"
	"coppice/internal/program"
)

// Callers authenticates the callers of a console that other machines can reach.
type Callers interface {
	// Verify says who sent a request, given the value of its Authorization header. It is called by many goroutines. The
	// error of a request that is refused has a method HTTPStatus; others mean that nobody can be verified now.
	Verify(ctx context.Context, authorization string) (email string, err error)
}

// verified passes on requests of callers who may call. Without callers it passes on all: the console is on loopback
// then.
func (c *Console) verified(next http.Handler) http.Handler {
	if c.Callers == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := c.Callers.Verify(r.Context(), r.Header.Get("Authorization")); err != nil {
			status := http.StatusServiceUnavailable
			var refused interface{ HTTPStatus() int }
			if errors.As(err, &refused) {
				status = refused.HTTPStatus()
			}

			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			c.log.Warn("a caller was refused", "path", r.URL.Path, "status", status, "error", err.Error())
			http.Error(w, err.Error(), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tooOpen is the error about an address that the console does not listen on.
func tooOpen(address string) error {
	return problem.New(problem.Input,
		"%s can be reached from other machines: set COPPICE_AUDIENCE and COPPICE_CALLERS, "+
			"so that every request needs an identity token, or listen on 127.0.0.1 and use `ssh -L` from elsewhere",
		address)
}

// Listen listens on an address. One that other machines can reach is refused unless callers are authenticated,
// for audience. hosts are the names under which the console may be requested: of a loopback address its own, and the
// host of the audience if that is a URL.
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
