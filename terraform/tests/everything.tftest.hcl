# A deployment with everything in it: two scheduled sweeps, a shared network, a key, people, alerts and a budget.

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
  zones                = ["us-central1-a", "us-central1-b"]
  operators            = ["user:ana@example.com", "group:ops@example.com"]
  model_readers        = ["serviceAccount:serving@example-serving.iam.gserviceaccount.com"]
  serve                = { model = "ctr@champion", callers = ["bidder@example-project.iam.gserviceaccount.com"] }
  customer_managed_key = true
  metrics_wait_seconds = 0
  alert_emails         = ["ops@example.com"]
  budget               = { billing_account = "012345-6789AB-CDEF01", amount = 500 }
  keep                 = { nights = 20, promoted = 50, schedule = "0 13 * * *" }
  network              = { project = "example-host", network = "shared", subnetwork = "machines" }
  source_buckets       = ["example-exports"]
  source_datasets      = ["example-ads.events"]
  webhook              = { secret = "slack-verdicts", verdicts = ["blocked", "not_comparable"] }
  sweeps = {
    nightly = { schedule = "0 2 * * *", time_zone = "Europe/Berlin", spec = "name: nightly-ctr\ndataset: clicks\nmodel: ctr\nmetric: average_precision\n", winner_within = 25,
    stage = { spec = "name: clicks\nsource: {files: [gs://example-exports/clicks/*.parquet]}\n", machine = "n2-highmem-16", spot = true } }
    weekly = { schedule = "0 4 * * 0", spec = "name: weekly\nmetric: auc\n", paused = true }
  }
}

run "iam" {
  assert {
    condition = toset(concat(
      [for b in values(google_project_iam_member.table) : "${b.member}: ${b.role} on project ${b.project}"],
      [for b in values(google_storage_bucket_iam_member.table) : "${b.member}: ${b.role} on bucket ${b.bucket}${join("", [for c in b.condition : " where ${c.expression}"])}"],
      [for b in values(google_bigquery_dataset_iam_member.table) : "${b.member}: ${b.role} on dataset ${b.project}.${b.dataset_id}"],
      [for b in values(google_pubsub_topic_iam_member.table) : "${b.member}: ${b.role} on topic ${b.topic}"],
      [for b in values(google_pubsub_subscription_iam_member.table) : "${b.member}: ${b.role} on subscription ${b.subscription}"],
      [for b in values(google_service_account_iam_member.table) : "${b.member}: ${b.role} on account ${b.service_account_id}"],
      [for b in values(google_artifact_registry_repository_iam_member.table) : "${b.member}: ${b.role} on repository ${b.repository}"],
      [for b in values(google_cloud_run_v2_service_iam_member.table) : "${b.member}: ${b.role} on service ${b.name}"],
      [for b in values(google_cloud_run_v2_job_iam_member.table) : "${b.member}: ${b.role} on job ${b.name}"],
      [for b in values(google_secret_manager_secret_iam_member.table) : "${b.member}: ${b.role} on secret ${b.secret_id}"],
      [for b in values(google_kms_crypto_key_iam_member.table) : "${b.member}: ${b.role} on key ${google_kms_crypto_key.coppice[0].id == b.crypto_key_id ? google_kms_crypto_key.coppice[0].name : "?"}"],
    )) == toset(jsondecode(file("${path.module}/tests/golden/everything.json")))
    error_message = "The bindings are not those of iam.yaml: go test ./terraform holds the same file against the table."
  }

  assert {
    condition     = alltrue([for b in values(google_project_iam_member.table) : length(b.condition) == 0])
    error_message = "A right that holds only under a condition is not what the table says."
  }

  assert {
    condition     = output.host_project_commands == ["gcloud compute networks subnets add-iam-policy-binding machines --project example-host --region us-central1 --member serviceAccount:service-123456789012@gcp-sa-cloudbatch.iam.gserviceaccount.com --role roles/compute.networkUser"]
    error_message = "The host project's administrator is told what to grant, and to whom."
  }

  assert {
    condition     = alltrue([for b in google_kms_crypto_key_iam_member.table : endswith(b.member, ".iam.gserviceaccount.com") && strcontains(b.member, ":service-123456789012@")])
    error_message = "Only Google's own agents use the key."
  }
}

