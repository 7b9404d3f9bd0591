#!/bin/sh
# Known vulnerabilities that our code reaches, by govulncheck. A finding fails. So does everything else that goes wrong, except
# that the database cannot be reached: then it says "not checked" and, where VULN_REQUIRED is set (`make push` sets it), fails;
# elsewhere it goes on. VULN_DB is another database, such as file:///a/mirror.
#
#   sh .ci/tools/vulncheck.sh -tags=disable_grpc_modules ./launcher ./task ./aggregator
set -eu
db=${VULN_DB:-https://vuln.go.dev}
mkdir -p build
out=build/vulncheck.txt
code=0
build/tools/govulncheck -db "$db" "$@" >"$out" 2>&1 || code=$?
cat "$out"
[ "$code" -ne 0 ] || exit 0
if [ "$code" -ne 3 ] && grep -Eq 'fetching vulnerabilities: .*(dial tcp|no such host|connection re|timeout|deadline exceeded|TLS handshake|unexpected EOF|50[0-9] )' "$out"; then
  echo
  echo "!!! vulnerabilities: not checked, because $db cannot be reached. Run \`make vulncheck\` where it can."
  [ -z "${VULN_REQUIRED:-}" ] || exit 1
  exit 0
fi
exit "$code"
