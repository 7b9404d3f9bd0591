package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"coppice/aggregator/internal/conclude"
	"coppice/internal/cloud"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/internal/telemetry"
)

// serveCommand returns the command that runs the service.
func serveCommand(w *Setup) *cobra.Command {
	listen := "127.0.0.1:8080"
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Conclude sweeps behind a Pub/Sub push endpoint",
		Long: `Serves HTTP:
  POST /push       a Pub/Sub push message (204: handled; 5xx: send it again)
  POST /reconcile  check every open sweep, for Cloud Scheduler
  GET  /healthz    200 while the server runs

It listens on this machine only unless told otherwise; on Cloud Run, use --listen :8080. Then every POST needs
an identity token signed by Google for the audience COPPICE_AUDIENCE and one of the accounts COPPICE_CALLERS
(comma-separated e-mail addresses); terraform/ sets both, and without them it does not start.
COPPICE_SIGNATURES=cloud-run means that Cloud Run has verified the token's signature, and removed it, before
the request arrives.`,
		Example: "  aggregator serve --listen 127.0.0.1:8080",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.withAggregator(cmd.Context(), pushEvery, func(a *conclude.Aggregator,
				m *telemetry.Telemetry) error {
				return w.serve(cmd.Context(), a, listen, m.Flush)
			})
		},
	}

	cmd.Flags().StringVar(&listen, "listen", listen, "address to listen on")
	return cmd
}

// pushEvery is only a fallback: metrics are pushed with each request, and /reconcile comes at least every five minutes.
const pushEvery = 10 * time.Minute

// Time limits of a connection. Requests are short, but answering may mean concluding a sweep.
const (
	goodbye    = 8 * time.Second // for open requests to finish after SIGTERM; Cloud Run allows 10 s
	headerTime = 10 * time.Second
	readTime   = time.Minute
	answerTime = time.Hour // Cloud Run's longest request
	idleTime   = 2 * time.Minute
	maxHeader  = 32 << 10
)

// serve serves until ctx ends; flush is called at the end of every request that was acted on.
func (w *Setup) serve(ctx context.Context, a *conclude.Aggregator, address string, flush func(context.Context)) error {
	l, err := program.Listen(ctx, address)
	if err != nil {
		return err
	}

	callers, err := w.callersAt(ctx, l.Addr())
	if err != nil {
		return errors.Join(err, l.Close())
	}

	server := &http.Server{Handler: handler(a, callers, flush), ReadHeaderTimeout: headerTime, ReadTimeout: readTime,
		WriteTimeout: answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
	a.Log.Info("aggregator serves", "address", l.Addr().String(), "callers_checked", callers != nil)
	return program.Serve(ctx, server, l, 0, goodbye)
}

// callersAt creates the authenticator for a server that listens at an address. It returns nil, which accepts all
// callers, only if none are configured and the address can be reached only from this machine. If others could reach
// it, settings are required; the error then says which.
func (w *Setup) callersAt(ctx context.Context, at net.Addr) (program.Callers, error) {
	var env environment.CallersEnv
	if err := w.Environment(ctx, &env, callersRemedy); err != nil {
		return nil, err
	}
	tcp, ok := at.(*net.TCPAddr)
	near := ok && tcp.IP.IsLoopback()
	if env.KeysURL != "" && !near {
		return nil, &cloud.SetupError{What: "COPPICE_KEYS_URL is for a local cloud", Hint: "listen on 127.0.0.1"}
	}
	if env.Audience == "" && len(env.Callers) == 0 {
		if near {
			return nil, nil
		}
		return nil, &cloud.SetupError{What: fmt.Sprintf("%s can be reached from other machines, but the allowed "+
			"callers are not set", at), Hint: callersRemedy}
	}
	return w.Callers(ctx, env)
}

const callersRemedy = "set COPPICE_AUDIENCE and COPPICE_CALLERS as terraform/ does, or listen on 127.0.0.1"

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

// handler serves Pub/Sub's pushes, the schedule's /reconcile, and /healthz. It calls flush, which pushes metrics,
// before the caller has the answer: after the answer Cloud Run takes the CPU away.
func handler(a *conclude.Aggregator, callers program.Callers, flush func(context.Context)) http.Handler {
	post := func(act http.HandlerFunc) http.Handler {
		flushed := func(w http.ResponseWriter, r *http.Request) {
			keepConnection(w)
			act(w, r) // its short answer is sent when the handler returns
			flush(r.Context())
		}
		return program.Verified(a.Log, callers, program.StatusOnly, http.HandlerFunc(flushed))
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("POST /push", post(func(w http.ResponseWriter, r *http.Request) { handlePush(a, w, r) }))
	mux.Handle("POST /reconcile", post(func(w http.ResponseWriter, r *http.Request) {
		answer(a, w, "reconcile", a.Reconcile(r.Context()))
	}))
	return http.MaxBytesHandler(program.Prompt(mux), maxEnvelope)
}

// keepConnection removes the header by which program.Prompt has the connection closed. That is for requests whose
// body is not read; these are verified, and it will be.
func keepConnection(w http.ResponseWriter) { w.Header().Del("Connection") }

// handlePush processes a message of a push subscription, and answers 204, or 500 if it should be sent again. A request
// that is no such message is refused with 400, or 413 if it is too long, and so not acknowledged.
func handlePush(a *conclude.Aggregator, w http.ResponseWriter, r *http.Request) {
	var p pushed
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &p)
	}

	if err == nil {
		answer(a, w, "handle a message", a.Handle(r.Context(), p.Message.Data))
		return
	}

	// Not acknowledged: it is not a push message, and a real one would be redelivered.
	a.Log.Warn("refused a request", "path", r.URL.Path, "error", err.Error())
	status := http.StatusBadRequest
	if errors.As(err, new(*http.MaxBytesError)) {
		status = http.StatusRequestEntityTooLarge
	}
	http.Error(w, "not a Pub/Sub push message", status)
}

// answer answers a request that was acted on: 204, or after an error 500, so that the caller tries again. The error is
// logged under what was done, and not told to the caller.
func answer(a *conclude.Aggregator, w http.ResponseWriter, what string, err error) {
	if err != nil {
		conclude.Report(a.Log, what, err)
		http.Error(w, "failed; see the log", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
