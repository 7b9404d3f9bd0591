package world

import (
	"net/url"
	"slices"
	"strings"

	"coppice/localemu/internal/httpjson"
)

func topic(id string) string   { return "projects/" + project + "/topics/" + id }
func sub(id string) string     { return "projects/" + project + "/subscriptions/" + id }
func account(id string) string { return "coppice-" + id + "@" + project + ".iam.gserviceaccount.com" }

// startREST starts the emulator of the APIs that the doctor asks.
func (w *World) startREST() error {
	l, err := w.listen(3)
	if err != nil {
		return err
	}
	w.rest = httpjson.Serve(l, w.routes().ServeHTTP, w.log)
	return nil
}

// emulators are the variables by which Google's clients find storage and messages. The storage's has a scheme: Go's
// client also takes an address without one, Python's does not.
func (w *World) emulators() []string {
	return []string{"STORAGE_EMULATOR_HOST=http://" + w.storage.Addr(), "PUBSUB_EMULATOR_HOST=" + w.pubsub.Addr()}
}

// Env returns the environment in which programs find the local cloud, as NAME=VALUE.
func (w *World) Env() []string {
	return append([]string{
		"COPPICE_PROJECT=" + project,
		"COPPICE_LOCATION=" + location,

		"COPPICE_DATASETS_BUCKET=" + buckets["COPPICE_DATASETS_BUCKET"],
		"COPPICE_SWEEPS_BUCKET=" + buckets["COPPICE_SWEEPS_BUCKET"],
		"COPPICE_REGISTRY_BUCKET=" + buckets["COPPICE_REGISTRY_BUCKET"],

		"COPPICE_SCORES_TOPIC=" + scoresTopic,
		"COPPICE_JOBS_TOPIC=" + jobsTopic,
		"COPPICE_VERDICTS_TOPIC=" + verdictsTopic,

		"COPPICE_TASK_IMAGE=" + TaskImage,
		"COPPICE_LAUNCHER_IMAGE=" + LauncherImage,

		"COPPICE_TASK_SERVICE_ACCOUNT=" + account("task"),
		"COPPICE_STAGE_SERVICE_ACCOUNT=" + account("stager"),

		"COPPICE_INSPECT_ENDPOINT=" + w.rest.Addr(),
		"COPPICE_BIGQUERY_ENDPOINT=" + w.rest.Addr(),
		"COPPICE_BATCH_ENDPOINT=" + w.batch.Addr(),
	}, w.emulators()...)
}

// Environ returns the environment for a program: the given one, without what belongs to another deployment, and Env.
func (w *World) Environ(environ []string) []string {
	return append(slices.DeleteFunc(slices.Clone(environ), leadsPast), w.Env()...)
}

// leadsPast reports whether a variable, NAME=VALUE, belongs to another deployment and would lead programs past the
// local cloud. That is so for
//   - COPPICE_*, except prices, and the format of webhooks and which verdicts they tell: those are the user's own;
//   - a webhook on another machine: it would notify people who know nothing of the local cloud;
//   - addresses of emulators;
//   - Cloud Monitoring as the collector of telemetry, for which a local task has no credentials. Another collector was
//     set to get the local cloud's measurements, too.
func leadsPast(variable string) bool {
	name, value, _ := strings.Cut(variable, "=")
	switch name {
	case "COPPICE_WEBHOOK":
		u, err := url.Parse(value)
		return err != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost"
	case "COPPICE_WEBHOOK_FORMAT", "COPPICE_WEBHOOK_VERDICTS", "COPPICE_PRICES":
		return false
	}

	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u, err := url.Parse(value)
		return err == nil && u.Host == "telemetry.googleapis.com"
	}
	return strings.HasPrefix(name, "COPPICE_") || strings.Contains(name, "_EMULATOR_HOST")
}
