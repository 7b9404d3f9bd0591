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

  key = var.customer_managed_key ? one(google_kms_crypto_key.coppice[*].id) : null
}

data "google_project" "this" {
  project_id = var.project
}