run "programs" {
  assert {
    condition     = output.environment == jsondecode(file("${path.module}/tests/golden/environment.json"))
    error_message = "The variables are not those that the programs read: go test ./terraform holds the same file against package sweep."
  }

  assert {
    condition     = alltrue([for k, j in google_cloud_run_v2_job.launcher : { for e in j.template[0].template[0].containers[0].env : e.name => e.value if e.name != "COPPICE_WEBHOOK" } == merge(output.environment, { COPPICE_LOG = "json", COPPICE_WEBHOOK_FORMAT = "slack", COPPICE_WEBHOOK_VERDICTS = "blocked,not_comparable" }) if k != "clean"])
    error_message = "The launcher in the cloud has the environment of one on a laptop, and logs for Cloud Logging."
  }

  assert {
    condition = { for e in google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].env : e.name => e.value if e.name != "COPPICE_WEBHOOK" } == {
      for k, v in merge(output.environment, {
        COPPICE_AUDIENCE = "coppice-aggregator.example-project"
        COPPICE_CALLERS  = "coppice-push@example-project.iam.gserviceaccount.com,coppice-scheduler@example-project.iam.gserviceaccount.com"

        COPPICE_SIGNATURES = "cloud-run"

        COPPICE_WEBHOOK_FORMAT   = "slack"
        COPPICE_WEBHOOK_VERDICTS = "blocked,not_comparable"
      }) : k => v if !contains(["COPPICE_TASK_IMAGE", "COPPICE_TASK_SERVICE_ACCOUNT", "COPPICE_LAUNCHER_IMAGE", "COPPICE_STAGE_SERVICE_ACCOUNT", "COPPICE_NETWORK", "COPPICE_SUBNETWORK", "COPPICE_ZONES", "COPPICE_JOBS_TOPIC"], k)
    }
    error_message = "The aggregator knows the deployment and its callers, and not how jobs are made."
  }

  assert {
    condition = (
      google_cloud_run_v2_service.aggregator["aggregator"].name == "coppice-aggregator" &&
      google_cloud_run_v2_service.aggregator["aggregator"].ingress == "INGRESS_TRAFFIC_INTERNAL_ONLY" &&
      google_cloud_run_v2_service.aggregator["aggregator"].custom_audiences == tolist(["coppice-aggregator.example-project"]) &&
      google_cloud_run_v2_service.aggregator["aggregator"].deletion_protection &&
      google_cloud_run_v2_service.aggregator["aggregator"].template[0].service_account == "coppice-aggregator@example-project.iam.gserviceaccount.com" &&
      google_cloud_run_v2_service.aggregator["aggregator"].template[0].scaling[0].min_instance_count == 0 &&
      google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].image == "us-central1-docker.pkg.dev/example-project/coppice/coppice-aggregator:v1" &&
      google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].args == tolist(["serve", "--listen", ":8080"]) &&
      google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].startup_probe[0].http_get[0].path == "/healthz"
    )
    error_message = "The aggregator serves, as its own account, to callers inside only, and scales to zero."
  }

  assert {
    condition = alltrue([for s in [google_cloud_run_v2_service.server["server"]] :
      s.name == "coppice-server" && s.ingress == "INGRESS_TRAFFIC_INTERNAL_ONLY" && s.deletion_protection &&
      s.custom_audiences == tolist(["coppice-server.example-project"]) &&
      s.template[0].service_account == "coppice-server@example-project.iam.gserviceaccount.com" &&
      s.template[0].scaling[0].min_instance_count == 1 && !s.template[0].containers[0].resources[0].cpu_idle &&
      s.template[0].containers[0].image == "us-central1-docker.pkg.dev/example-project/coppice/coppice-launcher:v1" &&
      s.template[0].containers[0].args == tolist(["serve", "--model", "ctr@champion"]) &&
      s.template[0].containers[0].startup_probe[0].http_get[0].path == "/readyz"
    ])
    error_message = "The server is always there, for callers inside only, as its own account, once its version is ready."
  }

  assert {
    condition = { for e in google_cloud_run_v2_service.server["server"].template[0].containers[0].env : e.name => e.value if contains(["COPPICE_AUDIENCE", "COPPICE_CALLERS", "COPPICE_SIGNATURES", "COPPICE_REGISTRY_BUCKET"], e.name) } == {
      COPPICE_AUDIENCE        = "coppice-server.example-project"
      COPPICE_CALLERS         = "bidder@example-project.iam.gserviceaccount.com"
      COPPICE_SIGNATURES      = "cloud-run"
      COPPICE_REGISTRY_BUCKET = "example-project-coppice-registry"
    }
    error_message = "The server knows its callers, and where models are."
  }

  assert {
    condition = { for k, j in google_cloud_run_v2_job.launcher : k => j.name } == {
      sweep-nightly = "coppice-sweep-nightly", sweep-weekly = "coppice-sweep-weekly", clean = "coppice-clean"
    }
    error_message = "A Cloud Run job for each scheduled sweep."
  }

  assert {
    condition = alltrue([for k, j in google_cloud_run_v2_job.launcher :
      j.template[0].template[0].service_account == "coppice-${k == "clean" ? "cleaner" : "launcher"}@example-project.iam.gserviceaccount.com" &&
      j.template[0].template[0].containers[0].image == "us-central1-docker.pkg.dev/example-project/coppice/coppice-launcher:v1" && j.template[0].task_count == 1
    ])
    error_message = "The launcher runs once, as its own account, and what removes objects as another."
  }

  assert {
    condition     = google_cloud_run_v2_job.launcher["sweep-weekly"].template[0].template[0].containers[0].args == tolist(["sweep", "/etc/coppice/sweep-weekly.yaml", "--no-wait", "--json", "--schedule", "0 4 * * 0", "--time-zone", "Etc/UTC"])
    error_message = "The launcher has to know the schedule: the slot names the sweep."
  }

  assert {
    condition = (
      google_cloud_run_v2_job.launcher["sweep-nightly"].template[0].template[0].volumes[0].gcs[0].bucket == "example-project-coppice-sweeps" &&
      google_cloud_run_v2_job.launcher["sweep-nightly"].template[0].template[0].volumes[0].gcs[0].read_only &&
      google_cloud_run_v2_job.launcher["sweep-nightly"].template[0].template[0].containers[0].volume_mounts[0].mount_path == "/etc/coppice" &&
      google_storage_bucket_object.spec["sweep-nightly"].name == "sweep-nightly.yaml" && google_storage_bucket_object.spec["sweep-nightly"].bucket == "example-project-coppice-sweeps" &&
      google_storage_bucket_object.spec["sweep-nightly"].content == var.sweeps["nightly"].spec
    )
    error_message = "The spec that the launcher reads is the one that was given."
  }
}

