# What the programs expect to find: three buckets, a topic for scores with its subscription, and a topic for messages that
# nobody could use. localemu creates the same on a laptop.

locals {
  # Listing needs a right on the whole bucket, so who may do what is told apart by buckets, not by prefixes.
  buckets = {
    datasets = { versioning = false, delete_after_days = null, soft_delete_seconds = 604800 }
    sweeps   = { versioning = false, delete_after_days = var.sweep_days, soft_delete_seconds = 0 }
    registry = { versioning = true, delete_after_days = null, soft_delete_seconds = 604800 }
  }
}

resource "google_storage_bucket" "coppice" {
  for_each = local.buckets

  name                        = "${var.project}-coppice-${each.key}"
  location                    = var.location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = each.value.versioning
  }

  soft_delete_policy {
    retention_duration_seconds = each.value.soft_delete_seconds
  }

  dynamic "lifecycle_rule" {
    for_each = each.value.delete_after_days == null ? [] : [each.value.delete_after_days]
    content {
      action {
        type = "Delete"
      }
      condition {
        age = lifecycle_rule.value
      }
    }
  }
}

resource "google_pubsub_topic" "scores" {
  name = "coppice-scores"
}

resource "google_pubsub_topic" "dead_letters" {
  name = "coppice-scores-dead"
}

resource "google_pubsub_subscription" "aggregator" {
  name                       = "coppice-aggregator"
  topic                      = google_pubsub_topic.scores.id
  ack_deadline_seconds       = 600 # concluding a sweep reads the held-out targets and scores
  message_retention_duration = "86400s"

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dead_letters.id
    max_delivery_attempts = 20
  }

  expiration_policy {
    ttl = "" # never, however seldom there is a sweep
  }
}

resource "google_pubsub_subscription" "dead_letters" {
  name  = "coppice-scores-dead"
  topic = google_pubsub_topic.dead_letters.id

  expiration_policy {
    ttl = ""
  }
}
