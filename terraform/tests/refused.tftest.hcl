# What each variable refuses. Everything else is in order, so that only the value under test can be the reason.

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

run "project_1" {
  command = plan
  variables {
    project = "Example"
  }
  expect_failures = [var.project]
}

run "project_2" {
  command = plan
  variables {
    project = "short"
  }
  expect_failures = [var.project]
}

run "project_3" {
  command = plan
  variables {
    project = "example-"
  }
  expect_failures = [var.project]
}

run "project_4" {
  command = plan
  variables {
    project = "example.com:project"
  }
  expect_failures = [var.project]
}

run "location_1" {
  command = plan
  variables {
    location = "us"
  }
  expect_failures = [var.location]
}

run "location_2" {
  command = plan
  variables {
    location = "us-central1-a"
  }
  expect_failures = [var.location]
}

run "location_3" {
  command = plan
  variables {
    location = "US-CENTRAL1"
  }
  expect_failures = [var.location]
}

run "name_1" {
  command = plan
  variables {
    name = "c"
  }
  expect_failures = [var.name]
}

run "name_2" {
  command = plan
  variables {
    name = "Coppice"
  }
  expect_failures = [var.name]
}

run "name_3" {
  command = plan
  variables {
    name = "coppice-"
  }
  expect_failures = [var.name]
}

run "name_4" {
  command = plan
  variables {
    name = "google-sweeps"
  }
  expect_failures = [var.name]
}

run "name_5" {
  command = plan
  variables {
    name = "a-name-of-twenty-char"
  }
  expect_failures = [var.name]
}

run "labels_1" {
  command = plan
  variables {
    labels = { Team = "x" }
  }
  expect_failures = [var.labels]
}

run "labels_2" {
  command = plan
  variables {
    labels = { team = "Ads" }
  }
  expect_failures = [var.labels]
}

run "labels_3" {
  command = plan
  variables {
    labels = { goog-x = "y" }
  }
  expect_failures = [var.labels]
}

run "labels_4" {
  command = plan
  variables {
    labels = { app = "mine" }
  }
  expect_failures = [var.labels]
}

run "image_tag_1" {
  command = plan
  variables {
    image_tag = "-v1"
  }
  expect_failures = [var.image_tag]
}

run "image_tag_2" {
  command = plan
  variables {
    image_tag = "a b"
  }
  expect_failures = [var.image_tag]
}

run "image_tag_3" {
  command = plan
  variables {
    image_tag = "v1:latest"
  }
  expect_failures = [var.image_tag]
}

run "images_1" {
  command = plan
  variables {
    images = { localemu = "x/y" }
  }
  expect_failures = [var.images]
}

run "images_2" {
  command = plan
  variables {
    images = { task = "not an image" }
  }
  expect_failures = [var.images]
}

