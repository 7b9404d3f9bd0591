# One Cloud Run job for each scheduled sweep and staging: arguments that differ from run to run would need a role that can
# run anything. A sweep's launcher sees to it that a Batch job gets machines, and ends; the job does not need it any longer.

locals {
  scheduled = merge(
    { for k, s in var.sweeps : "sweep-${k}" => {
      schedule = s.schedule, time_zone = s.time_zone, spec = s.spec, paused = s.paused
      timeout  = "21600s" # while machines are hard to get, it goes through the list of the spec
      retries  = 3        # a second run attaches to the job that the first one has submitted
      # The sweep's id follows from the slot of the schedule, so a slot that is fired three times gives one Batch job.
      command = ["sweep"], flags = ["--no-wait", "--json", "--schedule", s.schedule, "--time-zone", s.time_zone]
    } },
    { for k, s in var.stages : "stage-${k}" => {
      schedule = s.schedule, time_zone = s.time_zone, spec = s.spec, paused = s.paused
      timeout  = "86400s" # it follows the job to its end, and would cancel it when it is told to end before
      # Batch starts a task again that lost its machine, so a staging that has ended has failed for good. A launcher started
      # again would submit the same staging once more, on machines that cost money; it is the next time of the schedule that tries
      # again. The dataset's version follows from its contents, so staging the same table twice gives one version.
      retries = 0
      command = ["stage"], flags = concat(["--batch", "--json"], s.machine == null ? [] : ["--machine", s.machine], s.spot ? ["--spot"] : [])
    } },
  )
  launchers   = local.deployed ? local.scheduled : {}
  spec_folder = "/etc/coppice"
}

resource "google_cloud_run_v2_job" "launcher" {
  for_each = local.launchers

  project             = var.project
  location            = var.location
  name                = "${var.name}-${each.key}"
  labels              = local.labels
  deletion_protection = false # it holds nothing, and goes when its sweep is removed or renamed

  template {
    task_count = 1
    labels     = local.labels

    template {
      service_account       = local.emails.launcher
      timeout               = each.value.timeout
      max_retries           = each.value.retries
      execution_environment = "EXECUTION_ENVIRONMENT_GEN2"
      encryption_key        = local.key

      containers {
        image = local.images.launcher
        args  = concat(each.value.command, ["${local.spec_folder}/${google_storage_bucket_object.spec[each.key].name}"], each.value.flags)

        resources {
          limits = { cpu = "1", memory = "1Gi" }
        }

        dynamic "env" {
          for_each = merge(local.launcher_environment, local.webhook, { COPPICE_LOG = "json" }) # nobody looks on
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

        volume_mounts {
          name       = "specs"
          mount_path = local.spec_folder
        }
      }

      volumes {
        name = "specs"
        gcs {
          bucket    = google_storage_bucket.coppice["sweeps"].name
          read_only = true
        }
      }
    }
  }

  depends_on = [
    google_project_service.coppice, google_service_account.coppice, google_kms_crypto_key_iam_member.table,
    google_storage_bucket_iam_member.table, google_project_iam_member.table, google_service_account_iam_member.table,
    google_compute_subnetwork.coppice, google_secret_manager_secret_iam_member.table,
  ]
}
