// Package console serves pages: a list of the sweeps and models, and for each the page that `launcher report` would
// write, byte by byte. The page of a running sweep is notified by server-sent events when it has changed, and reloads.
// A single poller reads for all viewers, with at most one request a second (steady).
//
// It reads, and acts only if it was started to: then a viewer with its token can cancel a sweep, promote a version and
// roll a champion back (Actions). On loopback it has no authentication: anyone who can connect to this machine's
// loopback sees what the user of `launcher console` may see. On another address every request needs an identity token
// (Callers). Requests for another host are rejected, so that a foreign page cannot read this one through a browser (DNS
// rebinding).
package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"coppice/internal/blob"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/report"
)

// Durations and limits.
const (
	lookedAt  = time.Minute      // how long a sweep is polled after it was last viewed
	stillGood = 30 * time.Second // lifetime of pages without change notifications
	pollPause = time.Second      // least time between two rounds
	mostOpen  = 50               // sweeps kept in memory
)

// Console serves the pages.
type Console struct {
	Online  bool // as in report.SweepReader; without it nothing is paid for, and no page has costs
	Actions Actions
	Callers Callers // nil only on a loopback address

	sweeps, datasets, models *steady

	reg    *registry.Registry
	index  *report.Cache
	nights *report.Datasets
	now    func() time.Time
	log    *slog.Logger

	first  turn            // serialises first reads of sweeps
	made   turn            // serialises other pages, whose data are not safe for concurrent use
	acting map[string]turn // serialises actions of one kind

	explained turn           // serialises explanations of rows
	explainer *scorer.Scorer // of the version that explained the last one; nil before
	explains  string         // its name

	mu    sync.Mutex
	open  map[sweep.ID]*watched
	still map[string]*still // pages by path
}

// turn is a lock that can be waited for with a context.
type turn chan struct{}

// take acquires it, waiting at most until ctx ends, so that a viewer who has left delays no one.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// watched is a sweep that is being viewed.
type watched struct {
	reading sync.Mutex
	sweep   *report.SweepReader
	page    []byte
	version string
	ended   bool
	looked  time.Time
	changed chan struct{} // closed when the page has changed
}

// still is a page that is rendered again when it has expired.
type still struct {
	page    []byte
	at      time.Time
	renewed bool // it is being rendered again
}

// New returns a console on three buckets.
func New(sweeps, datasets, models blob.Store, now func() time.Time, log *slog.Logger) *Console {
	c := &Console{sweeps: newSteady(sweeps, now), datasets: newSteady(datasets, now), models: newSteady(models, now),
		now: now, log: log, first: make(turn, 1), made: make(turn, 1),
		explained: make(turn, 1), acting: map[string]turn{Cancel: make(turn, 1),
			Promote: make(turn, 1), Rollback: make(turn, 1)}, open: map[sweep.ID]*watched{}, still: map[string]*still{}}
	c.models.limit, c.datasets.limit = c.sweeps.limit, c.sweeps.limit // one limit for all
	c.reg = registry.New(c.models)
	c.index = report.NewIndex(c.sweeps, c.datasets, c.reg)
	c.nights = report.NewDatasets(c.datasets, c.index)
	return c
}

// Run polls the viewed sweeps until ctx ends.
func (c *Console) Run(ctx context.Context) {
	for {
		for _, w := range c.wanted() {
			if err := c.look(ctx, w); err != nil && ctx.Err() == nil {
				c.log.Warn("a sweep cannot be read", "sweep", w.sweep.Plan().Sweep, "error", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollPause):
		}
	}
}

// wanted returns the viewed sweeps that have not ended; those not viewed for long are dropped.
func (c *Console) wanted() []*watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*watched
	for id, w := range c.open {
		old := c.now().Sub(w.looked) > lookedAt
		if old && !w.ended || old && len(c.open) > mostOpen {
			delete(c.open, id)
		} else if !w.ended {
			out = append(out, w)
		}
	}
	return out
}

// look reads a sweep again, and notifies its viewers if it has changed.
func (c *Console) look(ctx context.Context, w *watched) error {
	w.reading.Lock()
	defer w.reading.Unlock()
	c.sweeps.next()
	view, ended, err := w.sweep.Look(ctx)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := view.Write(&text); err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	w.ended = ended
	if v := page.VersionOf(text.Bytes()); v != w.version || ended {
		w.page, w.version = text.Bytes(), v
		close(w.changed)
		w.changed = make(chan struct{})
	}
	return nil
}

