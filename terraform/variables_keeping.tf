# How long things are kept, with which keys, on which network, who is told and who may do something.

variable "keep" {
  description = "What stays of datasets and sweeps: the newest nights of each (10 or more), the versions of the last moves of each alias, which stay reproducible, and whatever else needs them; `coppice clean` removes the rest on this schedule, in UTC. Null removes nothing."
  type = object({
    nights   = optional(number, 30)
    promoted = optional(number, 100)
    schedule = optional(string, "30 12 * * *")
  })
  default = {}
  validation {
    condition     = var.keep == null ? true : var.keep.nights >= 10 && var.keep.promoted >= 0 && floor(var.keep.nights) == var.keep.nights && floor(var.keep.promoted) == var.keep.promoted
    error_message = "Whole numbers: at least 10 nights, which a warm start reads, and 0 moves or more."
  }
  validation {
    condition     = var.keep == null ? true : can(regex("^\\S+ \\S+ \\S+ \\S+ \\S+$", var.keep.schedule))
    error_message = "A schedule has the five fields of cron with one space between them, such as \"30 12 * * *\"."
  }
}

variable "registry_undo_days" {
  description = "Days for which an overwritten or deleted object of the registry can be restored."
  type        = number
  default     = 30
  nullable    = false
  validation {
    condition     = var.registry_undo_days >= 7 && var.registry_undo_days <= 90 && floor(var.registry_undo_days) == var.registry_undo_days
    error_message = "Between 7 and 90 whole days, the limits of Cloud Storage."
  }
}

variable "network" {
  description = "An existing network, such as a shared VPC: its project, its name, and a subnetwork in the location with Private Google Access. Null creates one."
  type = object({
    project    = string
    network    = string
    subnetwork = string
  })
  default = null
  validation {
    condition = var.network == null ? true : (
      can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.network.project)) &&
      alltrue([for n in [var.network.network, var.network.subnetwork] : can(regex("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", n))])
    )
    error_message = "Give the project's id and the plain names of network and subnetwork, not their URLs."
  }
}

variable "subnet_range" {
  description = "Addresses of the subnetwork that is created: one for each machine."
  type        = string
  default     = "10.84.0.0/20"
  nullable    = false
  validation {
    condition     = can(cidrnetmask(var.subnet_range)) && can(regex("^(10|172|192)\\.", var.subnet_range)) && try(tonumber(split("/", var.subnet_range)[1]), 33) <= 29
    error_message = "A private IPv4 range of at least eight addresses, such as 10.84.0.0/20."
  }
}

variable "flow_logs" {
  description = "Log a sample of the connections of the subnetwork that is created (VPC Flow Logs). Charged by the gigabyte."
  type        = bool
  default     = false
  nullable    = false
}

variable "audit_logs" {
  description = "Log who reads and writes objects and keys (Data Access audit logs of Cloud Storage and Cloud KMS), heartbeats too. It replaces the whole project's settings for these services. Charged by the gigabyte."
  type        = bool
  default     = false
  nullable    = false
}

variable "customer_managed_key" {
  description = "Create a key in this project and encrypt buckets, topics, images and the programs on Cloud Run with it. Chosen once: a deployment keeps its encryption."
  type        = bool
  default     = false
  nullable    = false
}

variable "kms_key" {
  description = "The same with an existing key, projects/P/locations/L/keyRings/R/cryptoKeys/K, in the deployment's location. Output host_project_commands grants the permissions on a key of another project."
  type        = string
  default     = null
  validation {
    condition     = var.kms_key == null ? true : can(regex("^projects/[a-z][a-z0-9-]{4,28}[a-z0-9]/locations/${var.location}/keyRings/[A-Za-z0-9_-]{1,63}/cryptoKeys/[A-Za-z0-9_-]{1,63}$", var.kms_key))
    error_message = "A key is projects/P/locations/L/keyRings/R/cryptoKeys/K, without a version, and L is the location of the deployment."
  }
  validation {
    condition     = var.kms_key == null || !var.customer_managed_key
    error_message = "Either create a key (customer_managed_key) or give one (kms_key), not both."
  }
}

variable "key_rotation_days" {
  description = "Days after which the key gets a new version."
  type        = number
  default     = 90
  nullable    = false
  validation {
    condition     = var.key_rotation_days >= 1 && var.key_rotation_days <= 36500 && floor(var.key_rotation_days) == var.key_rotation_days
    error_message = "A whole number of days, at least one: Cloud KMS rotates once a day at most."
  }
}

