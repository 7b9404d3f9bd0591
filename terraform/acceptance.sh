#!/bin/sh
# `make acceptance PROJECT=...`: the whole way in a real project, from nothing to a nightly sweep and back to nothing, with
# every expectation stated before it is checked. docs/run.md says what it needs, costs and proves.
#
#   PROJECT  the project (required)           REGION   us-central1 (destroy: that of the run)
#   NAME     begins every name it creates     MACHINE  machine type of the sweeps
#   SSDS     local SSDs of each machine (2)
#   NEVER    machine type that the project cannot have (m3-ultramem-128)
#   DRY=1    print it all and do nothing      YES=1    do not ask
#   acceptance.sh destroy   removes what a run called NAME has left
#
# It creates things only through Terraform, with a state of its own under build/acceptance/NAME, and destroys only what
# that state holds.
set -eu
cd "$(dirname "$0")/.."

PROJECT=${PROJECT:-}
REGION=${REGION:-us-central1}
MACHINE=${MACHINE:-n2-highmem-2}
SSDS=${SSDS:-2} # more than one, as large machines have them
NEVER=${NEVER:-m3-ultramem-128} # 128 vCPUs of a series for which projects have no quota unless they ask
DRY=${DRY:-}
YES=${YES:-}
BIN=${BIN:-bin}
WAIT=${WAIT:-20} # seconds between two looks
NAME=${NAME:-accept-$(date -u +%d%H%M)}
WORK=build/acceptance/$NAME
REPORT=$WORK/report.md
ROOT=$WORK/terraform/examples/minimal
SWEEP=$NAME-1

fail() { echo "acceptance: $*" >&2; exit 1; }

# The rule of project ids, as in variables.tf.
printf '%s\n' "$PROJECT" | grep -Eqx '[a-z][a-z0-9-]{4,28}[a-z0-9]' ||
  fail "PROJECT=\"$PROJECT\": a project's id has 6 to 30 of a-z, 0-9 and '-', begins with a letter and does not end with '-': make acceptance PROJECT=my-project"
case $NAME in *[!a-z0-9-]* | [!a-z]* | *-) fail "NAME=\"$NAME\": use up to 17 of a-z, 0-9 and '-', from a letter on" ;; esac
[ ${#NAME} -le 17 ] || fail "NAME=\"$NAME\" has more than 17 characters"
# With another region than the run's, Terraform would replace everything before it destroys it.
[ "${1:-}" != destroy ] || [ ! -f "$WORK/region" ] || REGION=$(cat "$WORK/region")
case $SSDS in auto | [1-9] | [1-4][0-9]) ;; *) fail "SSDS=\"$SSDS\": use auto, or a number that $MACHINE takes" ;; esac
case $REGION$MACHINE$NEVER in *[!a-z0-9-]*) fail "REGION=\"$REGION\", MACHINE=\"$MACHINE\", NEVER=\"$NEVER\": use names such as us-central1 and n2-highmem-2" ;; esac

# run runs a command and shows it; dry, it only shows it. ask does the same where the answer matters, and gives $1 when dry.
run() {
  echo "    \$ $*" >&2
  [ -n "$DRY" ] || "$@"
}
ask() {
  example=$1
  shift
  echo "    \$ $*" >&2
  if [ -n "$DRY" ]; then echo "$example"; else "$@"; fi
}

# names runs a command, in whose words each of the parts has to be: "PART;PART".
names() {
  parts=$1
  shift
  said=$(ask "$parts" "$@")
  echo "$said" >&2
  (IFS=';'; for part in $parts; do case $said in *"$part"*) ;; *) echo "   \"$part\" is missing" >&2; exit 1 ;; esac; done)
}

# eventually repeats a check that the cloud may need some time to pass.
eventually() {
  tries=$1
  shift
  while ! "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep "$WAIT"
  done
}

