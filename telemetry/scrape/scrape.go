// Package scrape lets Prometheus read a program's measurements. It is apart from telemetry so that programs which only push
// need not carry Prometheus's library.
package scrape

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// New is a reader for telemetry.Options and the page on which Prometheus finds what it read. Names have underscores for dots,
// their unit and, for counters, _total at the end: coppice.sweep.best_score is coppice_sweep_best_score.
func New() (sdk.Reader, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("make the page for Prometheus: %w", err)
	}
	return reader, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
