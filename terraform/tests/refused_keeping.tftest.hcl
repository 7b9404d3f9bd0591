# What each variable of variables_keeping.tf refuses. Everything else is in order, so that only the value under test can be the reason.

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
  metrics_wait_seconds = 0
}

run "sweep_days_1" {
  command = plan
  variables {
    sweep_days = 0
  }
  expect_failures = [var.sweep_days]
}

run "sweep_days_2" {
  command = plan
  variables {
    sweep_days = 1.5
  }
  expect_failures = [var.sweep_days]
}

run "dataset_days_1" {
  command = plan
  variables {
    dataset_days = 0
  }
  expect_failures = [var.dataset_days]
}

run "dataset_days_2" {
  command = plan
  variables {
    dataset_days = 2.5
  }
  expect_failures = [var.dataset_days]
}

run "registry_undo_days_1" {
  command = plan
  variables {
    registry_undo_days = 6
  }
  expect_failures = [var.registry_undo_days]
}

run "registry_undo_days_2" {
  command = plan
  variables {
    registry_undo_days = 91
  }
  expect_failures = [var.registry_undo_days]
}

run "network_1" {
  command = plan
  variables {
    network = { project = "Host", network = "shared", subnetwork = "machines" }
  }
  expect_failures = [var.network]
}

run "network_2" {
  command = plan
  variables {
    network = { project = "example-host", network = "projects/p/global/networks/shared", subnetwork = "machines" }
  }
  expect_failures = [var.network]
}

run "subnet_range_1" {
  command = plan
  variables {
    subnet_range = "10.84.0.0"
  }
  expect_failures = [var.subnet_range]
}

run "subnet_range_2" {
  command = plan
  variables {
    subnet_range = "8.8.8.0/24"
  }
  expect_failures = [var.subnet_range]
}

run "subnet_range_3" {
  command = plan
  variables {
    subnet_range = "10.84.0.0/30"
  }
  expect_failures = [var.subnet_range]
}

run "key_rotation_days_1" {
  command = plan
  variables {
    key_rotation_days = 0
  }
  expect_failures = [var.key_rotation_days]
}

run "key_rotation_days_2" {
  command = plan
  variables {
    key_rotation_days = 0.5
  }
  expect_failures = [var.key_rotation_days]
}

run "alert_emails_1" {
  command = plan
  variables {
    alert_emails = ["nobody"]
  }
  expect_failures = [var.alert_emails]
}

run "alert_emails_2" {
  command = plan
  variables {
    alert_emails = ["a@b.co", "b@b.co", "c@b.co", "d@b.co", "e@b.co", "f@b.co"]
  }
  expect_failures = [var.alert_emails]
}

run "metrics_endpoint_1" {
  command = plan
  variables {
    metrics_endpoint = "telemetry.googleapis.com"
  }
  expect_failures = [var.metrics_endpoint]
}

run "metrics_endpoint_2" {
  command = plan
  variables {
    metrics_endpoint = "http://collector:4318/v1/metrics"
  }
  expect_failures = [var.metrics_endpoint]
}

run "budget_1" {
  command = plan
  variables {
    budget = { billing_account = "mine", amount = 5 }
  }
  expect_failures = [var.budget]
}

run "budget_2" {
  command = plan
  variables {
    budget = { billing_account = "012345-6789AB-CDEF01", amount = 0 }
  }
  expect_failures = [var.budget]
}

run "budget_3" {
  command = plan
  variables {
    budget = { billing_account = "012345-6789AB-CDEF01", amount = 5, currency = "dollars" }
  }
  expect_failures = [var.budget]
}

run "budget_4" {
  command = plan
  variables {
    budget = { billing_account = "012345-6789AB-CDEF01", amount = 5, thresholds = [] }
  }
  expect_failures = [var.budget]
}

run "budget_5" {
  command = plan
  variables {
    budget = { billing_account = "012345-6789AB-CDEF01", amount = 5, thresholds = [50, 90] }
  }
  expect_failures = [var.budget]
}

run "operators_1" {
  command = plan
  variables {
    operators = ["ana@example.com"]
  }
  expect_failures = [var.operators]
}

run "operators_2" {
  command = plan
  variables {
    operators = ["allUsers"]
  }
  expect_failures = [var.operators]
}

run "operators_3" {
  command = plan
  variables {
    operators = ["domain:example.com"]
  }
  expect_failures = [var.operators]
}

run "model_readers_1" {
  command = plan
  variables {
    model_readers = ["allAuthenticatedUsers"]
  }
  expect_failures = [var.model_readers]
}

run "model_readers_2" {
  command = plan
  variables {
    model_readers = ["serving"]
  }
  expect_failures = [var.model_readers]
}

run "kms_key_1" {
  command = plan
  variables {
    kms_key = "projects/example-keys/locations/europe-west4/keyRings/ring/cryptoKeys/key"
  }
  expect_failures = [var.kms_key]
}

run "kms_key_2" {
  command = plan
  variables {
    kms_key = "projects/example-keys/locations/us-central1/keyRings/ring/cryptoKeys/key/cryptoKeyVersions/1"
  }
  expect_failures = [var.kms_key]
}

run "kms_key_3" {
  command = plan
  variables {
    customer_managed_key = true
    kms_key              = "projects/example-keys/locations/us-central1/keyRings/ring/cryptoKeys/key"
  }
  expect_failures = [var.kms_key]
}

run "metrics_wait_1" {
  command = plan
  variables {
    metrics_wait_seconds = -1
  }
  expect_failures = [var.metrics_wait_seconds]
}

run "webhook_1" {
  command = plan
  variables {
    webhook = { secret = "https://hooks.slack.com/services/x" }
  }
  expect_failures = [var.webhook]
}

run "webhook_2" {
  command = plan
  variables {
    webhook = { secret = "hook", format = "teams" }
  }
  expect_failures = [var.webhook]
}

run "webhook_3" {
  command = plan
  variables {
    webhook = { secret = "hook", verdicts = ["bad"] }
  }
  expect_failures = [var.webhook]
}

run "webhook_4" {
  command = plan
  variables {
    webhook = { secret = "hook", verdicts = [] }
  }
  expect_failures = [var.webhook]
}
