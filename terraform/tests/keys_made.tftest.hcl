# A key that is made with the deployment, and must not be lost.

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
  customer_managed_key = true
}

run "made_key" {
  assert {
    condition     = terraform_data.encryption.output == "made"
    error_message = "It is written down which key encrypts."
  }
}

run "made_key_switched_off" {
  command = plan
  variables {
    customer_managed_key = false
  }
  expect_failures = [terraform_data.encryption]
}
