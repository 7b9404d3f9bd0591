#!/bin/sh
# A Slurm cluster of four nodes on this machine, for tests: cluster.sh up|down FOLDER. As root, on Debian. FOLDER gets
# slurm.conf (SLURM_CONF), keys, logs and what the daemons keep; down ends what up has started, and removes FOLDER.
set -eu
what=$1
dir=$2

stop() { # PROGRAM PIDFILE: ends a daemon that up has started, and waits for it
  [ -s "$2" ] || return 0
  pid=$(cat "$2")
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ] || return 0
  kill "$pid"
  for _ in $(seq 30); do
    grep -qs '^State:[[:space:]]*[^Z]' "/proc/$pid/status" || return 0
    sleep .1
  done
  kill -9 "$pid"
}

if [ "$what" = down ]; then
  if [ -e "$dir/slurm.conf" ]; then
    # What a task leaves behind asks for its controller until it is told that the task has ended.
    export SLURM_CONF="$dir/slurm.conf"
    timeout 20 scancel --user root || true
    for _ in $(seq 100); do
      [ -n "$(timeout 20 squeue --noheader || true)" ] || break
      sleep .2
    done
  fi
  stop slurmctld "$dir/slurmctld.pid"
  for n in n1 n2 n3 n4; do stop slurmd "$dir/slurmd-$n.pid"; done
  stop munged "$dir/munge/munged.pid"
  rm -rf "$dir"
  exit
fi

if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
  apt-get update -q >&2
  # Their packages start services of their own where something starts services; these have no settings, and end at once.
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends slurm-wlm munge >&2
fi
mkdir -p "$dir/munge" "$dir/state" "$dir/spool" "$dir/log"
chmod 700 "$dir/munge"
head -c 1024 /dev/urandom >"$dir/munge/key"
chmod 600 "$dir/munge/key"
host=$(hostname -s)
port=${SLURM_PORT:-17000}
cat >"$dir/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
SchedulerParameters=sched_interval=5,bf_interval=5
ReturnToService=2
KillWait=10
SlurmdParameters=config_overrides
MinJobAge=${SLURM_MIN_JOB_AGE:-300}
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=2 RealMemory=20000
PartitionName=spot Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=first Nodes=n[1-4] MaxTime=INFINITE State=UP PriorityTier=10
END
export SLURM_CONF="$dir/slurm.conf"
munged --force --key-file "$dir/munge/key" --socket "$dir/munge/socket" --pid-file "$dir/munge/munged.pid" \
  --log-file "$dir/munge/log" --seed-file "$dir/munge/seed"
slurmctld -f "$SLURM_CONF" >&2
for n in n1 n2 n3 n4; do slurmd -N $n -f "$SLURM_CONF" >&2; done
for _ in $(seq 100); do
  [ "$(sinfo -h -t idle -o %D)" = 4 ] && exit
  sleep .2
done
echo "the nodes are not there after 20 s:" >&2
sinfo >&2
tail -n 20 "$dir"/log/* >&2
exit 1
