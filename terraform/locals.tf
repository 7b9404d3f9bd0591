locals {
  labels = merge(var.labels, { app = var.name })

  # An image can only run once it has been pushed, and it is pushed into a repository that is created here.
  deployed = var.image_tag != "" || length(var.images) == 3
  registry = "${var.location}-docker.pkg.dev/${var.project}/${var.name}"
  images = {
    for program in ["launcher", "task", "aggregator"] : program => lookup(var.images, program, "${local.registry}/coppice-${program}:${var.image_tag}")
  }
  running = local.deployed ? { aggregator = true } : {} # for for_each

  # Cloud Run lets a token in whose audience is the service's URL or one of these. The URL is not known before the service
  # is there, and the service has to be told what to expect.
  audience = "${var.name}-aggregator.${var.project}"

  # Whose key encrypts what is stored: Google's, one that is made here, or the one that is given.
  encryption  = var.kms_key != null ? var.kms_key : var.customer_managed_key ? "made" : "google"
  key         = local.encryption == "made" ? one(google_kms_crypto_key.coppice[*].id) : var.kms_key
  key_project = local.encryption == "made" ? var.project : try(split("/", var.kms_key)[1], "")
}

data "google_project" "this" {
  project_id = var.project
}
