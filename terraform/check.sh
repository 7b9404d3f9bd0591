#!/bin/sh
# `make terraform-check`: fmt, init, validate and test for the module and for each example, without any cloud.
#
# TERRAFORM names the tool; else it is terraform or tofu from the PATH, or OpenTofu as STANDIN/cli builds it. The provider
# comes from where TF_CLI_CONFIG_FILE says, or from the stand-in where there is one, or else from the registry. The
# stand-in holds names, types and required arguments against the provider's published schema; the provider's own rules
# about values are checked only by the real one.
set -eu
cd "$(dirname "$0")"
STANDIN=${STANDIN-../../shared/tools/tf-google}

least=$(sed -n 's/.*required_version = ">= \([0-9.]*\)".*/\1/p' versions.tf)

tool=${TERRAFORM:-}
[ -n "$tool" ] || tool=$(command -v terraform || command -v tofu || true)
if [ -z "$tool" ] && [ -x "$STANDIN/cli" ]; then tool=$("$STANDIN/cli"); fi
if [ -z "$tool" ] || ! "$tool" version >/dev/null 2>&1; then
  echo "terraform-check: nothing was checked: ${tool:-neither terraform nor tofu is on the PATH} ${tool:+does not run}" >&2
  echo "Install Terraform or OpenTofu $least or later, or name one: make terraform-check TERRAFORM=/path/to/it" >&2
  exit 1
fi
has=$("$tool" version | sed -n '1s/^[A-Za-z]* v\([0-9][0-9.]*\).*/\1/p')
if [ -n "$has" ] && [ "$(printf '%s\n%s\n' "$least" "$has" | sort -V | sed -n 1p)" != "$least" ]; then
  echo "terraform-check: nothing was checked: $tool is version $has, and terraform/versions.tf asks for $least or later" >&2
  exit 1
fi
if [ -n "${TF_CLI_CONFIG_FILE:-}" ] && [ -f "$TF_CLI_CONFIG_FILE" ]; then
  from="the one of $TF_CLI_CONFIG_FILE"
elif [ -x "$STANDIN/install" ]; then
  TF_CLI_CONFIG_FILE=$("$STANDIN/install")
  export TF_CLI_CONFIG_FILE
  from="the stand-in of $STANDIN: its schema is checked, its values are not"
else
  unset TF_CLI_CONFIG_FILE
  from="hashicorp/google from the registry"
fi
echo "tool:     $("$tool" version | sed -n 1p) ($tool)"
echo "provider: $from"

# Nothing is left behind in the source: no .terraform, no lock file with a stand-in's checksum. What somebody has put beside
# an example for a deployment of their own, variables and overrides, is not what is checked, nor is its state.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar cf - --exclude .terraform --exclude .terraform.lock.hcl --exclude '*.tfstate*' --exclude '*.tfvars*' --exclude '*override.tf*' . | tar xf - -C "$work"

"$tool" fmt -check -diff -recursive "$work"
for dir in . examples/*/; do
  echo
  echo "== terraform/${dir#.}"
  (
    cd "$work/$dir"
    "$tool" init -backend=false -input=false -no-color >"$work/log" 2>&1 || {
      cat "$work/log"
      echo "terraform-check: not checked from here on: the provider could not be had as $from." >&2
      echo "Without a network, name a mirror: TF_CLI_CONFIG_FILE=FILE, or a stand-in: STANDIN=FOLDER with install and cli." >&2
      exit 1
    }
    "$tool" validate -no-color
    "$tool" test -no-color >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    sed -n '/^Success!/p' "$work/log"
  )
done
