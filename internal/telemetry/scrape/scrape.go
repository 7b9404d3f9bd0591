// Package scrape exposes a program's measurements to Prometheus. It is separate from telemetry so that programs that
// only push do not link Prometheus's library.
package scrape

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// New returns a reader for telemetry.Options and the page for Prometheus to scrape. Names have underscores for dots,
// their unit and, for counters, _total at the end: coppice.sweep.best_score is coppice_sweep_best_score.
func New() (sdk.Reader, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("make the page for Prometheus: %w", err)
	}
	return reader, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