variable "alert_emails" {
  description = "Who gets an e-mail when a sweep fails, when there is no winner in time, when messages are dead-lettered, and about the budget."
  type        = set(string)
  default     = []
  nullable    = false
  validation {
    condition     = length(var.alert_emails) <= 5 && alltrue([for e in var.alert_emails : can(regex("^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", e))])
    error_message = "At most five e-mail addresses: a budget notifies no more."
  }
}

variable "webhook" {
  description = "Where verdicts are posted: the name of a secret in Secret Manager that holds an https:// address; its format (slack or json), and which verdicts. Null posts nothing; the topic in output verdicts_topic gets all."
  type = object({
    secret   = string
    format   = optional(string, "slack")
    verdicts = optional(set(string), ["promoted", "not_promoted", "not_comparable", "blocked", "no_winner"])
  })
  default = null
  validation {
    condition     = var.webhook == null ? true : can(regex("^[A-Za-z0-9_-]{1,255}$", var.webhook.secret))
    error_message = "secret is the name of a secret of the project, not an address: `printf %s ADDRESS | gcloud secrets create NAME --data-file=-` makes one."
  }
  validation {
    condition     = var.webhook == null ? true : contains(["slack", "json"], var.webhook.format)
    error_message = "The format is slack or json."
  }
  validation {
    condition     = var.webhook == null ? true : length(var.webhook.verdicts) > 0 && length(setsubtract(var.webhook.verdicts, ["promoted", "not_promoted", "not_comparable", "blocked", "no_winner", "cancelled"])) == 0
    error_message = "Verdicts are promoted, not_promoted, not_comparable, blocked, no_winner and cancelled; give at least one."
  }
}

variable "metrics_wait_seconds" {
  description = "Seconds for which alerts wait after log-based metrics are created, since Cloud Monitoring may not know them for up to ten minutes; 0 if a failed apply is repeated anyway."
  type        = number
  default     = 660
  nullable    = false
  validation {
    condition     = var.metrics_wait_seconds >= 0 && var.metrics_wait_seconds <= 3600 && floor(var.metrics_wait_seconds) == var.metrics_wait_seconds
    error_message = "A whole number of seconds up to 3600."
  }
}

variable "metrics_endpoint" {
  description = "Where task and aggregator push their metrics, by OTLP over HTTP: https://telemetry.googleapis.com is Cloud Monitoring, and its API is enabled then; a collector's address; or nowhere (empty)."
  type        = string
  default     = "https://telemetry.googleapis.com"
  nullable    = false
  validation {
    condition     = can(regex("^(https?://[A-Za-z0-9.-]+(:[0-9]+)?)?$", var.metrics_endpoint))
    error_message = "An address without a path, such as http://collector:4318, or empty."
  }
}

variable "budget" {
  description = "A monthly budget of the project: billing account, whole units of the account's currency, and the fractions of it at which an e-mail is sent. Null creates none."
  type = object({
    billing_account = string
    amount          = number
    currency        = optional(string, "USD")
    thresholds      = optional(list(number), [0.5, 0.9, 1.0])
  })
  default = null
  validation {
    condition     = var.budget == null ? true : can(regex("^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$", var.budget.billing_account))
    error_message = "A billing account is three groups of six hexadecimal digits: `gcloud billing accounts list` prints it."
  }
  validation {
    condition     = var.budget == null ? true : var.budget.amount >= 1 && floor(var.budget.amount) == var.budget.amount && can(regex("^[A-Z]{3}$", var.budget.currency))
    error_message = "The amount is a whole number, at least 1, and the currency has three letters, such as USD."
  }
  validation {
    condition     = var.budget == null ? true : length(var.budget.thresholds) > 0 && alltrue([for t in var.budget.thresholds : t > 0 && t <= 10])
    error_message = "Thresholds are fractions of the amount: 0.5 is half of it. Give at least one."
  }
}

variable "operators" {
  description = "Who may push images, start scheduled sweeps by hand and act as the launcher, as IAM members: user:ana@example.com, group:..."
  type        = set(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for m in var.operators : can(regex("^(user|group|serviceAccount):[^@\\s]+@[^@\\s]+$", m)) || can(regex("^principal(Set)?://iam\\.googleapis\\.com/\\S+$", m))])
    error_message = "Each is user:, group: or serviceAccount: with an e-mail address, or a principal:// or principalSet:// of a workload identity pool; never all users."
  }
}

variable "model_readers" {
  description = "Who may read registered models, as IAM members: the account of the serving system, for example."
  type        = set(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for m in var.model_readers : can(regex("^(user|group|serviceAccount):[^@\\s]+@[^@\\s]+$", m)) || can(regex("^principal(Set)?://iam\\.googleapis\\.com/\\S+$", m))])
    error_message = "Each is user:, group: or serviceAccount: with an e-mail address, or a principal:// or principalSet:// of a workload identity pool; never all users."
  }
}
