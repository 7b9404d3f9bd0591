# The aggregator: a service that is started by a push or by the clock, and costs nothing in between.

resource "google_cloud_run_v2_service" "aggregator" {
  for_each = local.running

  project             = var.project
  location            = var.location
  name                = "${var.name}-aggregator"
  description         = "Concludes sweeps"
  labels              = local.labels
  ingress             = "INGRESS_TRAFFIC_INTERNAL_ONLY" # which Pub/Sub and Cloud Scheduler of this project are
  custom_audiences    = [local.audience]
  deletion_protection = var.deletion_protection

  template {
    service_account                  = local.emails.aggregator
    timeout                          = "${var.aggregator.timeout_seconds}s"
    max_instance_request_concurrency = 16
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    encryption_key                   = local.key
    labels                           = local.labels

    scaling {
      min_instance_count = 0
      max_instance_count = var.aggregator.max_instances
    }

    containers {
      image = local.images.aggregator
      args  = ["serve", "--listen", ":8080"]

      ports {
        container_port = 8080
      }

      resources {
        limits            = { cpu = var.aggregator.cpu, memory = var.aggregator.memory }
        cpu_idle          = true # nothing happens between requests
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = local.aggregator_environment
        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = local.webhook_secret
        content {
          name = env.key
          value_source {
            secret_key_ref {
              secret  = env.value
              version = "latest"
            }
          }
        }
      }

      startup_probe {
        period_seconds    = 2
        failure_threshold = 15
        http_get {
          path = "/healthz"
          port = 8080
        }
      }
    }
  }

  depends_on = [
    google_project_service.coppice, google_service_account.coppice, google_kms_crypto_key_iam_member.table,
    google_storage_bucket_iam_member.table, google_project_iam_member.table, google_secret_manager_secret_iam_member.table,
  ]
}
