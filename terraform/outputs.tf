output "environment" {
  description = "What launcher and aggregator read from the environment."
  value = {
    COPPICE_PROJECT         = var.project
    COPPICE_LOCATION        = var.location
    COPPICE_DATASETS_BUCKET = google_storage_bucket.coppice["datasets"].name
    COPPICE_SWEEPS_BUCKET   = google_storage_bucket.coppice["sweeps"].name
    COPPICE_REGISTRY_BUCKET = google_storage_bucket.coppice["registry"].name
    COPPICE_SCORES_TOPIC    = google_pubsub_topic.scores.name
    COPPICE_SUBSCRIPTION    = google_pubsub_subscription.aggregator.name
  }
}