# step TITLE EXPECTATION FUNCTION [warn]: states, does, records. The first expectation that is not met ends the run, unless
# what is behind it does not depend on it: then it is recorded, and the run goes on.
number=0
warned=
step() {
  number=$((number + 1))
  current="$number. $1"
  printf '\n== %s\n   expected: %s\n' "$current" "$2"
  began=$(date +%s)
  if [ -n "$DRY" ]; then $3; return; fi
  status=0
  # Not `$3 || status=$?`: within a condition, set -e would let a function go on after an error.
  set +e
  (set -e; $3)
  status=$?
  set -e
  took=$(($(date +%s) - began))
  if [ $status -ne 0 ] && [ "${4:-}" = warn ] && [ $status -lt 128 ]; then
    echo "| $current | $2 | **warning** | $took s |" >>"$REPORT"
    echo "   WARNING: not met after $took s; the run goes on" >&2
    warned="$warned $current;"
    return
  fi
  if [ $status -ne 0 ]; then
    echo "| $current | $2 | **NOT MET** | $took s |" >>"$REPORT"
    echo "   NOT MET after $took s" >&2
    exit 1
  fi
  echo "| $current | $2 | met | $took s |" >>"$REPORT"
  echo "   met after $took s"
}

tf() { "$TERRAFORM" -chdir="$ROOT" "$@"; }
variables() { echo "-input=false -auto-approve -var project=$PROJECT -var location=$REGION -var operator=user:$(cat "$WORK/account" 2>/dev/null || echo YOU)"; }
# launcher acts as the launcher's account, with the operator's login and without a key.
launcher() {
  (
    [ ! -f "$WORK/env" ] || . "./$WORK/env"
    GOOGLE_APPLICATION_CREDENTIALS=$WORK/launcher.json exec "$BIN/launcher" "$@"
  )
}

find_tools() {
  TERRAFORM=${TERRAFORM:-$(command -v terraform || command -v tofu || echo terraform)}
  IMAGE_TOOL=${IMAGE_TOOL:-$(command -v docker || command -v podman || command -v buildah || echo docker)}
}

# --- what is expected, one function each

tools() {
  for t in gcloud curl make go "$TERRAFORM" "$IMAGE_TOOL"; do
    run command -v "$t" >/dev/null || { echo "   $t is not installed" >&2; return 1; }
  done
}

login() {
  account=$(ask you@example.com gcloud config get account)
  run gcloud auth print-access-token >/dev/null
  run gcloud auth application-default print-access-token >/dev/null
  case $account in
    *.gserviceaccount.com | "") echo "   gcloud's account is \"$account\"; log in as yourself: gcloud auth login" >&2; return 1 ;;
  esac
  names ACTIVE gcloud projects describe "$PROJECT" --format='value(projectNumber,lifecycleState)'
  [ -n "$DRY" ] || echo "$account" >"$WORK/account"
  [ -n "$DRY" ] || echo "$REGION" >"$WORK/region"
}

build() {
  run make build
  tag=$(ask v0 git describe --tags --always --dirty --abbrev=12)
  for program in launcher localemu; do names "version $tag" "$BIN/$program" --version; done
}

