package serve

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"

	"coppice/internal/telemetry"
)

// StartMetrics starts measuring: the page for Prometheus, the instruments, and the telemetry, which the caller closes.
func StartMetrics(ctx context.Context, o telemetry.Options) (http.Handler, *Meters, *telemetry.Telemetry, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make the page for Prometheus: %w", err)
	}
	o.Readers = append(o.Readers, reader)
	t := telemetry.Start(ctx, o)
	meters, err := NewMeters(t.Meter())
	if err != nil {
		t.Close(ctx)
		return nil, nil, nil, err
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), meters, t, nil
}
