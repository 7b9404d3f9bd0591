variable "project" {
  description = "Google Cloud project in which everything is created."
  type        = string
}

variable "billing_account" {
  description = "Billing account of the project."
  type        = string
}

variable "image_tag" {
  description = "Tag of the images; empty as long as none has been pushed."
  type        = string
  default     = ""
}
