package serve

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/console"
)

// Environment is the environment of a server: who may call, what Vertex AI's contract for containers says
// (https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements), and Cloud Run's port.
type Environment struct {
	sweep.CallersEnv
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

// Check rejects limits and routes that no server can keep, and takes over the routes.
func (c *Config) Check(env Environment) error {
	if c.MaxBytes < 1 || c.MaxRows < 1 || c.MaxQueue < 1 || c.Timeout <= 0 || c.Poll <= 0 || c.Grace < 0 ||
		!(c.MaxShift >= 0) {
		return problem.New(problem.Usage, "--max-bytes, --max-rows, --max-queue, --timeout and --poll have to be "+
			"above 0, and --grace and --max-shift at least 0")
	}
	for _, route := range []string{env.Health, env.Predict} {
		if route != "" && (route[0] != '/' || route == "/" || strings.ContainsAny(route, "{} \t")) {
			return problem.New(problem.Usage, "AIP_HEALTH_ROUTE and AIP_PREDICT_ROUTE are paths such as /health, "+
				"not %q",
				route)
		}
	}
	c.Health, c.Predict = env.Health, env.Predict
	return nil
}

// Listen listens where Vertex AI or Cloud Run say, which let only those in who may call, unless an address is given; it
// sets the hosts that requests may name.
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
	f.Int64Var(&c.MaxBytes, "max-bytes", c.MaxBytes, "most bytes of a request")
	f.IntVar(&c.MaxRows, "max-rows", c.MaxRows, "most rows of a request")
	f.IntVar(&c.MaxQueue, "max-queue", c.MaxQueue,
		"most requests that wait or are scored; others get 429 and Retry-After")
	f.DurationVar(&c.Timeout, "timeout", c.Timeout, "longest time for a request to arrive, and to wait for its turn")
	f.DurationVar(&c.Poll, "poll", c.Poll, "time between two looks at the alias")
	f.DurationVar(&c.Grace, "grace", c.Grace,
		"time after SIGTERM in which /readyz says 503 and requests are still taken")
	f.Float64Var(&c.MaxShift, "max-shift", c.MaxShift,
		"most relative shift of the mean prediction that a new version may bring; 0 for any")
}
