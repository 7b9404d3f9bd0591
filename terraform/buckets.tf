# Listing needs a right on the whole bucket, so who may do what is told apart by buckets, not by prefixes.

locals {
  day = 86400 # seconds
  buckets = {
    # What was deleted or overwritten by mistake, or by somebody who has taken over a task, can be restored for a week, the least
    # that Cloud Storage takes. A dataset weighs gigabytes. Heartbeats are rewritten every ten seconds, but they are small: those
    # of a night with 32 tasks of an hour are 12 MB, and checkpoints, a megabyte a minute each, 2 GB, which is 0.30 USD a month.
    datasets = { versioning = false, soft_delete = 7 * local.day }
    sweeps   = { versioning = false, soft_delete = 7 * local.day }
    registry = { versioning = true, soft_delete = var.registry_undo_days * local.day }
  }
  # A rule goes by age alone, and knows nothing of what a version, a rollback or an open sweep needs: all that they may need is
  # left to `coppice clean` (launcher.tf).
  lifecycle_rules = {
    datasets = [local.abandoned_uploads, local.exports]
    sweeps   = [local.abandoned_uploads]
    registry = [local.abandoned_uploads, { type = "Delete", age = null, prefixes = null, noncurrent = var.registry_undo_days }]
  }
  # What is left of rows on their way from BigQuery: launcher/internal/stager/export.go.
  exports           = { type = "Delete", age = 1, prefixes = ["bigquery-exports/"], noncurrent = null }
  abandoned_uploads = { type = "AbortIncompleteMultipartUpload", age = 7, prefixes = null, noncurrent = null }
}

resource "google_storage_bucket" "coppice" {
  for_each = local.buckets

  project                     = var.project
  name                        = "${var.project}-${var.name}-${each.key}"
  location                    = var.location
  labels                      = local.labels
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = var.force_destroy

  versioning {
    enabled = each.value.versioning
  }

  soft_delete_policy {
    retention_duration_seconds = each.value.soft_delete
  }

  dynamic "lifecycle_rule" {
    for_each = local.lifecycle_rules[each.key]
    content {
      action {
        type = lifecycle_rule.value.type
      }
      condition {
        age                        = lifecycle_rule.value.age
        send_age_if_zero           = false # an age that is not given is none, and not 0 days
        matches_prefix             = lifecycle_rule.value.prefixes
        days_since_noncurrent_time = lifecycle_rule.value.noncurrent
        with_state                 = lifecycle_rule.value.noncurrent == null ? "ANY" : "ARCHIVED"
      }
    }
  }

  dynamic "encryption" {
    for_each = local.encryption == "google" ? [] : [local.key]
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [google_project_service.coppice, google_kms_crypto_key_iam_member.table]
}

# What the scheduled launchers read. It lies in the root of the bucket, where no rule deletes it, and where a mounted bucket
# needs no placeholder for a folder.
resource "google_storage_bucket_object" "spec" {
  for_each = local.specs

  bucket       = google_storage_bucket.coppice["sweeps"].name
  name         = "${each.key}.yaml"
  content      = each.value
  content_type = "application/yaml"
}