run "sweeps_1" {
  command = plan
  variables {
    sweeps = { Nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n" } }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_2" {
  command = plan
  variables {
    sweeps = { nightly = { schedule = "0 2 * *", spec = "name: a\nmetric: auc\n" } }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_3" {
  command = plan
  variables {
    sweeps = { nightly = { schedule = "0 2 * * *", time_zone = "+01:00", spec = "name: a\nmetric: auc\n" } }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_4" {
  command = plan
  variables {
    sweeps = { nightly = { schedule = "0 2 * * *", spec = "sweep.yaml" } }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_5" {
  command = plan
  variables {
    sweeps = { nightly = { schedule = "0 2 * * *", spec = "name: a\n" } }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_6" {
  command = plan
  variables {
    sweeps = { nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n", winner_within = 26 } }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_7" {
  command = plan
  variables {
    sweeps = { nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n", winner_within = 1.5 } }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_8" {
  command = plan
  variables {
    sweeps = {
      nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n" }
      weekly  = { schedule = "0 2 * * 0", spec = "name: 'a'\nmetric: logloss\n" }
    }
  }
  expect_failures = [var.sweeps]
}

run "sweeps_9" {
  command = plan
  variables {
    sweeps = { nightly = { schedule = "0 2 * * *", spec = "name: a\nmetric: auc\n", winner_within = -1 } }
  }
  expect_failures = [var.sweeps]
}

run "stages_1" {
  command = plan
  variables {
    stages = { Clicks = { schedule = "0 1 * * *", spec = "source: gs://exports/x.parquet\n" } }
  }
  expect_failures = [var.stages]
}

run "stages_2" {
  command = plan
  variables {
    stages = { clicks = { schedule = "daily", spec = "source: gs://exports/x.parquet\n" } }
  }
  expect_failures = [var.stages]
}

run "stages_3" {
  command = plan
  variables {
    stages = { clicks = { schedule = "0 1 * * *", time_zone = "+1", spec = "source: gs://exports/x.parquet\n" } }
  }
  expect_failures = [var.stages]
}

run "stages_4" {
  command = plan
  variables {
    stages = { clicks = { schedule = "0 1 * * *", spec = "source: clicks.parquet\n" } }
  }
  expect_failures = [var.stages]
}

run "stages_5" {
  command = plan
  variables {
    stages = { clicks = { schedule = "0 1 * * *", spec = "source: gs://exports/x.parquet\n", machine = "large" } }
  }
  expect_failures = [var.stages]
}

run "source_buckets_1" {
  command = plan
  variables {
    source_buckets = ["gs://exports"]
  }
  expect_failures = [var.source_buckets]
}

run "source_buckets_2" {
  command = plan
  variables {
    source_buckets = ["exports/clicks"]
  }
  expect_failures = [var.source_buckets]
}

run "source_buckets_3" {
  command = plan
  variables {
    source_buckets = ["registry"]
  }
  expect_failures = [var.source_buckets]
}

run "reconcile_schedule_1" {
  command = plan
  variables {
    reconcile_schedule = "every 5 minutes"
  }
  expect_failures = [var.reconcile_schedule]
}

run "reconcile_schedule_2" {
  command = plan
  variables {
    reconcile_schedule = ""
  }
  expect_failures = [var.reconcile_schedule]
}

run "reconcile_schedule_3" {
  command = plan
  variables {
    reconcile_schedule = "*/6 * * * *"
  }
  expect_failures = [var.reconcile_schedule]
}

run "reconcile_schedule_4" {
  command = plan
  variables {
    reconcile_schedule = "0 * * * *"
  }
  expect_failures = [var.reconcile_schedule]
}

run "reconcile_schedule_5" {
  command = plan
  variables {
    reconcile_schedule = "*/5 9-17 * * *"
  }
  expect_failures = [var.reconcile_schedule]
}

run "reconcile_schedule_6" {
  command = plan
  variables {
    reconcile_schedule = "*/5 * * * 1-5"
  }
  expect_failures = [var.reconcile_schedule]
}

run "reconcile_schedule_7" {
  command = plan
  variables {
    reconcile_schedule = "*/15 * * * *"
  }
  expect_failures = [var.reconcile_schedule]
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

run "zones_1" {
  command = plan
  variables {
    zones = ["us-central1"]
  }
  expect_failures = [var.zones]
}

run "zones_2" {
  command = plan
  variables {
    zones = ["europe-west4-a"]
  }
  expect_failures = [var.zones]
}

run "aggregator_1" {
  command = plan
  variables {
    aggregator = { cpu = "3" }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_2" {
  command = plan
  variables {
    aggregator = { memory = "512Mi" }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_3" {
  command = plan
  variables {
    aggregator = { memory = "64Gi" }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_4" {
  command = plan
  variables {
    aggregator = { max_instances = 0 }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_5" {
  command = plan
  variables {
    aggregator = { timeout_seconds = 4000 }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_6" {
  command = plan
  variables {
    aggregator = { cpu = "1", memory = "8Gi" }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_7" {
  command = plan
  variables {
    aggregator = { cpu = "8", memory = "1Gi" }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_8" {
  command = plan
  variables {
    aggregator = { cpu = "4", memory = "1Gi" }
  }
  expect_failures = [var.aggregator]
}

run "aggregator_9" {
  command = plan
  variables {
    aggregator = { timeout_seconds = 601 }
  }
  expect_failures = [var.aggregator]
}