run "verdicts" {
  assert {
    condition = alltrue([for env in concat(
      [google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].env],
      [for k, j in google_cloud_run_v2_job.launcher : j.template[0].template[0].containers[0].env if k != "clean"],
      ) : [for e in env : "${e.value_source[0].secret_key_ref[0].secret} ${e.value_source[0].secret_key_ref[0].version}" if e.name == "COPPICE_WEBHOOK"] == ["slack-verdicts latest"]
    ])
    error_message = "Aggregator and launchers get the webhook's address as a secret, and never as a value."
  }

  assert {
    condition     = contains(keys(google_project_service.coppice), "secretmanager.googleapis.com") && length([for k in keys(output.environment) : k if strcontains(k, "WEBHOOK")]) == 0
    error_message = "Secret Manager is enabled, and a laptop posts nothing."
  }

  assert {
    condition     = output.environment.COPPICE_VERDICTS_TOPIC == "coppice-verdicts" && output.verdicts_topic == google_pubsub_topic.coppice["verdicts"].id
    error_message = "Whoever wants to hear verdicts is told the topic."
  }
}

run "no_webhook" {
  variables {
    webhook = null
  }

  assert {
    condition = (
      length(google_secret_manager_secret_iam_member.table) == 0 && !contains(keys(google_project_service.coppice), "secretmanager.googleapis.com") &&
      length([for e in google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].env : e if strcontains(e.name, "WEBHOOK")]) == 0
    )
    error_message = "Without a webhook nobody has a right on a secret."
  }
}

