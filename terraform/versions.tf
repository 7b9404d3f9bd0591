# The provider is configured by whoever calls this module, or by the environment (GOOGLE_PROJECT, application default
# credentials): every resource names its project and its place itself.
terraform {
  required_version = ">= 1.7"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 8.0"
    }
  }
}
