#!/bin/sh
# prepare.sh PROJECT, before the first `terraform apply` in a project: what one apply cannot wait for. It enables the services
# that services.tf names, and makes the accounts of Google's services ("service agents") to which iam.yaml gives rights, and
# which some services make only when they are first used. It creates nothing that costs, and may be run again.
set -eu
project=${1:?usage: terraform/prepare.sh PROJECT}
services=$(grep -o '[a-z]*\.googleapis\.com"' "$(dirname "$0")/services.tf" | tr -d '"' | sort -u)
# shellcheck disable=SC2086
gcloud services enable cloudresourcemanager.googleapis.com serviceusage.googleapis.com $services --project "$project"
gcloud storage service-agent --project "$project"
for service in pubsub run artifactregistry batch; do
  tries=12 # what has just been enabled may not answer for a minute or two
  until gcloud beta services identity create --quiet --service="$service.googleapis.com" --project "$project"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || exit 1
    sleep "${WAIT:-10}"
  done
done
