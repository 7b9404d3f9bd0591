package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/telemetry"
	"coppice/launcher/internal/serve"
)

func serveCommand(w *Setup) *cobra.Command {
	model, listen, q := "", "127.0.0.1:8766", serve.Defaults()
	cmd := &cobra.Command{
		Use:   "serve --model MODEL[@ALIAS|@VERSION]",
		Short: "Serve predictions of a registered model over HTTP",
		Long: `Answers, until Ctrl-C or SIGTERM, rows with one calibrated probability each: the same bits as launcher
predict. POST /predict takes JSON ({"instances": [{"column": value, ...}, ...]}), lines of JSON or CSV, by Content-Type;
in a container of Vertex AI its routes and port are used. Of several classes each has a probability, and the likeliest
is named. /readyz, /metrics (Prometheus) and /status say how it is. docs/serving.md has more.

Without @VERSION it follows the champion, or the alias: a new version is fetched, verified, warmed and compared on
the last requests, and then answers from one request to the next. It waits if its mean prediction is off by more than
--max-shift. A --model ./FOLDER that fit --out has written is served without a cloud.

It listens on this machine only. On another address every request needs an identity token, as for launcher console.`,
		Example: `  launcher serve --model ctr
  curl --json '{"instances": [{"site": "a.com", "hour": 7}]}' http://127.0.0.1:8766/predict
  launcher serve --model ./model            # what launcher fit --out ./model has saved
  launcher serve --model ctr@canary --listen 127.0.0.1:9000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(cmd.Context(), w, model, listen, cmd.Flags().Changed("listen"), q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "registered model (required)")
	f.StringVar(&listen, "listen", listen, "address to listen on")
	q.AddLimits(f)
	_ = cmd.MarkFlagRequired("model")
	return cmd
}

// runServe serves predictions of model, a registered one or the path of a folder with a version, until ctx ends. listen
// is the address; given says that --listen was set, which has precedence over the port that Vertex AI or Cloud Run name
// in the environment. q has the flags' limits.
func runServe(ctx context.Context, w *Setup, model, listen string, given bool, q serve.Config) error {
	var env serve.Environment
	if err := w.Environment(ctx, &env, "set COPPICE_AUDIENCE and COPPICE_CALLERS, or listen on 127.0.0.1"); err != nil {
		return err
	}

	// The model: a path is a saved version, as no model has such a name.
	var err error
	saved := strings.ContainsAny(model, `/\`)
	if saved {
		var v registry.Version
		if q.Registry, v, err = registry.Exported(ctx, model); err != nil {
			return fmt.Errorf("--model %s: %w", model, err)
		}
		if err := serve.Servable(ctx, q.Registry, v, w.levelsCache()); err != nil {
			return fmt.Errorf("--model %s: %w", model, err)
		}
		q.Model, q.Ref = v.Model, strconv.Itoa(v.Number)
	} else if q.Model, q.Ref, err = sweep.SplitModelRef(model); err != nil {
		return err
	}

	// Who may call, and where it listens: before the cloud is opened, since both may be wrong.
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

	// answer serves until ctx ends; project is known once the cloud is open.
	project := ""
	answer := func() error {
		w.printf("http://%s\n", l.Addr())
		q.Cache, q.Now = w.levelsCache(), w.Now
		q.Log = slog.New(slog.NewTextHandler(w.Err, nil))
		if w.Structured() {
			q.Log = program.Logger(w.Err, program.LogOrigin{Program: "launcher", Version: w.Version, Project: project})
		}
		page, meters, measured, err := serve.StartMetrics(ctx, telemetry.Options{Program: "serve", Version: w.Version,
			Project: project, Instance: l.Addr().String(), Endpoint: env.Collector, Log: q.Log})
		if err != nil {
			return err
		}
		defer measured.Close(ctx)
		q.Metrics, q.Meters = page, meters
		return serve.New(q).Serve(ctx, l)
	}
	if saved {
		return answer()
	}
	return w.withCloud(ctx, func() error {
		q.Registry, project = w.registry, w.env.Project
		// A registry that does not answer may do so later; a model that it does not have is a mistake.
		if _, err := q.Registry.Get(ctx, q.Model, q.Ref); problem.Is(err, problem.NotFound) {
			return fmt.Errorf("--model %s: %w", model, err)
		}
		return answer()
	})
}
