// Package console serves the pages that `launcher report` would write, byte by byte. That of a running sweep asks every
// few seconds if it has changed; the sweep is read once for all its viewers.
//
// It only reads. On loopback it has no authentication: who can connect sees what the user of `launcher console` may.
// On another address every request needs an identity token (Callers). Requests for another host are rejected, so that a
// foreign page cannot read this one through a browser (DNS rebinding).
package console

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"coppice/internal/blob"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/report"
)

// Limits.
const (
	pollPause = 10 * time.Second // a running sweep is read at most that often, whoever looks at it
	mostOpen  = 50               // sweeps kept in memory
)

// Console serves the pages.
type Console struct {
	Online  bool            // as in report.SweepReader; without it nothing is paid for, and no page has costs
	Callers program.Callers // nil only on a loopback address
	Job     report.AskJob
	Links   report.Links

	pages *report.Pages
	now   func() time.Time
	log   *slog.Logger
	pause time.Duration

	// Locks that can be waited for with a context, so that a viewer who has left delays no one.
	first *semaphore.Weighted // serialises reads of sweeps
	made  *semaphore.Weighted // serialises other pages, whose data are not safe for concurrent use

	mu   sync.Mutex
	open map[sweep.ID]*watched
}

// watched is a sweep that has been viewed, with its page as of when it was read.
type watched struct {
	sweep *report.SweepReader
	page  []byte
	ended bool
	read  time.Time
}

// New returns a console on three buckets.
func New(sweeps, datasets, models blob.Store, now func() time.Time, log *slog.Logger) *Console {
	return &Console{pages: report.New(sweeps, datasets, registry.New(models), false), now: now, log: log,
		pause: pollPause, first: semaphore.NewWeighted(1), made: semaphore.NewWeighted(1),
		open: map[sweep.ID]*watched{}}
}

// known returns a sweep as it was last read, nil if it was not. fresh reports whether that is good enough: it was read
// less than c.pause ago, or has ended.
func (c *Console) known(id sweep.ID) (w *watched, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w = c.open[id]
	return w, w != nil && (w.ended || c.now().Sub(w.read) < c.pause)
}

// sweepPage returns the page of a sweep, which is read again unless known is fresh. Only one sweep is read at a time:
// other callers wait, until their ctx ends, and then get what was read meanwhile. Of more than mostOpen sweeps, the one
// read longest ago is forgotten.
func (c *Console) sweepPage(ctx context.Context, id sweep.ID) (*watched, error) {
	if w, fresh := c.known(id); fresh {
		return w, nil
	}
	if err := c.first.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.first.Release(1)
	w, fresh := c.known(id) // another viewer may have read it meanwhile
	if fresh {
		return w, nil
	}

	// Read what is new of it, and make its page.
	next := watched{read: c.now()}
	var err error
	if w != nil {
		next.sweep = w.sweep
	} else if next.sweep, err = report.OpenSweep(ctx, c.pages.Sweeps, c.pages.Registry, id); err != nil {
		return nil, err
	}
	next.sweep.Online, next.sweep.Job, next.sweep.Links = c.Online, c.Job, c.Links
	var view report.AnyPage
	if view, next.ended, err = next.sweep.Look(ctx); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := view.Write(&text); err != nil {
		return nil, err
	}
	next.page = text.Bytes()

	// Keep it for other viewers.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[id] = &next
	if len(c.open) > mostOpen {
		oldest := id
		for other, w := range c.open {
			if w.read.Before(c.open[oldest].read) {
				oldest = other
			}
		}
		delete(c.open, oldest)
	}
	return &next, nil
}

// Handler serves the pages to requests whose Host is one of hosts, and to verified callers if c.Callers is set. The
// console's fields have to be set before.
func (c *Console) Handler(hosts []string) http.Handler {
	c.pages.Online, c.pages.Job = c.Online, c.Job
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.servePage(func(ctx context.Context, _ *http.Request) (report.AnyPage, error) {
		return c.pages.Index(ctx, false)
	}))
	mux.HandleFunc("GET /datasets/{ref}", c.servePage(func(ctx context.Context,
		r *http.Request) (report.AnyPage, error) {
		return c.pages.Dataset(ctx, r.PathValue("ref"))
	}))
	mux.HandleFunc("GET /models/{name}", c.servePage(func(ctx context.Context,
		r *http.Request) (report.AnyPage, error) {
		return c.pages.Model(ctx, r.PathValue("name"))
	}))
	mux.HandleFunc("GET /sweeps/{id}", c.serveSweep)
	return program.Prompt(onlyFor(hosts, program.Verified(c.log, c.Callers, program.WithReason, mux)))
}

// onlyFor sets security headers on every response, and refuses requests for other hosts.
func onlyFor(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", page.Policy+"; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")

		if !slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(r.Host, host) }) {
			http.Error(w, "this console answers to "+strings.Join(hosts, ", "), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// servePage returns a handler that makes a page with read for each request. It makes one page at a time, since c.pages
// is not safe for concurrent use; a request that is given up while it waits leaves.
func (c *Console) servePage(read func(context.Context, *http.Request) (report.AnyPage, error)) http.HandlerFunc {
	write := func(r *http.Request) ([]byte, error) {
		if err := c.made.Acquire(r.Context(), 1); err != nil {
			return nil, err
		}
		defer c.made.Release(1)
		view, err := read(r.Context(), r)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = view.Write(&out)
		return out.Bytes(), err
	}
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := write(r)
		c.answer(w, r, text, err)
	}
}

// serveSweep serves the page of a sweep. A request that names the current version (If-None-Match) gets 304 without a
// body. The header Poll says after how many milliseconds to ask again.
func (c *Console) serveSweep(w http.ResponseWriter, r *http.Request) {
	s, err := c.sweepPage(r.Context(), sweep.ID(r.PathValue("id")))
	if err != nil {
		c.answer(w, r, nil, err)
		return
	}
	tag := `"` + page.VersionOf(s.page) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Poll", strconv.FormatInt(c.pause.Milliseconds(), 10))
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	c.answer(w, r, s.page, nil)
}

// answer sends a page or, with its HTTP status, the reason why there is none. What a viewer cannot have named rightly
// (kinds NotFound and Input) is not found; other errors are those of the buckets, and are logged.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, text []byte, err error) {
	switch {
	case err != nil && (problem.Is(err, problem.NotFound) || problem.Is(err, problem.Input)):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil && r.Context().Err() != nil:
		w.WriteHeader(http.StatusServiceUnavailable) // the viewer has left
	case err != nil:
		c.log.Warn("a page cannot be made", "path", r.URL.Path, "error", err.Error())
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text) // the viewer may have left
	}
}

// Serve serves requests for hosts on l until ctx ends, and then ends those that have begun.
func (c *Console) Serve(ctx context.Context, l net.Listener, hosts []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{Handler: c.Handler(hosts), ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog:    slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	return program.Serve(ctx, server, l, 0, 0)
}
