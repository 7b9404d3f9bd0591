# A key of one's own, and keys that must not be lost.

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

run "key_of_another_project" {
  assert {
    condition = alltrue(concat(
      [for b in google_storage_bucket.coppice : b.encryption[0].default_kms_key_name == var.kms_key],
      [for t in google_pubsub_topic.coppice : t.kms_key_name == var.kms_key],
      [google_artifact_registry_repository.images.kms_key_name == var.kms_key, google_cloud_run_v2_service.aggregator["aggregator"].template[0].encryption_key == var.kms_key],
    ))
    error_message = "The key that is given encrypts all that is kept."
  }
  assert {
    condition     = length(google_kms_key_ring.coppice) + length(google_kms_crypto_key.coppice) + length(google_kms_crypto_key_iam_member.table) == 0
    error_message = "No key is made, and none of another project is touched."
  }
  assert {
    condition = output.host_project_commands == [for agent in ["gcp-sa-artifactregistry", "gcp-sa-pubsub", "serverless-robot-prod", "gs-project-accounts"] :
      "gcloud kms keys add-iam-policy-binding key --keyring ring --location us-central1 --project example-keys --member serviceAccount:service-123456789012@${agent}.iam.gserviceaccount.com --role roles/cloudkms.cryptoKeyEncrypterDecrypter"
    ]
    error_message = "The key's administrator is told what to grant, and to whom: ${jsonencode(output.host_project_commands)}"
  }
}

run "the_key_is_kept" {
  command = plan
  variables {
    kms_key = null
  }
  expect_failures = [terraform_data.encryption]
}

run "another_key" {
  command = plan
  variables {
    kms_key = "projects/example-keys/locations/us-central1/keyRings/ring/cryptoKeys/other"
  }
  expect_failures = [terraform_data.encryption]
}
