package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"

	"coppice/internal/program"
	"coppice/internal/telemetry"
)

// page is where Prometheus scrapes the aggregator's metrics. It has a port of its own: the one of /push is open to the
// internet on Cloud Run. nil is no page.
type page struct {
	address string
	cmd     *cobra.Command
	server  *http.Server
	done    chan error
}

const metricsFlag = "metrics"

func newPage() *page { return &page{address: "127.0.0.1:9464"} } // the port that OpenTelemetry's specification proposes

func (p *page) add(cmd *cobra.Command) {
	p.cmd = cmd
	cmd.Flags().StringVar(&p.address, metricsFlag, p.address,
		"address of the page /metrics for Prometheus; empty for none")
}

// open serves the page and returns its metric readers. If the default port is taken, another is used, since several
// aggregators may run on a machine; if a requested port is taken, that is an error.
func (p *page) open(ctx context.Context, log *slog.Logger) ([]telemetry.Reader, error) {
	if p == nil || p.address == "" {
		return nil, nil
	}
	l, err := program.Listen(ctx, p.address)
	const winInUse = syscall.Errno(10048) // WSAEADDRINUSE, which no other system has
	if (errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, winInUse)) && !p.cmd.Flags().Changed(metricsFlag) {
		l, err = program.Listen(ctx, "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("/metrics: %w; set another address with --%s, or an empty one for none", err,
			metricsFlag)
	}

	// Names have underscores for dots, their unit and, for counters, _total at the end: coppice.sweep.best_score is
	// coppice_sweep_best_score. Only the aggregator links Prometheus's library.
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the page for Prometheus: %w", err), l.Close())
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	p.server, p.done = &http.Server{Handler: prompt(mux), ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: time.Minute}, make(chan error, 1)
	log.Info("metrics for Prometheus", "address", "http://"+l.Addr().String()+"/metrics")
	go func() { p.done <- p.server.Serve(l) }()
	return []telemetry.Reader{reader}, nil
}

func (p *page) close() error {
	if p == nil || p.server == nil {
		return nil
	}
	err := p.server.Close()
	if served := <-p.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
