# With customer_managed_key, or with a key that is given (kms_key), one key encrypts what is stored here. Local SSDs have keys of their own
# that end with the machine. Who may use the key is in iam.yaml.

# Once chosen, the encryption stays: without its key nothing that was stored can be read any more. It remembers the first choice, and a plan
# with another one is refused before anything is changed.
resource "terraform_data" "encryption" {
  input = local.encryption

  lifecycle {
    ignore_changes = [input]
    postcondition {
      condition     = self.output == local.encryption
      error_message = <<-END
        This deployment was created with ${self.output == "google" ? "Google's own keys" : self.output == "made" ? "customer_managed_key" : "kms_key ${self.output}"}, and customer_managed_key and kms_key cannot be changed: without its key, stored data cannot be read any more. Set them back, or create a new deployment under another name.
        Only a change from Google's own keys to another key is possible. New objects and messages are then encrypted with that key; older ones and the repository of images stay as they are: terraform apply -replace=module.coppice.terraform_data.encryption
      END
    }
  }
}

resource "google_kms_key_ring" "coppice" {
  count = local.encryption == "made" ? 1 : 0

  project  = var.project
  location = var.location
  name     = var.name

  depends_on = [google_project_service.coppice]
}

resource "google_kms_crypto_key" "coppice" {
  count = local.encryption == "made" ? 1 : 0

  name                       = var.name
  key_ring                   = one(google_kms_key_ring.coppice[*].id)
  purpose                    = "ENCRYPT_DECRYPT"
  rotation_period            = "${var.key_rotation_days * local.day}s"
  destroy_scheduled_duration = "${30 * local.day}s" # for so long, destroying the key can be undone
  labels                     = local.labels
}

# Asking for it creates the agent of Cloud Storage, which has to be there before it is given a right.
data "google_storage_project_service_account" "this" {
  count = local.encryption == "google" ? 0 : 1

  project = var.project
}
