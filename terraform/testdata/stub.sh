#!/bin/sh
me=${0##*/}
echo "$me $*" >>"$CALLS"
[ "$me" != launcher ] || echo "launcher $1 of ${COPPICE_PROJECT:-nothing} as ${GOOGLE_APPLICATION_CREDENTIALS:-the operator}" >>"$CALLERS"
[ -z "$FAIL" ] || ! echo "$me $*" | grep -q -- "$FAIL" || { echo "the cloud says no" >&2; exit 9; }
[ -z "$INTERRUPT" ] || ! echo "$me $*" | grep -q -- "$INTERRUPT" || { kill -INT 0; exit 130; }
if [ -n "$SAY" ] && echo "$me $*" | grep -q -- "${SAY%%=>*}"; then echo "${SAY#*=>}"; exit 0; fi
for last; do :; done
case "$me $*" in
"git describe"*) echo v7 ;;
"gcloud config get account") echo ana@example.com ;;
"gcloud auth"*token) echo ya29.secret ;;
"gcloud projects describe"*) printf '123456789012\tACTIVE\n' ;;
"launcher --version") echo launcher version v7 ;;
"localemu --version") echo localemu version v7 ;;
"make push"*) for p in launcher task aggregator; do echo "${2#REGISTRY=}/coppice-$p@sha256:0123"; done ;;
"gcloud info"*) echo "$HOME" ;;
"gcloud logging read"*"machines>1"*) echo 2 ;;
"gcloud logging read"*"task started"*) printf '2\tmax 100000\n' ;;
"gcloud logging read"*) echo projects/my-project/traces/0123 ;;
"gcloud storage buckets describe"*) echo enforced ;;
"gcloud billing projects describe"*) echo billingAccounts/0X0X0X-0X0X0X ;;
"gcloud scheduler jobs pause"*) echo PAUSED >"$STATE.schedule" ;;
"gcloud scheduler jobs resume"*) echo ENABLED >"$STATE.schedule" ;;
"gcloud scheduler jobs describe"*sweep-nightly*) echo ENABLED ;;
"gcloud scheduler jobs describe"*state*) cat "$STATE.schedule" ;;
"gcloud scheduler jobs describe"*refused-nobody*) printf '2026-11-30T02:00:00Z\t16\n' ;;
"gcloud scheduler jobs describe"*refused-other*) printf '2026-11-30T02:00:00Z\t7\n' ;;
"gcloud scheduler jobs describe"*) printf '2026-11-30T02:00:00Z\t\n' ;;
"gcloud compute instances list"*) printf 'accept-1-1-0-x1\tus-central1-a\naccept-1-1-0-x2\tus-central1-b\n' ;;
"gcloud batch tasks list"*) echo "from RUNNING to FAILED due to Spot VM preemption with exit code 50001." ;;
"terraform "*production*" plan "*) echo "Plan: 90 to add, 0 to change, 0 to destroy." ;;
"gcloud run services describe"*image*) echo us-central1-docker.pkg.dev/my-project/accept/coppice-aggregator:v7 ;;
"gcloud run services describe"*) echo https://aggregator.example ;;
"curl "*) echo 403 ;;
"docker login"*) cat >/dev/null ;;
"terraform "*" output -raw registry") echo us-central1-docker.pkg.dev/my-project/accept ;;
"terraform "*" output -raw env") echo "export COPPICE_PROJECT='my-project'" ;;
"terraform "*" apply "*)
  for r in storage_bucket pubsub_topic service_account compute_network artifact_registry_repository; do
    echo "module.coppice.google_$r.coppice"; done >"$STATE" ;;
"terraform "*" destroy "*) : >"$STATE" ;;
"terraform "*" state list") cat "$STATE" ;;
"clicks "*) echo table >"$last" ;;
"gcloud storage objects describe"*) echo 6 ;;
"launcher doctor") echo "31 ok, 1 not checked" ;;
"launcher stage "*) echo "clicks@0123 staged: 5.2 MiB, gs://my-project-accept-1-datasets/clicks/0123" ;;
"launcher plan "*) echo '2 Spot  3 min  $0.05; memory of each; before the first trial; machine: {type: n2-highmem-2}' ;;
"launcher bill "*) echo "machine-hours 0.003, quoted 3 min, actual 5 s" ;;
"launcher registry show accept") echo "accept version 1 (champion), the leaves library reproduces all 1,000 predictions" ;;
"launcher registry show accept --file"*) echo tree ;;
"launcher predict"*) echo "0.5" >"$(echo "$*" | sed 's/.*--out \([^ ]*\).*/\1/')" ;;
"localemu "*" predict "*) echo "0.5" >"$(echo "$*" | sed 's/.*--out \([^ ]*\).*/\1/')" ;;
"launcher status accept-1-2 --json") echo '"name": "jobs/accept-1-2-f1",'
  echo '"reason": "it was waiting after 5m0s: Quota M3_CPUS exceeded (CODE_GCE_QUOTA_EXCEEDED)"' ;;
"launcher status --json") echo '[{"sweep": "accept-1-1", "x": 1},'; echo '{"sweep": "nightly-20261121-0200"}]' ;;
esac
exit 0
