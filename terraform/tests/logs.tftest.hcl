# Logs that cost, and are asked for.

mock_provider "google" {
  mock_data "google_project" {
    defaults = {
      number = "123456789012"
    }
  }
}

variables {
  project              = "example-project"
  metrics_wait_seconds = 0
}

run "without" {
  command = plan
  assert {
    condition     = length(google_project_iam_audit_config.data) == 0 && length(google_compute_subnetwork.coppice[0].log_config) == 0
    error_message = "Nothing is logged that nobody has asked for."
  }
}

run "with" {
  command = plan
  variables {
    audit_logs = true
    flow_logs  = true
  }
  assert {
    condition = { for s, c in google_project_iam_audit_config.data : s => join(" ", sort([for l in c.audit_log_config : l.log_type])) } == {
      "storage.googleapis.com" = "DATA_READ DATA_WRITE", "cloudkms.googleapis.com" = "DATA_READ DATA_WRITE"
    }
    error_message = "Reads and writes of objects and keys are logged."
  }
  assert {
    condition     = google_compute_subnetwork.coppice[0].log_config[0].flow_sampling == 0.5
    error_message = "Connections are logged."
  }
}