// at returns the sweep, reading it first if necessary.
func (c *Console) at(ctx context.Context, id sweep.ID) (*watched, error) {
	if err := c.first.take(ctx); err != nil {
		return nil, err
	}
	defer c.first.give()
	c.mu.Lock()
	w := c.open[id]
	c.mu.Unlock()
	if w == nil {
		s, err := report.OpenSweep(unhurried(ctx), c.sweeps, c.reg, id)
		if err != nil {
			return nil, err
		}
		s.Online, s.Free = c.Online, !c.Online
		w = &watched{sweep: s, changed: make(chan struct{})}
		if err := c.look(unhurried(ctx), w); err != nil {
			return nil, err
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[id] = w
	w.looked = c.now()
	return w, nil
}

// state returns a watched sweep's current page, and a channel that is closed when it changes.
func (c *Console) state(w *watched) (text []byte, version string, ended bool, more <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.looked = c.now()
	return w.page, w.version, w.ended, w.changed
}

// Handler serves requests that were sent to one of hosts, as a browser names them.
func (c *Console) Handler(hosts []string) http.Handler {
	c.index.Free = !c.Online
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		c.serveStill(w, r, func(ctx context.Context, out *bytes.Buffer) error {
			c.sweeps.next()
			c.datasets.next()
			c.models.next()
			view, err := c.index.Look(ctx)
			if err != nil {
				return err
			}
			if err := c.nights.Tonight(ctx, view); err != nil {
				return err
			}
			return view.Write(out)
		})
	})

	mux.HandleFunc("GET /datasets/{ref}", func(w http.ResponseWriter, r *http.Request) {
		c.serveStill(w, r, func(ctx context.Context, out *bytes.Buffer) error {
			c.sweeps.next()
			c.datasets.next()
			view, err := c.nights.Look(ctx, r.PathValue("ref"))
			if err != nil {
				return err
			}
			return view.Write(out)
		})
	})

	mux.HandleFunc("GET /models/{name}", func(w http.ResponseWriter, r *http.Request) {
		c.serveStill(w, r, func(ctx context.Context, out *bytes.Buffer) error {
			c.sweeps.next()
			c.datasets.next()
			c.models.next()
			view, err := report.Model(ctx, c.reg, r.PathValue("name"))
			if err != nil {
				return err
			}
			if err := c.nights.Nights(ctx, view); err != nil {
				return err
			}
			return view.Write(out)
		})
	})

	mux.HandleFunc("POST /models/{name}/{version}/explain", c.serveExplain)
	mux.HandleFunc("GET /sweeps/{id}", c.serveSweep)
	mux.HandleFunc("GET /events/sweeps/{id}", c.serveEvents)
	mux.HandleFunc("GET /actions", c.serveOffer)
	mux.HandleFunc("POST /actions", c.serveAction)
	return prompt(guarded(hosts, c.verified(mux)))
}

// prompt answers a request with a body as soon as there is an answer, and closes the connection: otherwise the server
// would first wait for the rest of the body, which a stranger need not send.
func prompt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // if unsupported, ReadTimeout applies
	})
}

// guarded rejects requests for other hosts, and sets security headers on every response.
func guarded(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := false
		for _, h := range hosts {
			known = known || strings.EqualFold(r.Host, h)
		}

		if !known {
			http.Error(w, "this console answers to "+strings.Join(hosts, ", "), http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", page.Policy+"; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// serveStill serves a page; if it has expired, it is rendered again for later requests.
func (c *Console) serveStill(w http.ResponseWriter, r *http.Request,
	render func(context.Context, *bytes.Buffer) error) {
	path := r.URL.Path
	c.mu.Lock()
	s := c.still[path]
	renew := s != nil && !s.renewed && c.now().Sub(s.at) > stillGood
	if renew {
		s.renewed = true
	}
	c.mu.Unlock()

	build := func(ctx context.Context) (*still, error) {
		if err := c.made.take(ctx); err != nil {
			return nil, err
		}
		defer c.made.give()
		var out bytes.Buffer
		if err := render(ctx, &out); err != nil {
			return nil, err
		}
		made := &still{page: out.Bytes(), at: c.now()}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.still[path] = made
		return made, nil
	}
	var err error
	switch {
	case s == nil:
		s, err = build(unhurried(r.Context()))
	case renew:
		go func() { // no faster than the bucket should be polled
			if _, err := build(context.WithoutCancel(r.Context())); err != nil {
				c.log.Warn("a page cannot be updated", "path", path, "error", err.Error())
				c.mu.Lock()
				s.renewed = false
				c.mu.Unlock()
			}
		}()
	}
	if err != nil {
		c.answer(w, r, nil, err)
		return
	}
	c.answer(w, r, s.page, nil)
}

func (c *Console) serveSweep(w http.ResponseWriter, r *http.Request) {
	s, err := c.at(r.Context(), sweep.ID(r.PathValue("id")))
	if err != nil {
		c.answer(w, r, nil, err)
		return
	}
	text, _, _, _ := c.state(s)
	c.answer(w, r, text, nil)
}

// answer sends a page, or the reason why there is none.
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

// serveEvents sends an event for every change of a sweep's page, until it has ended or the viewer has left.
func (c *Console) serveEvents(w http.ResponseWriter, r *http.Request) {
	s, err := c.at(r.Context(), sweep.ID(r.PathValue("id")))
	if err != nil {
		c.answer(w, r, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	beat := time.NewTicker(15 * time.Second) // intermediaries cut silent connections
	defer beat.Stop()
	var over <-chan time.Time // never on loopback
	if c.Callers != nil {
		over = time.After(streamLife)
	}

	for {
		_, version, ended, more := c.state(s)
		fmt.Fprintf(w, "event: version\ndata: %s\n\n", version)
		if ended {
			fmt.Fprint(w, "event: ended\ndata: \n\n")
		}
		if control.Flush() != nil || ended {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-over:
			return
		case <-more:
		case <-beat.C:
		}
	}
}

// Serve serves until ctx ends.
func (c *Console) Serve(ctx context.Context, l net.Listener, hosts []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{Handler: http.MaxBytesHandler(c.Handler(hosts), mostRow),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	go c.Run(ctx)

	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if err := server.Close(); err != nil { // event streams would not end by themselves
		return fmt.Errorf("end the console: %w", err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}

	c.finishActions(ctx)
	return nil
}

// actionGrace is how long a console that ends waits for actions.
const actionGrace = 10 * time.Second

// finishActions waits for actions that have begun, as far as that takes seconds: all orders of a cancellation are given
// by then. No other action begins afterwards.
func (c *Console) finishActions(ctx context.Context) {
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), actionGrace)
	defer cancel()
	for kind, acting := range c.acting {
		if acting.take(rest) != nil {
			c.log.Warn("the console ends during an action; `launcher status` or `launcher registry show` "+
				"tells its outcome", "do", kind)
		}
	}
}
