# A budget tells; it does not stop anything. What a single sweep may cost is the launcher's business.

resource "google_billing_budget" "coppice" {
  count = var.budget == null ? 0 : 1

  billing_account = var.budget.billing_account
  display_name    = "${var.name} in ${var.project}"

  budget_filter {
    projects               = ["projects/${data.google_project.this.number}"]
    credit_types_treatment = "EXCLUDE_ALL_CREDITS" # else trial credit is subtracted, and no threshold is reached
  }

  amount {
    specified_amount {
      currency_code = var.budget.currency
      units         = tostring(var.budget.amount)
    }
  }

  dynamic "threshold_rules" {
    for_each = toset([for t in var.budget.thresholds : tostring(t)])
    content {
      threshold_percent = tonumber(threshold_rules.value)
      spend_basis       = "CURRENT_SPEND"
    }
  }

  threshold_rules {
    threshold_percent = 1.0
    spend_basis       = "FORECASTED_SPEND"
  }

  # Besides the administrators of the billing account, who are told anyway.
  dynamic "all_updates_rule" {
    for_each = length(var.alert_emails) == 0 ? [] : [local.channels]
    content {
      monitoring_notification_channels = all_updates_rule.value
      disable_default_iam_recipients   = false
    }
  }

  depends_on = [google_project_service.coppice]
}
