locals {
  services = toset(concat(
    [
      "artifactregistry.googleapis.com", "batch.googleapis.com", "cloudscheduler.googleapis.com", "compute.googleapis.com",
      "iam.googleapis.com", "iamcredentials.googleapis.com", "logging.googleapis.com", "monitoring.googleapis.com",
      "pubsub.googleapis.com", "run.googleapis.com", "storage.googleapis.com",
    ],
    var.metrics_endpoint == "https://telemetry.googleapis.com" ? ["telemetry.googleapis.com"] : [],
    local.encryption != "google" ? ["cloudkms.googleapis.com"] : [],
    length(var.source_datasets) > 0 ? ["bigquery.googleapis.com"] : [],
    var.webhook != null ? ["secretmanager.googleapis.com"] : [],
    var.budget != null ? ["billingbudgets.googleapis.com"] : [],
  ))
}

resource "google_project_service" "coppice" {
  for_each = local.services

  project            = var.project
  service            = each.value
  disable_on_destroy = false # somebody else in the project may need it
}
