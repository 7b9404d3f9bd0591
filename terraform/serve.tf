# The server of a model: off unless the variable says which. It is reached from the project's own networks only, by the
# accounts that are named, and reads registered models and nothing else.

variable "serve" {
  description = "A model to serve on Cloud Run: its name (or MODEL@ALIAS), the service accounts that may call it from the project's networks, size and number of instances; null for none. A disk of Cloud Run is memory: memory holds the tables of ids (levels.arrow) of two versions during a swap, beside trees of a few times model.txt, so take 1 GiB and twice their size. All instances of a region together have 20 vCPUs and 40 GiB in a new project, the aggregator's included."
  type = object({
    model         = string
    callers       = set(string)
    cpu           = optional(string, "2")
    memory        = optional(string, "4Gi")
    min_instances = optional(number, 1)
    max_instances = optional(number, 4)
  })
  default = null
  validation {
    condition     = var.serve == null ? true : can(regex("^[a-z][a-z0-9_-]{0,39}(@[a-z0-9][a-z0-9_-]*)?$", var.serve.model))
    error_message = "The model is NAME or NAME@ALIAS."
  }
  validation {
    condition     = var.serve == null ? true : length(var.serve.callers) > 0 && alltrue([for a in var.serve.callers : can(regex("^[a-z0-9-]+@[a-z0-9.-]+[.]gserviceaccount[.]com$", a))])
    error_message = "The callers are service accounts, at least one, as NAME@PROJECT.iam.gserviceaccount.com."
  }
  validation {
    condition     = var.serve == null ? true : try(tonumber(trimsuffix(var.serve.memory, "Gi")) <= 4 * tonumber(var.serve.cpu), true)
    error_message = "Cloud Run allows at most 4Gi of memory per vCPU."
  }
  validation {
    condition     = var.serve == null ? true : var.serve.min_instances >= 1 && var.serve.min_instances <= var.serve.max_instances && var.serve.max_instances <= 100
    error_message = "At least one instance, since a new one is not ready before it has fetched the model, and at most 100."
  }
}

locals {
  serving         = local.deployed && var.serve != null ? { server = var.serve } : {} # for for_each
  server_audience = "${var.name}-server.${var.project}"
}

resource "google_cloud_run_v2_service" "server" {
  for_each = local.serving

  project             = var.project
  location            = var.location
  name                = "${var.name}-server"
  description         = "Answers requests for predictions"
  labels              = local.labels
  ingress             = "INGRESS_TRAFFIC_INTERNAL_ONLY"
  custom_audiences    = [local.server_audience]
  deletion_protection = var.deletion_protection

  template {
    service_account                  = local.emails.server
    timeout                          = "30s"
    max_instance_request_concurrency = 200 # fewer than --max-queue, so that Cloud Run starts an instance before a 429
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    encryption_key                   = local.key
    labels                           = local.labels

    scaling {
      min_instance_count = each.value.min_instances
      max_instance_count = each.value.max_instances
    }

    containers {
      image = local.images.launcher
      args  = ["serve", "--model", each.value.model]

      ports {
        container_port = 8080
      }

      resources {
        limits            = { cpu = each.value.cpu, memory = each.value.memory }
        cpu_idle          = false # it watches the alias, and warms new versions, between requests
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = merge(local.environment, {
          COPPICE_AUDIENCE = local.server_audience
          COPPICE_CALLERS  = join(",", sort(each.value.callers))
          # Cloud Run checks the token, too, and hands it on without its signature.
          COPPICE_SIGNATURES = "cloud-run"
          COPPICE_LOG        = "json"
        })
        content {
          name  = env.key
          value = env.value
        }
      }

      startup_probe {
        period_seconds    = 2
        failure_threshold = 60
        http_get {
          path = "/readyz"
          port = 8080
        }
      }

      liveness_probe {
        period_seconds = 10
        http_get {
          path = "/healthz"
          port = 8080
        }
      }
    }
  }

  depends_on = [
    google_project_service.coppice, google_service_account.coppice, google_kms_crypto_key_iam_member.table,
    google_storage_bucket_iam_member.table,
  ]
}
