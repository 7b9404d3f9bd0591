# Plans only: an apply waits for the metrics of log lines.

mock_provider "google" {
  mock_data "google_project" {
    defaults = {
      number = "123456789012"
    }
  }
}

variables {
  project      = "example-project"
  host_project = "example-host"
  network      = "shared"
  subnetwork   = "machines"
  image_tag    = "v1"
}

run "shared" {
  command = plan
  assert {
    condition     = strcontains(output.env, "export COPPICE_SUBNETWORK='projects/example-host/regions/us-central1/subnetworks/machines'\n")
    error_message = "Machines start in the host's subnetwork."
  }
  assert {
    condition     = length(output.host_project_commands) == 1 && startswith(output.host_project_commands[0], "gcloud compute networks subnets add-iam-policy-binding machines --project example-host ")
    error_message = "The host's administrator is told what to grant."
  }
}
