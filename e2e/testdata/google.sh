#!/bin/sh
set -e
me=${0##*/}
echo "$me $*" >>"$CALLS"
case "$me $*" in
"git describe"*) echo v7 ;;
"gcloud config get account") echo ana@example.com ;;
"gcloud projects describe"*) echo 123456789012 ACTIVE ;;
"gcloud info"*) echo "$HOME" ;;
"gcloud logging read"*"machines>1"*) grep -rho '"machines":2,' "$DATA/logs" | sed -n 1p ;;
"gcloud logging read"*"task started"*)
  grep -rh '"task started"' "$DATA/logs" |
    sed -n 's/.*"gomaxprocs":\([0-9]*\),"cpu_max":"\([^"]*\)".*/\1 \2/; s/ $/ max 100000/; 1p' ;;
"gcloud logging read"*) echo projects/my-project/traces/0123 ;;
"gcloud storage buckets describe"*) echo enforced ;;
"gcloud storage objects describe"*) wc -c <build/acceptance/accept-1/clicks.parquet ;;
"gcloud storage cp "*)
  /usr/bin/curl -sSf -o /dev/null --data-binary "@$3" \
    "http://${STORAGE_EMULATOR_HOST#http://}/upload/storage/v1/b/coppice-datasets/o"\
"?uploadType=media&name=exports/clicks.parquet" ;;
"gcloud run services describe"*image*) echo us-central1-docker.pkg.dev/my-project/accept/coppice-aggregator:v7 ;;
"gcloud run services describe"*) echo https://aggregator.example ;;
"gcloud billing projects describe"*) echo billingAccounts/0X0X0X-0X0X0X ;;
"gcloud scheduler jobs pause"*) echo PAUSED >"$CALLS.schedule" ;;
"gcloud scheduler jobs resume"*) echo ENABLED >"$CALLS.schedule" ;;
"gcloud scheduler jobs describe"*sweep-nightly*) echo ENABLED ;;
"gcloud scheduler jobs describe"*state*) cat "$CALLS.schedule" ;;
"gcloud scheduler jobs describe"*refused*) echo "2026-11-30T02:00:00Z 16" ;;
"gcloud scheduler jobs describe"*) echo 2026-11-30T02:00:00Z ;;
"gcloud compute instances list"*) printf 'm-0 us-central1-a\nm-1 us-central1-a\n' ;;
"gcloud batch tasks list"*) ls "$DATA"/logs/accept-1-1/*.attempt-1.log >/dev/null && echo "exit code 50001." ;;
"terraform "*production*" plan "*) echo "Plan: 90 to add, 0 to change, 0 to destroy." ;;
"gcloud scheduler jobs run accept-1-sweep"*)
  "$BIN/launcher" sweep build/acceptance/accept-1/sweep.yaml --no-wait --schedule "0 2 * * *" >/dev/null ;;
"curl "*) echo 403 ;;
"docker login"*) cat >/dev/null ;;
"make push"*) for p in launcher task aggregator; do echo "${2#REGISTRY=}/coppice-$p@sha256:0123"; done ;;
"terraform "*" apply "*)
  for r in storage_bucket pubsub_topic service_account compute_network artifact_registry_repository; do
    echo "google_$r.coppice"; done >"$CALLS.state" ;;
"terraform "*" destroy "*) : >"$CALLS.state" ;;
"terraform "*" state list") cat "$CALLS.state" ;;
"terraform "*" output -raw env") echo "# COPPICE_PROJECT='my-project', but this is the local cloud" ;;
"terraform "*" output -raw registry") echo us-central1-docker.pkg.dev/my-project/accept ;;
esac
exit 0
