# Machines have no address outside: they reach Google's services through Private Google Access, and nothing else. There is
# no router and no NAT. One firewall rule lets tasks call each other, nobody else; what a network does without rules is to
# refuse.

locals {
  network_project = var.network == null ? var.project : var.network.project
  network_name    = var.network == null ? var.name : var.network.network
  subnetwork_name = var.network == null ? var.name : var.network.subnetwork
  network         = "projects/${local.network_project}/global/networks/${local.network_name}"
  subnetwork      = "projects/${local.network_project}/regions/${var.location}/subnetworks/${local.subnetwork_name}"
}

resource "google_compute_network" "coppice" {
  count = var.network == null ? 1 : 0

  project                 = var.project
  name                    = local.network_name
  description             = "Machines of Coppice's sweeps"
  auto_create_subnetworks = false

  depends_on = [google_project_service.coppice]
}

resource "google_compute_subnetwork" "coppice" {
  count = var.network == null ? 1 : 0

  project                  = var.project
  region                   = var.location
  name                     = local.subnetwork_name
  network                  = one(google_compute_network.coppice[*].id)
  ip_cidr_range            = var.subnet_range
  private_ip_google_access = true

  dynamic "log_config" {
    for_each = var.flow_logs ? [true] : []
    content {
      aggregation_interval = "INTERVAL_10_MIN"
      flow_sampling        = 0.5
      metadata             = "INCLUDE_ALL_METADATA"
    }
  }
}

# Machines that train one model together (final.machines) speak TLS, with keys that they make for one training.
resource "google_compute_firewall" "tasks" {
  count = var.network == null ? 1 : 0

  project     = var.project
  name        = "${var.name}-tasks"
  network     = one(google_compute_network.coppice[*].id)
  description = "Tasks of sweeps call each other"
  direction   = "INGRESS"

  source_service_accounts = [local.emails.task]
  target_service_accounts = [local.emails.task]

  allow {
    protocol = "tcp"
    ports    = ["7433"]
  }

  depends_on = [google_service_account.coppice]
}
