# What is counted, when somebody is told, and what can be looked at. The log lines that are counted are those of
# aggregator/internal/conclude and task/internal/worker.

locals {
  in_aggregator = "resource.type=\"cloud_run_revision\" resource.labels.service_name=\"${var.name}-aggregator\""
  in_tasks      = "resource.type=\"batch.googleapis.com/Job\" log_id(\"batch_task_logs\")"
  counters = {
    "sweeps-concluded" = {
      filter      = "${local.in_aggregator} jsonPayload.message=\"sweep concluded\""
      description = "Sweeps that have been concluded"
      labels      = { outcome = "EXTRACT(jsonPayload.outcome)", model = "EXTRACT(jsonPayload.model)" }
    }
    # That a winner is no better than the champion is an ordinary night. These need somebody to decide.
    "nights-to-look-at" = {
      filter      = "${local.in_aggregator} ((jsonPayload.message=\"sweep concluded\" jsonPayload.outcome=\"no_winner\") OR (jsonPayload.message=\"not promoted\" (jsonPayload.verdict=(\"blocked\" OR \"not_comparable\") OR jsonPayload.nights>=3)))"
      description = "Nights without a winner, held back, or in a row without a new champion"
      labels      = {}
    }
    "trials-ended" = {
      filter      = "${local.in_tasks} jsonPayload.message=\"trial ended\""
      description = "Trials that have ended"
      labels      = { status = "EXTRACT(jsonPayload.status)" }
    }
    "trials-given-up" = {
      filter      = "${local.in_tasks} jsonPayload.message=\"trial given up\""
      description = "Trials over which too many tasks have died"
      labels      = {}
    }
    "aggregator-errors" = {
      # what it says itself: Cloud Run logs every answer of 5xx once more, which "aggregator failing" counts
      filter      = "${local.in_aggregator} severity>=ERROR -log_id(\"run.googleapis.com/requests\")"
      description = "Errors of the aggregator"
      labels      = {}
    }
  }
  metrics = { for name in keys(local.counters) : name => "logging.googleapis.com/user/${var.name}/${name}" }

  # The model of a scheduled sweep, as package sweep reads it: model, or else name.
  models = { for k, s in var.sweeps : k => try(yamldecode(s.spec).model, yamldecode(s.spec).name) }

  # Hours within which it has to give another winner: as said, or else a day and one for the end of summer time, where the schedule
  # starts it every day. For a longer pause no time can be watched over. 0 is never.
  winner_within = { for k, s in var.sweeps : k => s.winner_within != null ? s.winner_within : can(regex("^\\S+ \\S+ \\* \\* \\*$", s.schedule)) ? 25 : 0 }
}

resource "google_logging_metric" "counter" {
  for_each = local.counters

  project          = var.project
  name             = "${var.name}/${each.key}"
  description      = each.value.description
  filter           = each.value.filter
  label_extractors = each.value.labels

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
    unit        = "1"

    dynamic "labels" {
      for_each = each.value.labels
      content {
        key        = labels.key
        value_type = "STRING"
      }
    }
  }

  depends_on = [google_project_service.coppice]
}

resource "google_logging_metric" "trial_seconds" {
  project         = var.project
  name            = "${var.name}/trial-seconds"
  description     = "Seconds that a trial has trained"
  filter          = "${local.in_tasks} jsonPayload.message=\"trial ended\""
  value_extractor = "EXTRACT(jsonPayload.seconds)"

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "DISTRIBUTION"
    unit        = "s"
  }

  bucket_options {
    exponential_buckets {
      num_finite_buckets = 32
      growth_factor      = 1.5
      scale              = 1
    }
  }

  depends_on = [google_project_service.coppice]
}

resource "google_monitoring_notification_channel" "email" {
  for_each = var.alert_emails

  project      = var.project
  display_name = "${var.name}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }
  force_delete = true # the alerts that still name it are changed afterwards

  depends_on = [google_project_service.coppice]
}

