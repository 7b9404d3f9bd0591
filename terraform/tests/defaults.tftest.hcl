# A deployment of which only the project is known: what exists before the first image has been pushed.

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

run "bootstrap" {
  assert {
    condition     = length(google_cloud_run_v2_service.server) == 0 && output.server_url == ""
    error_message = "No model is served unless one is named."
  }

  assert {
    condition = toset(concat(
      [for b in values(google_project_iam_member.table) : "${b.member}: ${b.role} on project ${b.project}"],
      [for b in values(google_storage_bucket_iam_member.table) : "${b.member}: ${b.role} on bucket ${b.bucket}${join("", [for c in b.condition : " where ${c.expression}"])}"],
      [for b in values(google_pubsub_topic_iam_member.table) : "${b.member}: ${b.role} on topic ${b.topic}"],
      [for b in values(google_pubsub_subscription_iam_member.table) : "${b.member}: ${b.role} on subscription ${b.subscription}"],
      [for b in values(google_service_account_iam_member.table) : "${b.member}: ${b.role} on account ${b.service_account_id}"],
      [for b in values(google_artifact_registry_repository_iam_member.table) : "${b.member}: ${b.role} on repository ${b.repository}"],
      [for b in values(google_cloud_run_v2_service_iam_member.table) : "${b.member}: ${b.role} on service ${b.name}"],
      [for b in values(google_cloud_run_v2_job_iam_member.table) : "${b.member}: ${b.role} on job ${b.name}"],
      [for b in values(google_secret_manager_secret_iam_member.table) : "${b.member}: ${b.role} on secret ${b.secret_id}"],
      [for b in values(google_kms_crypto_key_iam_member.table) : "${b.member}: ${b.role} on key ${google_kms_crypto_key.coppice[0].id == b.crypto_key_id ? google_kms_crypto_key.coppice[0].name : "?"}"],
    )) == toset(jsondecode(file("${path.module}/tests/golden/bootstrap.json")))
    error_message = "The bindings are not those of iam.yaml: go test ./terraform holds the same file against the table."
  }

  assert {
    condition     = alltrue([for b in values(google_project_iam_member.table) : length(b.condition) == 0])
    error_message = "A right that holds only under a condition is not what the table says."
  }

  assert {
    condition = { for k, b in google_storage_bucket.coppice : k => b.name } == {
      datasets = "example-project-coppice-datasets", sweeps = "example-project-coppice-sweeps", registry = "example-project-coppice-registry"
    }
    error_message = "The buckets are called PROJECT-NAME-datasets, -sweeps and -registry."
  }

  assert {
    condition = alltrue([for b in google_storage_bucket.coppice :
      b.uniform_bucket_level_access && b.public_access_prevention == "enforced" && !b.force_destroy && b.location == "us-central1" && length(b.encryption) == 0
    ])
    error_message = "Every bucket has uniform access, is closed to the public, outlives a destroy and lies where the machines are."
  }

  assert {
    condition     = { for k, b in google_storage_bucket.coppice : k => b.versioning[0].enabled } == { datasets = false, sweeps = false, registry = true }
    error_message = "The registry, and only it, keeps old versions of objects."
  }

  assert {
    condition     = { for k, b in google_storage_bucket.coppice : k => b.soft_delete_policy[0].retention_duration_seconds } == { datasets = 604800, sweeps = 604800, registry = 2592000 }
    error_message = "What is deleted or overwritten can be brought back, also in the bucket that tasks write."
  }

  assert {
    condition     = [for r in google_storage_bucket.coppice["sweeps"].lifecycle_rule : one(r.action).type] == ["AbortIncompleteMultipartUpload"]
    error_message = "No rule deletes what a version or a sweep may need: rules go by age."
  }

  assert {
    condition     = [for r in google_storage_bucket.coppice["datasets"].lifecycle_rule : "${one(r.action).type} ${join("", coalesce(one(r.condition).matches_prefix, []))}"] == ["AbortIncompleteMultipartUpload ", "Delete bigquery-exports/"]
    error_message = "Nor does one delete a dataset."
  }

  assert {
    condition = [for r in google_storage_bucket.coppice["registry"].lifecycle_rule : one(r.condition).days_since_noncurrent_time if one(r.action).type == "Delete"] == [30] && alltrue([
      for r in google_storage_bucket.coppice["registry"].lifecycle_rule : one(r.condition).with_state == "ARCHIVED" if one(r.action).type == "Delete"
    ])
    error_message = "Of the registry only what has been overwritten is ever deleted."
  }

  assert {
    condition     = { for k, t in google_pubsub_topic.coppice : k => t.name } == { scores = "coppice-scores", jobs = "coppice-jobs", dead_letters = "coppice-scores-dead", verdicts = "coppice-verdicts" }
    error_message = "The topics are those that localemu makes, and that of Batch's notifications."
  }

  assert {
    condition = alltrue([for s in google_pubsub_subscription.aggregator :
      length(s.push_config) == 0 && s.ack_deadline_seconds == 600 && s.expiration_policy[0].ttl == "" &&
      s.dead_letter_policy[0].dead_letter_topic == google_pubsub_topic.coppice["dead_letters"].id && s.dead_letter_policy[0].max_delivery_attempts == 20
    ])
    error_message = "Subscriptions live for ever, give up after 20 deliveries, and push to nobody as long as nobody is there."
  }

  assert {
    condition     = google_pubsub_subscription.dead_letters.topic == google_pubsub_topic.coppice["dead_letters"].id && google_pubsub_subscription.dead_letters.expiration_policy[0].ttl == ""
    error_message = "Without a subscription, what is given up would be lost."
  }

  assert {
    condition     = toset([for a in google_service_account.coppice : a.account_id]) == toset(["coppice-launcher", "coppice-task", "coppice-stager", "coppice-aggregator", "coppice-server", "coppice-cleaner", "coppice-scheduler", "coppice-push"])
    error_message = "One account for each role."
  }

  assert {
    condition     = google_compute_subnetwork.coppice[0].private_ip_google_access && google_compute_subnetwork.coppice[0].region == "us-central1" && !google_compute_network.coppice[0].auto_create_subnetworks
    error_message = "Machines reach Google without an address of their own."
  }

  assert {
    condition = length(google_compute_firewall.tasks) == 1 && google_compute_firewall.tasks[0].direction == "INGRESS" && try(length(google_compute_firewall.tasks[0].source_ranges), 0) == 0 && alltrue([
      for accounts in [google_compute_firewall.tasks[0].source_service_accounts, google_compute_firewall.tasks[0].target_service_accounts] :
      toset(accounts) == toset(["coppice-task@example-project.iam.gserviceaccount.com"])
    ]) && [for a in google_compute_firewall.tasks[0].allow : "${a.protocol} ${join(",", a.ports)}"] == ["tcp 7433"]
    error_message = "Only tasks reach tasks, at one port."
  }

  assert {
    condition     = google_artifact_registry_repository.images.format == "DOCKER" && google_artifact_registry_repository.images.docker_config[0].immutable_tags
    error_message = "A tag that has run once must mean the same for ever."
  }

  assert {
    condition = (
      length(google_cloud_run_v2_service.aggregator) + length(google_cloud_run_v2_job.launcher) + length(google_cloud_scheduler_job.launcher) + length(google_cloud_scheduler_job.reconcile) +
      length(google_kms_crypto_key.coppice) + length(google_billing_budget.coppice) + length(google_monitoring_notification_channel.email) + length(output.host_project_commands) == 0
    )
    error_message = "Nothing runs before there is an image; key, budget and e-mails are asked for."
  }

  assert {
    condition     = toset(keys(google_monitoring_alert_policy.alert)) == toset(["night to look at", "launcher failed", "messages given up", "aggregator failing", "aggregator errors"])
    error_message = "The alerts that need no schedule are always there."
  }

  assert {
    condition     = length(setsubtract(["batch", "compute", "run", "pubsub", "storage", "cloudscheduler", "artifactregistry", "logging", "monitoring", "iam", "iamcredentials", "telemetry"], [for s in google_project_service.coppice : trimsuffix(s.service, ".googleapis.com")])) == 0 && alltrue([for s in google_project_service.coppice : !s.disable_on_destroy])
    error_message = "Every service that is used is switched on, and none is switched off for others."
  }

  assert {
    condition     = length([for k in keys(output.environment) : k if strcontains(k, "IMAGE")]) == 0
    error_message = "No image is named before there is one."
  }

  assert {
    condition     = output.registry == "us-central1-docker.pkg.dev/example-project/coppice" && output.aggregator_url == ""
    error_message = "make push needs to know where to."
  }
}
