# What each variable refuses. A run has one bad value for each of many variables, and fails unless every one of them is refused.
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
    project            = "Example"
    location           = "us"
    name               = "c"
    labels             = { Team = "x" }
    image_tag          = "-v1"
    images             = { localemu = "x/y" }
    sweeps             = { Nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n" } }
    source_buckets     = ["gs://exports"]
    reconcile_schedule = "every 5 minutes"
    aggregator         = { cpu = "3" }
  }
  expect_failures = [
    var.project,
    var.location,
    var.name,
    var.labels,
    var.image_tag,
    var.images,
    var.sweeps,
    var.source_buckets,
    var.reconcile_schedule,
    var.aggregator,
  ]
}

run "refused_2" {
  command = plan
  variables {
    project            = "short"
    location           = "us-central1-a"
    name               = "Coppice"
    labels             = { team = "Ads" }
    image_tag          = "a b"
    images             = { task = "not an image" }
    sweeps             = { nightly = { schedule = "0 2 * *", spec = "name: a\nmetric: auc\n" } }
    source_buckets     = ["exports/clicks"]
    reconcile_schedule = ""
    aggregator         = { memory = "512Mi" }
  }
  expect_failures = [
    var.project,
    var.location,
    var.name,
    var.labels,
    var.image_tag,
    var.images,
    var.sweeps,
    var.source_buckets,
    var.reconcile_schedule,
    var.aggregator,
  ]
}

run "refused_3" {
  command = plan
  variables {
    project            = "example-"
    location           = "US-CENTRAL1"
    name               = "coppice-"
    labels             = { goog-x = "y" }
    image_tag          = "v1:latest"
    sweeps             = { nightly = { schedule = "0 2 * * *", time_zone = "+01:00", spec = "name: a\nmetric: auc\n" } }
    source_buckets     = ["registry"]
    source_datasets    = ["events"]
    reconcile_schedule = "*/6 * * * *"
    aggregator         = { memory = "64Gi" }
  }
  expect_failures = [
    var.project,
    var.location,
    var.name,
    var.labels,
    var.image_tag,
    var.sweeps,
    var.source_buckets,
    var.source_datasets,
    var.reconcile_schedule,
    var.aggregator,
  ]
}

run "refused_4" {
  command = plan
  variables {
    project            = "example.com:project"
    name               = "google-sweeps"
    labels             = { app = "mine" }
    sweeps             = { nightly = { schedule = "0 2 * * *", spec = "sweep.yaml" } }
    reconcile_schedule = "0 * * * *"
    zones              = ["us-central1"]
    aggregator         = { max_instances = 0 }
  }
  expect_failures = [
    var.project,
    var.name,
    var.labels,
    var.sweeps,
    var.reconcile_schedule,
    var.zones,
    var.aggregator,
  ]
}

run "refused_5" {
  command = plan
  variables {
    name               = "a-name-of-twenty-char"
    sweeps             = { nightly = { schedule = "0 2 * * *", spec = "name: a\n" } }
    reconcile_schedule = "*/5 9-17 * * *"
    zones              = ["europe-west4-a"]
    aggregator         = { timeout_seconds = 4000 }
  }
  expect_failures = [
    var.name,
    var.sweeps,
    var.reconcile_schedule,
    var.zones,
    var.aggregator,
  ]
}

run "refused_6" {
  command = plan
  variables {
    sweeps             = { nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n", winner_within = 26 } }
    reconcile_schedule = "*/5 * * * 1-5"
    aggregator         = { cpu = "1", memory = "8Gi" }
    serve              = { model = "ctr", callers = ["bidder@example-project.iam.gserviceaccount.com"], cpu = "1", memory = "8Gi" }
  }
  expect_failures = [
    var.sweeps,
    var.reconcile_schedule,
    var.aggregator,
    var.serve,
  ]
}

run "refused_7" {
  command = plan
  variables {
    sweeps             = { nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n", winner_within = 1.5 } }
    reconcile_schedule = "*/15 * * * *"
    aggregator         = { cpu = "8", memory = "1Gi" }
  }
  expect_failures = [
    var.sweeps,
    var.reconcile_schedule,
    var.aggregator,
  ]
}

run "refused_8" {
  command = plan
  variables {
    sweeps = {
      nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n" }
      weekly  = { schedule = "0 2 * * 0", spec = "name: 'a'\nmetric: logloss\n" }
    }
    aggregator = { cpu = "4", memory = "1Gi" }
  }
  expect_failures = [
    var.sweeps,
    var.aggregator,
  ]
}

run "refused_9" {
  command = plan
  variables {
    sweeps     = { nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n", winner_within = -1 } }
    aggregator = { timeout_seconds = 601 }
  }
  expect_failures = [
    var.sweeps,
    var.aggregator,
  ]
}

# And what is just allowed.
run "reconcile_schedule_every_minute" {
  command = plan
  variables {
    reconcile_schedule = "* * * * *"
  }
  assert {
    condition     = var.reconcile_schedule == "* * * * *"
    error_message = "Every minute is often enough."
  }
}

run "reconcile_schedule_every_four_minutes" {
  command = plan
  variables {
    reconcile_schedule = "*/4 * * * *"
  }
  assert {
    condition     = var.reconcile_schedule == "*/4 * * * *"
    error_message = "Every four minutes is often enough."
  }
}

run "refused_stage_elsewhere" {
  command = plan
  variables {
    project  = "example-project"
    location = "us-central1"
    sweeps   = { nightly = { schedule = "0 2 * * *", spec = "name: a\ndataset: clicks\nmetric: auc\n", stage = { spec = "name: clicks\nsource: clicks.parquet\n" } } }
  }
  expect_failures = [var.sweeps]
}

run "refused_stage_partly_elsewhere" {
  command = plan
  variables {
    project  = "example-project"
    location = "us-central1"
    sweeps   = { nightly = { schedule = "0 2 * * *", spec = "name: a\ndataset: clicks\nmetric: auc\n", stage = { spec = "name: clicks\nsource: [gs://exports/x.parquet, y.parquet]\n" } } }
  }
  expect_failures = [var.sweeps]
}

run "refused_stage_other_dataset" {
  command = plan
  variables {
    project  = "example-project"
    location = "us-central1"
    sweeps   = { nightly = { schedule = "0 2 * * *", spec = "name: a\ndataset: clicks\nmetric: auc\n", stage = { spec = "name: sales\nsource: gs://exports/x.parquet\n" } } }
  }
  expect_failures = [var.sweeps]
}

run "refused_stage_machine" {
  command = plan
  variables {
    project  = "example-project"
    location = "us-central1"
    sweeps   = { nightly = { schedule = "0 2 * * *", spec = "name: a\ndataset: clicks\nmetric: auc\n", stage = { spec = "name: clicks\nsource: gs://exports/x.parquet\n", machine = "large" } } }
  }
  expect_failures = [var.sweeps]
}
