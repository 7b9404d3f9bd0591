//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
)

// googleStub stands for the tools that speak to Google, and for those that build. What the sweep needs of them happens
// in the local cloud: the table is uploaded, the scheduler starts a launcher as a Cloud Run job would, and what tasks
// have logged is read from their files.
const googleStub = `#!/bin/sh
set -e
me=${0##*/}
echo "$me $*" >>"$CALLS"
case "$me $*" in
"git describe"*) echo v7 ;;
"gcloud config get account") echo ana@example.com ;;
"gcloud projects describe"*) echo 123456789012 ACTIVE ;;
"gcloud info"*) echo "$HOME" ;;
"gcloud logging read"*"machines>1"*) grep -rho '"machines":2,' "$DATA/logs" | sed -n 1p ;;
"gcloud logging read"*"task started"*)
  grep -rh '"task started"' "$DATA/logs" |
    sed -n 's/.*"gomaxprocs":\([0-9]*\),"cpu_max":"\([^"]*\)".*/\1 \2/; s/ $/ max 100000/; 1p' ;;
"gcloud logging read"*) echo projects/my-project/traces/0123 ;;
"gcloud storage buckets describe"*) echo enforced ;;
"gcloud storage objects describe"*) wc -c <build/acceptance/accept-1/clicks.parquet ;;
"gcloud storage cp "*)
  /usr/bin/curl -sSf -o /dev/null --data-binary "@$3" "http://${STORAGE_EMULATOR_HOST#http://}/upload/storage/v1/b/coppice-datasets/o?uploadType=media&name=exports/clicks.parquet" ;;
"gcloud run services describe"*image*) echo us-central1-docker.pkg.dev/my-project/accept/coppice-aggregator:v7 ;;
"gcloud run services describe"*) echo https://aggregator.example ;;
"gcloud billing projects describe"*) echo billingAccounts/0X0X0X-0X0X0X ;;
"gcloud scheduler jobs pause"*) echo PAUSED >"$CALLS.schedule" ;;
"gcloud scheduler jobs resume"*) echo ENABLED >"$CALLS.schedule" ;;
"gcloud scheduler jobs describe"*sweep-nightly*) echo ENABLED ;;
"gcloud scheduler jobs describe"*state*) cat "$CALLS.schedule" ;;
"gcloud scheduler jobs describe"*refused*) echo "2026-11-30T02:00:00Z 16" ;;
"gcloud scheduler jobs describe"*) echo 2026-11-30T02:00:00Z ;;
"gcloud compute instances list"*) printf 'm-0 us-central1-a\nm-1 us-central1-a\n' ;;
"gcloud batch tasks list"*) ls "$DATA"/logs/accept-1-1/*.attempt-1.log >/dev/null && echo "exit code 50001." ;;
"terraform "*production*" plan "*) echo "Plan: 90 to add, 0 to change, 0 to destroy." ;;
"gcloud scheduler jobs run accept-1-sweep"*)
  "$BIN/launcher" sweep build/acceptance/accept-1/sweep.yaml --no-wait --schedule "0 2 * * *" >/dev/null ;;
"curl "*) echo 403 ;;
"docker login"*) cat >/dev/null ;;
"make push"*) for p in launcher task aggregator; do echo "${2#REGISTRY=}/coppice-$p@sha256:0123"; done ;;
"terraform "*" apply "*)
  for r in storage_bucket pubsub_topic service_account compute_network artifact_registry_repository; do
    echo "google_$r.coppice"; done >"$CALLS.state" ;;
"terraform "*" destroy "*) : >"$CALLS.state" ;;
"terraform "*" state list") cat "$CALLS.state" ;;
"terraform "*" output -raw env") echo "# COPPICE_PROJECT='my-project', but this is the local cloud" ;;
"terraform "*" output -raw registry") echo us-central1-docker.pkg.dev/my-project/accept ;;
esac
exit 0
`

// TestAcceptance runs the acceptance script with the real programs against the local cloud: staging as a Batch job,
// a sweep that loses a machine, its winner by two of them, the same scores from another local cloud, the bill, a
// fallback, and a schedule that fires three times.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	for _, tree := range []string{"terraform", "examples/clicks"} {
		must.Do(t, os.CopyFS(filepath.Join(l.dir, tree), os.DirFS(tree)))
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(l.dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), mode))
	}
	for _, name := range []string{"gcloud", "terraform", "curl", "make", "go", "docker", "git"} {
		write("stubs/"+name, googleStub, 0o755)
	}
	write("home/application_default_credentials.json", `{"type":"authorized_user"}`, 0o600)
	write("bin/localemu", "#!/bin/sh\n[ \"$1\" != --version ] || { echo localemu version v7; exit; }\nexec "+
		binaryOf(t, "localemu")+` "$@"`+"\n", 0o755)
	// A seventh of the rows, which is enough for every expectation.
	write("bin/clicks", "#!/bin/sh\nexec "+binaryOf(t, "clicks")+` "$@" --rows 30000`+"\n", 0o755)
	// What doctor finds in a local cloud is tested where it lives; here it is only called. The local cloud has no
	// bucket for tables but that of the datasets.
	write("bin/launcher", "#!/bin/sh\nset -e\n[ \"$1\" != doctor ] || { echo 20 ok; exit; }\n"+
		"[ \"$1\" != --version ] || { echo launcher version v7; exit; }\n"+
		"[ \"$1 ${3:-}\" != 'stage --batch' ] || sed -i "+
		"'s|gs://my-project-accept-1-source|gs://coppice-datasets/exports|' \"$2\"\n"+
		// Five minutes without a machine are a second here.
		"[ \"$1 ${4:-}\" != 'sweep accept-1-2' ] || sed -i 's/wait: 5m/wait: 1s/' \"$2\"\n"+
		"[ \"$1\" != status ] || { "+binaryOf(t, "launcher")+` "$@" | sed 's/after 1s: /after 5m0s: /'; exit; }`+"\n"+
		"exec "+binaryOf(t, "launcher")+` "$@"`+"\n", 0o755)
	faults := l.file("faults.yaml", "no_capacity: [{type: m3-ultramem-128}]\nat_write: [{match: "+
		"'sweeps/accept-1-1/trials/*/result.json', nth: 2, does: lose_machine, vm: 0, code: 50001}]\n")
	cmd := exec.CommandContext(t.Context(), binaryOf(t, "localemu"), "exec", "--data", l.data, "--faults", faults,
		"--", "sh", "terraform/acceptance.sh")
	cmd.Dir = l.dir
	cmd.Env = []string{"PATH=" + filepath.Join(l.dir, "stubs") + ":/usr/bin:/bin",
		"HOME=" + filepath.Join(l.dir, "home"), "CALLS=" + filepath.Join(l.dir, "calls"),
		"BIN=" + filepath.Join(l.dir, "bin"), "TERRAFORM=terraform", "IMAGE_TOOL=docker", "PROJECT=my-project",
		"NAME=accept-1", "WAIT=1", "YES=1", "DATA=" + l.data}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("run the acceptance script: %v\n%s", err, &out)
	}
	report, err := os.ReadFile(filepath.Join(l.dir, "build/acceptance/accept-1/report.md"))
	if err != nil || strings.Count(string(report), "| met |") != 28 {
		t.Errorf("the report (%v) does not say 28 times that a criterion is met:\n%s\n%s", err, report, &out)
	}
	for _, part := range []string{"accept@1 (champion)", "the leaves library reproduces", "destroy"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &out)
		}
	}
}
