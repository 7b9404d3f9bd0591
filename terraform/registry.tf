# Container images. The model registry is a bucket; see buckets.tf.
#
# No policy cleans up: a tag that cannot be moved cannot be deleted either, nor the image that has it, and make push pushes
# nothing without a tag. Policies beside immutable tags only look as if they deleted something (kubernetes/k8s.io#8010). An
# image has some 30 MB, so a year of weekly versions costs cents.

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

  # A repository keeps the key that it was made with; another one would be another repository, without the images.
  lifecycle {
    ignore_changes = [kms_key_name]
  }

  depends_on = [google_project_service.coppice, google_kms_crypto_key_iam_member.table, terraform_data.encryption]
}
