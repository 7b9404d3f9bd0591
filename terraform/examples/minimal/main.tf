# The least: a project, and images once they have been pushed. Sweeps are started by hand.
terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 8.0"
    }
  }
}

provider "google" {
  project = var.project
}

variable "project" {
  description = "Google Cloud project in which everything is created."
  type        = string
}

variable "location" {
  description = "Region of data and machines."
  type        = string
  default     = "us-central1"
}

variable "image_tag" {
  description = "Tag of the images; empty as long as none has been pushed."
  type        = string
  default     = ""
}

variable "operator" {
  description = "Who runs it, as an IAM member: user:ana@example.com."
  type        = string
}

variable "protect" {
  description = "Keep what holds data or runs from being destroyed. Set it to false before terraform destroy: buckets go with all they hold."
  type        = bool
  default     = true
}

module "coppice" {
  source = "../.."

  project             = var.project
  location            = var.location
  image_tag           = var.image_tag
  operators           = [var.operator]
  deletion_protection = var.protect
  force_destroy       = !var.protect
}

output "env" {
  description = "Environment of the launcher: terraform output -raw env > coppice.env"
  value       = module.coppice.env
}

output "registry" {
  description = "Where make push pushes to."
  value       = module.coppice.registry
}

output "accounts" {
  description = "E-mail addresses of the accounts, by role."
  value       = module.coppice.accounts
}
