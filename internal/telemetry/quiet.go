package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Export pushes measurements. It logs the first failure after a success, and the first success after a failure. It
// always returns nil, because the SDK would pass an error to a handler for the whole process, which prints it.
func (q *quiet) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	err := q.Exporter.Export(ctx, m)
	switch {
	case err != nil && !q.failing:
		q.log.Warn("push metrics; will keep trying", "endpoint", q.endpoint, "error", err.Error())
	case err == nil && q.failing:
		q.log.Info("measurements are being pushed again", "endpoint", q.endpoint)
	}
	q.failing = err != nil
	return nil
}