run "staging" {
  assert {
    condition = (
      google_cloud_run_v2_job.launcher["sweep-nightly"].template[0].template[0].containers[0].args == tolist(["nightly", "/etc/coppice/sweep-nightly.yaml", "--table", "/etc/coppice/table-nightly.yaml", "--batch", "--machine", "n2-highmem-16", "--spot", "--no-wait", "--json", "--schedule", "0 2 * * *", "--time-zone", "Europe/Berlin"]) &&
      google_cloud_run_v2_job.launcher["sweep-nightly"].template[0].template[0].timeout == "86400s" && google_cloud_run_v2_job.launcher["sweep-weekly"].template[0].template[0].timeout == "21600s" &&
      google_storage_bucket_object.spec["table-nightly"].content == var.sweeps["nightly"].stage.spec && google_storage_bucket_object.spec["table-nightly"].name == "table-nightly.yaml" &&
      toset(keys(google_cloud_scheduler_job.launcher)) == toset(["sweep-nightly", "sweep-weekly", "clean"])
    )
    error_message = "One entry of the scheduler stages as a Batch job and sweeps."
  }

  assert {
    condition     = { for k, j in google_cloud_run_v2_job.launcher : k => j.template[0].template[0].max_retries } == { sweep-nightly = 1, sweep-weekly = 3, clean = 1 }
    error_message = "A launcher that is started again after a failed staging would stage again, on machines that cost money."
  }
}

run "calls" {
  assert {
    condition     = google_pubsub_subscription.aggregator["scores"].push_config[0].push_endpoint == "https://coppice-aggregator-abcdefghij-uc.a.run.app/push"
    error_message = "Scores are pushed to the aggregator's /push."
  }

  assert {
    condition     = google_pubsub_subscription.aggregator["jobs"].push_config[0].push_endpoint == "https://coppice-aggregator-abcdefghij-uc.a.run.app/reconcile"
    error_message = "A change of a job's state is a reason to look, no more."
  }

  assert {
    condition = alltrue([for s in google_pubsub_subscription.aggregator :
      s.push_config[0].oidc_token[0].service_account_email == "coppice-push@example-project.iam.gserviceaccount.com" && s.push_config[0].oidc_token[0].audience == output.audience
    ])
    error_message = "Pushes come with a token of the push account, for the aggregator's audience."
  }

  assert {
    condition     = { for k, s in google_pubsub_subscription.aggregator : k => s.name } == { scores = "coppice-aggregator", jobs = "coppice-jobs" }
    error_message = "The names of the subscriptions."
  }

  assert {
    condition = (
      google_cloud_scheduler_job.reconcile["aggregator"].http_target[0].uri == "https://coppice-aggregator-abcdefghij-uc.a.run.app/reconcile" &&
      google_cloud_scheduler_job.reconcile["aggregator"].http_target[0].http_method == "POST" &&
      google_cloud_scheduler_job.reconcile["aggregator"].http_target[0].oidc_token[0].service_account_email == "coppice-scheduler@example-project.iam.gserviceaccount.com" &&
      google_cloud_scheduler_job.reconcile["aggregator"].http_target[0].oidc_token[0].audience == output.audience &&
      google_cloud_scheduler_job.reconcile["aggregator"].schedule == "*/5 * * * *"
    )
    error_message = "Every five minutes somebody notices silence."
  }

  assert {
    condition = (
      google_cloud_scheduler_job.launcher["sweep-nightly"].http_target[0].uri == "https://run.googleapis.com/v2/projects/example-project/locations/us-central1/jobs/coppice-sweep-nightly:run" &&
      google_cloud_scheduler_job.launcher["sweep-nightly"].http_target[0].http_method == "POST" &&
      base64decode(google_cloud_scheduler_job.launcher["sweep-nightly"].http_target[0].body) == "{}" &&
      length(google_cloud_scheduler_job.launcher["sweep-nightly"].http_target[0].oidc_token) == 0 &&
      google_cloud_scheduler_job.launcher["sweep-nightly"].http_target[0].oauth_token[0].service_account_email == "coppice-scheduler@example-project.iam.gserviceaccount.com" &&
      google_cloud_scheduler_job.launcher["sweep-nightly"].time_zone == "Europe/Berlin" && google_cloud_scheduler_job.launcher["sweep-nightly"].schedule == "0 2 * * *" &&
      !google_cloud_scheduler_job.launcher["sweep-nightly"].paused && google_cloud_scheduler_job.launcher["sweep-weekly"].paused
    )
    error_message = "A schedule runs its job with an access token and without overrides, which would need a wider role."
  }
}