# prepare copies the minimal example and gives it a name, a bucket for the table and a schedule of its own.
prepare() {
  run mkdir -p "$WORK/terraform"
  echo "    (copies terraform/ to $WORK, with the name $NAME, a bucket for the table and a nightly sweep)" >&2
  [ -z "$DRY" ] || return 0
  # Without what belongs to somebody's own deployment: its state, its variables, its overrides.
  tar cf - --exclude .terraform --exclude .terraform.lock.hcl --exclude '*.tfstate*' --exclude '*.tfvars*' --exclude '*override.tf*' terraform | tar xf - -C "$WORK"
  lost=$(cd terraform && find . -name '*.tf' ! -name '*override.tf' ! -path '*/.terraform/*' | while read -r file; do [ -f "../$WORK/terraform/$file" ] || echo "$file"; done)
  along=$(find "$WORK/terraform" -name '*.tfstate*' -o -name '*.tfvars*' -o -name .terraform)
  [ -z "$lost$along" ] || { echo "   the copy lacks \"$lost\", and has \"$along\" of somebody's own" >&2; return 1; }
  sweep_spec >"$WORK/sweep.yaml"
  cp "$WORK/sweep.yaml" "$ROOT/sweep.yaml"
  cat >"$ROOT/acceptance_override.tf" <<END
module "coppice" {
  name           = "$NAME"
  source_buckets = [google_storage_bucket.acceptance.name]
  sweeps         = { nightly = { schedule = "0 2 * * *", spec = file("\${path.module}/sweep.yaml") } }
}
END
  cat >"$ROOT/acceptance.tf" <<END
# Calls of the aggregator from where it can be reached: by nobody, and by an account that may not.
resource "google_cloud_scheduler_job" "refused" {
  for_each = toset(var.image_tag == "" ? [] : ["nobody", "other"])
  project  = var.project
  region   = var.location
  name     = "$NAME-refused-\${each.key}"
  schedule = "0 0 29 2 *"
  http_target {
    http_method = "POST"
    uri         = "\${module.coppice.aggregator_url}/reconcile"
    dynamic "oidc_token" {
      for_each = each.key == "other" ? [module.coppice.accounts["task"]] : []
      content {
        service_account_email = oidc_token.value
        audience              = module.coppice.audience
      }
    }
  }
}
resource "google_storage_bucket" "acceptance" {
  project                     = var.project
  name                        = "$PROJECT-$NAME-source"
  location                    = var.location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true
}
END
}

sweep_spec() {
  cat <<END
name: nightly
dataset: clicks
model: accept
objective: binary
metric: average_precision
trials: 8
seed: 7
early_stopping_rounds: 15
params: {num_iterations: 100, learning_rate: 0.1}
search: {random: {num_leaves: {log_int: [7, 63]}, min_data_in_leaf: {log_int: [20, 500]}}}
final: {machines: 2}
machine: {type: $MACHINE, spot: true, vms: 2, threads_per_task: 1, tasks_per_vm: 2, local_ssd: $SSDS, wait: 10m, fallback: [{spot: false}]}
limits: {trial: 10m, sweep: 1h}
END
}

create() {
  run tf init -input=false
  run sh terraform/prepare.sh "$PROJECT"
  [ -n "$DRY" ] || : >"$WORK/created"
  # What has just been enabled may not be ready, and a metric of log lines is not always known to alerts after the eleven minutes that the
  # first apply waits: docs/run.md. Applying again goes on.
  # shellcheck disable=SC2046
  eventually 40 run tf apply $(variables)
  names 'google_storage_bucket.;google_pubsub_topic.;google_service_account.;google_compute_network.;google_artifact_registry_repository.' tf state list
}

images() {
  run make images
  registry=$(ask "$REGION-docker.pkg.dev/$PROJECT/$NAME" tf output -raw registry)
  echo "    \$ gcloud auth print-access-token | $IMAGE_TOOL login -u oauth2accesstoken --password-stdin https://$REGION-docker.pkg.dev" >&2
  [ -n "$DRY" ] || gcloud auth print-access-token | "$IMAGE_TOOL" login -u oauth2accesstoken --password-stdin "https://$REGION-docker.pkg.dev"
  names "$registry/coppice-launcher@sha256:;$registry/coppice-task@sha256:;$registry/coppice-aggregator@sha256:" make push REGISTRY="$registry"
}

deploy() {
  tag=$(ask v0 git describe --tags --always --dirty --abbrev=12)
  [ -n "$DRY" ] || echo "$tag" >"$WORK/tag"
  # shellcheck disable=SC2046
  eventually 3 run tf apply $(variables) -var image_tag="$tag"
  echo "    \$ tf output -raw env > $WORK/env" >&2
  [ -n "$DRY" ] || tf output -raw env >"$WORK/env"
  [ -n "$DRY" ] || grep "COPPICE_PROJECT='$PROJECT'" "$WORK/env" >&2 || { echo "   it is not the environment of $PROJECT" >&2; return 1; }
  names "/coppice-aggregator:$tag" gcloud run services describe "$NAME-aggregator" --project "$PROJECT" --region "$REGION" --format 'value(spec.template.spec.containers[0].image)'
  names ENABLED gcloud scheduler jobs describe "$NAME-sweep-nightly" --project "$PROJECT" --location "$REGION" --format 'value(state)'
}

