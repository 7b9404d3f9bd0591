# Cloud Scheduler fires at least once, sometimes more often. Neither of its targets minds: see launcher.tf, and concluding
# a sweep twice gives one conclusion.

resource "google_cloud_scheduler_job" "launcher" {
  for_each = local.launchers

  project          = var.project
  region           = var.location
  name             = "${var.name}-${each.key}"
  description      = "Starts the launcher of ${each.key}"
  schedule         = each.value.schedule
  time_zone        = each.value.time_zone
  paused           = each.value.paused
  attempt_deadline = "180s" # :run answers at once

  retry_config {
    retry_count          = 3
    min_backoff_duration = "30s"
    max_backoff_duration = "300s"
  }

  http_target {
    http_method = "POST"
    uri         = "https://run.googleapis.com/v2/projects/${var.project}/locations/${var.location}/jobs/${google_cloud_run_v2_job.launcher[each.key].name}:run"
    headers     = { "Content-Type" = "application/json" }
    body        = base64encode("{}")

    oauth_token {
      service_account_email = local.emails.scheduler
      scope                 = "https://www.googleapis.com/auth/cloud-platform"
    }
  }

  depends_on = [google_project_service.coppice, google_service_account.coppice]
}

resource "google_cloud_scheduler_job" "reconcile" {
  for_each = google_cloud_run_v2_service.aggregator

  project          = var.project
  region           = var.location
  name             = "${var.name}-reconcile"
  description      = "Makes the aggregator check every open sweep"
  schedule         = var.reconcile_schedule
  time_zone        = "Etc/UTC"
  attempt_deadline = "${var.aggregator.timeout_seconds}s"

  retry_config {
    retry_count = 0 # the next one comes soon
  }

  http_target {
    http_method = "POST"
    uri         = "${each.value.uri}/reconcile"

    oidc_token {
      service_account_email = local.emails.scheduler
      audience              = local.audience
    }
  }

  depends_on = [google_project_service.coppice, google_service_account.coppice]
}
