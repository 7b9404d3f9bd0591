package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"coppice/aggregator/internal/conclude"
	"coppice/sweep"
)

func serveCommand(w *World) *cobra.Command {
	listen, metrics := "127.0.0.1:8080", newPage()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Conclude sweeps behind a Pub/Sub push endpoint",
		Long: `Serves HTTP:
  POST /push       a Pub/Sub push message (204: done with; 5xx: send it again)
  POST /reconcile  look at every open sweep, for Cloud Scheduler
  GET  /healthz    200 while the server runs
It listens on this machine only unless told otherwise; on Cloud Run, --listen :8080.`,
		Example: "  aggregator serve --listen 127.0.0.1:8080",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.with(cmd.Context(), metrics, func(a *conclude.Aggregator, _ *Backends) error { return serve(cmd.Context(), a, listen) })
		},
	}
	metrics.add(cmd)
	cmd.Flags().StringVar(&listen, "listen", listen, "address to listen on")
	return cmd
}

// goodbye is how long requests may take to finish once the server is told to end; Cloud Run allows 10 s.
const goodbye = 8 * time.Second

func serve(ctx context.Context, a *conclude.Aggregator, address string) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{Handler: handler(a), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
	a.Log.Info("aggregator serves", "address", l.Addr().String())
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("end the server: %w", err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// pushed is the envelope of a push subscription.
// Source: https://cloud.google.com/pubsub/docs/push#receive_push
type pushed struct {
	Message struct {
		Data      []byte `json:"data"` // base64 in JSON
		MessageID string `json:"messageId"`
	} `json:"message"`
	Subscription string `json:"subscription"`
}

// maxEnvelope leaves room for base64 and the envelope's own fields.
const maxEnvelope = 2 * sweep.MaxMessage

func handler(a *conclude.Aggregator) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("POST /push", func(w http.ResponseWriter, r *http.Request) {
		var p pushed
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEnvelope))
		if err == nil {
			err = json.Unmarshal(body, &p)
		}
		if err != nil {
			// Not acknowledged: it is no push message, and a real one would come again.
			a.Log.Warn("refused a request", "path", r.URL.Path, "error", err.Error())
			http.Error(w, "not a Pub/Sub push message", http.StatusBadRequest)
			return
		}
		answer(a, w, "handle a message", a.Handle(r.Context(), p.Message.Data))
	})
	mux.HandleFunc("POST /reconcile", func(w http.ResponseWriter, r *http.Request) {
		answer(a, w, "reconcile", a.Reconcile(r.Context()))
	})
	return mux
}

// answer tells the caller to try again when something failed. The reason goes to the log, not to whoever asks.
func answer(a *conclude.Aggregator, w http.ResponseWriter, what string, err error) {
	if err != nil {
		conclude.Report(a.Log, what, err)
		http.Error(w, "failed; see the log", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
