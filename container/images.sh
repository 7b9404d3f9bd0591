#!/bin/sh
# Builds one image of every program from what `make images` has put into the context folder. The same context and the same
# SOURCE_DATE_EPOCH give the same image, bit by bit: no cache, every time stamp the commit's, and no
# label that says which tool was used.
#
#   IMAGE_TOOL=buildah VERSION=v1.2.3 REVISION=$(git rev-parse HEAD) SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) IMAGE_ARCH=amd64 \
#     sh container/images.sh build/images launcher task aggregator
set -eu
here=$(dirname "$0")
context=$1
shift
tag=${IMAGE_TAG:-$VERSION}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

sha256() { { sha256sum "$1" 2>/dev/null || shasum -a 256 "$1"; } | cut -d ' ' -f 1; }

build() { # IMAGE PROGRAM
  set -- -f "$here/Containerfile" -t "$1" --platform "linux/$IMAGE_ARCH" --no-cache \
    --build-arg "PROGRAM=$2" --build-arg "VERSION=$VERSION" --build-arg "REVISION=$REVISION" --build-arg "CREATED=$created" \
    --build-arg "SBOM_SHA256=$(sha256 "$context/$2.cdx.json")"
  case $IMAGE_TOOL in
    buildah | podman) "$IMAGE_TOOL" build --quiet --layers=false --format oci --identity-label=false --timestamp "$SOURCE_DATE_EPOCH" "$@" "$context" ;;
    docker) docker buildx build --quiet --provenance=false --sbom=false --output type=docker,rewrite-timestamp=true \
      --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" "$@" "$context" ;;
    *) echo "container/images.sh: IMAGE_TOOL is '$IMAGE_TOOL'; install buildah, podman or docker" >&2; exit 1 ;;
  esac
}

for program in "$@"; do
  # What a file may do goes into the image, and the umask of whoever checked out must not.
  chmod 0755 "$context/$program"
  chmod 0644 "$context/$program.cdx.json" "$context/ca-certificates.crt"
  id=$(build "coppice-$program:$tag" "$program" | tail -n 1)
  echo "coppice-$program:$tag  $id  $(wc -c <"$context/$program") bytes of program"
done
