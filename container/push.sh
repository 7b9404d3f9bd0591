#!/bin/sh
# Pushes the images that `make images` has built, and prints each by its digest: what COPPICE_TASK_IMAGE and Terraform are best
# given, since a tag can be moved and a digest cannot.
#
#   IMAGE_TOOL=buildah VERSION=v1.2.3 REGISTRY=us-central1-docker.pkg.dev/my-project/coppice sh container/push.sh launcher task aggregator
#
# Log in before, with a token that lasts an hour (no key file):
#   gcloud auth print-access-token | buildah login -u oauth2accesstoken --password-stdin https://us-central1-docker.pkg.dev
set -eu
: "${PUSH_FLAGS:=}" # for a registry without TLS: --tls-verify=false
case ${REGISTRY:-} in
  */*/*) ;;
  *) echo "make push: say where to, REGISTRY=LOCATION-docker.pkg.dev/PROJECT/REPOSITORY" >&2; exit 2 ;;
esac
case $VERSION in
  *-dirty | dev) echo "make push: version $VERSION is no commit; commit first, so that others can build the same" >&2; exit 2 ;;
esac
digests=$(mktemp)
trap 'rm -f "$digests"' EXIT
for program in "$@"; do
  image=coppice-$program:$VERSION
  target=${REGISTRY%/}/$image
  case $IMAGE_TOOL in
    # shellcheck disable=SC2086
    buildah | podman) "$IMAGE_TOOL" push --quiet $PUSH_FLAGS --digestfile "$digests" "$image" "docker://$target" >&2; digest=$(cat "$digests") ;;
    docker)
      docker tag "$image" "$target"
      docker push --quiet "$target" >&2
      digest=$(docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$target" | sed -n "s|^${target%:*}@||p" | head -n 1) ;;
    *) echo "make push: IMAGE_TOOL is '$IMAGE_TOOL'; install buildah, podman or docker" >&2; exit 1 ;;
  esac
  echo "${target%:*}@$digest"
done
