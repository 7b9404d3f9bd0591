// Package telemetry exports a program's measurements with OpenTelemetry's SDK: pushed by OTLP over HTTP to a collector
// or to Cloud Monitoring itself, or read in the process (the server does so for Prometheus). Measuring never fails a
// program: if a collector does not answer, that is logged.
package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/detectors/gcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"coppice/internal/cloud"
)

// Options say what is measured and where it is sent.
type Options struct {
	Program  string // task, aggregator
	Version  string
	Project  string // of Google Cloud; required by Cloud Monitoring
	Instance string // distinguishes this process from others of the program
	// Endpoint is the base URL of a collector, http://HOST:4318 or https://telemetry.googleapis.com for Cloud
	// Monitoring (then with the application default credentials); "" pushes nothing. It comes from
	// OTEL_EXPORTER_OTLP_ENDPOINT.
	Endpoint string
	// Every is the time between two pushes; 0 is half a minute. If Flush pushes at the end of every request, it must be
	// longer than the pause between two requests: each flush restarts it, and a push that is overdue when a request
	// wakes the process would go out just before that request's own, which Cloud Monitoring then rejects.
	Every   time.Duration
	Log     *slog.Logger
	Readers []Reader // further readers, such as the exporter of Prometheus
}

// Reader reads measurements inside the process.
type Reader = sdk.Reader

// scope is the instruments' scope.
const scope = "coppice"

// Limits on pushing.
const (
	pushEvery = 30 * time.Second
	pushLimit = 10 * time.Second // per push, including retries
	nowLimit  = 2 * time.Second  // for a push that delays a caller
	// Cloud Monitoring accepts one point of a time series per this interval; https://cloud.google.com/monitoring/quotas
	nowEvery  = 5 * time.Second
	lastLimit = 5 * time.Second // for the last push
	askLimit  = 2 * time.Second // for the metadata server to describe this machine
)

// HurryLimit bounds the last push of a process that was told to stop: it is killed a few seconds later and has other
// things to do.
const HurryLimit = 1500 * time.Millisecond

// Telemetry exports a program's measurements. Close sends the last ones. It is safe for concurrent use.
type Telemetry struct {
	provider *sdk.MeterProvider

	mu      sync.Mutex
	flushed time.Time // when Flush began to send
}

// Start starts exporting in the background, until Close. An invalid endpoint, or missing credentials for Google's, is
// logged, and then nothing is pushed: a sweep must not fail because of its telemetry.
func Start(ctx context.Context, o Options) *Telemetry {
	attrs := []attribute.KeyValue{
		attribute.String("service.namespace", scope), attribute.String("service.name", scope+"-"+o.Program),
		attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance),
		attribute.String("gcp.project_id", o.Project),
	}

	var opts []sdk.Option
	if o.Endpoint != "" {
		exporter, google, err := makeExporter(ctx, o.Endpoint)
		switch {
		case err != nil:
			o.Log.Error("measurements are not pushed; set OTEL_EXPORTER_OTLP_ENDPOINT to http://HOST:4318 of a "+
				"collector or to "+googleEndpoint, "error", err.Error())
		case google:
			attrs = append(attrs, describeMachine(ctx, o.Log)...)
		}
		if err == nil {
			silent := &quiet{Exporter: exporter, log: o.Log, endpoint: o.Endpoint}
			opts = append(opts, sdk.WithReader(sdk.NewPeriodicReader(silent,
				sdk.WithInterval(cmp.Or(o.Every, pushEvery)), sdk.WithTimeout(pushLimit))))
		}
	}

	for _, r := range o.Readers {
		opts = append(opts, sdk.WithReader(r))
	}
	opts = append(opts, sdk.WithResource(resource.NewSchemaless(attrs...)))
	return &Telemetry{provider: sdk.NewMeterProvider(opts...)}
}

// Meter returns a meter, which makes instruments.
func (t *Telemetry) Meter() metric.Meter { return t.provider.Meter(scope) }

// Flush sends the current measurements and returns when they are sent, after two seconds at most. It is for a process
// that may be suspended before the next push: between two requests, Cloud Run takes the CPU away. It does nothing
// within five seconds of the previous Flush. What is not sent, or not accepted, goes with the next push or with Close,
// so there is no error. ctx may have ended.
func (t *Telemetry) Flush(ctx context.Context) {
	t.mu.Lock()
	now := time.Now()
	soon := now.Sub(t.flushed) < nowEvery
	if !soon {
		t.flushed = now
	}
	t.mu.Unlock()
	if soon {
		return
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nowLimit)
	defer cancel()
	_ = t.provider.ForceFlush(ctx) // a failed push has been logged already
}

// Close sends the last measurements and stops. ctx may have ended already, as it has when most programs end.
func (t *Telemetry) Close(ctx context.Context) {
	limit := lastLimit
	if ctx.Err() != nil {
		limit = HurryLimit
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	// A failed push has been logged already, and nothing can be done if there was not enough time.
	_ = t.provider.Shutdown(ctx)
}

const googleEndpoint = "https://telemetry.googleapis.com"

// makeExporter makes an exporter that pushes to the endpoint. google reports whether that is Cloud Monitoring, for
// which the exporter uses the application default credentials.
func makeExporter(ctx context.Context, endpoint string) (e sdk.Exporter, google bool, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false, fmt.Errorf("%.200q is not http://HOST:PORT or https://HOST", endpoint)
	}

	opts := []otlpmetrichttp.Option{
		// The standard path of collectors, which the specification appends to this variable.
		otlpmetrichttp.WithEndpointURL(strings.TrimSuffix(u.String(), "/") + "/v1/metrics"),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: time.Second,
			MaxInterval: pushLimit / 2, MaxElapsedTime: pushLimit}),
	}

	// Google's own endpoint requires credentials, a collector does not.
	if u.Host == strings.TrimPrefix(googleEndpoint, "https://") {
		client, err := cloud.HTTPClient(ctx, "https://www.googleapis.com/auth/monitoring.write")
		if err != nil {
			return nil, false, err
		}
		client.Timeout = pushLimit
		opts = append(opts, otlpmetrichttp.WithHTTPClient(client))
		google = true
	} else {
		opts = append(opts, otlpmetrichttp.WithHTTPClient(&http.Client{Timeout: pushLimit}))
	}

	e, err = otlpmetrichttp.New(ctx, opts...)
	return e, google, err
}

// describeMachine returns attributes of the machine on which this process runs, above all its location, without which
// Cloud Monitoring rejects measurements. It asks the machine's metadata server, for two seconds at most; what that does
// not tell is logged and left out. Source: https://cloud.google.com/stackdriver/docs/reference/telemetry/v1.metrics
func describeMachine(ctx context.Context, log *slog.Logger) []attribute.KeyValue {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, err := gcp.NewDetector().Detect(ctx)
	if err != nil {
		log.Warn("ask the machine where it is", "error", err.Error())
	}
	if found == nil {
		return nil
	}
	return found.Attributes()
}

// quiet is an exporter whose failures are logged and not returned, and only the first one of several in a row.
type quiet struct {
	sdk.Exporter
	log      *slog.Logger
	endpoint string
	failing  bool // a PeriodicReader exports from one goroutine at a time
}
