# Where, under which names, and what runs.

variable "project" {
  description = "Google Cloud project in which everything is created."
  type        = string
  nullable    = false
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "A project id has 6 to 30 lowercase letters, digits and hyphens, begins with a letter and does not end with a hyphen."
  }
}

variable "location" {
  description = "Region of the buckets, the images and the Batch jobs: data and machines belong together."
  type        = string
  default     = "us-central1"
  nullable    = false
  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.location))
    error_message = "The location is one region such as us-central1 or europe-west4: Batch runs in regions only."
  }
}

variable "name" {
  description = "Prefix of every name that is created, so that two deployments fit into one project."
  type        = string
  default     = "coppice"
  nullable    = false
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,17}[a-z0-9]$", var.name)) && !startswith(var.name, "goog")
    error_message = "The name has 2 to 19 lowercase letters, digits and hyphens, begins with a letter, not with goog, and does not end with a hyphen."
  }
}

variable "labels" {
  description = "Labels on everything that can have labels, in addition to app=NAME."
  type        = map(string)
  default     = {}
  nullable    = false
  validation {
    condition = alltrue([for k, v in var.labels :
      can(regex("^[a-z][a-z0-9_-]{0,62}$", k)) && can(regex("^[a-z0-9_-]{0,63}$", v)) && !startswith(k, "goog") && k != "app"
    ])
    error_message = "A label's key has 1 to 63 lowercase letters, digits, '_' and '-', begins with a letter, not with goog, and is not app; a value has at most 63 of the same characters."
  }
}

variable "image_tag" {
  description = "Tag of the images in the repository that is created here. Leave it empty until images are pushed: nothing that runs an image is created then."
  type        = string
  default     = ""
  nullable    = false
  validation {
    condition     = can(regex("^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$", var.image_tag))
    error_message = "A tag has 1 to 128 letters, digits, '_', '.' and '-', and does not begin with '.' or '-'."
  }
}

variable "images" {
  description = "Full references of images from elsewhere or with a digest (keys launcher, task, aggregator); those not given come from the repository, with image_tag."
  type        = map(string)
  default     = {}
  nullable    = false
  validation {
    condition     = alltrue([for k, v in var.images : contains(["launcher", "task", "aggregator"], k) && can(regex("^[a-z0-9][a-z0-9._/:@-]+$", v))])
    error_message = "The keys are launcher, task and aggregator, the values image references such as REGISTRY/coppice-task@sha256:..."
  }
}

variable "sweeps" {
  description = "Scheduled sweeps by name: cron schedule and time zone, the text of the sweep.yaml, what to stage before (the text of the dataset.yaml, its source in source_buckets, machine type, Spot or not), whether it is paused, and hours (1 to 25) after the last winner without another until an alert is sent: 25 if it is started every day, 0 for none."
  type = map(object({
    schedule      = string
    time_zone     = optional(string, "Etc/UTC")
    spec          = string
    paused        = optional(bool, false)
    winner_within = optional(number)
    stage = optional(object({
      spec    = string
      machine = optional(string)
      spot    = optional(bool, false)
    }))
  }))
  default  = {}
  nullable = false
  validation {
    condition     = alltrue([for k, _ in var.sweeps : can(regex("^[a-z]([a-z0-9-]{0,20}[a-z0-9])?$", k))])
    error_message = "A sweep's name has 1 to 22 lowercase letters, digits and hyphens, begins with a letter and does not end with a hyphen."
  }
  validation {
    condition     = alltrue([for s in values(var.sweeps) : can(regex("^\\S+ \\S+ \\S+ \\S+ \\S+$", s.schedule))])
    error_message = "A schedule has the five fields of cron with one space between them, such as \"0 2 * * *\"."
  }
  validation {
    condition     = alltrue([for s in values(var.sweeps) : can(regex("^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$", s.time_zone))])
    error_message = "A time zone is a name of the tz database, such as Europe/Berlin."
  }
  validation {
    condition     = alltrue([for s in values(var.sweeps) : length(s.spec) <= 1048576 && try(yamldecode(s.spec).name != "" && yamldecode(s.spec).metric != "", false)])
    error_message = "A spec is the text of a sweep.yaml, with name, metric and whatever else docs/sweep.md requires: spec = file(\"sweep.yaml\")."
  }
  validation {
    condition     = length(distinct([for k, s in var.sweeps : try(tostring(yamldecode(s.spec).name), k)])) == length(var.sweeps)
    error_message = "Two sweeps have the same name in their specs. Sweep ids begin with it, so at the same time of day both would be one sweep: give each its own name."
  }
  validation {
    condition     = alltrue([for s in values(var.sweeps) : s.winner_within == null ? true : s.winner_within >= 0 && s.winner_within <= 25 && floor(s.winner_within) == s.winner_within])
    error_message = "winner_within is a whole number of hours from 1 to 25, the longest period over which Cloud Monitoring can add up, or 0 for no alert."
  }
  validation {
    condition     = alltrue([for s in values(var.sweeps) : try(s.stage.machine == null, true) ? true : can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", s.stage.machine))])
    error_message = "A machine is a machine type such as n2-highmem-8."
  }
  validation {
    condition     = alltrue([for s in values(var.sweeps) : s.stage == null ? true : length(s.stage.spec) <= 65536 && try(yamldecode(s.stage.spec).name == yamldecode(s.spec).dataset, false)])
    error_message = "stage.spec is the text of a dataset.yaml of at most 64 KiB whose name is the sweep's dataset: stage = { spec = file(\"clicks.yaml\") }."
  }
  validation {
    # A source is a place, a list of places, or has them as files.
    condition = alltrue([for s in values(var.sweeps) : s.stage == null ? true : try(
      alltrue([for place in flatten([try(yamldecode(s.stage.spec).source.files, yamldecode(s.stage.spec).source)]) : can(regex("^(gs://|bigquery://|\\s*(?i:SELECT|WITH)\\s)", place))]), false
    )])
    error_message = "The source of a dataset.yaml that is staged on a schedule is in a bucket, gs://BUCKET/PATH, or in BigQuery."
  }
}

variable "source_buckets" {
  description = "Buckets from which tables are staged, such as those of BigQuery exports; launcher and stager may read them."
  type        = set(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for b in var.source_buckets : can(regex("^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", b)) && !contains(["datasets", "sweeps", "registry"], b)])
    error_message = "Plain names of buckets, without gs://."
  }
}

