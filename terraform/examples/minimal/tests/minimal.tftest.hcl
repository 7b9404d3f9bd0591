# Plans only: an apply waits for the metrics of log lines.

mock_provider "google" {
  mock_data "google_project" {
    defaults = {
      number = "123456789012"
    }
  }
}

variables {
  project  = "example-project"
  operator = "user:ana@example.com"
}

run "before_the_images" {
  command = plan
  assert {
    condition     = output.registry == "us-central1-docker.pkg.dev/example-project/coppice" && module.coppice.aggregator_url == ""
    error_message = "The repository is there, and nothing that needs an image."
  }
  assert {
    condition     = strcontains(output.env, "export COPPICE_SWEEPS_BUCKET='example-project-coppice-sweeps'\n")
    error_message = "The environment is a shell script."
  }
}

run "with_images" {
  command = plan
  variables {
    image_tag = "v1"
  }
  assert {
    condition     = strcontains(output.env, "export COPPICE_TASK_IMAGE='us-central1-docker.pkg.dev/example-project/coppice/coppice-task:v1'\n")
    error_message = "The aggregator runs, and tasks have their image."
  }
}
