# With customer_managed_key, one key encrypts what is stored here. Local SSDs have keys of their own that end with the
# machine. Who may use the key is in iam.yaml.

resource "google_kms_key_ring" "coppice" {
  count = var.customer_managed_key ? 1 : 0

  project  = var.project
  location = var.location
  name     = var.name

  depends_on = [google_project_service.coppice]
}

resource "google_kms_crypto_key" "coppice" {
  count = var.customer_managed_key ? 1 : 0

  name                       = var.name
  key_ring                   = one(google_kms_key_ring.coppice[*].id)
  purpose                    = "ENCRYPT_DECRYPT"
  rotation_period            = "${var.key_rotation_days * local.day}s"
  destroy_scheduled_duration = "${30 * local.day}s" # for so long, destroying the key can be undone
  labels                     = local.labels
}

# Asking for it creates the agent of Cloud Storage, which has to be there before it is given a right.
data "google_storage_project_service_account" "this" {
  count = var.customer_managed_key ? 1 : 0

  project = var.project
}
