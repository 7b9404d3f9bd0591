# Machines in a network of another project, as large organisations have it. The host project's administrator runs once what
# output host_project_commands prints; the subnetwork must lie in the same region and have Private Google Access.
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
  description = "Google Cloud project in which everything is created: a service project of the host."
  type        = string
}

variable "host_project" {
  description = "Project that shares the network."
  type        = string
}

variable "network" {
  description = "Name of the network."
  type        = string
}

variable "subnetwork" {
  description = "Name of the subnetwork."
  type        = string
}

variable "image_tag" {
  description = "Tag of the images; empty as long as none has been pushed."
  type        = string
  default     = ""
}

module "coppice" {
  source = "../.."

  project   = var.project
  image_tag = var.image_tag
  network = {
    project    = var.host_project
    network    = var.network
    subnetwork = var.subnetwork
  }
}

output "host_project_commands" {
  description = "What the host project's administrator runs once."
  value       = module.coppice.host_project_commands
}

output "env" {
  description = "Environment of the launcher: terraform output -raw env > coppice.env"
  value       = module.coppice.env
}

output "registry" {
  description = "Where make push pushes to."
  value       = module.coppice.registry
}
