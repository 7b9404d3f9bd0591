# What check.sh runs inside the local cloud, whose tasks run in containers: a sweep, and beside it a look at the tasks'
# processes. $1 is the folder with the table and the two YAML files.
set -eu
bin/launcher stage "$1/dataset.yaml" >"$1/stage.log" 2>&1 || { cat "$1/stage.log" >&2; exit 1; }
bin/launcher sweep "$1/sweep.yaml" >"$1/sweep.log" 2>&1 &
sweep=$!

# A task is a process whose program is /coppice from where it stands. Its root's mount says whether it can be written.
seen=""
while kill -0 "$sweep" 2>/dev/null; do
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe" 2>/dev/null)" != "" ] && [ "$(tr '\0' ' ' <"$p/cmdline" 2>/dev/null)" = "/coppice run " ] || continue
    uid=$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "$p/status" 2>/dev/null) || continue
    root=$(awk '$5 == "/" { print substr($6, 1, 2) }' "$p/mountinfo" 2>/dev/null) || continue
    [ -z "$uid$root" ] || seen="uid $uid, root $root"
  done
  [ -n "$seen" ] && break
  sleep 0.02
done
wait "$sweep" || { cat "$1/sweep.log" >&2; exit 1; }
[ "$seen" = "uid 65532, root ro" ] || { echo "the tasks ran as: ${seen:-no process /coppice run was ever there}" >&2; exit 1; }
bin/launcher registry show ctr --json >"$1/winner.json"
echo "sweep in containers: tasks as $seen; $(grep -c . "$1/sweep.log") lines of progress, the winner is registered"
