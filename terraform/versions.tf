# The provider is configured by whoever calls this module, or by the environment (GOOGLE_PROJECT, application default
# credentials): every resource names its project and its place itself. Conditions of variables refer to other variables, which is
# possible from 1.9 on.
terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 8.0"
    }
  }
}
