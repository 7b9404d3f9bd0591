locals {
  # Title, filter, what is drawn and by which label, in rows of two.
  charts = [
    { title = "Sweeps by outcome", filter = "metric.type=\"${local.metrics["sweeps-concluded"]}\" resource.type=\"cloud_run_revision\"", aligner = "ALIGN_SUM", by = "metric.label.outcome" },
    { title = "Trials by status", filter = "metric.type=\"${local.metrics["trials-ended"]}\" resource.type=\"batch.googleapis.com/Job\"", aligner = "ALIGN_SUM", by = "metric.label.status" },
    { title = "Seconds of training per trial, median", filter = "metric.type=\"logging.googleapis.com/user/${var.name}/trial-seconds\" resource.type=\"batch.googleapis.com/Job\"", aligner = "ALIGN_DELTA", by = null },
    { title = "Trials given up", filter = "metric.type=\"${local.metrics["trials-given-up"]}\" resource.type=\"batch.googleapis.com/Job\"", aligner = "ALIGN_SUM", by = null },
    { title = "Requests of the aggregator by class", filter = "metric.type=\"run.googleapis.com/request_count\" resource.type=\"cloud_run_revision\" resource.label.service_name=\"${var.name}-aggregator\"", aligner = "ALIGN_SUM", by = "metric.label.response_code_class" },
    { title = "Errors of the aggregator", filter = "metric.type=\"${local.metrics["aggregator-errors"]}\" resource.type=\"cloud_run_revision\"", aligner = "ALIGN_SUM", by = null },
    { title = "Messages that wait, by subscription", filter = "metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" resource.type=\"pubsub_subscription\" resource.label.subscription_id=starts_with(\"${var.name}-\")", aligner = "ALIGN_MAX", by = "resource.label.subscription_id" },
    { title = "Launchers by result", filter = "metric.type=\"run.googleapis.com/job/completed_execution_count\" resource.type=\"cloud_run_job\" resource.label.job_name=monitoring.regex.full_match(\"${var.name}-(sweep|stage)-.*\")", aligner = "ALIGN_SUM", by = "metric.label.result" },
    { title = "Bytes by bucket", filter = "metric.type=\"storage.googleapis.com/storage/v2/total_bytes\" resource.type=\"gcs_bucket\" resource.label.bucket_name=starts_with(\"${var.project}-${var.name}-\")", aligner = "ALIGN_MEAN", by = "resource.label.bucket_name" },
  ]
  tiles = concat(
    [for i, c in local.charts : {
      xPos = 24 * (i % 2), yPos = 16 * floor(i / 2), width = 24, height = 16
      widget = {
        title = c.title
        xyChart = {
          dataSets = [{
            plotType = "LINE"
            timeSeriesQuery = {
              timeSeriesFilter = {
                filter = c.filter
                aggregation = {
                  alignmentPeriod    = "300s"
                  perSeriesAligner   = c.aligner
                  crossSeriesReducer = c.aligner == "ALIGN_DELTA" ? "REDUCE_PERCENTILE_50" : "REDUCE_SUM"
                  groupByFields      = c.by == null ? [] : [c.by]
                }
              }
            }
          }]
        }
      }
    }],
    [{
      xPos = 0, yPos = 16 * ceil(length(local.charts) / 2), width = 48, height = 20
      widget = {
        title     = "Warnings and errors"
        logsPanel = { filter = "((${local.in_aggregator}) OR (${local.in_tasks})) severity>=WARNING", resourceNames = ["projects/${var.project}"] }
      }
    }],
  )
}

resource "google_monitoring_dashboard" "coppice" {
  project        = var.project
  dashboard_json = jsonencode({ displayName = var.name, mosaicLayout = { columns = 48, tiles = local.tiles } })

  depends_on = [google_logging_metric.counter, google_logging_metric.trial_seconds]
}