# production has the large example planned; nothing of it is created, and its state is not the team's.
production() {
  account=$(ask billingAccounts/0000-0000 gcloud billing projects describe "$PROJECT" --format 'value(billingAccountName)')
  echo "    (its state is a file under $WORK)" >&2
  [ -n "$DRY" ] || printf 'terraform {\n  backend "local" {}\n}\n' >"$WORK/terraform/examples/production/acceptance_override.tf"
  run "$TERRAFORM" -chdir="$WORK/terraform/examples/production" init -input=false
  planned=$(ask 'Plan: 90 to add, 0 to change, 0 to destroy.' "$TERRAFORM" -chdir="$WORK/terraform/examples/production" plan -input=false -no-color -var project="$PROJECT" -var billing_account="${account#*/}")
  echo "$planned" | grep '^Plan: [1-9][0-9]* to add, 0 to change, 0 to destroy' >&2 || { echo "   it plans something else" >&2; return 1; }
}

# act_as makes credentials that are the operator's own login, acting as the launcher's account. No key: they end with the login.
act_as() {
  folder=$(ask "~/.config/gcloud" gcloud info --format='value(config.paths.global_config_dir)')
  echo "    (writes $WORK/launcher.json, which the end of the run deletes)" >&2
  if [ -z "$DRY" ]; then
    grep -q '"authorized_user"' "$folder/application_default_credentials.json" ||
      { echo "   log in as yourself: gcloud auth application-default login" >&2; return 1; }
    umask 077
    {
      printf '{"type":"impersonated_service_account","service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/%s-launcher@%s.iam.gserviceaccount.com:generateAccessToken","source_credentials":' "$NAME" "$PROJECT"
      cat "$folder/application_default_credentials.json"
      printf '}\n'
    } >"$WORK/launcher.json"
  fi
  eventually 15 run launcher status # a right that was granted a moment ago takes some minutes
}

# doctor is asked with the operator's own login: the launcher's account may not read services, images and quotas.
doctor() {
  (
    [ -n "$DRY" ] || . "./$WORK/env"
    said=$(ask '20 ok' "$BIN/launcher" doctor) || { echo "$said" >&2; return 1; }
    echo "$said" >&2
    echo "$said" | grep -Eq '^[1-9][0-9]+ ok' || { echo "   it has hardly checked anything" >&2; return 1; }
  )
}

upload() {
  run "$BIN/clicks" --rows 200000 --out "$WORK/clicks.parquet"
  run gcloud storage cp "$WORK/clicks.parquet" "gs://$PROJECT-$NAME-source/clicks.parquet"
  size=$([ -n "$DRY" ] || wc -c <"$WORK/clicks.parquet" | tr -d ' ')
  there=$(ask "$size" gcloud storage objects describe "gs://$PROJECT-$NAME-source/clicks.parquet" --format 'value(size)')
  [ "$there" = "$size" ] || { echo "   $size bytes were sent, \"$there\" are there" >&2; return 1; }
  for where in "cloud gs://$PROJECT-$NAME-source/clicks.parquet" "local $PWD/$WORK/clicks.parquet"; do
    echo "    (writes $WORK/${where%% *}.yaml: examples/clicks/dataset.yaml with source ${where#* })" >&2
    [ -n "$DRY" ] || sed "s|^source:.*|source: ${where#* }|" examples/clicks/dataset.yaml >"$WORK/${where%% *}.yaml"
  done
}

stage() { names 'clicks@; staged: ' launcher stage "$WORK/cloud.yaml" --batch --machine "$MACHINE" --spot; }

quote() { names 'before the first trial;memory of each; Spot ;$;machine: {type:' launcher plan "$WORK/sweep.yaml"; }

