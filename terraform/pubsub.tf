# Messages are hints: the buckets hold the truth, and /reconcile finds what no message told. Still none is dropped in
# silence: what could not be delivered ends in a topic of its own, with a subscription that keeps it and an alert.

locals {
  # Which topic a subscription has, and where its messages are pushed once the aggregator runs. A change of a job's state
  # only means "look now", which is what /reconcile does.
  subscriptions = {
    scores = { name = "${var.name}-aggregator", path = "/push" }
    jobs   = { name = "${var.name}-jobs", path = "/reconcile" }
  }
}

resource "google_pubsub_topic" "coppice" {
  for_each = {
    scores       = "${var.name}-scores"      # tasks publish what a trial scored
    jobs         = "${var.name}-jobs"        # Batch publishes how its jobs change
    dead_letters = "${var.name}-scores-dead" # what nobody could use
    verdicts     = "${var.name}-verdicts"    # what became of each night, for whoever subscribes
  }

  project      = var.project
  name         = each.value
  labels       = local.labels
  kms_key_name = local.key

  message_storage_policy {
    allowed_persistence_regions = [var.location]
  }

  depends_on = [google_project_service.coppice, google_kms_crypto_key_iam_member.table]
}

resource "google_pubsub_subscription" "aggregator" {
  for_each = local.subscriptions

  project                    = var.project
  name                       = each.value.name
  topic                      = google_pubsub_topic.coppice[each.key].id
  labels                     = local.labels
  ack_deadline_seconds       = 600 # concluding a sweep reads the held-out targets and scores
  message_retention_duration = "86400s"

  # Without the aggregator's service the messages wait, and can be pulled.
  dynamic "push_config" {
    for_each = google_cloud_run_v2_service.aggregator
    content {
      push_endpoint = "${push_config.value.uri}${each.value.path}"
      oidc_token {
        service_account_email = local.emails.push
        audience              = local.audience
      }
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.coppice["dead_letters"].id
    max_delivery_attempts = 20
  }

  expiration_policy {
    ttl = "" # never, however seldom there is a sweep
  }

  depends_on = [google_service_account.coppice]
}

# Without an image tag everything that runs is taken away: half of it, since the aggregator's service refuses to go while deletion_protection
# is on. So a plan that would do that is refused, by what the subscription says today. The detour through the id has it read once the
# subscription is there, and the one through a local value while planning, although the subscription is about to be changed.
locals {
  existing_subscription = reverse(split("/", google_pubsub_subscription.aggregator["scores"].id))[0]
}

data "google_pubsub_subscription" "scores" {
  project = var.project
  name    = local.existing_subscription
}

resource "terraform_data" "programs" {
  input = local.deployed

  lifecycle {
    precondition {
      condition     = local.deployed || !var.deletion_protection || try(data.google_pubsub_subscription.scores.push_config[0].push_endpoint, "") == ""
      error_message = "image_tag is empty, but an aggregator is running: give the deployed tag, or the next one. To remove the programs, apply with deletion_protection = false and the tag first, and then without the tag."
    }
  }
}

resource "google_pubsub_subscription" "dead_letters" {
  project                    = var.project
  name                       = "${var.name}-scores-dead"
  topic                      = google_pubsub_topic.coppice["dead_letters"].id
  labels                     = local.labels
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s"

  expiration_policy {
    ttl = ""
  }
}
