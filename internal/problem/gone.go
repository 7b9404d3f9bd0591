package problem

import (
	"maps"
	"slices"
)

// What earlier versions had and this one has not, by the words in which a person still writes it: a verb "registry
// compare", a flag "serve --shadow", a key "continue.mode:" with the key above it (or "when:" wherever it stands), a
// value "method: tpe", for which whoever reads the value asks. What stands beside it is what to do instead.
var gone = map[string]string{
	"backtest":      "stage and train past days one by one, `stage --day` and `sweep` (docs/sweep.md)",
	"registry tag":  "give labels: in sweep.yaml, which the version keeps in its plan.json",
	"registry note": "each move has a reason: `registry promote`, `rollback` and `bad` --why TEXT",
	"registry push": copyGone, "registry pull": copyGone, "registry copy": copyGone,
	"predict --batch":            "run `launcher predict` on a machine next to the bucket; several share the tables",
	"predict --tasks":            "run `launcher predict` on a machine next to the bucket; several share the tables",
	"registry reproduce --batch": "run `launcher registry reproduce` on a machine next to the bucket",
	"man":                        "--help of each command has the same words",
	"clean --dry-run":            "nothing is ever deleted: leave it out",
	"params":                     "docs/parameters.md has all of LightGBM's parameters, and what each is here",
	"leaderboard --curves":       "the page has the learning curves: `launcher report SWEEP`",
	"console --actions":          "the page prints commands to copy: `cancel`, `registry promote`, `registry rollback`",
	"registry compare":           "the gate compares with the champion: see `status` and `report` of a version's sweep",
	"registry history":           "`launcher registry show MODEL --history`",
	"registry verify":            "`launcher registry show MODEL --verify`",
	"registry alias":             "`launcher registry promote MODEL@VERSION --alias NAME`; `rollback` takes it back",
	"ls":                         "`launcher status` without a sweep lists all",
	"datasets pull":              "`gcloud storage cp -r gs://BUCKET/datasets/NAME/VERSION FOLDER`",
	"why":                        "`launcher leaderboard SWEEP --all` and the page of the sweep say it",
	"plot":                       "the page has the plots: `launcher report SWEEP --out sweep.html`",

	"ask":    "search what other programs train with Optuna",
	"extend": "start a sweep with another name or number of trials, which learns from this one (warm_start: auto)",
	"pause": "`launcher cancel` keeps what has ended, and a sweep with another name or number of trials learns from " +
		"it (warm_start: auto)",
	"resume": "start a sweep with another name or number of trials, which learns from the cancelled one " +
		"(warm_start: auto)",

	"serve --shadow": "start a second server with --model MODEL@ALIAS, and send it a copy of the requests",
	"serve --split":  "start a second server with --model MODEL@ALIAS, and have your balancer divide the requests",
	"prices":         "COPPICE_PRICES=FILE gives prices; the built-in ones are used otherwise",
	"fit --position": "no place at which rows were shown is learnt from; leave the column out with --drop",
	"position:":      "no place at which rows were shown is learnt from; name the column under drop:, and stage again",
	"features":       "the trials' scores say it, `launcher leaderboard`",
	"method: tpe":    "use method: auto",
	"when:":          "write two sweeps, or constraints",
	"trial:":         "one machine trains a trial; final: {machines: 2} has several train the last one",

	"path: /v2":        "send rows to POST /predict, in JSON, lines of JSON or CSV (docs/serving.md)",
	"serve --profiles": "/metrics of each server counts the same for Prometheus (docs/serving.md)",
	"serve --tell":     "Prometheus tells, by the rules for alerts in docs/serving.md",
	"served":           "/metrics of `launcher serve` counts the same, with rules for alerts (docs/serving.md)",
	"watch-labels":     "the next night's gate judges labels, and docs/serving.md has alerts for what is served",

	"localemu machines":            "`make bench-memory` measures what trials of one machine share",
	"plan --prices":                pricesGone,
	"sweep --prices":               pricesGone,
	"nightly --prices":             pricesGone,
	"plan --region":                "set COPPICE_LOCATION",
	"plan --held-out":              "a fiftieth of --rows is assumed; stage the table to plan with its own",
	"plan --download":              downloadGone,
	"sweep --download":             downloadGone,
	"nightly --download":           downloadGone,
	"leaderboard --top":            "`launcher leaderboard SWEEP | head`",
	"bill --attempts":              "`launcher bill SWEEP --json` has each attempt",
	"fit --regression":             "use --objective regression",
	"stage --accept":               "`launcher datasets accept NAME --why REASON` when it is staged",
	"stage --scratch":              "set TMPDIR",
	"registry reproduce --scratch": "set TMPDIR",
	"serve --max-bytes":            "a request has at most 4 MiB: divide it",
	"serve --max-rows":             "a request has at most 10,000 rows: divide it",
	"serve --timeout":              "a request has 5 s to arrive, and for its turn",
	"serve --poll":                 "the alias is looked at every ten seconds",
	"aggregator pull":              "messages are pushed to `aggregator serve`; `aggregator reconcile` looks once",
	"aggregator serve --metrics":   metricsGone,

	"localemu exec --enforce-iam": "everything is allowed in the local cloud (who needs what: terraform/iam.yaml)",
	"localemu exec --without":     "everything is allowed in the local cloud (who needs what: terraform/iam.yaml)",
	"localemu exec --as":          "everything is allowed in the local cloud (who needs what: terraform/iam.yaml)",
	"localemu up --keep-jobs":     "Batch's jobs end with the local cloud; let it run until the sweep has ended",
	"ensemble.cost:":              "ensemble: {bag: 5} merges models of the winner's parameters (docs/sweep.md)",
	"task train --refit":          "train again on all rows",

	"continue:":                  "trials start from scratch; search.warm_start learns from the model's earlier sweeps",
	"encodings.like:":            "each night has its own; list them under columns and keys to keep them",
	"task train --checkpoint":    "a sweep saves each trial every minute, and resumes it",
	"task train --workers":       "use --threads, which takes as long; final: {machines: 2} has several machines train",
	"task train --input-model":   "train again on all rows",
	"task train --input-dataset": "train again on all rows",

	"calibrate:":                      "all rows are calibrated alike: leave it out, and train again",
	"reference.nights:":               "write the number of nights, gate: {reference: 7}",
	"reference.rows:":                 "50,000 rows of earlier nights are used; write gate: {reference: NIGHTS}",
	"reference.margin:":               "min_gain demands a gain on the rows of tonight and of earlier nights together",
	"calibration.reference:":          "the bounds on earlier nights are 0.75 and 1.3334",
	"calibration.segment:":            "the gate judges all rows together",
	"calibration.by:":                 "the gate judges all rows together",
	"calibration.ece:":                "the limit is 0.25 of the base rate; require: [\"ece < 0.01\"] sets one",
	"calibration.normalized_entropy:": "the limit is 1; require: [\"normalized_entropy < 0.9\"] sets one",
	"stop.noise:":                     "a trial goes on if it is as good as one that does; leave it out",
	"limits.target:":                  "give fewer trials, which take no more trees for as good a score (docs/LAB.md)",
	"limits.patience:":                "give fewer trials",
	"validate.drop:":                  "configurations that are behind after three folds are dropped",
	"encodings.sample_rows:":          "keys are searched in the rows of sample_rows_for_bins, 200,000 at most",
}

const (
	copyGone     = "`gcloud storage cp -r gs://BUCKET/registry/MODEL/versions/N DIR`, then --model ./DIR"
	metricsGone  = "set OTEL_EXPORTER_OTLP_ENDPOINT to a collector, which Prometheus scrapes"
	pricesGone   = "COPPICE_PRICES=FILE gives prices"
	downloadGone = "400 MB/s are assumed, and the range has half and twice that"
)

// Gone returns a sentence about something that earlier versions had, "when: is gone; write two sweeps", by the first of
// its names that is known, and "" for anything else.
func Gone(names ...string) string {
	for _, name := range names {
		if instead, ok := gone[name]; ok {
			return name + " is gone; " + instead
		}
	}
	return ""
}

// AllGone returns all names that Gone knows.
func AllGone() []string {
	return slices.Sorted(maps.Keys(gone))
}