# reconciling pauses or resumes the schedule that has the aggregator look, and checks that it is so.
reconciling() {
  run gcloud scheduler jobs "$1" "$NAME-reconcile" --project "$PROJECT" --location "$REGION"
  said=$(ask "$2" gcloud scheduler jobs describe "$NAME-reconcile" --project "$PROJECT" --location "$REGION" --format 'value(state)')
  [ "$said" = "$2" ] || { echo "   the schedule is $said" >&2; return 1; }
}

sweep() {
  reconciling pause PAUSED # until the winner is there: only pushes may conclude
  [ -n "$DRY" ] || echo "$SWEEP" >>"$WORK/sweeps"
  run launcher sweep "$WORK/sweep.yaml" --id "$SWEEP" --no-wait
}

# machines are those that run the sweep, one a line with its zone.
machines() {
  found=$(ask 'm-0 us-central1-a
m-1 us-central1-a' gcloud compute instances list --project "$PROJECT" --filter "labels.batch-job-id~^$SWEEP AND status=RUNNING" --format 'value(name,zone.basename())')
  [ "$(echo "$found" | grep -c .)" -eq 2 ] && echo "$found"
}

# preempt has one of them go as Spot machines do.
preempt() {
  found=$(eventually 45 machines) || { echo "   there are not two machines" >&2; return 1; }
  one=$(echo "$found" | sed -n 1p)
  run gcloud compute instances simulate-maintenance-event "${one%%[!a-z0-9-]*}" --zone "${one##*[!a-z0-9-]}" --project "$PROJECT"
}

watch() {
  run launcher watch "$SWEEP"
  events=$(ask 'Task state is updated from RUNNING to FAILED due to Spot VM preemption with exit code 50001.' gcloud batch tasks list --project "$PROJECT" --location "$REGION" --job "$SWEEP" --format 'value(status.statusEvents.description)')
  case $events in *'exit code 5000'[1236]*) ;; *) echo "   no task has lost its machine" >&2; return 1 ;; esac
  reconciling resume ENABLED
}

winner() {
  names 'accept version 1 (champion);library reproduces all' launcher registry show accept
  run launcher registry show accept --file model.txt >"${DRY:+/dev/null}${DRY:-$WORK/model.txt}"
}

# same has the local cloud train the same sweep on the same table: Coppice promises the same model, and so the same scores.
same() {
  run launcher predict --model accept --in "$WORK/clicks.parquet" --out "$WORK/cloud.csv" --raw
  for command in "stage $WORK/local.yaml" "sweep $WORK/sweep.yaml --id $SWEEP" "predict --model accept --in $WORK/clicks.parquet --out $WORK/local.csv --raw"; do
    # shellcheck disable=SC2086
    run "$BIN/localemu" exec --data "$WORK/local" -- "$BIN/launcher" $command
  done
  run cmp "$WORK/cloud.csv" "$WORK/local.csv"
}

bill() { names 'machine-hours;quoted;actual' launcher bill "$SWEEP"; }

# trace is the trace of the sweep's lines that one program has logged.
trace() {
  found=$(ask "projects/$PROJECT/traces/0123" gcloud logging read --project "$PROJECT" "jsonPayload.sweep=\"$SWEEP\" AND labels.coppice_program=\"$1\" AND trace:\"projects/$PROJECT/traces/\"" --limit 1 --format 'value(trace)')
  [ -n "$found" ] && echo "$found"
}

# logged is a value of those lines of the sweep's tasks that a filter leaves.
logged() {
  found=$(ask "$3" gcloud logging read --project "$PROJECT" "jsonPayload.sweep=\"$SWEEP\" AND labels.coppice_program=\"task\" AND $1" --limit 1 --format "value($2)")
  [ -n "$found" ] && echo "$found"
}

together() { eventually 15 logged "jsonPayload.machines>1" jsonPayload.machines 2; }

# processors compares the threads that Go takes with what the machine gives the container: cpu.max is "QUOTA PERIOD", or "max PERIOD".
processors() {
  said=$(eventually 15 logged 'jsonPayload.message:"task started"' 'jsonPayload.gomaxprocs,jsonPayload.cpu_max' '2 max 100000')
  echo "$said" >&2
  echo "$said" | awk '{ cpus = $2 == "max" ? $1 : int(($2 + $3 - 1) / $3); if (cpus < 2) cpus = 2; exit !(NF == 3 && $1 >= 1 && $1 <= cpus) }' ||
    { echo "   \"$said\": GOMAXPROCS is not within cpu.max" >&2; return 1; }
}