variable "source_datasets" {
  description = "Datasets of BigQuery whose tables are staged, as PROJECT.DATASET; launcher and stager may read them, and run queries in this project, which pays for them."
  type        = set(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for d in var.source_datasets : can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9][.][A-Za-z0-9_]{1,300}$", d))])
    error_message = "PROJECT.DATASET, such as ads-prod.events."
  }
}

variable "reconcile_schedule" {
  description = "When the aggregator checks every open sweep, as cron in UTC, every 1 to 5 minutes: messages may be lost, and the reserve of a budget lasts six minutes."
  type        = string
  default     = "*/5 * * * *"
  nullable    = false
  validation {
    condition     = can(regex("^\\*(/[1-5])? \\* \\* \\* \\*$", var.reconcile_schedule))
    error_message = "The aggregator must check every 1 to 5 minutes, or it would notice a spent budget too late: \"* * * * *\", or \"*/N * * * *\" with N from 1 to 5."
  }
}

variable "zones" {
  description = "Zones of the location in which machines may start; empty leaves the choice to Batch."
  type        = list(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for z in var.zones : can(regex("^[a-z]+-[a-z]+[0-9]+-[a-z]$", z)) && startswith(z, "${var.location}-")])
    error_message = "A zone is one of the location's, such as us-central1-a in us-central1."
  }
}

variable "aggregator" {
  description = "Size of the aggregator's service: vCPUs, memory (it holds the held-out targets and scores), maximum number of instances, seconds for one request."
  type = object({
    cpu             = optional(string, "2")
    memory          = optional(string, "8Gi")
    max_instances   = optional(number, 2)
    timeout_seconds = optional(number, 600)
  })
  default  = {}
  nullable = false
  validation {
    condition     = contains(["1", "2", "4", "6", "8"], var.aggregator.cpu)
    error_message = "Cloud Run allows 1, 2, 4, 6 or 8 vCPUs."
  }
  validation {
    condition     = can(regex("^([1-9]|[12][0-9]|3[0-2])Gi$", var.aggregator.memory))
    error_message = "Memory is 1Gi to 32Gi."
  }
  validation {
    condition     = try(tonumber(trimsuffix(var.aggregator.memory, "Gi")) <= 4 * tonumber(var.aggregator.cpu), true)
    error_message = "Cloud Run allows at most 4Gi of memory per vCPU."
  }
  validation {
    condition     = try(tonumber(trimsuffix(var.aggregator.memory, "Gi")) >= lookup({ "4" = 2, "6" = 4, "8" = 4 }, var.aggregator.cpu, 1), true)
    error_message = "Cloud Run requires at least 2Gi with 4 vCPUs, and 4Gi with 6 or 8."
  }
  validation {
    condition     = var.aggregator.max_instances >= 1 && var.aggregator.max_instances <= 20
    error_message = "Between 1 and 20 instances: any number of them gives one conclusion, but more than a few only repeat each other's work."
  }
  validation {
    condition     = var.aggregator.timeout_seconds >= 60 && var.aggregator.timeout_seconds <= 600
    error_message = "A request may take 60 to 600 seconds: Pub/Sub waits no longer for a response, and would redeliver the message while it is being handled."
  }
}

variable "deletion_protection" {
  description = "Refuse to destroy the aggregator's service, and refuse a plan that removes it because there is no image tag. Set it to false, apply, then destroy."
  type        = bool
  default     = true
  nullable    = false
}

variable "force_destroy" {
  description = "Let destroy delete buckets that still hold objects. For trials only: it deletes the registry, too."
  type        = bool
  default     = false
  nullable    = false
}