run "kept_and_watched" {
  assert {
    condition     = length(google_compute_network.coppice) + length(google_compute_subnetwork.coppice) + length(google_compute_firewall.tasks) == 0
    error_message = "With a network of another project none is made."
  }

  assert {
    condition = alltrue(concat(
      [for b in google_storage_bucket.coppice : b.encryption[0].default_kms_key_name == google_kms_crypto_key.coppice[0].id],
      [for t in google_pubsub_topic.coppice : t.kms_key_name == google_kms_crypto_key.coppice[0].id],
      [for j in google_cloud_run_v2_job.launcher : j.template[0].template[0].encryption_key == google_kms_crypto_key.coppice[0].id],
      [
        google_artifact_registry_repository.images.kms_key_name == google_kms_crypto_key.coppice[0].id,
        google_cloud_run_v2_service.aggregator["aggregator"].template[0].encryption_key == google_kms_crypto_key.coppice[0].id,
        google_kms_crypto_key.coppice[0].rotation_period == "7776000s",
        google_kms_key_ring.coppice[0].location == "us-central1",
      ],
    ))
    error_message = "The key encrypts all that is kept, and lies where it is kept."
  }

  assert {
    condition = (
      google_cloud_run_v2_job.launcher["clean"].template[0].template[0].containers[0].args == tolist(["clean", "--yes", "--keep", "20", "--promoted", "50", "--json"]) &&
      google_cloud_scheduler_job.launcher["clean"].schedule == "0 13 * * *" && google_cloud_scheduler_job.launcher["clean"].time_zone == "Etc/UTC" &&
      length([for e in google_cloud_run_v2_job.launcher["clean"].template[0].template[0].containers[0].env : e if strcontains(e.name, "WEBHOOK")]) == 0
    )
    error_message = "What stays is what keep says, and what cleans reads no secret."
  }

  assert {
    condition     = toset(keys(google_monitoring_alert_policy.alert)) == toset(["night to look at", "launcher failed", "messages given up", "aggregator failing", "aggregator errors", "no winner of nightly"])
    error_message = "A sweep with winner_within has an alert of its own."
  }

  assert {
    condition = alltrue([for p in google_monitoring_alert_policy.alert :
      p.notification_channels == tolist([google_monitoring_notification_channel.email["ops@example.com"].id]) && length(p.documentation[0].content) > 40
    ])
    error_message = "Every alert is sent to somebody, with what to do."
  }

  assert {
    condition = (
      strcontains(google_monitoring_alert_policy.alert["no winner of nightly"].conditions[0].condition_threshold[0].filter, "metric.labels.model=\"ctr\"") &&
      strcontains(google_monitoring_alert_policy.alert["no winner of nightly"].conditions[0].condition_threshold[0].filter, "metric.labels.outcome=\"winner\"") &&
      google_monitoring_alert_policy.alert["no winner of nightly"].conditions[0].condition_threshold[0].aggregations[0].alignment_period == "89700s" &&
      google_monitoring_alert_policy.alert["no winner of nightly"].conditions[0].condition_threshold[0].comparison == "COMPARISON_LT" &&
      google_monitoring_alert_policy.alert["no winner of nightly"].conditions[0].condition_threshold[0].evaluation_missing_data == "EVALUATION_MISSING_DATA_ACTIVE"
    )
    error_message = "No winner in time counts for the spec's model, and silence counts, too."
  }

  assert {
    condition = (
      strcontains(google_monitoring_alert_policy.alert["aggregator errors"].conditions[0].condition_threshold[0].filter, "metric.type=\"logging.googleapis.com/user/coppice/aggregator-errors\"") &&
      google_monitoring_alert_policy.alert["aggregator errors"].conditions[0].condition_threshold[0].comparison == "COMPARISON_GT" &&
      google_monitoring_alert_policy.alert["aggregator errors"].conditions[0].condition_threshold[0].threshold_value == 0
    )
    error_message = "Every error that the aggregator logs is told."
  }

  assert {
    condition = alltrue([for part in ["message=\"sweep concluded\" jsonPayload.outcome=\"no_winner\"", "message=\"not promoted\"", "verdict=(\"blocked\" OR \"not_comparable\")", "nights>=3"] :
    strcontains(google_logging_metric.counter["nights-to-look-at"].filter, part)]) && strcontains(google_monitoring_alert_policy.alert["night to look at"].conditions[0].condition_threshold[0].filter, "metric.type=\"logging.googleapis.com/user/coppice/nights-to-look-at\"")
    error_message = "A night without a winner, one that is held back and the third in a row without a champion are told."
  }

  assert {
    condition     = sum([for s in concat(values(google_cloud_run_v2_service.server), values(google_cloud_run_v2_service.aggregator)) : s.template[0].scaling[0].max_instance_count * tonumber(s.template[0].containers[0].resources[0].limits.cpu)]) <= 16 && sum([for s in concat(values(google_cloud_run_v2_service.server), values(google_cloud_run_v2_service.aggregator)) : s.template[0].scaling[0].max_instance_count * tonumber(trimsuffix(s.template[0].containers[0].resources[0].limits.memory, "Gi"))]) <= 36
    error_message = "A new project's 20 vCPUs and 40 GiB in a region have room for both services, and for the launchers."
  }

  assert {
    condition     = toset([for m in google_logging_metric.counter : m.name]) == toset(["coppice/sweeps-concluded", "coppice/nights-to-look-at", "coppice/trials-ended", "coppice/trials-given-up", "coppice/aggregator-errors"])
    error_message = "What is counted."
  }

  assert {
    condition     = alltrue([for m in google_logging_metric.counter : join(" ", keys(m.label_extractors)) == join(" ", sort([for l in m.metric_descriptor[0].labels : l.key]))])
    error_message = "A metric's labels are those that are extracted."
  }

  assert {
    condition     = length(jsondecode(google_monitoring_dashboard.coppice.dashboard_json).mosaicLayout.tiles) == 10
    error_message = "Nine charts and the log."
  }

  assert {
    condition = alltrue([for i, t in jsondecode(google_monitoring_dashboard.coppice.dashboard_json).mosaicLayout.tiles : alltrue([
      for j, u in jsondecode(google_monitoring_dashboard.coppice.dashboard_json).mosaicLayout.tiles : i == j || t.xPos + t.width <= u.xPos || u.xPos + u.width <= t.xPos || t.yPos + t.height <= u.yPos || u.yPos + u.height <= t.yPos
    ])])
    error_message = "No tile of the dashboard covers another one."
  }

  assert {
    condition = (
      google_billing_budget.coppice[0].billing_account == "012345-6789AB-CDEF01" &&
      google_billing_budget.coppice[0].budget_filter[0].projects == toset(["projects/123456789012"]) &&
      google_billing_budget.coppice[0].budget_filter[0].credit_types_treatment == "EXCLUDE_ALL_CREDITS" &&
      google_billing_budget.coppice[0].amount[0].specified_amount[0].units == "500" && google_billing_budget.coppice[0].amount[0].specified_amount[0].currency_code == "USD" &&
      toset([for r in google_billing_budget.coppice[0].threshold_rules : "${r.threshold_percent} ${r.spend_basis}"]) == toset(["0.5 CURRENT_SPEND", "0.9 CURRENT_SPEND", "1 CURRENT_SPEND", "1 FORECASTED_SPEND"]) &&
      google_billing_budget.coppice[0].all_updates_rule[0].monitoring_notification_channels == tolist([google_monitoring_notification_channel.email["ops@example.com"].id])
    )
    error_message = "The budget is the project's, and tells whom the alerts tell."
  }
}

