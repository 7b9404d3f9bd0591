# Every binding of this deployment, made from iam.yaml. No other file may have an *_iam_* resource, and a resource or an
# identity that the table names but Terraform does not know is an error.

locals {
  iam = yamldecode(file("${path.module}/iam.yaml"))

  # Roles of our own, as roles.yaml has them.
  own_roles  = { for role, permissions in yamldecode(file("${path.module}/roles.yaml")) : role => permissions if startswith(role, "custom/") }
  role_ids   = { for role in keys(local.own_roles) : role => "projects/${var.project}/roles/${local.role_names[role]}" }
  role_names = { for role in keys(local.own_roles) : role => "${replace(var.name, "-", "_")}_${trimprefix(role, "custom/")}" }

  # Addresses follow from names, so the table is known before anything exists.
  emails = { for name, i in local.iam.identities : name => "${var.name}-${name}@${var.project}.iam.gserviceaccount.com" if i.kind == "account" }
  members = merge(
    { for name, email in local.emails : name => ["serviceAccount:${email}"] },
    { for name, i in local.iam.identities : name => ["serviceAccount:service-${data.google_project.this.number}@${i.domain}"] if i.kind == "agent" },
    { operators = var.operators, model_readers = var.model_readers, model_callers = [for a in try(var.serve.callers, []) : "serviceAccount:${a}"] },
  )

  # The instances of each resource of the table: none where this deployment does not have it.
  instances = merge(
    { project = ["project"] },
    { for name in ["datasets", "sweeps", "registry"] : "bucket/${name}" => [name] },
    { "object/checkpoints" = ["sweeps"] },
    { for name in ["scores", "jobs", "dead_letters", "verdicts"] : "topic/${name}" => [name] },
    { for name in ["scores", "jobs", "dead_letters"] : "subscription/${name}" => [name] },
    { for name in keys(local.emails) : "account/${name}" => [name] },
    {
      "bucket/sources"      = var.source_buckets
      "dataset/sources"     = var.source_datasets
      "project/queries"     = length(var.source_datasets) == 0 ? [] : ["project"]
      "repository/images"   = ["images"]
      "service/aggregator"  = keys(local.running)
      "service/server"      = keys(local.serving)
      "job/launcher"        = keys(local.launchers)
      "secret/webhook"      = var.webhook == null ? [] : [var.webhook.secret]
      "key/coppice"         = local.encryption == "google" ? [] : [local.key_project == var.project ? "coppice" : "elsewhere"]
      "subnetwork/machines" = local.network_project == var.project ? [] : ["machines"]
    },
  )

  # One grant for each member and instance, by a key that says all of it.
  grants = { for g in flatten([
    for b in local.iam.bindings : [
      for member in local.members[b.identity] : [
        for instance in local.instances[b.resource] : {
          kind     = instance == "elsewhere" ? instance : replace(split("/", b.resource)[0], "object", "bucket")
          only     = startswith(b.resource, "object/") ? ["resource.name.extract('/${split("/", b.resource)[1]}/{name}') != ''"] : []
          instance = instance
          role     = try(local.role_ids[b.role], b.role)
          member   = member
          key      = join(" ", compact([b.identity, b.resource, b.role, local.iam.identities[b.identity].kind == "people" ? member : "", contains(["job/launcher", "bucket/sources", "dataset/sources"], b.resource) ? instance : ""]))
        }
      ]
    ]
  ]) : g.key => g }
  granted = { for kind in distinct(concat(["elsewhere"], [for r in keys(local.instances) : split("/", r)[0]])) : kind => { for k, g in local.grants : k => g if g.kind == kind } }

  # What others have to grant, whose network or key is used.
  host_commands = concat(
    [for g in values(local.granted.subnetwork) : join(" ", [
      "gcloud compute networks subnets add-iam-policy-binding ${local.subnetwork_name} --project ${local.network_project}",
      "--region ${var.location} --member ${g.member} --role ${g.role}",
    ])],
    [for g in values(local.granted.elsewhere) : join(" ", [
      "gcloud kms keys add-iam-policy-binding ${split("/", var.kms_key)[7]} --keyring ${split("/", var.kms_key)[5]} --location ${var.location}",
      "--project ${local.key_project} --member ${g.member} --role ${g.role}",
    ])],
  )
}

