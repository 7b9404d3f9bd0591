#!/bin/sh
# What the images promise, checked on those that `make images` has just built into the context folder: how large they are, what
# they say of themselves, that building again from a copy elsewhere gives the same digests, that each program starts, and that
# a whole sweep works when its tasks run in the task's image, as its user, on a root that cannot be written.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
context=$1
shift
limit=40000000 # bytes, unpacked, of the task's image
work=$(mktemp -d)
again=$work/again
cleanup() {
  rm -rf "$work"
  for program in launcher task aggregator; do "$IMAGE_TOOL" rmi "coppice-$program:$VERSION-again" >/dev/null 2>&1 || true; done
}
trap cleanup EXIT

fail() { echo "images-check: $*" >&2; exit 1; }
sha256() { { sha256sum "$1" 2>/dev/null || shasum -a 256 "$1"; } | cut -d ' ' -f 1; }

config() { # IMAGE FIELD, as a Go template of the image's configuration
  case $IMAGE_TOOL in
    buildah) buildah inspect --type image --format "{{$2}}" "$1" ;;
    *) "$IMAGE_TOOL" image inspect --format "{{$2}}" "$1" ;;
  esac
}
label() {
  case $IMAGE_TOOL in
    buildah) config "$1" "index .OCIv1.Config.Labels \"$2\"" ;;
    *) config "$1" "index .Config.Labels \"$2\"" ;;
  esac
}
user() {
  case $IMAGE_TOOL in
    buildah) config "$1" .OCIv1.Config.User ;;
    *) config "$1" .Config.User ;;
  esac
}
content() { # IMAGE PATH FILE: takes a file out of the image
  case $IMAGE_TOOL in
    buildah) c=$(buildah from --quiet --pull-never "$1") && cp "$(buildah mount "$c")$2" "$3" && buildah rm "$c" >/dev/null ;;
    *) c=$("$IMAGE_TOOL" create "$1") && "$IMAGE_TOOL" cp "$c:$2" "$3" && "$IMAGE_TOOL" rm "$c" >/dev/null ;;
  esac
}
digest() { # of the image as a registry would have it
  case $IMAGE_TOOL in
    docker) docker image inspect --format '{{.Id}}' "$1" ;; # docker has no other before it has pushed
    *) "$IMAGE_TOOL" push --quiet --digestfile "$work/digest" "$1" "oci:$work/oci-$(echo "$1" | tr ':/' '--'):x" >/dev/null && cat "$work/digest" ;;
  esac
}
run() { # IMAGE ARGUMENT...
  case $IMAGE_TOOL in
    buildah)
      c=$(buildah from --quiet --pull-never "$1")
      shift
      buildah run --isolation chroot "$c" -- /coppice "$@"
      buildah rm "$c" >/dev/null ;;
    *) "$IMAGE_TOOL" run --rm --pull=never --read-only "$@" ;;
  esac
}

says() { # PROGRAM: what the image says of itself is true
  image=coppice-$1:$VERSION
  test "$(user "$image")" = 65532:65532 || fail "$image runs as '$(user "$image")'"
  test "$(label "$image" org.opencontainers.image.version)" = "$VERSION" || fail "$image has another version in its label"
  test "$(label "$image" org.opencontainers.image.revision)" = "$REVISION" || fail "$image has another revision in its label"
  content "$image" "$(label "$image" coppice.sbom)" "$work/sbom.json"
  test "$(sha256 "$work/sbom.json")" = "$(label "$image" coppice.sbom.sha256)" || fail "the SBOM in $image is not the one its label names"
  cmp -s "$work/sbom.json" "$context/$1.cdx.json" || fail "the SBOM in $image is not the one in $context"
  size=$(cat "$context/$1" "$context/$1.cdx.json" "$context/ca-certificates.crt" | wc -c)
  test "$1" != task || test "$size" -lt "$limit" || fail "$image has $size bytes; the limit is $limit"
  version=$(run "$image" --version)
  test "$version" = "$1 version $VERSION" || fail "$image --version: $version"
  echo "$image: $size bytes unpacked, user $(user "$image"), \"$version\""
}

# Again from a copy in another folder, so that nothing of this one can be in the bits.
rebuild() {
  mkdir -p "$again"
  git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$again"
  make --no-print-directory -C "$again" sbom "VERSION=$VERSION" "REVISION=$REVISION" >"$work/make.log" 2>&1 || { cat "$work/make.log" >&2; fail "the second build failed"; }
  IMAGE_TAG=$VERSION-again sh "$here/images.sh" "$again/$context" "$@" >"$work/images.log"
}

for program in "$@"; do says "$program"; done
rebuild "$@"
for program in "$@"; do
  one=$(digest "coppice-$program:$VERSION") two=$(digest "coppice-$program:$VERSION-again")
  test "$one" = "$two" || fail "two builds of coppice-$program from the same files: $one and $two"
  echo "coppice-$program:$VERSION: $one, twice"
done

bin/clicks --rows 20000 --out "$work/clicks.parquet" >/dev/null
cp "$here/check/dataset.yaml" "$here/check/sweep.yaml" "$work/"
bin/localemu exec --data "$work/cloud" --containers "$IMAGE_TOOL" --image "coppice-task=coppice-task:$VERSION" -- sh "$here/check/sweep.sh" "$work" ||
  { cat "$work"/cloud/logs/*/task-*.log >&2; fail "the sweep in containers failed"; }