run "measured_elsewhere" {
  variables {
    metrics_endpoint = "http://collector:4318"
  }

  assert {
    condition = (
      output.environment.OTEL_EXPORTER_OTLP_ENDPOINT == "http://collector:4318" &&
      [for e in google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].env : e.value if e.name == "OTEL_EXPORTER_OTLP_ENDPOINT"] == ["http://collector:4318"]
    )
    error_message = "Launcher and aggregator are told of the collector."
  }

  assert {
    condition     = !contains(keys(google_project_service.coppice), "telemetry.googleapis.com")
    error_message = "Cloud Monitoring's OTLP service is not needed for a collector."
  }
}

run "not_measured" {
  variables {
    metrics_endpoint = ""
  }

  assert {
    condition = (
      !contains(keys(output.environment), "OTEL_EXPORTER_OTLP_ENDPOINT") && !contains(keys(google_project_service.coppice), "telemetry.googleapis.com") &&
      length([for e in google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].env : e if e.name == "OTEL_EXPORTER_OTLP_ENDPOINT"]) == 0
    )
    error_message = "Nothing is pushed without an address."
  }
}

run "told_by_default" {
  variables {
    sweeps = {
      daily   = { schedule = "30 2 * * *", spec = "name: daily\nmetric: auc\n" }
      hourly  = { schedule = "0 */6 * * *", spec = "name: hourly\nmetric: auc\n", winner_within = 7 }
      off     = { schedule = "0 3 * * *", spec = "name: off\nmetric: auc\n", winner_within = 0 }
      paused  = { schedule = "0 3 * * *", spec = "name: paused\nmetric: auc\n", paused = true }
      weekly  = { schedule = "0 4 * * 0", spec = "name: weekly\nmetric: auc\n" }
      monthly = { schedule = "0 4 1 * *", spec = "name: monthly\nmetric: auc\n" }
    }
  }

  assert {
    condition = { for k, p in google_monitoring_alert_policy.alert : k => p.conditions[0].condition_threshold[0].aggregations[0].alignment_period if startswith(k, "no winner of") } == {
      "no winner of daily" = "89700s", "no winner of hourly" = "24900s"
    }
    error_message = "What is started every day has to give a winner every day, unless it is said otherwise."
  }

  assert {
    condition = alltrue([for p in google_monitoring_alert_policy.alert :
      tonumber(trimsuffix(p.conditions[0].condition_threshold[0].aggregations[0].alignment_period, "s")) + tonumber(trimsuffix(p.conditions[0].condition_threshold[0].duration, "s")) <= 25 * 3600
    ])
    error_message = "Cloud Monitoring looks back 25 hours at most, window and duration together."
  }
}