logs() {
  task=$(eventually 15 trace task)
  aggregator=$(eventually 15 trace aggregator)
  [ "$task" = "$aggregator" ] || { echo "   the task's lines have trace $task, the aggregator's $aggregator" >&2; return 1; }
}

private() {
  for bucket in datasets sweeps registry source; do
    said=$(ask enforced gcloud storage buckets describe "gs://$PROJECT-$NAME-$bucket" --format 'value(public_access_prevention)')
    [ "$said" = enforced ] || { echo "   public access to $bucket: \"$said\"" >&2; return 1; }
  done
}

# refusal is when a schedule last called, and the google.rpc.Code of the answer: none if it was good.
refusal() {
  found=$(ask "2026-11-30 $2" gcloud scheduler jobs describe "$NAME-$1" --project "$PROJECT" --location "$REGION" --format 'value(lastAttemptTime,status.code)')
  [ -n "$found" ] && echo "$found" | awk '{ print $2 }'
}

# inside calls the aggregator from Cloud Scheduler, for which it is open: 16 is UNAUTHENTICATED (401), 7 PERMISSION_DENIED (403).
inside() {
  for who in refused-nobody refused-other reconcile; do
    [ $who = reconcile ] && good= || good=7
    run gcloud scheduler jobs run "$NAME-$who" --project "$PROJECT" --location "$REGION"
    code=$(eventually 15 refusal "$who" "$good") || { echo "   $who was not called" >&2; return 1; }
    case $who:$code in refused-*:7 | refused-*:16 | reconcile:) ;; *) echo "   $who ended with code \"$code\"" >&2; return 1 ;; esac
  done
}

push() {
  url=$(ask https://aggregator.example gcloud run services describe "$NAME-aggregator" --project "$PROJECT" --region "$REGION" --format 'value(status.url)')
  for path in /push /reconcile; do
    for header in 'X-Nobody: yes' 'Authorization: Bearer eyJhbGciOiJub25lIn0.e30.AAAA'; do
      code=$(ask 403 curl -s -o /dev/null -w '%{http_code}' -X POST -H "$header" --data '{}' "$url$path")
      case $code in 401 | 403 | 404) ;; *) echo "   $path answered $code" >&2; return 1 ;; esac
    done
  done
}

# fallback has a sweep wait for a machine that does not come, until the launcher takes the next of its list.
fallback() {
  echo "    (writes $WORK/fallback.yaml: two trials on one $NEVER, or after 5 minutes on one $MACHINE, Spot)" >&2
  if [ -z "$DRY" ]; then
    sweep_spec | sed -e '/^final:/d' -e 's/^name: .*/name: fallback/' -e 's/^model: .*/model: fallback/' -e 's/^trials: .*/trials: 2/' \
      -e "s/^machine: .*/machine: {type: $NEVER, spot: false, vms: 1, threads_per_task: 1, tasks_per_vm: 2, local_ssd: auto, wait: 5m, fallback: [{type: $MACHINE, spot: true}]}/" >"$WORK/fallback.yaml"
    echo "$NAME-2" >>"$WORK/sweeps"
  fi
  run launcher sweep "$WORK/fallback.yaml" --id "$NAME-2" || [ $? -eq 9 ] # it need not be promoted
  said=$(ask '"name": "jobs/x-2-f1", "reason": "it was waiting after 5m0s: Quota exceeded"' launcher status "$NAME-2" --json)
  echo "$said" | grep -q "\"name\": \"[^\"]*$NAME-2-f1\"" || [ -n "$DRY" ] || { echo "   it ran on what was to be unavailable, or nowhere: $said" >&2; return 1; }
  echo "$said" | grep -i '"reason": "it was waiting after 5m0s: .*\(quota\|resources\)' >&2 || { echo "   the reason is missing: $said" >&2; return 1; }
}

