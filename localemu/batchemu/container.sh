# Runs an image that buildah has, as Batch's agent would have docker run it: the machine's network, the volumes where the job
# wants them, the image's own user, a root that cannot be written. buildah only unpacks the image; its own `run` cannot make
# the root read-only. Everything happens in a mount namespace of its own, so nothing stays mounted. It takes
#   NAME IMAGE SOURCE:TARGET... -- VARIABLE=VALUE... -- ARGUMENT...
set -euf
name=$1 image=$2
shift 2
container() { buildah inspect --type container --format "$1" "$name"; }
buildah from --quiet --pull-never --name "$name" "$image" >/dev/null
root=$(buildah mount "$name")
user=$(container '{{.OCIv1.Config.User}}')
case $user in
  *:*) ;;
  *) user=${user:-0}:0 ;;
esac
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
  mkdir -p "$root${1#*:}"
  mount --bind "${1%%:*}" "$root${1#*:}"
  shift
done
shift
for kernel in proc dev sys; do
  mkdir -p "$root/$kernel"
  mount --rbind "/$kernel" "$root/$kernel"
done
mount -o remount,bind,ro "$root"
# Before the arguments, and after the variables: how to get in, and the image's entrypoint.
n=$#
entry=$(container '{{range .OCIv1.Config.Entrypoint}}{{println .}}{{end}}')
while [ "$1" != -- ]; do
  set -- "$@" "$1"
  shift
  n=$((n - 1))
done
shift
n=$((n - 1))
IFS='
'
set -- "$@" "$(command -v chroot)" "--userspec=$user" "$root" $entry
while [ "$n" -gt 0 ]; do
  set -- "$@" "$1"
  shift
  n=$((n - 1))
done
exec env -i "$@"
