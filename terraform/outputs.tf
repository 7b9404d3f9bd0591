output "environment" {
  description = "Environment variables of the programs on a laptop: see output env."
  value       = local.launcher_environment
}

output "env" {
  description = "The same as a shell script: terraform output -raw env > coppice.env && . ./coppice.env"
  value       = join("", [for k, v in local.launcher_environment : "export ${k}='${v}'\n"])
}

output "registry" {
  description = "Where images are pushed: make push REGISTRY=..."
  value       = local.registry
  depends_on  = [google_artifact_registry_repository.images]
}

output "accounts" {
  description = "E-mail addresses of the accounts, by role."
  value       = local.emails
}

output "audience" {
  description = "Audience of the tokens with which Pub/Sub and Cloud Scheduler call the aggregator."
  value       = local.audience
}

output "aggregator_url" {
  description = "Address of the aggregator; empty as long as no image is deployed."
  value       = try(google_cloud_run_v2_service.aggregator["aggregator"].uri, "")
}

output "server_url" {
  description = "Address of the model's server, for its callers inside the project's networks; empty without one."
  value       = try(google_cloud_run_v2_service.server["server"].uri, "")
}

output "jobs" {
  description = "Cloud Run jobs of the scheduled sweeps (sweep-NAME), and the one that cleans."
  value       = { for k, j in google_cloud_run_v2_job.launcher : k => j.name }
}

output "verdicts_topic" {
  description = "Topic to which launcher and aggregator publish how each night ended: gcloud pubsub subscriptions create NAME --topic TOPIC."
  value       = google_pubsub_topic.coppice["verdicts"].id
}

output "host_project_commands" {
  description = "With a network or a key of another project: what its administrator must run once, from iam.yaml."
  value       = local.host_commands
}
