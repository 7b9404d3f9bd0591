# What the programs read from the environment, by the names of package sweep. Tasks are told by the launcher.

locals {
  # The launcher hands it on to the tasks.
  measuring = var.metrics_endpoint == "" ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT = var.metrics_endpoint }
  environment = {
    COPPICE_PROJECT         = var.project
    COPPICE_LOCATION        = var.location
    COPPICE_DATASETS_BUCKET = google_storage_bucket.coppice["datasets"].name
    COPPICE_SWEEPS_BUCKET   = google_storage_bucket.coppice["sweeps"].name
    COPPICE_REGISTRY_BUCKET = google_storage_bucket.coppice["registry"].name
    COPPICE_SCORES_TOPIC    = google_pubsub_topic.coppice["scores"].name
    COPPICE_VERDICTS_TOPIC  = google_pubsub_topic.coppice["verdicts"].name
  }
  # Only what runs in the cloud posts to the webhook: its address is a secret, which Cloud Run reads and no plan or state holds.
  webhook = var.webhook == null ? {} : {
    COPPICE_WEBHOOK_FORMAT   = var.webhook.format
    COPPICE_WEBHOOK_VERDICTS = join(",", sort(var.webhook.verdicts))
  }
  webhook_secret = var.webhook == null ? {} : { COPPICE_WEBHOOK = var.webhook.secret }
  # Who may call the aggregator, which asks every caller for a token for this audience from one of these accounts.
  aggregator_environment = merge(local.measuring, local.environment, local.webhook, {
    COPPICE_AUDIENCE = local.audience
    COPPICE_CALLERS  = join(",", [local.emails.push, local.emails.scheduler])
    # Cloud Run checks the token, too, and hands it on without its signature: the service lets in nobody but run.invoker.
    COPPICE_SIGNATURES = "cloud-run"
  })
  launcher_environment = merge(local.measuring, local.environment, {
    COPPICE_TASK_SERVICE_ACCOUNT  = local.emails.task
    COPPICE_STAGE_SERVICE_ACCOUNT = local.emails.stager
    COPPICE_NETWORK               = local.network
    COPPICE_SUBNETWORK            = local.subnetwork
    COPPICE_JOBS_TOPIC            = "projects/${var.project}/topics/${google_pubsub_topic.coppice["jobs"].name}"
    }, length(var.zones) == 0 ? {} : {
    COPPICE_ZONES = join(",", var.zones)
    }, local.deployed ? {
    COPPICE_TASK_IMAGE     = local.images.task
    COPPICE_LAUNCHER_IMAGE = local.images.launcher # for staging jobs
  } : {})
}