resource "google_project_iam_custom_role" "table" {
  for_each = local.own_roles

  project     = var.project
  role_id     = local.role_names[each.key]
  title       = "${var.name}: ${trimprefix(each.key, "custom/")}"
  description = "See iam.yaml and roles.yaml of the deployment"
  permissions = each.value

  depends_on = [google_project_service.coppice]
}

resource "google_project_iam_member" "table" {
  for_each = local.granted.project

  project    = var.project
  role       = each.value.role
  member     = each.value.member
  depends_on = [google_service_account.coppice, google_project_iam_custom_role.table]
}

resource "google_storage_bucket_iam_member" "table" {
  for_each = local.granted.bucket

  bucket = contains(keys(local.buckets), each.value.instance) ? google_storage_bucket.coppice[each.value.instance].name : each.value.instance
  role   = each.value.role
  member = each.value.member

  dynamic "condition" {
    for_each = each.value.only
    content {
      title      = "by name"
      expression = condition.value
    }
  }

  depends_on = [google_service_account.coppice, google_project_iam_custom_role.table]
}

resource "google_bigquery_dataset_iam_member" "table" {
  for_each = local.granted.dataset

  project    = split(".", each.value.instance)[0]
  dataset_id = split(".", each.value.instance)[1]
  role       = each.value.role
  member     = each.value.member
  depends_on = [google_service_account.coppice]
}

resource "google_pubsub_topic_iam_member" "table" {
  for_each = local.granted.topic

  project    = var.project
  topic      = google_pubsub_topic.coppice[each.value.instance].name
  role       = each.value.role
  member     = each.value.member
  depends_on = [google_service_account.coppice]
}

resource "google_pubsub_subscription_iam_member" "table" {
  for_each = local.granted.subscription

  project      = var.project
  subscription = each.value.instance == "dead_letters" ? google_pubsub_subscription.dead_letters.name : google_pubsub_subscription.aggregator[each.value.instance].name
  role         = each.value.role
  member       = each.value.member
  depends_on   = [google_service_account.coppice]
}

resource "google_service_account_iam_member" "table" {
  for_each = local.granted.account

  service_account_id = "projects/${var.project}/serviceAccounts/${local.emails[each.value.instance]}"
  role               = each.value.role
  member             = each.value.member
  depends_on         = [google_service_account.coppice]
}

resource "google_artifact_registry_repository_iam_member" "table" {
  for_each = local.granted.repository

  project    = var.project
  location   = var.location
  repository = google_artifact_registry_repository.images.repository_id
  role       = each.value.role
  member     = each.value.member
  depends_on = [google_service_account.coppice]
}

resource "google_cloud_run_v2_service_iam_member" "table" {
  for_each = local.granted.service

  project    = var.project
  location   = var.location
  name       = merge(google_cloud_run_v2_service.aggregator, google_cloud_run_v2_service.server)[each.value.instance].name
  role       = each.value.role
  member     = each.value.member
  depends_on = [google_service_account.coppice]
}

resource "google_cloud_run_v2_job_iam_member" "table" {
  for_each = local.granted.job

  project    = var.project
  location   = var.location
  name       = google_cloud_run_v2_job.launcher[each.value.instance].name
  role       = each.value.role
  member     = each.value.member
  depends_on = [google_service_account.coppice]
}

resource "google_secret_manager_secret_iam_member" "table" {
  for_each = local.granted.secret

  project    = var.project
  secret_id  = each.value.instance
  role       = each.value.role
  member     = each.value.member
  depends_on = [google_project_service.coppice, google_service_account.coppice]
}

resource "google_kms_crypto_key_iam_member" "table" {
  for_each = local.granted.key

  crypto_key_id = local.key
  role          = each.value.role
  member        = each.value.member
  depends_on    = [data.google_storage_project_service_account.this]
}
