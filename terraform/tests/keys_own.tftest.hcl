# A key of one's own in the project of the deployment.

mock_provider "google" {
  mock_data "google_project" {
    defaults = {
      number = "123456789012"
    }
  }
}

variables {
  project              = "example-project"
  image_tag            = "v1"
  metrics_wait_seconds = 0
  kms_key              = "projects/example-keys/locations/us-central1/keyRings/ring/cryptoKeys/key"
}

run "key_of_this_project" {
  variables {
    kms_key = "projects/example-project/locations/us-central1/keyRings/ring/cryptoKeys/key"
  }
  assert {
    condition     = length(google_kms_crypto_key_iam_member.table) == 4 && alltrue([for b in google_kms_crypto_key_iam_member.table : b.crypto_key_id == var.kms_key]) && length(output.host_project_commands) == 0
    error_message = "On a key of the same project the services' agents get their right here."
  }
}
