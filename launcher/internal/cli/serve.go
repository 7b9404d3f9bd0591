package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"coppice/internal/sweep"
	"coppice/internal/telemetry"
	"coppice/launcher/internal/serve"
)

func serveCommand(w *Setup) *cobra.Command {
	model, listen, q := "", "127.0.0.1:8766", serve.Defaults()
	cmd := &cobra.Command{
		Use:   "serve --model MODEL[@ALIAS|@VERSION]",
		Short: "Answer requests for predictions with a registered model",
		Long: `Answers, until Ctrl-C or SIGTERM, rows with one calibrated probability each: the same bits as launcher
predict. POST /predict takes JSON ({"instances": [{"column": value, ...}, ...]}), lines of JSON, CSV or an Arrow
stream, by Content-Type; /v2/models/MODEL/infer speaks the Open Inference Protocol, and in a container of Vertex AI
its routes and port are used. /readyz, /metrics (Prometheus) and /status say how it is. docs/serving.md has more.

Without @VERSION it follows the champion, or the alias: a new version is fetched, verified, warmed and compared on
the last requests, and then answers from one request to the next. It waits if its mean prediction is off by more than
--max-shift.

It listens on this machine only. On another address every request needs an identity token, as for launcher console.`,
		Example: `  launcher serve --model ctr
  curl --json '{"instances": [{"site": "a.com", "hour": 7}]}' http://127.0.0.1:8766/predict
  launcher serve --model ctr@canary --listen 127.0.0.1:9000 --max-rows 500`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(cmd.Context(), w, model, listen, cmd.Flags().Changed("listen"), q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "registered model (required)")
	f.StringVar(&listen, "listen", listen, "address to listen on")
	f.StringVar(&q.Shadow, "shadow", "", "alias or version that is scored beside and does not answer")
	f.Int64Var(&q.MaxBytes, "max-bytes", q.MaxBytes, "most bytes of a request")
	f.IntVar(&q.MaxRows, "max-rows", q.MaxRows, "most rows of a request")
	f.IntVar(&q.MaxQueue, "max-queue", q.MaxQueue, "most requests that wait or are scored; others get 429 and Retry-After")
	f.DurationVar(&q.Timeout, "timeout", q.Timeout, "longest time for a request to arrive, and to wait for its turn")
	f.DurationVar(&q.Poll, "poll", q.Poll, "time between two looks at the alias")
	f.DurationVar(&q.Grace, "grace", q.Grace, "time after SIGTERM in which /readyz says 503 and requests are still taken")
	f.Float64Var(&q.MaxShift, "max-shift", q.MaxShift,
		"most relative shift of the mean prediction that a new version may bring; 0 for any")
	_ = cmd.MarkFlagRequired("model")
	return cmd
}

func runServe(ctx context.Context, w *Setup, model, listen string, given bool, q serve.Config) error {
	var env serve.Environment
	if err := w.Environment(ctx, &env, "set COPPICE_AUDIENCE and COPPICE_CALLERS, or listen on 127.0.0.1"); err != nil {
		return err
	}
	name, ref, err := sweep.SplitModelRef(model)
	if err != nil {
		return err
	}
	if err := q.Check(env); err != nil {
		return err
	}
	if env.Audience != "" || len(env.Callers) > 0 {
		if q.Callers, err = w.Callers(ctx, env.CallersEnv); err != nil {
			return err
		}
	}

	l, err := q.Listen(ctx, env, listen, given)
	if err != nil {
		return err
	}
	defer l.Close()
	return w.with(ctx, func() error {
		w.printf("http://%s\n", l.Addr())
		q.Registry, q.Model, q.Ref, q.Cache, q.Now = w.registry, name, ref, w.levelsCache(), w.Now
		q.Log = slog.New(slog.NewTextHandler(w.Err, nil))
		if w.Structured() {
			q.Log = w.log()
		}
		page, meters, measured, err := serve.StartMetrics(ctx, telemetry.Options{Program: "serve", Version: w.Version,
			Project: w.env.Project, Instance: l.Addr().String(), Endpoint: env.Collector, Log: q.Log})
		if err != nil {
			return err
		}
		defer measured.Close(ctx)
		q.Metrics, q.Meters = page, meters
		return serve.New(q).Serve(ctx, l)
	})
}
