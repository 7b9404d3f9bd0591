# What each variable of variables_keeping.tf refuses. A run has one bad value for each of many variables, and fails unless every one of them is refused.
# A variable's values are judged by themselves, but for zones and kms_key, which have to be of the location: that is in order in their runs.

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

run "refused_1" {
  command = plan
  variables {
    keep                 = { nights = 9 }
    registry_undo_days   = 6
    network              = { project = "Host", network = "shared", subnetwork = "machines" }
    subnet_range         = "10.84.0.0"
    key_rotation_days    = 0
    alert_emails         = ["nobody"]
    metrics_endpoint     = "telemetry.googleapis.com"
    budget               = { billing_account = "mine", amount = 5 }
    operators            = ["ana@example.com"]
    model_readers        = ["allAuthenticatedUsers"]
    kms_key              = "projects/example-keys/locations/europe-west4/keyRings/ring/cryptoKeys/key"
    metrics_wait_seconds = -1
    webhook              = { secret = "https://hooks.slack.com/services/x" }
    serve                = { model = "ctr; rm", callers = ["allUsers"], min_instances = 0 }
  }
  expect_failures = [
    var.keep,
    var.registry_undo_days,
    var.network,
    var.subnet_range,
    var.key_rotation_days,
    var.alert_emails,
    var.metrics_endpoint,
    var.budget,
    var.operators,
    var.model_readers,
    var.kms_key,
    var.metrics_wait_seconds,
    var.webhook,
    var.serve,
  ]
}

run "refused_2" {
  command = plan
  variables {
    keep               = { promoted = 2.5 }
    registry_undo_days = 91
    network            = { project = "example-host", network = "projects/p/global/networks/shared", subnetwork = "machines" }
    subnet_range       = "8.8.8.0/24"
    key_rotation_days  = 0.5
    alert_emails       = ["a@b.co", "b@b.co", "c@b.co", "d@b.co", "e@b.co", "f@b.co"]
    metrics_endpoint   = "http://collector:4318/v1/metrics"
    budget             = { billing_account = "012345-6789AB-CDEF01", amount = 0 }
    operators          = ["allUsers"]
    model_readers      = ["serving"]
    kms_key            = "projects/example-keys/locations/us-central1/keyRings/ring/cryptoKeys/key/cryptoKeyVersions/1"
    webhook            = { secret = "hook", format = "teams" }
  }
  expect_failures = [
    var.keep,
    var.registry_undo_days,
    var.network,
    var.subnet_range,
    var.key_rotation_days,
    var.alert_emails,
    var.metrics_endpoint,
    var.budget,
    var.operators,
    var.model_readers,
    var.kms_key,
    var.webhook,
  ]
}

run "refused_3" {
  command = plan
  variables {
    subnet_range         = "10.84.0.0/30"
    budget               = { billing_account = "012345-6789AB-CDEF01", amount = 5, currency = "dollars" }
    operators            = ["domain:example.com"]
    customer_managed_key = true
    kms_key              = "projects/example-keys/locations/us-central1/keyRings/ring/cryptoKeys/key"
    webhook              = { secret = "hook", verdicts = ["bad"] }
  }
  expect_failures = [
    var.subnet_range,
    var.budget,
    var.operators,
    var.kms_key,
    var.webhook,
  ]
}

run "refused_4" {
  command = plan
  variables {
    budget  = { billing_account = "012345-6789AB-CDEF01", amount = 5, thresholds = [] }
    webhook = { secret = "hook", verdicts = [] }
  }
  expect_failures = [
    var.budget,
    var.webhook,
  ]
}

run "refused_5" {
  command = plan
  variables {
    budget = { billing_account = "012345-6789AB-CDEF01", amount = 5, thresholds = [50, 90] }
  }
  expect_failures = [
    var.budget,
  ]
}
