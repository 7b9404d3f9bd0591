# Plans only: an apply waits for the metrics of log lines.

mock_provider "google" {
  mock_data "google_project" {
    defaults = {
      number = "123456789012"
    }
  }
}

variables {
  project         = "example-project"
  billing_account = "012345-6789AB-CDEF01"
}

run "bootstrap" {
  command = plan
  assert {
    condition     = output.registry == "europe-west4-docker.pkg.dev/example-project/coppice" && length(output.jobs) == 0
    error_message = "The first apply makes what images are pushed to."
  }
}

run "deployed" {
  command = plan
  variables {
    image_tag = "v1"
  }
  assert {
    condition     = output.jobs == { sweep-nightly = "coppice-sweep-nightly", clean = "coppice-clean" }
    error_message = "The nightly sweep has a job, which stages, too."
  }
  assert {
    condition     = strcontains(output.env, "export COPPICE_ZONES='europe-west4-a,europe-west4-b'\n")
    error_message = "Machines start in the zones that are named."
  }
}
