# Who has read or written what, where it has to be known. Changes of the deployment itself are in the Admin Activity logs, which are always on.

resource "google_project_iam_audit_config" "data" {
  for_each = var.audit_logs ? toset(["storage.googleapis.com", "cloudkms.googleapis.com"]) : []

  project = var.project
  service = each.value

  audit_log_config {
    log_type = "DATA_READ"
  }
  audit_log_config {
    log_type = "DATA_WRITE"
  }

  depends_on = [google_project_service.coppice]
}