run "images_from_elsewhere" {
  variables {
    image_tag = ""
    images = {
      launcher   = "europe-docker.pkg.dev/other/repo/launcher@sha256:0000000000000000000000000000000000000000000000000000000000000000"
      task       = "europe-docker.pkg.dev/other/repo/task:7"
      aggregator = "europe-docker.pkg.dev/other/repo/aggregator:7"
    }
    name = "trial"
  }

  assert {
    condition     = output.environment.COPPICE_TASK_IMAGE == "europe-docker.pkg.dev/other/repo/task:7" && google_cloud_run_v2_service.aggregator["aggregator"].template[0].containers[0].image == "europe-docker.pkg.dev/other/repo/aggregator:7"
    error_message = "Images may lie elsewhere."
  }

  assert {
    condition = alltrue([for n in concat(
      [for b in google_storage_bucket.coppice : trimprefix(b.name, "example-project-")], [for t in google_pubsub_topic.coppice : t.name], [for s in google_pubsub_subscription.aggregator : s.name],
      [for a in google_service_account.coppice : a.account_id], [for j in google_cloud_run_v2_job.launcher : j.name], [for j in google_cloud_scheduler_job.launcher : j.name],
      [google_cloud_run_v2_service.aggregator["aggregator"].name, google_cloud_scheduler_job.reconcile["aggregator"].name, google_pubsub_subscription.dead_letters.name],
    ) : startswith(n, "trial-")])
    error_message = "Every name begins with the deployment's, so that two of them fit into a project."
  }
}
