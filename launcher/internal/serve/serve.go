// Package serve answers requests for predictions with a registered version: raw rows by name in, calibrated
// probabilities out, the same bits as `launcher predict`.
//
//	request ─▶ limits ─▶ rows (json.go, rows.go) ─▶ Model.Score ─▶ answer, names its version
//	                                                        ▲
//	alias in the registry ─▶ watch: fetch, verify, warm, compare on the last requests ─▶ swap
//
// A version answers only when its files are verified and its trees compiled. While the alias moves, each request is
// scored by one version from its first row to its last, and the version before is unmapped when its last request has
// been answered.
package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/registry"
	"coppice/launcher/internal/console"
)

// Config says what is served, and what a request may be.
type Config struct {
	Registry *registry.Registry
	Model    string
	Ref      string // an alias or a number; empty for the champion
	Cache    string // folder of mapped levels

	MaxBytes int64         // of a request's body
	MaxRows  int           // of a request
	MaxQueue int           // requests that wait or are scored; more are told to come back
	Timeout  time.Duration // for reading a request, and for waiting
	Poll     time.Duration // between two looks at the alias
	Grace    time.Duration // after the end is asked for, in which requests are still taken and /readyz says no
	MaxShift float64       // of the mean prediction on the last requests that a new version may bring, relative

	Health, Predict string          // further paths of the health check and of predictions; empty for none
	Hosts           []string        // that requests may name; nil for any
	Callers         program.Callers // nil if callers are not authenticated
	Metrics         http.Handler    // nil for none
	Meters          *Meters         // nil for none
	Log             *slog.Logger
	Now             func() time.Time
}

// Environment is the environment of a server: who may call, what Vertex AI's contract for containers says
// (https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements), and Cloud Run's port.
type Environment struct {
	environment.CallersEnv
	VertexPort int    `env:"AIP_HTTP_PORT"`
	Port       int    `env:"PORT"`
	Health     string `env:"AIP_HEALTH_ROUTE"`
	Predict    string `env:"AIP_PREDICT_ROUTE"`
	Collector  string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
}

// Defaults are the limits of a server that is told none.
func Defaults() Config {
	return Config{MaxBytes: 4 << 20, MaxRows: 10_000, MaxQueue: 256, Timeout: 5 * time.Second, Poll: 10 * time.Second,
		Grace: 2 * time.Second, MaxShift: .3}
}

// Check rejects limits and routes that no server can keep, and sets c.Health and c.Predict to the environment's routes.
func (c *Config) Check(env Environment) error {
	if c.MaxQueue < 1 || c.Grace < 0 || !(c.MaxShift >= 0) {
		return problem.New(problem.Usage, "--max-queue has to be above 0, and --grace and --max-shift at least 0")
	}
	for _, route := range []string{env.Health, env.Predict} {
		if route != "" && (route[0] != '/' || route == "/" || strings.ContainsAny(route, "{} \t")) {
			return problem.New(problem.Usage, "AIP_HEALTH_ROUTE and AIP_PREDICT_ROUTE are paths such as /health, "+
				"not %q", route)
		}
	}
	c.Health, c.Predict = env.Health, env.Predict
	return nil
}

// Listen returns a listener on the port that Vertex AI or Cloud Run name in the environment or, if given is set or they
// name none, on the address. For the latter it sets c.Hosts, the hosts that requests may name. A port for all networks
// needs verified callers, except on Vertex AI, which lets in only those who may call.
func (c *Config) Listen(ctx context.Context, env Environment, address string, given bool) (l net.Listener, err error) {
	if port := cmp.Or(env.VertexPort, env.Port); port != 0 && !given {
		if env.VertexPort == 0 && c.Callers == nil {
			return nil, problem.New(problem.Usage, "PORT is set, as on Cloud Run: set COPPICE_AUDIENCE and "+
				"COPPICE_CALLERS, too, or give --listen 127.0.0.1:%d", port)
		}
		return program.Listen(ctx, net.JoinHostPort("", strconv.Itoa(port)))
	}
	l, c.Hosts, err = console.Listen(ctx, address, env.Audience)
	return l, err
}

// AddLimits adds the flags of limits and times, with those that are there as defaults.
func (c *Config) AddLimits(f *pflag.FlagSet) {
	f.IntVar(&c.MaxQueue, "max-queue", c.MaxQueue,
		"most requests that wait or are scored; others get 429 and Retry-After")
	f.DurationVar(&c.Grace, "grace", c.Grace,
		"time after SIGTERM in which /readyz says 503 and requests are still taken")
	f.Float64Var(&c.MaxShift, "max-shift", c.MaxShift,
		"most relative shift of the mean prediction that a new version may bring; 0 for any")
}

// Server answers requests. It is made by New.
type Server struct {
	c       Config
	current atomic.Pointer[Model]
	ending  atomic.Bool
	open    atomic.Int64  // requests that wait or are scored
	held    atomic.Int64  // bytes of requests that are read, wait or are scored
	turns   chan struct{} // has an element for each request that is being scored; full at the most at once
	scratch sync.Pool     // of *[]float64
	recent  recent
	callers known

	mu     sync.Mutex
	waits  string // why a new version does not answer yet; empty if there is none
	waited string // its name
}

