# What a deployment goes through after its first apply: programs that are taken away, sweeps that are renamed, keys that are switched. Each
# run goes on from the state that the ones before it have left.

mock_provider "google" {
  mock_data "google_project" {
    defaults = {
      number = "123456789012"
    }
  }
  mock_resource "google_cloud_run_v2_service" {
    defaults = {
      uri = "https://coppice-aggregator-abcdefghij-uc.a.run.app"
    }
  }
}

variables {
  project              = "example-project"
  image_tag            = "v1"
  alert_emails         = ["ops@example.com"]
  metrics_wait_seconds = 0
  sweeps = {
    nightly = { schedule = "0 2 * * *", spec = "name: nightly-ctr\nmetric: auc\n" }
  }
}

run "deployed" {
  assert {
    condition     = alltrue([for j in google_cloud_run_v2_job.launcher : !j.deletion_protection])
    error_message = "A scheduled launcher holds nothing: it has to go when its sweep is removed or renamed, or the apply stops half way."
  }
  assert {
    condition     = google_cloud_run_v2_service.aggregator["aggregator"].deletion_protection
    error_message = "The aggregator's service is protected."
  }
  assert {
    condition     = alltrue([for c in google_monitoring_notification_channel.email : c.force_delete])
    error_message = "An address that alerts still name has to be removable."
  }
  assert {
    condition     = terraform_data.encryption.output == "google"
    error_message = "Without a key, Google's own encrypt."
  }
}

run "sweep_renamed" {
  variables {
    sweeps = {
      nightly-ctr = { schedule = "0 2 * * *", spec = "name: nightly-ctr\nmetric: auc\n" }
    }
  }
  assert {
    condition     = output.jobs == { sweep-nightly-ctr = "coppice-sweep-nightly-ctr", clean = "coppice-clean" }
    error_message = "The old job goes, the new one comes."
  }
}

run "tag_forgotten" {
  command = plan
  variables {
    image_tag = ""
  }
  override_data {
    target = data.google_pubsub_subscription.scores
    values = {
      push_config = [{ push_endpoint = "https://coppice-aggregator-abcdefghij-uc.a.run.app/push" }]
    }
  }
  expect_failures = [terraform_data.programs]
}

run "programs_taken_away_on_purpose" {
  command = plan
  variables {
    image_tag           = ""
    deletion_protection = false
  }
  override_data {
    target = data.google_pubsub_subscription.scores
    values = {
      push_config = [{ push_endpoint = "https://coppice-aggregator-abcdefghij-uc.a.run.app/push" }]
    }
  }
  assert {
    condition     = length(google_cloud_run_v2_service.aggregator) + length(google_cloud_run_v2_job.launcher) == 0
    error_message = "Without protection the programs may go."
  }
}

run "key_switched_on" {
  command = plan
  variables {
    customer_managed_key = true
  }
  expect_failures = [terraform_data.encryption]
}

run "own_key_switched_on" {
  command = plan
  variables {
    kms_key = "projects/example-keys/locations/us-central1/keyRings/ring/cryptoKeys/key"
  }
  expect_failures = [terraform_data.encryption]
}
