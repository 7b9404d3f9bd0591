# One account for each role, with the rights that iam.yaml lists and no others. None has a key: Batch, Cloud Run, Pub/Sub
# and Cloud Scheduler hand out tokens, and people act as the launcher with their own login.

resource "google_service_account" "coppice" {
  for_each = { for name, identity in local.iam.identities : name => identity if identity.kind == "account" }

  project      = var.project
  account_id   = "${var.name}-${each.key}"
  display_name = "Coppice ${each.key}"
  description  = each.value.why

  depends_on = [google_project_service.coppice]
}
