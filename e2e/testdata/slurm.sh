set -e
launcher=$1 spec=$2 bin=$3
export COPPICE_ENGINE=slurm COPPICE_SLURM_FOLDER=$PWD/shared COPPICE_SLURM_SCRATCH=$PWD/scratch
export COPPICE_DATASETS_BUCKET=$PWD/shared/datasets COPPICE_SWEEPS_BUCKET=$PWD/shared/sweeps
export COPPICE_REGISTRY_BUCKET=$PWD/shared/registry
mkdir -p shared/bin shared/datasets shared/sweeps shared/registry
ln -s "$bin/task" "$bin/launcher" shared/bin/
within() { # CONDITION
  tries=0
  until eval "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 1800 ] || { echo "not in time: $1" >&2; squeue >&2; exit 1; }
    sleep .1
  done
}
state() { squeue -h -r --states=all -n "$1" -o '%K %T' | sed -n "s/^$2 //p"; }
claimed() { grep -lsq '"message":"claimed"' shared/logs/$1-$2.log; }
pids() { # of the program that is task $2 of sweep $1
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe" || true)" = "$bin/task" ] || continue
    tr '\0' '\n' <"$p/environ" | grep -qx "COPPICE_SCRATCH=$PWD/scratch/.*/$1" || continue
    tr '\0' '\n' <"$p/environ" | grep -qx "COPPICE_TASK_INDEX=$2" && basename "$p"
  done
}
again() { # a requeued task, without the two minutes that Slurm would wait
  within '[ "$(state night-1 '$1')" = PENDING ]'
  scontrol update "JobId=${id}_$1" StartTime=now
  within 'grep -q "\"attempt\":1" shared/logs/night-1-'$1'.log'
}

"$launcher" stage dataset.yaml --json >staged.json
"$launcher" sweep "$spec" --id night-1 --no-wait --json >submitted.json
within 'claimed night-1 0 && claimed night-1 1 && claimed night-1 2 && claimed night-1 3'
"$launcher" sweep "$spec" --id night-1 --no-wait --json >again.json # attaches
"$launcher" status night-1 --json >running.json
id=$(squeue -h -n night-1 -o %F | sort -u)
node=$(squeue -h -r -n night-1 -o '%K %N' | sed -n 's/^3 //p')
scontrol update NodeName="$node" State=DRAIN Reason=test
scontrol requeue "${id}_1"
kill -9 $(pids night-1 2)
again 1
again 2
concluded() { "$bin/aggregator" reconcile >>reconciled.txt && "$launcher" status night-1 --json | grep -q outcome; }
within concluded # as cron does
"$launcher" watch night-1 --json >watched.json
"$launcher" registry reproduce ctr@1 >reproduced.txt
"$launcher" report night-1 --out page.html
squeue -h -r --states=all -n night-1 -o '%F %K %T %N' >queue.txt
echo "$node" >drained.txt
within '[ -z "$(squeue -h -n night-1)" ]'
scontrol update NodeName="$node" State=RESUME

"$launcher" sweep "$spec" --id night-2 --no-wait --json >/dev/null
within 'claimed night-2 0 && claimed night-2 3'
"$launcher" cancel night-2 >cancelled.txt
"$launcher" status night-2 --json >status-2.json
sleep 3
squeue -h -n night-2 >left.txt # nothing comes back
find scratch -type f >files.txt
