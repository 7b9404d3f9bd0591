#!/bin/sh
# What the programs are built from may be passed on: every licence found in a dependency is one of .ci/tools/licences.allow.
# The report (module, version, licence) goes to build/licences.csv.
#
#   sh .ci/tools/licences.sh ./launcher ./task ./aggregator ./localemu
set -eu
here=$(dirname "$0")
report=build/licences.csv
mkdir -p build
trap 'rm -f "$report.template"' EXIT
printf '{{range .}}{{.Name}},{{.Version}},{{.LicenseName}}\n{{end}}' >"$report.template"
# It tells the standard library by GOROOT, which a program built with -trimpath does not know by itself. What it logs is that it
# did not find the licences' addresses, which are not wanted here.
GOROOT=$(go env GOROOT) build/tools/go-licenses report "$@" --template "$report.template" 2>"$report.log" | sort -u >"$report"
lines=$(wc -l <"$report")
[ "$lines" -ge 50 ] || { cat "$report.log" >&2; echo "licences: only $lines found, there are more; they were not checked" >&2; exit 1; }
awk -F, -v lines="$lines" '
  NR == FNR { sub(/#.*/, ""); split($0, word, " "); if (word[1] != "") allowed[word[1], word[2]] = 1; next }
  !(("*", $3) in allowed) && !(($1, $3) in allowed) { print "licences: " $1 " " $2 " is under " $3 ", which .ci/tools/licences.allow does not allow"; bad = 1 }
  END { if (bad) exit 1; print "licences: " lines " found, all allowed (build/licences.csv)" }
' "$here/licences.allow" "$report"
