# Container images. The model registry is a bucket; see buckets.tf.

resource "google_artifact_registry_repository" "images" {
  project       = var.project
  location      = var.location
  repository_id = var.name
  format        = "DOCKER"
  description   = "Images of launcher, task and aggregator"
  labels        = local.labels
  kms_key_name  = local.key

  docker_config {
    immutable_tags = true # a sweep that is repeated must run what ran before
  }

  cleanup_policies {
    id     = "keep-the-last-ten"
    action = "KEEP"
    most_recent_versions {
      keep_count = 10
    }
  }

  cleanup_policies {
    id     = "delete-after-half-a-year"
    action = "DELETE"
    condition {
      older_than = "15552000s"
    }
  }

  depends_on = [google_project_service.coppice, google_kms_crypto_key_iam_member.table]
}
