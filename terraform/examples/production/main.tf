# A nightly sweep with everything around it: a key, alerts, a budget, people, and state that the team shares.
terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 8.0"
    }
  }
  # terraform init -backend-config=bucket=YOUR-STATE-BUCKET
  backend "gcs" {
    prefix = "coppice"
  }
}

# Budgets are billed to the project that asks for them, not to the one of the login.
provider "google" {
  project               = var.project
  billing_project       = var.project
  user_project_override = true
}

module "coppice" {
  source = "../.."

  project   = var.project
  location  = "europe-west4"
  zones     = ["europe-west4-a", "europe-west4-b"]
  image_tag = var.image_tag
  labels    = { team = "ads" }

  # At 03:00, which no night lacks or has twice, the exports of the last 28 days are staged, and fifty candidates begin on them.
  source_buckets = ["example-exports"]
  sweeps = {
    nightly = {
      schedule      = "0 3 * * *"
      time_zone     = "Europe/Amsterdam"
      spec          = file("${path.module}/nightly.yaml")
      stage         = { spec = file("${path.module}/clicks.yaml") }
      winner_within = 25
    }
  }

  # A version stays reproducible for 60 promotions; where one night in two is promoted, that is four months.
  keep                 = { promoted = 60 }
  customer_managed_key = true

  operators     = ["group:ml-platform@example.com"]
  model_readers = ["serviceAccount:bidder@example-serving.iam.gserviceaccount.com"]
  alert_emails  = ["ml-oncall@example.com"]
  budget = {
    billing_account = var.billing_account
    amount          = 600
    currency        = "EUR"
  }
}

output "env" {
  description = "Environment of the launcher: terraform output -raw env > coppice.env"
  value       = module.coppice.env
}

output "registry" {
  description = "Where make push pushes to."
  value       = module.coppice.registry
}

output "jobs" {
  description = "Cloud Run jobs of the scheduled sweeps."
  value       = module.coppice.jobs
}