// New returns a server that is not ready: Watch fetches its version.
func New(c Config) *Server {
	s := &Server{c: c, turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	s.scratch.New = func() any { return new([]float64) }
	return s
}

// acquireModel returns the version that answers, which the caller has to Release; nil if there is none yet.
func (s *Server) acquireModel() *Model {
	for {
		m := s.current.Load()
		if m == nil || m.Acquire() {
			return m
		}
		// It was closed between the two calls, so that there is a newer one.
	}
}

// maxRows is how many rows a request to m may have: c.MaxRows, but no more than keep its cells and its answer within
// about c.MaxBytes. Rows take memory for each of the model's columns, even if a request of few bytes leaves out their
// keys, and an answer names each of many classes in each row.
func (s *Server) maxRows(m *Model) int {
	return int(max(1, min(int64(s.c.MaxRows), s.c.MaxBytes/int64(max(1, len(m.columns), m.features, m.answer)))))
}

// Ready reports whether more requests may come.
func (s *Server) Ready() bool { return s.current.Load() != nil && !s.ending.Load() }

// notReady says why the server is not ready, to everybody who can reach it. It does not say what is wrong with a
// version: only callers may read that (/status).
func (s *Server) notReady() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ending.Load():
		return "the server is ending"
	case s.waits == "":
		return "no version is ready to answer yet"
	case s.waited == "":
		return "the registry cannot be asked which version is to answer, and is asked again; the log says why"
	}
	return s.waited + " cannot be loaded, and is tried again; the log and /status say why. " + adviceUnloaded
}

// adviceUnloaded is what people can do if no version answers.
const adviceUnloaded = "If it stays so, have the alias name another version: " +
	"`launcher registry rollback` or `promote`, with --alias"

// Handler serves predictions, status and metrics to verified callers who name this host. It tells everybody whether the
// server is alive and ready.
func (s *Server) Handler() http.Handler {
	// For everybody, such as what starts and stops this server: alive and ready.
	alive := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") }
	ready := func(w http.ResponseWriter, _ *http.Request) {
		if !s.Ready() {
			http.Error(w, s.notReady(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	}
	open := http.NewServeMux()
	if s.c.Health != "/healthz" { // Vertex AI's route may be this one, and then it says whether the server is ready
		open.HandleFunc("GET /healthz", alive)
	}
	for path := range paths("/readyz", s.c.Health) {
		open.HandleFunc("GET "+path, ready)
	}

	// For callers: all else.
	mux := http.NewServeMux()
	for path := range paths("/predict", s.c.Predict) {
		mux.HandleFunc("POST "+path, s.servePredict)
	}
	mux.HandleFunc("GET /status", s.serveStatus)
	if s.c.Metrics != nil {
		mux.Handle("GET /metrics", s.c.Metrics)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no %.10s %.80s here; send rows to POST /predict", r.Method,
			r.URL.EscapedPath()))
	})

	closed := s.guard(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if s.ending.Load() {
			w.Header().Set("Connection", "close") // the caller opens its next one elsewhere
		}
		if _, pattern := open.Handler(r); pattern != "" {
			open.ServeHTTP(w, r)
			return
		}
		closed.ServeHTTP(w, r)
	})
}

// paths returns the set of the given paths, without empty ones: registering one twice would panic.
func paths(all ...string) map[string]bool {
	out := map[string]bool{}
	for _, path := range all {
		if path != "" {
			out[path] = true
		}
	}
	return out
}

// guard passes requests on to next, except for those that name another host than s.c.Hosts, so that a web page
// elsewhere cannot ask through a browser (DNS rebinding), and those of callers who may not call.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isHost := func(host string) bool { return strings.EqualFold(r.Host, host) }
		if s.c.Hosts != nil && !slices.ContainsFunc(s.c.Hosts, isHost) {
			refuse(w, http.StatusMisdirectedRequest, "this server answers to "+strings.Join(s.c.Hosts, ", "))
			return
		}
		if s.c.Callers != nil {
			if status, err := s.callers.verify(r, s.c.Callers, s.now()); err != nil {
				if status == http.StatusUnauthorized {
					w.Header().Set("WWW-Authenticate", "Bearer")
				}
				refuse(w, status, err.Error())
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// now returns the time, by the clock of the tests if they have set one.
func (s *Server) now() time.Time {
	if s.c.Now != nil {
		return s.c.Now()
	}
	return time.Now()
}

// drain is how long the server waits for requests that have begun when it takes no more. With the usual grace of two
// seconds before it, that is less than the ten seconds after which Cloud Run kills the server.
const drain = 7 * time.Second

// Serve watches the alias and answers requests on l, over HTTP/1.1 and unencrypted HTTP/2, until ctx ends. From then on
// /readyz says that it is not ready; for the time of grace, in which a load balancer notices, requests are still
// answered. Serve then waits for the requests that have begun, at most for drain, closes the model and returns.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { s.Watch(watching) })
	defer func() {
		stop()
		group.Wait()
		if m := s.current.Swap(nil); m != nil {
			m.Retire()
		}
	}()

	// A request leaves some 100 kB of garbage. With a heap of few megabytes the collector would run dozens of times a
	// second, which took a tenth of the processor time. These 64 MiB let that much more garbage gather between two
	// runs; they are never touched, so that they take no memory themselves.
	ballast := make([]byte, 64<<20)
	defer runtime.KeepAlive(ballast)

	// A request may take Timeout for its header, as long again for its body, and then wait for its turn and be
	// answered. 16 KiB hold what proxies and tokens add to a header.
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: s.Handler(), Protocols: protocols, ReadHeaderTimeout: s.c.Timeout,
		ReadTimeout: 2 * s.c.Timeout, WriteTimeout: 4 * s.c.Timeout, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(s.c.Log.Handler(), slog.LevelDebug)}
	defer context.AfterFunc(ctx, func() { s.ending.Store(true) })()
	return program.Serve(ctx, server, l, s.c.Grace, drain)
}
