package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"coppice/internal/must"
	"coppice/internal/telemetry"
)

// receiver stands for a collector that takes OTLP over HTTP, and keeps what it gets.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []*collector.ExportMetricsServiceRequest
	fail int // status of the answer; 0 takes what comes
}

// newReceiver starts a receiver that ends with the test. If fail is not 0, it answers everything with that status.
func newReceiver(t *testing.T, fail int) *receiver {
	t.Helper()
	r := &receiver{fail: fail}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.fail != 0 {
			w.WriteHeader(r.fail)
			return
		}
		unzipped, err := gzip.NewReader(q.Body)
		if err != nil || q.URL.Path != "/v1/metrics" || q.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("received %s %s with headers %v (error %v); want compressed protobuf at /v1/metrics", q.Method,
				q.URL, q.Header, err)
			return
		}
		data, err := io.ReadAll(unzipped)
		var m collector.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(data, &m)
		}
		if err != nil {
			t.Errorf("reading what was pushed: got error %v, want none", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, &m)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// options are those of a task that pushes to an endpoint and logs to log.
func options(endpoint string, log io.Writer, readers ...sdk.Reader) telemetry.Options {
	return telemetry.Options{Program: "task", Version: "v1", Project: "p", Instance: "host/3", Endpoint: endpoint,
		Log: slog.New(slog.NewTextHandler(log, nil)), Readers: readers}
}

// TestPushedAtTheEnd: Close pushes the last measurements, with the attributes of the program, also if the process lived
// for less than the time between two pushes and its context has ended.
func TestPushedAtTheEnd(t *testing.T) {
	r := newReceiver(t, 0)
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	m := telemetry.Start(ctx, options(r.URL+"/", &log))
	trees := must.Get(m.Meter().Int64Counter("coppice.task.trees"))(t)
	trees.Add(ctx, 41)
	trees.Add(ctx, 1)
	cancel()
	m.Close(ctx)
	if len(r.got) != 1 || log.Len() > 0 {
		t.Fatalf("%d pushes, log %q; want one, and nothing logged", len(r.got), log.String())
	}
	pushed := r.got[0].ResourceMetrics[0]
	about := map[string]string{}
	for _, a := range pushed.Resource.Attributes {
		about[a.Key] = a.Value.GetStringValue()
	}
	for key, want := range map[string]string{"service.name": "coppice-task", "service.version": "v1",
		"service.instance.id": "host/3", "gcp.project_id": "p"} {
		if about[key] != want {
			t.Errorf("%s is %q, want %q", key, about[key], want)
		}
	}
	got := pushed.ScopeMetrics[0].Metrics[0]
	sum := got.GetSum()
	if got.Name != "coppice.task.trees" || !sum.GetIsMonotonic() ||
		sum.GetAggregationTemporality() != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE ||
		sum.DataPoints[0].GetAsInt() != 42 {
		t.Errorf("pushed %v, want 42 of coppice.task.trees, cumulative and monotonic", got)
	}
}

// TestACollectorThatFailsIsALineInTheLog: a collector that refuses, is busy, is gone or has a wrong address costs one
// line in the log, and Close returns within 8 s: it gives the last push 5 s.
func TestACollectorThatFailsIsALineInTheLog(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, endpoint := range map[string]string{
		"refuses": newReceiver(t, http.StatusBadRequest).URL,
		"is busy": newReceiver(t, http.StatusServiceUnavailable).URL, "is gone": gone.URL,
		"has no address": "collector:4318", "has no host": "http://", "is nonsense": "http://[::1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			m := telemetry.Start(t.Context(), options(endpoint, &log))
			c := must.Get(m.Meter().Int64Counter("x"))(t)
			c.Add(t.Context(), 1)
			began := time.Now()
			m.Close(t.Context())
			if took := time.Since(began); took > 8*time.Second || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("closed after %s, log %q; want less than 8 s, and one line", took, log.String())
			}
		})
	}
}

// TestFlush: when Flush returns, the collector has the measurements. A second Flush at once sends nothing, since Cloud
// Monitoring would refuse it, and Close sends what is left.
func TestFlush(t *testing.T) {
	r := newReceiver(t, 0)
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	m := telemetry.Start(ctx, options(r.URL, &log))
	c := must.Get(m.Meter().Int64Counter("x"))(t)
	last := func() int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.got[len(r.got)-1].ResourceMetrics[0].ScopeMetrics[0].Metrics[0].GetSum().DataPoints[0].GetAsInt()
	}
	cancel() // the caller is gone
	c.Add(ctx, 3)
	m.Flush(ctx)
	if len(r.got) != 1 || last() != 3 {
		t.Fatalf("%d pushes, want one with the sum 3", len(r.got))
	}
	c.Add(ctx, 4)
	m.Flush(ctx)
	if len(r.got) != 1 {
		t.Errorf("%d pushes within a moment, want one", len(r.got))
	}
	m.Close(ctx)
	if len(r.got) != 2 || last() != 7 || log.Len() > 0 {
		t.Errorf("%d pushes, log %q; want two, the last with the sum 7, and nothing logged", len(r.got), log.String())
	}
}

// TestFlushDoesNotWaitForACollector: Flush returns although the collector does not answer: its limit is 2 s, and the
// test allows 8 s on a busy machine.
func TestFlushDoesNotWaitForACollector(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		<-release
	}))
	defer hangs.Close()
	m := telemetry.Start(t.Context(), options(hangs.URL, io.Discard))
	c := must.Get(m.Meter().Int64Counter("x"))(t)
	c.Add(t.Context(), 1)
	began := time.Now()
	m.Flush(t.Context())
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %s, want less than 8 s", took)
	}
	close(release)
	m.Close(t.Context())
}

// TestNothingIsPushedUnasked: without an address for metrics nothing is sent, and nothing is said of it.
func TestNothingIsPushedUnasked(t *testing.T) {
	var log bytes.Buffer
	m := telemetry.Start(t.Context(), options("", &log))
	if _, err := m.Meter().Int64Counter("x"); err != nil {
		t.Errorf("making a counter: got error %v, want none", err)
	}
	m.Flush(t.Context())
	m.Close(t.Context())
	if log.Len() > 0 {
		t.Errorf("nothing is configured, but the log says %s", log.String())
	}
}