locals {
  channels = [for c in google_monitoring_notification_channel.email : c.id]
  minute   = 60
  # One alert for each of these: told when the value over the window passes the limit.
  alerts = merge(
    {
      # One for three, since a condition is what is paid for; which of them it is, its advice helps to see.
      "night to look at" = {
        filter = "metric.type=\"${local.metrics["nights-to-look-at"]}\" resource.type=\"cloud_run_revision\""
        window = 5 * local.minute, aligner = "ALIGN_SUM", comparison = "COMPARISON_GT", limit = 0, lasting = "0s", absent = null
        advice = "A sweep ended without a winner (`coppice status SWEEP` and `coppice leaderboard SWEEP` say why); or a night's winner was registered but could not be promoted, since its data are blocked or it cannot be compared with the champion (the log line \"not promoted\" says why); or three nights or more in a row have not made a new champion (`coppice nights MODEL` lists them). docs/run.md says what to do."
      }
      "launcher failed" = {
        filter = "metric.type=\"run.googleapis.com/job/completed_execution_count\" resource.type=\"cloud_run_job\" resource.labels.job_name=monitoring.regex.full_match(\"${var.name}-((sweep|stage)-.*|clean)\") metric.labels.result=\"failed\""
        window = 5 * local.minute, aligner = "ALIGN_SUM", comparison = "COMPARISON_GT", limit = 0, lasting = "0s", absent = null
        advice = "A scheduled sweep or staging could not be started, or nothing could be removed. The log of the Cloud Run job says what is missing."
      }
      "messages given up" = {
        filter = "metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" resource.type=\"pubsub_subscription\" resource.labels.subscription_id=\"${google_pubsub_subscription.dead_letters.name}\""
        window = 5 * local.minute, aligner = "ALIGN_MAX", comparison = "COMPARISON_GT", limit = 0, lasting = "0s", absent = null
        advice = "The aggregator refused a message twenty times. `gcloud pubsub subscriptions pull ${google_pubsub_subscription.dead_letters.name} --auto-ack` shows it; /reconcile still finds the sweep."
      }
      "aggregator failing" = {
        filter = "metric.type=\"run.googleapis.com/request_count\" resource.type=\"cloud_run_revision\" resource.labels.service_name=\"${var.name}-aggregator\" metric.labels.response_code_class=\"5xx\""
        window = 15 * local.minute, aligner = "ALIGN_SUM", comparison = "COMPARISON_GT", limit = 2, lasting = "0s", absent = null
        advice = "The aggregator answers with errors. Its log says what fails; sweeps stay open until it works."
      }
      # Not all errors are answers: a damaged result is passed over, and a process that ran out of memory answers nothing.
      "aggregator errors" = {
        filter = "metric.type=\"${local.metrics["aggregator-errors"]}\" resource.type=\"cloud_run_revision\""
        window = 5 * local.minute, aligner = "ALIGN_SUM", comparison = "COMPARISON_GT", limit = 0, lasting = "0s", absent = null
        advice = "The aggregator has logged an error. Its log says which, and for which sweep. What failed is retried; an error that does not recur is over, except a damaged result, which counts as a failed trial."
      }
    },
    # Cloud Monitoring looks back 25 hours at most, the time that the condition has to last included. A sum that has become empty counts
    # as below the limit.
    { for k, s in var.sweeps : "no winner of ${k}" => {
      filter = "metric.type=\"${local.metrics["sweeps-concluded"]}\" resource.type=\"cloud_run_revision\" metric.labels.outcome=\"winner\" metric.labels.model=\"${local.models[k]}\""
      window = (local.winner_within[k] * 60 - 5) * local.minute, aligner = "ALIGN_SUM", comparison = "COMPARISON_LT", limit = 1, lasting = "${5 * local.minute}s"
      absent = "EVALUATION_MISSING_DATA_ACTIVE"
      advice = "For ${local.winner_within[k]} hours no sweep has given ${local.models[k]} a new version; a night that ends an hour later than the last one also triggers this alert, and then closes it. `coppice status` shows the sweeps, and the log of the Cloud Run job ${var.name}-sweep-${k} whether they are started."
    } if local.winner_within[k] > 0 && !s.paused },
  )
}

# A metric of log lines is known to alerts some ten minutes after it was made; before that an alert that names it is refused. So alerts wait,
# once, for metrics that have just been made.
resource "terraform_data" "metrics_known" {
  triggers_replace = sort([for m in google_logging_metric.counter : m.name])

  provisioner "local-exec" {
    command = "sleep ${var.metrics_wait_seconds}"
  }
}

resource "google_monitoring_alert_policy" "alert" {
  for_each = local.alerts

  project               = var.project
  display_name          = "${var.name}: ${each.key}"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = local.channels
  user_labels           = local.labels

  conditions {
    display_name = each.key
    condition_threshold {
      filter                  = each.value.filter
      comparison              = each.value.comparison
      threshold_value         = each.value.limit
      duration                = each.value.lasting
      evaluation_missing_data = each.value.absent
      aggregations {
        alignment_period     = "${each.value.window}s"
        per_series_aligner   = each.value.aligner
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = each.value.advice
  }

  depends_on = [terraform_data.metrics_known]
}