# nightly are the ids of the sweeps that the schedule has made, one a line.
nightly() {
  found=$(ask '"sweep": "nightly-20261121-0200"' launcher status --json | sed -n 's/.*"sweep": *"\(nightly-[0-9]*-[0-9]*\)".*/\1/p')
  [ -n "$found" ] && echo "$found"
}

schedule() {
  for _ in 1 2 3; do run gcloud scheduler jobs run "$NAME-sweep-nightly" --project "$PROJECT" --location "$REGION"; done
  made=$(eventually 30 nightly)
  [ -n "$DRY" ] || echo "$made" >>"$WORK/sweeps"
  # The same table as an hour ago grows the same model: it is registered, and as it is no better, 9 says that it was not promoted.
  run launcher watch "$(echo "$made" | sed -n 1p)" || [ $? -eq 9 ]
  made=$(nightly)
  [ "$(echo "$made" | wc -l)" -eq 1 ] || { echo "   sweeps: $made" >&2; return 1; }
}

# destroy removes what the state under $WORK holds, and nothing else.
destroy() {
  if [ -f "$WORK/sweeps" ] && [ -f "$WORK/launcher.json" ]; then
    while read -r id; do run launcher cancel "$id" || echo "   $id could not be cancelled, or has ended" >&2; done <"$WORK/sweeps"
  fi
  [ -n "$DRY" ] || [ -f "$WORK/created" ] || { echo "   nothing was created under $WORK" >&2; return 0; }
  image=$(cat "$WORK/tag" 2>/dev/null || true)
  # shellcheck disable=SC2046
  run tf apply $(variables) -var image_tag="$image" -var protect=false || echo "   going on, to destroy what is there" >&2
  # shellcheck disable=SC2046
  run tf destroy $(variables) -var image_tag="$image" -var protect=false
  left=$(ask "" tf state list)
  [ -z "$left" ] || { echo "   left: $left" >&2; return 1; }
  [ -n "$DRY" ] || rm -f "$WORK/created"
}

# --- before, after, and in between

