# One Cloud Run job for each scheduled sweep, and one that cleans: arguments that differ from run to run would need a role that can run anything.
# Its launcher stages the night's table first, if there is one, sees to it that a Batch job gets machines, and ends; the job
# does not need it any longer.

locals {
  scheduled = merge(local.cleaning, { for k, s in var.sweeps : "sweep-${k}" => {
    account  = "launcher"
    schedule = s.schedule, time_zone = s.time_zone, paused = s.paused
    # While machines are hard to get, it goes through the list of the spec. It also follows a staging to its end, and would
    # cancel it when it is told to end before.
    timeout = s.stage == null ? "21600s" : "86400s"
    # A run that is started again is safe: the table's job is named after its input and the sweep after the slot of the
    # schedule, so it attaches to those of the first run, follows what is still running, and submits nothing twice. If the next
    # slot has come by then, it takes that one, which its own trigger then finds begun. But a staging that has failed would be
    # paid for once more, and usually fails again: hence one more try where there is a table, and three where there is none.
    retries = s.stage == null ? 3 : 1
    # The sweep's id follows from the slot of the schedule, so a slot that is fired three times gives one sweep.
    args = concat(
      s.stage == null ? ["sweep"] : ["nightly"], ["${local.spec_folder}/sweep-${k}.yaml"],
      s.stage == null ? [] : concat(["--table", "${local.spec_folder}/table-${k}.yaml", "--batch"],
      s.stage.machine == null ? [] : ["--machine", s.stage.machine], s.stage.spot ? ["--spot"] : []),
      ["--no-wait", "--json", "--schedule", s.schedule, "--time-zone", s.time_zone],
    )
  } })
  # What no promise needs is removed by the one account that may. Two runs at once, or one that is cut off, do no harm.
  cleaning = var.keep == null ? {} : { clean = {
    account  = "cleaner"
    schedule = var.keep.schedule, time_zone = "Etc/UTC", paused = false
    timeout  = "21600s", retries = 1
    args     = ["clean", "--yes", "--keep", tostring(var.keep.nights), "--promoted", tostring(var.keep.promoted), "--json"]
  } }
  specs = merge({ for k, s in var.sweeps : "sweep-${k}" => s.spec },
  { for k, s in var.sweeps : "table-${k}" => s.stage.spec if s.stage != null })
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
      service_account       = local.emails[each.value.account]
      timeout               = each.value.timeout
      max_retries           = each.value.retries
      execution_environment = "EXECUTION_ENVIRONMENT_GEN2"
      encryption_key        = local.key

      containers {
        image = local.images.launcher
        args  = each.value.args

        resources {
          limits = { cpu = "1", memory = "1Gi" }
        }

        dynamic "env" {
          for_each = merge(local.launcher_environment, each.key == "clean" ? {} : local.webhook, { COPPICE_LOG = "json" }) # nobody looks on
          content {
            name  = env.key
            value = env.value
          }
        }

        dynamic "env" {
          for_each = { for k, v in local.webhook_secret : k => v if each.key != "clean" }
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
    google_storage_bucket_object.spec,
    google_project_service.coppice, google_service_account.coppice, google_kms_crypto_key_iam_member.table,
    google_storage_bucket_iam_member.table, google_project_iam_member.table, google_service_account_iam_member.table,
    google_compute_subnetwork.coppice, google_secret_manager_secret_iam_member.table,
  ]
}
