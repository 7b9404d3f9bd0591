variable "project" {
  description = "Google Cloud project in which everything is created."
  type        = string
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "A project id has 6 to 30 lowercase letters, digits and hyphens, begins with a letter and does not end with a hyphen."
  }
}

variable "location" {
  description = "Region of the buckets and of the Batch jobs: data and machines belong together."
  type        = string
  default     = "us-central1"
}

variable "sweep_days" {
  description = "Days after which plans, results and models of a sweep are deleted. What is registered stays."
  type        = number
  default     = 30
  validation {
    condition     = var.sweep_days >= 1
    error_message = "Sweeps are kept for at least one day."
  }
}