costs() {
  cat <<END
This creates a deployment called $NAME in project $PROJECT, region $REGION, uses it, and destroys it again; about an hour.
What it costs:
  one staging job     one $MACHINE, Spot, some minutes
  two sweeps          two $MACHINE each, Spot (on demand after 10 minutes without), some minutes, one hour at most
  one more            one $MACHINE, Spot, some minutes; it first asks for one $NEVER for 5 minutes, which must not be had
  everything else     images of about 100 MB, a few MB of objects, some hundred requests: cents
The prices of the machines are in \`launcher plan\`, which step "quote" shows before a sweep is started.
It needs the role Owner, quota for two $MACHINE, on Spot and on demand, with $SSDS local SSDs, and gcloud logged in twice (docs/run.md).
END
}

ended=
finish() {
  status=$?
  trap - EXIT INT TERM HUP
  rm -f "$WORK/launcher.json"
  [ -n "$ended" ] && exit $status
  {
    echo
    echo "NOT PASSED: stopped in ${current:-the beginning}."
    if [ -f "$WORK/created" ]; then
      echo "Left behind in $PROJECT, and charged for: what is in the state under $ROOT, and these sweeps: $(cat "$WORK/sweeps" 2>/dev/null | tr '\n' ' ')"
      tf state list 2>/dev/null | sed 's/^/  /' || true
      echo "To remove it: make acceptance-destroy PROJECT=$PROJECT REGION=$REGION NAME=$NAME"
    else
      echo "Nothing that costs was created in $PROJECT; services that were enabled stay so."
    fi
  } | tee -a "$REPORT" >&2
  [ $status -ne 0 ] || status=1
  exit $status
}

# guard says what is left behind, whichever way the run ends.
guard() {
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

all() {
  step tools "gcloud, curl, make, go, Terraform and a tool for images are here" tools
  step login "gcloud knows who you are, so do its application default credentials, and the project is there" login
  step build "the programs are built" build
  step prepare "a copy of terraform/examples/minimal with its own names and its own state" prepare
  step create "terraform apply makes buckets, topics, accounts, network and repository" create
  step images "three images are built and pushed" images
  step deploy "terraform apply deploys the aggregator and the schedule" deploy
  step production "terraform plan takes the example production, to which only an account for billing is given" production
  step "act as the launcher" "with your login and no key, the launcher's account may list sweeps within five minutes" act_as
  step doctor "launcher doctor, with your own login, finds nothing wrong" doctor
  step upload "a table of 200,000 clicks lies in a bucket of its own" upload
  step stage "launcher stage --batch stages it as a Batch job" stage
  step quote "launcher plan names time, memory and price of the sweep" quote
  step sweep "launcher sweep submits one Batch job of 8 trials on Spot, on two machines with $SSDS local SSDs each, while the schedule that would conclude it is paused" sweep
  step preempt "two machines run, and one is told to go, as Spot machines are" preempt
  step watch "every trial ends although a task has lost its machine, and pushes alone have the aggregator conclude with a winner" watch
  step winner "version 1 is registered and champion, an independent scorer agreed, and its model's checksum is right" winner
  step "same scores" "the same sweep on the local cloud gives a model with the same scores, to the last digit" same
  step together "two machines have trained the winner once more" together
  step processors "tasks take no more threads than cpu.max gives them" processors
  step bill "launcher bill shows what it has cost beside what was quoted" bill warn
  step logs "the lines of the task and of the aggregator carry the same trace" logs warn
  step private "no bucket can be made public" private warn
  step inside "the aggregator lets in its schedule, and from the same place nobody without a token or with another account's" inside
  step push "from outside, the aggregator's addresses do not answer whoever has no token, or a made-up one" push
  step fallback "a sweep waits for one $NEVER, for which the project has no quota; after five minutes the launcher gives up, with the reason in Google's words, and it ends on one $MACHINE" fallback
  step schedule "the schedule, fired three times, starts one sweep, which ends with a winner" schedule
  step destroy "terraform destroy leaves nothing in the state" destroy
}

main() {
  find_tools
  costs
  if [ -n "$DRY" ]; then
    exec 2>&1
    printf 'DRY: nothing is done. Below, "tf" is %s -chdir=%s,\n"launcher" is %s with what Terraform prints in its environment, as the launcher'"'"'s account,\nand "%s" the same with your own login.\n' "${TERRAFORM##*/}" "$ROOT" "$BIN/launcher" "$BIN/launcher"
    all
    return
  fi
  [ ! -e "$WORK" ] || fail "$WORK is there from another run: give another NAME, or remove what it left with make acceptance-destroy PROJECT=$PROJECT NAME=$NAME, and then the folder"
  if [ -z "$YES" ]; then
    printf 'Go on? Type the name of the project: '
    read -r answer || answer=
    [ "$answer" = "$PROJECT" ] || fail "not started; nothing was created (YES=1 does not ask)"
  fi
  mkdir -p "$WORK"
  printf '# Acceptance of %s in %s, %s\n\n%s\n\n| step | expected | | |\n|---|---|---|---|\n' "$(git describe --tags --always --dirty --abbrev=12)" "$PROJECT" "$REGION" "$(date -u)" >"$REPORT"
  guard
  all
  ended=yes
  printf '\nPASSED at %s.%s\n' "$(date -u)" "${warned:+ Warnings:$warned}" | tee -a "$REPORT"
  echo "The report is $REPORT."
}

remove() {
  find_tools
  [ -d "$WORK" ] || fail "there is no $WORK: NAME=$NAME was not created from here"
  guard
  [ ! -f "$WORK/created" ] || [ ! -f "$WORK/sweeps" ] || act_as || true # to cancel what runs
  step destroy "terraform destroy leaves nothing in the state" destroy
  ended=yes
  echo "Nothing of $NAME is left in $PROJECT."
}

case ${1:-} in
"") main ;;
destroy) remove ;;
*) fail "\"$1\": the only word is destroy" ;;
esac
